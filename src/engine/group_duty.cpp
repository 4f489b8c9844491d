// What a rank owes the others while its caller is elsewhere: when it has to be awake, and whom it wakes.
//
// On a host ranks write to boards, which wakes nobody. The leader has to hear of what concerns other hosts: counts of
// what has been consumed, deaths, revocations, departures. So a rank that writes one of these wakes it, if it sleeps; of
// counts, when it waits for them to be heard, and before it falls asleep itself.
#include <algorithm>

#include "engine/group.hpp"

namespace coppice::engine {

TransportSet::Armed Group::arm() {
    if (consumed_.value > leader_woken_for_) wake_leader();
    return router_.transport_set()->arm();
}

std::uint64_t Group::next_timer_ns() const {
    std::uint64_t next = UINT64_MAX;
    if (settings_.detection_bound.value > 0 && !fenced_) next = detector_.next_timer().value;
    return next;
}

// Messages that a transport did not take, and machines that wait for nothing but time.
bool Group::waits_for_room() const {
    if (!controls_.empty() || agreements_.waits_for_room()) return true;
    if (succession_ && succession_->waits_for_room()) return true;
    return std::ranges::any_of(active_, [this](const Slot* slot) {
        if (!slot->engaged || !slot->machine) return false;
        const bool timed = (plan_.is_paced || plan_.is_timed) && !slot->machine.finished();
        return slot->unsent.has_value() || timed;
    });
}

void Group::wake_leader() {
    if (!publishing_ || single_node()) return;
    const auto leader = members_.leader(members_.own_node());
    leader_woken_for_ = consumed_.value;
    if (leader && *leader != members_.self()) board_->wake(*leader);
}

void Group::wake_local_peers() {
    if (!publishing_) return;
    for (const Rank local_peer : members_.ranks_of(members_.own_node()))
        if (local_peer != members_.self() && !members_.failed(local_peer)) board_->wake(local_peer);
}

}  // namespace coppice::engine
