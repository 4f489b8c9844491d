#include "topology/sites.hpp"

#include <string_view>
#include <unordered_map>
#include <utility>

namespace coppice::topology {
namespace {

// Numbers equal keys alike, in the order of their first appearance, which is that of their lowest ranks.
template <class Key, class Range>
std::vector<std::uint32_t> number_keys(const Range& keys) {
    std::unordered_map<Key, std::uint32_t> numbers;
    std::vector<std::uint32_t> site_of;
    site_of.reserve(keys.size());
    for (const auto& key : keys) {
        const auto next = static_cast<std::uint32_t>(numbers.size());
        site_of.push_back(numbers.try_emplace(Key(key), next).first->second);
    }
    return site_of;
}

}  // namespace

Sites Sites::by_host(std::span<const std::string> keys) {
    return Sites(number_keys<std::string_view>(keys));
}

Sites Sites::by_host(std::span<const std::uint64_t> keys) {
    return Sites(number_keys<std::uint64_t>(keys));
}

Sites Sites::flat(std::uint32_t ranks) {
    std::vector<std::uint32_t> site_of(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
        site_of[rank] = rank;
    return Sites(std::move(site_of));
}

Sites::Sites(std::vector<std::uint32_t> site_of) : site_of_(std::move(site_of)), members_(site_of_.size()) {
    first_.push_back(0);
    for (const std::uint32_t site : site_of_) {
        if (site + 2 > first_.size()) first_.push_back(0);
        ++first_[site + 1];
    }
    for (std::size_t site = 1; site < first_.size(); ++site)
        first_[site] += first_[site - 1];
    std::vector<std::uint32_t> next = first_;
    for (std::uint32_t rank = 0; rank < site_of_.size(); ++rank)
        members_[next[site_of_[rank]]++] = Rank{rank};
}

}  // namespace coppice::topology
