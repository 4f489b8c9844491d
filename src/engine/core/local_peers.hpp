// The ranks of this host: the board that they share, which of them are woken, and which are met before anything is sent to them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/core/surroundings.hpp"

namespace coppice::engine {

class LocalPeers {
  public:
    // References outlive this object.
    LocalPeers(GroupParts& parts, const Surroundings& around, const Members& members);

    // Null where nobody shares a host.
    transport::Board* board() const { return board_; }
    std::uint32_t panel() const { return panel_; }
    bool publishing() const { return publishing_; }  // this rank shares its node with others
    // That rank shares a board with this one.
    bool shares_with(Rank rank) const { return publishing_ && members_.node_of(rank) == members_.own_node(); }

    void wake_leader();
    void wake();
    // Another thing to do when deaths have made boards useless for messages. `all`: else the others of meet_next() are left.
    void meet_leaders(bool all);
    bool is_to_meet() const { return !to_meet_.empty(); }
    void meet_next();

    // What this rank writes down for the others: a death, maybe its own, and that it has left in peace.
    void log_failure(Rank rank);
    void depart();
    // What they have written down: tells of each death that is new.
    template <class Tell>
    void read_failure_logs(Tell&& tell);
    // The transports end, and the board with them.
    void drop_board() { board_ = nullptr; }
    // The group ends, and the transports stay.
    void close_board();

  private:
    void meet(Rank rank);

    const Surroundings& around_;
    const Members& members_;
    transport::Board* board_;
    std::unique_ptr<transport::Board> board_wrapper_;
    std::uint32_t panel_;
    bool publishing_;
    std::vector<std::uint32_t> logs_read_;  // entries of the failure logs of this node's ranks seen so far
    std::vector<Rank> to_meet_;             // of this host, to be connected with by and by
};

// Those without connections of their own learn of far deaths that way, and the leader of what a root has seen. Only the leader passes
// it on.
template <class Tell>
void LocalPeers::read_failure_logs(Tell&& tell) {
    if (!publishing_) return;
    const auto local_peers = members_.ranks_of(members_.own_node());
    for (std::size_t i = 0; i < local_peers.size(); ++i) {
        if (local_peers[i] == members_.self()) continue;
        const std::uint32_t logged = board_->log_length(local_peers[i]);
        if (logs_read_[i] >= logged) [[likely]]
            continue;
        const std::uint32_t length = std::min(logged, members_.ranks());
        while (logs_read_[i] < length) {
            const Rank dead = board_->logged(local_peers[i], logs_read_[i]++);
            if (dead.value < members_.ranks()) tell(dead);
        }
    }
}

}  // namespace coppice::engine
