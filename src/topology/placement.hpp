// Where hosts stand when it is known which switches they hang on: the tree of trees that a broadcast goes down, and the ring of
// leaf switches that its correction runs on. docs/topology.md has the pictures and the proofs.
//
// Two things pull apart. A tree's edges should be short: so a broadcast enters each pod once, each leaf of it once, and
// each host of that once. What stands side by side on a ring should not die together: so the ring is one of leaves, and
// leaves of one pod lie as far apart on it as can be. A leaf that dies is one place of the ring, and with it falls what
// it would have passed the payload to, whose neighbours on the ring have it from elsewhere.
//
// A pure function of what all members have exchanged: the same everywhere, without a message. Made once a group; O(hosts)
// memory, 12 bytes a host; look-ups take O(levels) and the trees' own time, and allocate nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "topology/ring.hpp"
#include "topology/tree.hpp"

namespace coppice::topology {

// The switches above a host, by any numbers that tell them apart. A leaf switch is in one pod; where there is no level of pods,
// all leaves are in one.
struct Site {
    std::uint32_t pod = 0;
    std::uint32_t leaf = 0;

    bool operator==(const Site&) const = default;
};

// The trees of pods, of a pod's leaves, and of a leaf's hosts.
struct LevelTrees {
    TreeSpec pods{};
    TreeSpec leaves{};
    TreeSpec hosts{};
};

// Leaves are numbered by their places on the ring of leaves, hosts as the caller does, pods in the order of their sizes,
// the largest first. `root` is the host that a broadcast starts from.
class Placement {
  public:
    // hosts[h] is where host h is. Refuses no host at all, a leaf that is in two
    // pods, and what no tree can be made of.
    static tl::expected<Placement, std::string> make(std::span<const Site> hosts, const LevelTrees& trees);
    static tl::expected<Placement, std::string> make(std::span<const Site> hosts, const TreeSpec& spec) {
        return make(hosts, {.pods = spec, .leaves = spec, .hosts = spec});
    }

    std::uint32_t hosts() const { return static_cast<std::uint32_t>(leaf_of_.size()); }
    std::uint32_t leaves() const { return static_cast<std::uint32_t>(pod_of_.size()); }
    std::uint32_t pods() const { return static_cast<std::uint32_t>(first_leaf_.size()) - 1; }

    std::uint32_t leaf_of(std::uint32_t host) const { return leaf_of_[host]; }
    std::uint32_t pod_of(std::uint32_t leaf) const { return pod_of_[leaf]; }
    // Ascending; their indices are the places of the ring of that leaf's hosts.
    std::span<const std::uint32_t> hosts_of(std::uint32_t leaf) const {
        return std::span(hosts_of_).subspan(first_host_[leaf], first_host_[leaf + 1] - first_host_[leaf]);
    }
    std::uint32_t index_in_leaf(std::uint32_t host) const { return index_in_leaf_[host]; }
    std::uint32_t leaves_of(std::uint32_t pod) const { return first_leaf_[pod + 1] - first_leaf_[pod]; }

    // The tree of leaves, from `root`'s: pods among themselves, then the leaves of each. Children in send order, far ones first.
    std::optional<std::uint32_t> parent_leaf(std::uint32_t root, std::uint32_t leaf) const;
    std::uint32_t child_leaf_count(std::uint32_t root, std::uint32_t leaf) const;
    std::uint32_t child_leaf(std::uint32_t root, std::uint32_t leaf, std::uint32_t index) const;
    // The host by which a leaf is entered, and which enters others for it.
    std::uint32_t leader(std::uint32_t root, std::uint32_t leaf) const;
    // How far behind its leaf's leader a host stands on their ring; 0 for the leader itself.
    std::uint32_t behind_leader(std::uint32_t root, std::uint32_t host) const;

    // The tree of hosts: a leader's children are the leaders of its leaf's children, then hosts of its own leaf.
    std::optional<std::uint32_t> parent(std::uint32_t root, std::uint32_t host) const;
    std::uint32_t child_count(std::uint32_t root, std::uint32_t host) const;
    std::uint32_t child(std::uint32_t root, std::uint32_t host, std::uint32_t index) const;

    // How well the ring of leaves spreads pods.
    struct Spread {
        // The distance of the nearest two leaves of one pod; the number of leaves where no pod has two.
        std::uint32_t nearest = 0;
        // Pairs of leaves of one pod that are no more than the reach asked for apart.
        std::uint64_t close_pairs = 0;
    };
    Spread spread(std::uint32_t reach) const;

    // What it keeps, in bytes.
    std::size_t memory() const;

  private:
    Placement() = default;
    // Where leaves stand when they are written down pod after pod, into `rows_` rows, column by column; and read row by row.
    std::uint32_t leaf_at(std::uint32_t listed) const;
    std::uint32_t listed_at(std::uint32_t leaf) const;
    const Tree& pod_tree() const { return pod_trees_.front(); }
    const Tree& leaf_tree(std::uint32_t pod) const;
    const Tree& host_tree(std::uint32_t leaf) const;
    // As the tree of its pod, or of pods, counts it.
    std::uint32_t leaf_position(std::uint32_t root_leaf, std::uint32_t leaf) const;
    std::uint32_t pod_position(std::uint32_t root_leaf, std::uint32_t pod) const;
    std::uint32_t leaf_at_position(std::uint32_t root_leaf, std::uint32_t pod, std::uint32_t position) const;
    // The index, in its pod, of the leaf by which the pod is entered: the root's in its own.
    std::uint32_t first_index(std::uint32_t root_leaf, std::uint32_t pod) const;

    std::vector<std::uint32_t> leaf_of_;        // by host
    std::vector<std::uint32_t> index_in_leaf_;  // by host
    std::vector<std::uint32_t> hosts_of_;       // all hosts, leaf after leaf on the ring
    std::vector<std::uint32_t> first_host_;     // by leaf: where its hosts begin; one more at the end
    std::vector<std::uint32_t> pod_of_;         // by leaf
    std::vector<std::uint32_t> first_leaf_;     // by pod: where its leaves begin in the list; one more at the end
    std::vector<Tree> pod_trees_;               // one
    std::vector<Tree> leaf_trees_;              // ascending by size, as host_trees_
    std::vector<Tree> host_trees_;
    std::uint32_t rows_ = 1;
};

}  // namespace coppice::topology
