// A tree written out: everybody's children side by side, and when each member is colored if nobody is dead. For what walks through
// all of a tree again and again, where computing each child anew would cost more than the walk.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulation/model.hpp"
#include "topology/tree.hpp"

namespace coppice::simulation {

struct FlatTree {
    // On a clock whose ports are busy for o.
    FlatTree(const topology::Tree& tree, const LogP& model);

    std::uint32_t processes() const { return static_cast<std::uint32_t>(parents.size()); }
    std::uint32_t child_count(std::uint32_t position) const {
        return first_child[position + 1] - first_child[position];
    }
    std::span<const std::uint32_t> children_of(std::uint32_t position) const {
        return {children.data() + first_child[position], child_count(position)};
    }

    std::vector<std::uint32_t> first_child;  // of each position, in `children`; and one behind the last
    std::vector<std::uint32_t> children;     // in send order
    std::vector<std::uint32_t> parents;      // the root's is itself
    std::vector<Step> colored_at;
    Step end = 0;  // of the dissemination
};

}  // namespace coppice::simulation
