// Deaths: what a rank takes up in the place of another, and what the machines have to know.
#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/collectives/broadcast/broadcasts.hpp"

namespace coppice::engine {

void Broadcasts::member_failed(const Death& death) {
    if (life_.revoked() || members_.single_node()) return;
    if (death.is_local) {
        own_node_lost(death);
    } else {
        other_node_lost(death);
    }
}

// A rank of this node died: the leader in its place takes up what it may have left undone, from what is published.
void Broadcasts::own_node_lost(const Death& death) {
    if (members_.is_leader()) engage_published();
    for (Slot& slot : slots_) {
        if (!slot.engaged || slot.sequence.value < window_.stable() || slot.root == members_.self()) continue;
        if (!members_.is_leader_for(slot.root)) continue;
        wake(slot);
        if (!slot.machine) {
            ensure_machine(slot);
        } else if (slot.root == death.rank && !slot.has_payload && !adopt_line(slot)) {
            slot.machine.origin_lost();
        }
    }
    std::ranges::move(std::exchange(for_leader_, {}), std::back_inserter(pending_));
}

// Broadcasts that only dead ranks of this host have taken part in so far: somebody outside may depend on them.
void Broadcasts::engage_published() {
    for (std::uint64_t number = window_.stable(); number < window_.stable() + window_.size(); ++number) {
        const Sequence sequence(number);
        if (const Slot& slot = slot_of(sequence); slot.engaged && slot.sequence == sequence) continue;
        transport::PublishedLine line;
        for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
            if (local_peer == members_.self() || !board_->look(local_peer, sequence, line)) continue;
            if (board_->fenced()) return life_.be_fenced();  // that line may be another group's by now
            if (line.root < members_.ranks()) engage(sequence, Rank(line.root));
            break;
        }
    }
}

void Broadcasts::other_node_lost(const Death& death) {
    for (Slot& slot : slots_) {
        if (!slot.engaged || !slot.machine) continue;
        wake(slot);
        const Position position = members_.position_of(death.node, slot.root);
        if (death.node_is_gone) {
            slot.machine.peer_failed(position);
        } else if (death.was_leader || slot.root == death.rank) {
            slot.machine.peer_restarted(position);
        }
    }
}

void Broadcasts::member_left(Rank /*rank*/) {
    if (!life_.revoked()) do_without_the_departed();
}

// Those will never serve what this rank has begun beyond their own calls.
void Broadcasts::do_without_the_departed() {
    if (window_.all_consumed() && for_leader_.empty()) return;
    membership_.do_without_the_departed();
}

}  // namespace coppice::engine
