// The ranks of the group, where they run, and which are known to be dead.
//
// Tree and ring run between nodes: a node is a host, or a single rank where every rank is a position of its own.
// The leader of a node sends and receives for it; when it dies the next live rank stands in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/words.hpp"
#include "protocol/failed_set.hpp"
#include "topology/nodes.hpp"
#include "topology/placement.hpp"

namespace coppice::engine {

// The highest thing between two members that a message has to pass: nothing outside of a host, a leaf switch, one of its pod, or what is
// above pods; also the last where there is one pod only, or where it is not known which switches there are.
enum class Crossing : std::uint8_t { host, leaf, pod, network };
inline constexpr std::size_t kCrossings = 4;

class Members {
  public:
    // `sites`: of the nodes, where the network's switches are known, else none. `domains`: where all are on one host and publish in two
    // levels (topology/domains.hpp). `switches`: by node, the path of those above it, as far as it is known; where processes may join.
    Members(Rank self, topology::Nodes nodes, std::vector<topology::Site> sites = {},
            std::optional<topology::Nodes> domains = {}, std::vector<std::string> switches = {});

    Rank self() const { return self_; }
    std::uint32_t ranks() const { return nodes_.ranks(); }
    std::uint32_t nodes() const { return nodes_.count(); }
    bool single_node() const { return nodes() == 1; }
    Node own_node() const { return own_node_; }
    Node node_of(Rank rank) const { return Node(nodes_.node_of(rank)); }
    const topology::Nodes& nodes_table() const { return nodes_; }
    std::span<const topology::Site> sites() const { return sites_; }
    std::span<const std::string> switches() const { return switches_; }
    const topology::Nodes* domains() const { return domains_ ? &*domains_ : nullptr; }
    Crossing crossing_to(Rank to) const;
    std::span<const Rank> ranks_of(Node node) const { return nodes_.members(node.value); }

    bool failed(Rank rank) const { return !failed_ranks_.empty() && failed_[rank.value]; }
    std::span<const Rank> failed_ranks() const { return failed_ranks_; }  // ascending
    const protocol::FailedSet& failed_nodes() const { return failed_nodes_; }

    // Marks a rank as failed. False when it was already.
    bool fail(Rank rank);

    // The lowest live rank of a node; none when all are dead.
    std::optional<Rank> leader(Node node) const { return leaders_[node.value]; }
    // The leader of a node in a broadcast from `root`: the root itself where it lives, else the node's lowest live rank.
    std::optional<Rank> leader_for(Node node, Rank root) const {
        if (node_of(root) == node && !failed(root)) return root;
        return leaders_[node.value];
    }
    bool is_leader() const { return leaders_[own_node_.value] == self_; }
    bool is_leader_for(Rank root) const { return leader_for(own_node_, root) == self_; }

    // A node's position in the tree and on the ring of a broadcast from `root`, and back.
    Position position_of(Node node, Rank root) const {
        const std::uint32_t root_node = nodes_.node_of(root);
        return Position(node.value >= root_node ? node.value - root_node : node.value + (nodes() - root_node));
    }
    Node node_at(Position position, Rank root) const {
        const std::uint64_t node = std::uint64_t{position.value} + nodes_.node_of(root);
        return Node(static_cast<std::uint32_t>(node >= nodes() ? node - nodes() : node));
    }

  private:
    Rank self_;
    topology::Nodes nodes_;
    std::vector<topology::Site> sites_;
    bool has_pods_ = false;  // more than one
    std::optional<topology::Nodes> domains_;
    std::vector<std::string> switches_;
    Node own_node_;
    std::vector<bool> failed_;
    std::vector<Rank> failed_ranks_;
    std::vector<std::optional<Rank>> leaders_;
    protocol::FailedSet failed_nodes_;
};

}  // namespace coppice::engine
