#include "engine/core/members.hpp"

#include <algorithm>

namespace coppice::engine {

Members::Members(Rank self, topology::Nodes nodes, std::vector<topology::Site> sites,
                 std::optional<topology::Nodes> domains, std::vector<std::string> switches)
    : self_(self),
      nodes_(std::move(nodes)),
      sites_(std::move(sites)),
      has_pods_(std::ranges::any_of(sites_, [this](const topology::Site& site) { return site.pod != sites_[0].pod; })),
      domains_(std::move(domains)),
      switches_(std::move(switches)),
      own_node_(Node(nodes_.node_of(self))),
      failed_(nodes_.ranks(), false) {
    leaders_.reserve(nodes_.count());
    for (std::uint32_t node = 0; node < nodes_.count(); ++node)
        leaders_.push_back(nodes_.members(node).front());
}

Crossing Members::crossing_to(Rank to) const {
    const Node node = node_of(to);
    if (node == own_node_) return Crossing::host;
    if (sites_.empty()) return Crossing::network;
    const topology::Site& here = sites_[own_node_.value];
    const topology::Site& there = sites_[node.value];
    if (here == there) return Crossing::leaf;
    return has_pods_ && here.pod == there.pod ? Crossing::pod : Crossing::network;
}

bool Members::fail(Rank rank) {
    if (failed_[rank.value]) return false;
    failed_[rank.value] = true;
    failed_ranks_.insert(std::ranges::lower_bound(failed_ranks_, rank), rank);

    const std::uint32_t node = nodes_.node_of(rank);
    const auto local_peers = nodes_.members(node);
    if (leaders_[node] != rank) return true;
    const auto alive = std::ranges::find_if(std::ranges::upper_bound(local_peers, rank), local_peers.end(),
                                            [this](Rank local_peer) { return !failed_[local_peer.value]; });
    leaders_[node] = alive == local_peers.end() ? std::nullopt : std::optional(*alive);
    if (!leaders_[node]) failed_nodes_.insert(node);
    return true;
}

}  // namespace coppice::engine
