// Deaths: learning of them, telling others, standing in; and how far everybody has consumed.
#include <algorithm>

#include "engine/group.hpp"

namespace coppice::engine {

void Group::peer_failed(Rank peer, transport::FailureCause /*cause*/) { learn_failure(peer, true); }

// `spread`: whether to tell other sites (not when the news came from this host's own log, whose writer has told them).
void Group::learn_failure(Rank rank, bool spread) {
    const std::uint32_t site = members_.site_of(rank);
    const auto leader_before = members_.leader(site);
    if (!members_.fail(rank)) return;
    if (transport::Transport* wire = router_.to(rank)) wire->fence(rank);
    if (board_ != nullptr) board_->log_failure(rank);

    if (site == members_.own_site()) {
        own_site_lost(rank, leader_before == rank);
    } else {
        other_site_lost(rank, site, leader_before == rank);
    }
    const bool speaker_changed = leader_before == rank;
    if (speaker_changed) {
        stability_.site_changed();
        watch_next_site();
    }
    if (spread && !single_site()) spread_failure(rank, speaker_changed ? site : members_.sites());
    if (on_failure_) on_failure_(rank);
}

// A rank of this site died: whoever speaks in its place takes up what it may have left undone, from what is published.
void Group::own_site_lost(Rank rank, bool was_leader) {
    if (single_site()) return;
    if (was_leader && members_.is_leader()) {
        // What the dead speaker had told others outlives it: its failures too, for it may have refused the dead's messages.
        for (const Rank mate : members_.ranks_of(members_.own_site())) {
            if (mate != members_.self()) read_log_of(mate, 0);
        }
        for (std::uint64_t number = stable_; number < stable_ + settings_.window; ++number) {
            const Sequence sequence(number);
            if (const Slot& slot = slot_of(sequence); slot.engaged && slot.sequence == sequence) continue;
            transport::PublishedLine line;
            for (const Rank mate : members_.ranks_of(members_.own_site())) {
                if (mate == members_.self() || !board_->look(mate, sequence, line)) continue;
                if (line.root < members_.ranks()) engage(sequence, Rank(line.root));
                break;
            }
        }
    }
    for (Slot& slot : slots_) {
        if (!slot.engaged || slot.sequence.value < stable_ || slot.root == members_.self()) continue;
        if (!members_.is_acting(slot.root)) continue;
        if (!slot.machine) {
            ensure_machine(slot);
        } else if (slot.root == rank && !slot.has_payload && !adopt_line(slot)) {
            slot.machine->origin_lost();
        }
    }
}

void Group::other_site_lost(Rank rank, std::uint32_t site, bool was_leader) {
    const bool all_dead = members_.failed_sites().contains(site);
    for (Slot& slot : slots_) {
        if (!slot.engaged || !slot.machine) continue;
        const Position position = members_.position_of(site, slot.root);
        if (all_dead) {
            slot.machine->peer_failed(position);
        } else if (was_leader || slot.root == rank) {
            slot.machine->peer_restarted(position);
        }
    }
}

// Every rank that learns of a death tells the speakers of the sites at distances ±1, ±2, ±4 …: a circulant graph in
// which the news is everywhere after O(log P) steps, and which stays connected whoever else has died. A site that has a
// new speaker (changed_site) hears of all deaths, because its predecessor may have taken the news to the grave.
void Group::spread_failure(Rank rank, std::uint32_t changed_site) {
    const std::uint32_t sites = members_.sites();
    const auto tell = [&](std::uint32_t site) {
        const auto leader = members_.leader(site);
        if (!leader) return;
        if (site == changed_site) {
            for (const Rank dead : members_.failed_ranks()) {
                send_control(*leader, WireKind::failure_notice, 0, dead.value);
            }
        } else {
            send_control(*leader, WireKind::failure_notice, 0, rank.value);
        }
    };
    for (std::uint32_t distance = 1; distance < sites; distance *= 2) {
        const std::uint32_t right = (members_.own_site() + distance) % sites;
        const std::uint32_t left = (members_.own_site() + sites - distance) % sites;
        tell(right);
        if (left != right) tell(left);
    }
    // A rank that does not speak for its own site tells the one that does.
    if (!members_.is_leader() && !publishing_) tell(members_.own_site());
}

// Each site's leader keeps a connection to the next live site, so that every death is somebody's to see.
void Group::watch_next_site() {
    if (single_site() || !members_.is_leader()) return;
    for (std::uint32_t step = 1; step < members_.sites(); ++step) {
        const auto leader = members_.leader((members_.own_site() + step) % members_.sites());
        if (!leader) continue;
        if (transport::Transport* wire = router_.to(*leader)) wire->watch(*leader);
        return;
    }
}

// Ranks without connections of their own learn of far deaths from the one that speaks for their host.
void Group::read_failure_log() {
    if (!publishing_) return;
    const auto leader = members_.leader(members_.own_site());
    if (!leader || *leader == members_.self()) return;
    if (log_owner_ != leader) {
        log_owner_ = leader;
        log_read_ = 0;
    }
    log_read_ = read_log_of(*leader, log_read_);
}

// Takes over what `mate` has logged from the `from`-th entry on; returns how many entries it has.
std::uint32_t Group::read_log_of(Rank mate, std::uint32_t from) {
    const std::uint32_t length = std::min(board_->log_length(mate), members_.ranks());
    for (; from < length; ++from) {
        const Rank dead = board_->logged(mate, from);
        if (dead.value < members_.ranks() && dead != members_.self()) learn_failure(dead, false);
    }
    return from;
}

// A rank of this host that left in peace, but before it took part in what was started here, counts as failed.
void Group::notice_departures() {
    if (!publishing_ || consumed_ == next_) return;
    for (const Rank mate : members_.ranks_of(members_.own_site())) {
        if (mate == members_.self() || members_.failed(mate) || !board_->departed(mate)) continue;
        if (board_->consumed(mate) < next_) learn_failure(mate, true);
    }
}

// --------------------------------------------------------------------------------------------------- stability ---

// The least that a live rank of this site has consumed, and who that is.
std::uint64_t Group::local_consumed(Rank& slowest) const {
    slowest = members_.self();
    std::uint64_t least = consumed_.value;
    if (!publishing_) return least;
    for (const Rank mate : members_.ranks_of(members_.own_site())) {
        if (mate == members_.self() || members_.failed(mate) || board_->departed(mate)) continue;
        const std::uint64_t count = board_->consumed(mate).value;
        if (count < least) {
            least = count;
            slowest = mate;
        }
    }
    return least;
}

void Group::update_stability() {
    Rank slowest;
    if (single_site()) {
        stable_ = std::max(stable_, local_consumed(slowest));
    } else if (members_.is_leader()) {
        const std::uint64_t count = local_consumed(slowest);
        stability_.set_local(count, slowest);
        send_stability();
        stable_ = std::max(stable_, stability_.stable());
        if (publishing_) board_->set_stable(Sequence(stable_));
    } else if (const auto leader = members_.leader(members_.own_site())) {
        stable_ = std::max(stable_, std::min(board_->stable(*leader).value, consumed_.value));
    }
}

void Group::send_stability() {
    while (const auto send = stability_.next_send()) {
        const auto leader = members_.leader(send->site);
        if (!leader) continue;
        if (send->up) {
            send_control(*leader, WireKind::stability_up, send->count, send->slowest.value);
        } else {
            send_control(*leader, WireKind::stability_down, send->count, 0);
        }
    }
    // The header of each carries this rank's stable count, so the answer must be known before they leave.
    stable_ = std::max(stable_, stability_.stable());
    if (!controls_.empty()) flush_controls();
}

}  // namespace coppice::engine
