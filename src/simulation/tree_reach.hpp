// Which members a tree reaches when some are dead from before the start, without a clock or a machine: those that are
// not dead and have no dead ancestor. So the gaps that a dissemination leaves, g_max among them, follow from the tree
// and the dead alone, in time proportional to those left out: millions of broadcasts in the time that running thousands
// takes. For what the correction makes of these gaps there is the simulator (broadcast_simulation.hpp), whose gaps are
// the same (tests/simulation/tree_reach_test.cpp).
#pragma once

#include <span>
#include <vector>

#include "simulation/model.hpp"
#include "simulation/position_set.hpp"
#include "topology/tree.hpp"

namespace coppice::simulation {

// Keeps its memory from one question to the next: one per thread. `tree` outlives it.
class TreeReach {
  public:
    explicit TreeReach(const topology::Tree& tree);

    // Without the root among the dead.
    Gaps gaps(std::span<const Position> dead);

  private:
    const topology::Tree& tree_;
    PositionSet left_out_;
    PositionSet reached_;
    std::vector<Position> border_;
};

}  // namespace coppice::simulation
