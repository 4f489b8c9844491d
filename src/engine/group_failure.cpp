// Deaths: learning of them, telling others, standing in; and how far everybody has consumed.
#include <algorithm>

#include "engine/context.hpp"
#include "engine/group.hpp"

namespace coppice::engine {
void Group::peer_failed(Rank there, transport::FailureCause /*cause*/) {
    if (const auto rank = router_.own_rank(there)) learn_failure(*rank);
}

void Group::learn_failure(Rank rank) {
    if (rank == members_.self()) {
        be_fenced();
        return;
    }
    read_revocations();  // what the dead said last
    take_failure(rank);
}

// What many deaths change in rings and trees is looked at once.
void Group::learn_failures(std::span<const Rank> ranks) {
    if (ranks.empty()) return;
    read_revocations();
    protocol::FailedSet news;
    for (const Rank rank : ranks) {
        if (rank != members_.self() && !members_.failed(rank)) news.insert(rank.value);
    }
    detector_.peers_failed(news);
    if (!revoked_) agreements_.peers_failed(news);
    if (succession_) succession_->peers_failed(news);
    for (const protocol::FailedSet::Interval& interval : news.intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last; ++rank)
            take_failure(Rank(rank));
    }
}

void Group::take_failure(Rank rank) {
    const std::uint32_t node = members_.node_of(rank);
    const auto leader_before = members_.leader(node);
    if (!members_.fail(rank)) return;
    detector_.peer_failed(rank);
    router_.fence(rank);
    if (board_ != nullptr) {
        board_->log_failure(rank);
        wake_local_peers();
    }
    if (!revoked_) agreements_.peer_failed(rank);
    if (succession_) succession_->peer_failed(rank);

    if (node == members_.own_node()) {
        count_out_of_cores(rank);
        own_node_lost(rank, leader_before == rank);
    } else if (!revoked_) {
        other_node_lost(rank, node, leader_before == rank);
    }
    stability_.peer_failed(rank);
    if (revoked_ && (!publishing_ || members_.is_leader())) spread_revocation();  // the dead may have been on the way
    // At a group's end a rank that has left already can't be told from a dead one, and nobody is interested any more.
    if ((on_failure_ || !claimed_) && !flushing_) untold_.push_back(rank);
}

void Group::end_all(coppice_status_t status, const std::string& why) {
    agreements_.give_up(status, why);
    for (Slot& slot : slots_) {
        if (slot.request != nullptr) complete(slot, status, fmt::format("broadcast {}: {}", slot.sequence.value, why));
    }
}

// Where the living have a core each now, they need not give theirs away when they wait.
void Group::count_out_of_cores(Rank dead) {
    const transport::Boards* const boards = router_.transport_set()->boards();
    if (!oversubscribed() || boards == nullptr) return;
    const Rank there = router_.set_rank(dead);
    sharing_cores_ -= boards->sharing_cores({&there, 1});
    oversubscribed_.set(sharing_cores_ > cores_);
}

// A rank of this node died: whoever speaks in its place takes up what it may have left undone, from what is published.
void Group::own_node_lost(Rank rank, bool was_leader) {
    if (single_node()) return;
    if (was_leader && members_.is_leader()) {
        // What the dead leader had told others outlives it: its failures too, for it may have refused the dead's messages.
        // (What it may not have passed on the detector tells again.)
        read_failure_logs();
        learn_stable(std::min(board_->stable(rank).value, consumed_.value));
    }
    if (revoked_) return;
    if (members_.is_leader()) engage_published();
    for (Slot& slot : slots_) {
        if (!slot.engaged || slot.sequence.value < stable_ || slot.root == members_.self()) continue;
        if (!members_.is_leader_for(slot.root)) continue;
        wake(slot);
        if (!slot.machine) {
            ensure_machine(slot);
        } else if (slot.root == rank && !slot.has_payload && !adopt_line(slot)) {
            slot.machine.origin_lost();
        }
    }
}

// Broadcasts that only dead ranks of this host have taken part in so far: somebody outside may depend on them.
void Group::engage_published() {
    for (std::uint64_t number = stable_; number < stable_ + settings_.window; ++number) {
        const Sequence sequence(number);
        if (const Slot& slot = slot_of(sequence); slot.engaged && slot.sequence == sequence) continue;
        transport::PublishedLine line;
        for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
            if (local_peer == members_.self() || !board_->look(local_peer, sequence, line)) continue;
            if (line.root < members_.ranks()) engage(sequence, Rank(line.root));
            break;
        }
    }
}

void Group::other_node_lost(Rank rank, std::uint32_t node, bool was_leader) {
    const bool all_dead = members_.failed_nodes().contains(node);
    for (Slot& slot : slots_) {
        if (!slot.engaged || !slot.machine) continue;
        wake(slot);
        const Position position = members_.position_of(node, slot.root);
        if (all_dead) {
            slot.machine.peer_failed(position);
        } else if (was_leader || slot.root == rank) {
            slot.machine.peer_restarted(position);
        }
    }
}

// Calls `tell` for the leaders of the nodes at distances ±1, ±2, ±4 …, or of the next live node where that one is dead: what
// everybody to whom it is news passes on to them is everywhere after O(log P) steps.
void Group::for_neighbours(const std::function<void(Rank leader, std::uint32_t node)>& tell) const {
    const std::uint32_t nodes = members_.nodes();
    const auto tell_next_from = [&](std::uint32_t distance, bool to_right) {
        for (; distance < nodes; ++distance) {
            const std::uint32_t node = (members_.own_node() + (to_right ? distance : nodes - distance)) % nodes;
            const auto leader = members_.leader(node);
            if (!leader) continue;
            tell(*leader, node);
            return;
        }
    };
    for (std::uint32_t distance = 1; distance < nodes; distance *= 2) {
        tell_next_from(distance, true);
        if (2 * distance != nodes) tell_next_from(distance, false);
    }
}

// The ranks of a host tell each other in their logs what they know: those without connections of their own learn of far
// deaths that way, and the leader of what a root has seen. Only the leader passes it on.
void Group::read_failure_logs() {
    if (!publishing_) return;
    const auto local_peers = members_.ranks_of(members_.own_node());
    for (std::size_t i = 0; i < local_peers.size(); ++i) {
        if (local_peers[i] == members_.self()) continue;
        const std::uint32_t length = std::min(board_->log_length(local_peers[i]), members_.ranks());
        while (logs_read_[i] < length) {
            const Rank dead = board_->logged(local_peers[i], logs_read_[i]++);
            if (dead.value < members_.ranks()) learn_failure(dead);
        }
    }
}

void Group::peer_left(Rank there) {
    if (const auto rank = router_.own_rank(there)) member_left(*rank);
}

// Whose process stays in touch for other groups says on its page, or by a message, that it has left this one.
void Group::read_departures() {
    if (!publishing_ || !router_.transport_set()->is_shared()) return;
    for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
        if (local_peer != members_.self() && !members_.failed(local_peer) && board_->departed(local_peer))
            member_left(local_peer);
    }
}

void Group::member_left(Rank peer) {
    if (std::ranges::find(departed_peers_, peer) != departed_peers_.end()) return;
    read_revocations();  // what it said last
    departed_peers_.push_back(peer);
    if (succession_) succession_->peer_failed(peer);
    detector_.peer_left(peer);
    if (revoked_) {
        std::erase(unaware_, peer);
        return;
    }
    agreements_.peer_failed(peer);  // all that it began has been decided: it is not needed for anything but its end
    do_without_the_departed();
}

// Who left in peace has taken part in everything that its own calls began. What this rank has begun beyond that will
// never be served by it: there it counts as failed.
void Group::do_without_the_departed() {
    if (consumed_ == next_) return;
    for (const Rank peer : departed_peers_)
        learn_failure(peer);
}

// --------------------------------------------------------------------------------------------------- stability ---

// The least that a live rank of this node has consumed, and who that is.
std::uint64_t Group::local_consumed(Rank& slowest) const {
    slowest = members_.self();
    std::uint64_t least = consumed_.value;
    if (!publishing_) return least;
    for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
        if (local_peer == members_.self() || members_.failed(local_peer) || board_->departed(local_peer)) continue;
        const std::uint64_t count = board_->consumed(local_peer).value;
        if (count < least) {
            least = count;
            slowest = local_peer;
        }
    }
    return least;
}

void Group::learn_stable(std::uint64_t count) {
    stability_.learn_stable(count);
    stable_ = stability_.stable();
}

void Group::update_stability() {
    const auto leader = members_.leader(members_.own_node());
    const bool leads = leader == members_.self();
    if (leads || single_node()) {
        Rank slowest;
        const std::uint64_t count = local_consumed(slowest);
        stability_.node_consumed(count, slowest);
    } else if (leader) {
        stability_.learn_stable(std::min(board_->stable(*leader).value, consumed_.value));
    }
    send_stability();
    if (!publishing_ || single_node()) return;
    if (leads) {
        board_->set_stable(Sequence(stable_));
    } else if (consumed_.value >= stable_ + settings_.window / 2) {
        wake_leader();
    }
}

// The header of each message carries what is stable, so that must be known before they leave.
void Group::send_stability() {
    while (const auto send = stability_.next_send()) {
        const WireKind kind = send->kind == protocol::StabilityKind::up     ? WireKind::stability_up
                              : send->kind == protocol::StabilityKind::down ? WireKind::stability_down
                                                                            : WireKind::stability_ask;
        send_control(send->to, kind, send->count, send->slowest.value);
    }
    stable_ = stability_.stable();
    if (!controls_.empty()) flush_controls();
}

// Somebody finds no room, or waits to leave.
void Group::ask_for_room(std::uint64_t wanted) {
    if (single_node() || revoked_) return;
    stability_.want(wanted, Nanoseconds(context_->clock().now_ns()));
    send_stability();
}

void Group::stability_message(Rank from, const WireHeader& header) {
    using protocol::StabilityKind;
    const auto kind = header.kind == static_cast<std::uint8_t>(WireKind::stability_up)     ? StabilityKind::up
                      : header.kind == static_cast<std::uint8_t>(WireKind::stability_down) ? StabilityKind::down
                                                                                           : StabilityKind::ask;
    if (!stability_.receive({.kind = kind,
                             .from = from,
                             .to = members_.self(),
                             .count = header.sequence,
                             .stable = header.stable,
                             .slowest = Rank(header.detail)})) {
        ++garbage_;
    }
}

}  // namespace coppice::engine
