#include "bootstrap/subset.hpp"

#include <algorithm>
#include <new>

#include "base/mix.hpp"

namespace coppice::bootstrap {

Result<Subset> Subset::of(std::span<const std::uint32_t> ranks, Rank self, std::uint32_t size) try {
    Subset subset;
    if (ranks.empty()) return subset;
    std::vector<std::uint32_t> sorted(ranks.begin(), ranks.end());
    std::ranges::sort(sorted);
    if (sorted.back() >= size) {
        return fail(COPPICE_ERR_OUT_OF_RANGE, "the list of a group's ranks has {}, which is outside of 0…{}",
                    sorted.back(), size - 1);
    }
    if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
        return fail(COPPICE_ERR_INVALID_ARGUMENT, "the list of a group's ranks has {} twice", *twice);
    const auto here = std::ranges::find(ranks, self.value);
    if (here == ranks.end()) {
        return fail(COPPICE_ERR_INVALID_ARGUMENT,
                    "rank {} makes a group of {} ranks and is not in their list: only the ranks of the list call",
                    self.value, ranks.size());
    }
    subset.ranks_.assign(ranks.begin(), ranks.end());
    subset.self_ = Rank(static_cast<std::uint32_t>(here - ranks.begin()));
    return subset;
} catch (const std::bad_alloc&) {
    return fail(COPPICE_ERR_NO_MEMORY, "no memory for a list of {} ranks", ranks.size());
}

std::uint64_t Subset::mark() const {
    if (is_all()) return 0;
    const auto bytes = std::as_bytes(std::span(ranks_));
    return hash_bytes(bytes.data(), bytes.size(), ranks_.size()) | 1U;
}

}  // namespace coppice::bootstrap
