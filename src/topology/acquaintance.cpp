#include "topology/acquaintance.hpp"

#include <algorithm>
#include <bit>

namespace coppice::topology {

std::uint32_t Acquaintance::row_of(Rank rank) const {
    const auto members = nodes_.members(nodes_.node_of(rank));
    return static_cast<std::uint32_t>(std::ranges::lower_bound(members, rank) - members.begin());
}

std::uint32_t Acquaintance::steps() const {
    return static_cast<std::uint32_t>(std::bit_width(nodes_.count() - 1));
}

Rank Acquaintance::next(Rank rank, bool forward) const {
    const std::uint32_t count = nodes_.count();
    std::uint32_t node = nodes_.node_of(rank);
    std::uint32_t row = row_of(rank);
    std::uint32_t rows = 0;
    for (std::uint32_t n = 0; n < count; ++n)
        rows = std::max(rows, static_cast<std::uint32_t>(nodes_.members(n).size()));
    do {
        const bool wraps = node == (forward ? count - 1 : 0);
        node = wraps ? (forward ? 0 : count - 1) : (forward ? node + 1 : node - 1);
        if (wraps) row = forward ? (row + 1) % rows : (row + rows - 1) % rows;
    } while (nodes_.members(node).size() <= row);
    return nodes_.members(node)[row];
}

std::vector<Rank> Acquaintance::of(Rank rank) const {
    const std::uint32_t count = nodes_.count();
    const std::uint32_t node = nodes_.node_of(rank);
    const std::uint32_t row = row_of(rank);
    std::vector<Rank> known(nodes_.members(node).begin(), nodes_.members(node).end());
    // So many rows further on to the one side, and further back to the other.
    const auto add = [&](std::uint32_t places, std::uint32_t rows) {
        const auto after = nodes_.members((node + places) % count);
        const auto before = nodes_.members((node + count - places) % count);
        known.push_back(after[(row + rows) % after.size()]);
        known.push_back(before[(row + before.size() - rows % before.size()) % before.size()]);
    };
    for (std::uint32_t places = 1; places < count; places *= 2)
        add(places, 0);
    for (std::uint32_t places = 1; places <= std::min(ring_, count - 1); ++places)
        add(places, 0);
    const std::size_t rows = nodes_.members(node).size();
    for (std::uint32_t further = 1; 2 * further <= rows && count > 1; further *= 2)
        add(1, further);
    known.push_back(next(rank, true));
    known.push_back(next(rank, false));
    std::ranges::sort(known);
    // Not the one of std::ranges, which Clang 14 cannot compile.
    known.erase(std::unique(known.begin(), known.end()), known.end());
    std::erase(known, rank);
    return known;
}

std::vector<Rank> Acquaintance::mutual(Rank rank) const {
    std::vector<Rank> known = of(rank);
    std::erase_if(known, [this, rank](Rank other) { return !std::ranges::binary_search(of(other), rank); });
    return known;
}

}  // namespace coppice::topology
