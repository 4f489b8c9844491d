// What dead leaves leave uncolored, without a clock or a machine: they and all that stand below them in the tree of leaves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/placement.hpp"

namespace coppice::topology {

// Keeps its memory from one question to the next. `placement` outlives it.
class PlacementGaps {
  public:
    explicit PlacementGaps(const Placement& placement) : placement_(placement), marked_(placement.leaves(), 0) {}

    // The longest run, on the ring of leaves, of leaves that no host gets the payload in by the tree from `root`, when all hosts
    // of `dead` are dead. The root's own leaf is not among them. In a leaf that the tree does reach it reaches every host.
    std::uint32_t longest(std::uint32_t root, std::span<const std::uint32_t> dead);
    // These leaves, the dead ones included: of the last question.
    std::span<const std::uint32_t> uncolored() const { return uncolored_; }

  private:
    bool is_uncolored(std::uint32_t leaf) const { return marked_[leaf] == question_; }

    const Placement& placement_;
    std::vector<std::uint32_t> marked_;  // by leaf: the question in which it was last uncolored
    std::vector<std::uint32_t> uncolored_;
    std::uint32_t question_ = 0;
};

// The leaves of a pod, by their places on the ring.
std::vector<std::uint32_t> leaves_of_pod(const Placement& placement, std::uint32_t pod);

}  // namespace coppice::topology
