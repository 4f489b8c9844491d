// Which ranks form one position of tree and ring together: a node is all ranks of one host, or a single rank.
//
// The engine's table, made once per group: O(P) memory, constant-time look-ups, no allocation after
// construction. A node's index is its member number on the ring, before rotation to a root.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/words.hpp"

namespace coppice::topology {

class Nodes {
  public:
    // Ranks with equal keys share a node. keys[r] is rank r's host: a name, or any number that tells hosts
    // apart.
    static Nodes by_host(std::span<const std::string> keys);
    static Nodes by_host(std::span<const std::uint64_t> keys);
    // Each rank its own node, with its rank as the index.
    static Nodes flat(std::uint32_t ranks);

    std::uint32_t ranks() const { return static_cast<std::uint32_t>(node_of_.size()); }
    // Nodes are numbered in the order of their lowest ranks.
    std::uint32_t count() const { return static_cast<std::uint32_t>(first_.size()) - 1; }

    std::uint32_t node_of(Rank rank) const { return node_of_[rank.value]; }
    // Ascending; never empty.
    std::span<const Rank> members(std::uint32_t node) const {
        return std::span(members_).subspan(first_[node], first_[node + 1] - first_[node]);
    }

    // The leader of `node` in a broadcast from `root`, as far as alive(Rank) knows: the root on its own node while it
    // lives, else the lowest live rank. None when all of the node are dead.
    template <class Alive>
    std::optional<Rank> leader_for(std::uint32_t node, Rank root, Alive&& alive) const {
        if (node_of(root) == node && alive(root)) return root;
        for (const Rank rank : members(node)) {
            if (alive(rank)) return rank;
        }
        return std::nullopt;
    }

  private:
    explicit Nodes(std::vector<std::uint32_t> node_of);

    std::vector<std::uint32_t> node_of_;
    std::vector<Rank> members_;         // all ranks, node after node
    std::vector<std::uint32_t> first_;  // where each node's members begin; one more at the end
};

}  // namespace coppice::topology
