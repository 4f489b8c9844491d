#include "engine/collectives/agreement/assembly.hpp"

#include <utility>

namespace coppice::engine {

Assembly::Taken Assembly::take_part(Rank from, PartOf message, std::span<const std::byte> part, std::uint32_t rest) {
    const auto found = unfinished_.find(from.value);
    if (found == unfinished_.end()) {
        if (rest == 0) return {State::whole, part};
        if (part.empty() || part.size() + std::size_t{rest} > longest_) return {State::garbage, {}};
        unfinished_.emplace(from.value, Unfinished{message, rest, {part.begin(), part.end()}});
        return {State::unfinished, {}};
    }
    Unfinished& mine = found->second;
    if (message != mine.message || part.empty() || part.size() + std::size_t{rest} != mine.rest) {
        unfinished_.erase(found);
        return {State::garbage, {}};
    }
    mine.body.insert(mine.body.end(), part.begin(), part.end());
    mine.rest = rest;
    if (rest > 0) return {State::unfinished, {}};
    whole_ = std::move(mine.body);
    unfinished_.erase(found);
    return {State::whole, whole_};
}

}  // namespace coppice::engine
