// Which ranks of a group are gone, as far as one rank knows; which rank leads each node; and the neighbours that are
// told news first.
#pragma once

#include <cstdint>

#include "base/words.hpp"
#include "protocol/failed_set.hpp"
#include "topology/nodes.hpp"

namespace coppice::protocol {

class Roster {
  public:
    static constexpr std::uint32_t kNobody = UINT32_MAX;

    Roster(const topology::Nodes& nodes, Rank self)
        : nodes_(&nodes), self_(self.value), own_node_(nodes.node_of(self)) {}

    const topology::Nodes& nodes() const { return *nodes_; }
    std::uint32_t self() const { return self_; }
    std::uint32_t own_node() const { return own_node_; }
    bool single_node() const { return nodes_->count() == 1; }
    bool gone(std::uint32_t rank) const { return gone_.contains(rank); }
    const FailedSet& all_gone() const { return gone_; }
    // False when it is known already, or this rank.
    bool lose(Rank rank) { return rank.value != self_ && gone_.insert(rank.value); }

    // The lowest rank of a node that is here; kNobody when none is.
    std::uint32_t leader(std::uint32_t node) const {
        for (const Rank rank : nodes_->members(node)) {
            if (!gone(rank.value)) return rank.value;
        }
        return kNobody;
    }
    bool leads() const { return leader(own_node_) == self_; }

    // Calls tell(leader) for the nodes at distances ±1, ±2, ±4 … up to `farthest`, or for the next node that has a
    // leader where that one has none: if every rank to which it is news passes it on to them, it is everywhere after
    // O(log P) steps. A leader may come twice where many are gone.
    template <class Tell>
    void for_neighbours(Tell&& tell, std::uint32_t farthest = UINT32_MAX) const {
        const std::uint32_t nodes = nodes_->count();
        for (std::uint32_t distance = 1; distance < nodes && distance <= farthest; distance *= 2) {
            tell_next_from(distance, true, tell);
            if (2 * distance != nodes) tell_next_from(distance, false, tell);
        }
    }

  private:
    template <class Tell>
    void tell_next_from(std::uint32_t distance, bool to_right, Tell&& tell) const {
        const std::uint32_t nodes = nodes_->count();
        for (; distance < nodes; ++distance) {
            const std::uint32_t found = leader((own_node_ + (to_right ? distance : nodes - distance)) % nodes);
            if (found == kNobody) continue;
            tell(found);
            return;
        }
    }

    const topology::Nodes* nodes_;
    std::uint32_t self_;
    std::uint32_t own_node_;
    FailedSet gone_;
};

}  // namespace coppice::protocol
