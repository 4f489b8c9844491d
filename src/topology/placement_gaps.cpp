#include "topology/placement_gaps.hpp"

#include <algorithm>

namespace coppice::topology {

std::uint32_t PlacementGaps::longest(std::uint32_t root, std::span<const std::uint32_t> dead) {
    ++question_;
    uncolored_.clear();
    const auto mark = [this](std::uint32_t leaf) {
        if (is_uncolored(leaf)) return;
        marked_[leaf] = question_;
        uncolored_.push_back(leaf);
    };
    for (const std::uint32_t leaf : dead)
        mark(leaf);
    for (std::size_t next = 0; next < uncolored_.size(); ++next) {
        const std::uint32_t leaf = uncolored_[next];
        const std::uint32_t children = placement_.child_leaf_count(root, leaf);
        for (std::uint32_t index = 0; index < children; ++index)
            mark(placement_.child_leaf(root, leaf, index));
    }
    std::uint32_t longest = 0;
    const std::uint32_t leaves = placement_.leaves();
    for (const std::uint32_t leaf : uncolored_) {
        if (is_uncolored(left_neighbour(Position{leaf}, 1, leaves).value)) continue;
        std::uint32_t length = 1;
        while (is_uncolored(right_neighbour(Position{leaf}, length, leaves).value))
            ++length;
        longest = std::max(longest, length);
    }
    return longest;
}

std::vector<std::uint32_t> leaves_of_pod(const Placement& placement, std::uint32_t pod) {
    std::vector<std::uint32_t> leaves;
    for (std::uint32_t leaf = 0; leaf < placement.leaves(); ++leaf) {
        if (placement.pod_of(leaf) == pod) leaves.push_back(leaf);
    }
    return leaves;
}

}  // namespace coppice::topology
