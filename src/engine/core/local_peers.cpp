#include "engine/core/local_peers.hpp"

#include <utility>

#include "transport/host_memory.hpp"

namespace coppice::engine {
namespace {

// Ranks of a host of which each is connected with their leader from the start: some 8 KiB a pair.
constexpr std::size_t kMostToMeet = 64;

}  // namespace

LocalPeers::LocalPeers(GroupParts& parts, const Surroundings& around, const Members& members)
    : around_(around),
      members_(members),
      board_(parts.board),
      board_wrapper_(std::move(parts.board_wrapper)),
      panel_(parts.panel),
      publishing_(board_ != nullptr && members.ranks_of(members.own_node()).size() > 1),
      logs_read_(members.ranks_of(members.own_node()).size(), 0) {}

// Ranks of one host publish, until somebody dies: then agreement goes by messages between their leader, or who stands in for it,
// and the others. It should not have to connect them first. Nor should a shrink: a new group meets who stands in one by one,
// with each call.
void LocalPeers::meet_leaders(bool all) {
    if (!publishing_) return;
    std::vector<Rank> local_peers;
    for (const Rank rank : members_.ranks_of(members_.own_node()))
        if (!members_.failed(rank)) local_peers.push_back(rank);
    if (local_peers.size() < 2 || local_peers.size() > kMostToMeet) return;
    const Rank self = members_.self();
    const Rank leader = local_peers[0];
    const Rank next = local_peers[1];
    for (const Rank rank : local_peers) {
        if (rank == self) continue;
        if (self == leader || rank == leader) {
            meet(rank);
        } else if (self == next || rank == next) {
            to_meet_.push_back(rank);
        }
    }
    while (all && !to_meet_.empty())
        meet_next();
}

void LocalPeers::meet(Rank rank) {
    if (const Link link = around_.router().to(rank)) link.watch();
}

void LocalPeers::meet_next() {
    meet(to_meet_.back());
    to_meet_.pop_back();
}

// On a host ranks write to boards, which wakes nobody. The leader has to hear of what concerns other hosts: counts of
// what has been consumed, deaths, revocations, departures. So a rank that writes one of these wakes it, if it sleeps; of
// counts, when it waits for them to be heard, and before it falls asleep itself.
void LocalPeers::wake_leader() {
    if (!publishing_ || members_.single_node()) return;
    const auto leader = members_.leader(members_.own_node());
    if (leader && *leader != members_.self()) board_->wake(*leader);
}

void LocalPeers::wake() {
    if (!publishing_) return;
    for (const Rank local_peer : members_.ranks_of(members_.own_node()))
        if (local_peer != members_.self() && !members_.failed(local_peer)) board_->wake(local_peer);
}

void LocalPeers::log_failure(Rank rank) {
    if (board_ != nullptr) board_->log_failure(rank);
}

void LocalPeers::depart() {
    if (board_ != nullptr) board_->depart();
}

void LocalPeers::close_board() {
    TransportSet& transport_set = *around_.router().transport_set();
    if (board_ == nullptr || transport_set.host_memory() == nullptr) return;
    std::vector<Rank> others;
    for (const Rank rank : members_.ranks_of(members_.own_node()))
        if (rank != members_.self() && !members_.failed(rank)) others.push_back(rank);
    transport_set.close_board(panel_, std::move(others));
    transport_set.host_memory()->make_panel_ready();  // for the next one that is shrunk, which is in more of a hurry
}

}  // namespace coppice::engine
