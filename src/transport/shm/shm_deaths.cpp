// The deaths of the shared-memory transport's peers: which have died, what is done about it, and which are taken for
// dead.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/host.hpp"
#include "transport/shm/obituary.hpp"
#include "transport/shm/shm_peer.hpp"

namespace coppice::transport {

std::size_t ShmTransport::look_at_one(Receiver& receiver) {
    if (++watch_cursor_ >= watched_.size()) watch_cursor_ = 0;
    Peer& peer = *peers_[watched_[watch_cursor_]];
    if (peer.lost) return bury(peer, peer.lost_cause, receiver);
    if (!peer.segment.board) return 0;
    const shm::Header& header = peer.segment.header();
    if (!shm::is_held(header.obituary) || header.departed.value.read() != 0)
        return bury(peer, FailureCause::obituary, receiver);
    return 0;
}

bool ShmTransport::second_look_due() {
    if (second_look_period_ns_ == 0) return false;
    const std::uint64_t now = now_ns();
    if (now - second_look_ns_ < second_look_period_ns_) return false;
    second_look_ns_ = now;
    if (!forgotten_.empty()) give_back_what_was_forgotten();
    return true;
}

std::size_t ShmTransport::second_look(Receiver& receiver) {
    if (watched_.empty()) return 0;
    if (++second_cursor_ >= watched_.size()) second_cursor_ = 0;
    Peer& peer = *peers_[watched_[second_cursor_]];
    if (!peer.segment.board) {
        map(peer);
        return 0;
    }
    own_.open_reserve();
    const ProcessState state = process_state(peer.address.pid, peer.address.start_time);
    own_.close_reserve();
    return state == ProcessState::gone ? bury(peer, FailureCause::process_gone, receiver) : 0;
}

// It may have died after it had published a message and before it rang.
void ShmTransport::find_unrung(const Peer& peer) {
    if (peer.inbox.attached()) return;
    const std::uint64_t claimed = std::min<std::uint64_t>(mailroom().claimed.value(), own_.layout().inboxes);
    for (std::uint32_t inbox = 0; inbox < claimed; ++inbox)
        if (peer_of_inbox_[inbox] == kNobody && claim(inbox).ready.read() == 1 &&
            claim(inbox).holder.get() == peer.address.nonce && claimant(inbox) == &peer)
            return;
}

std::size_t ShmTransport::bury(Peer& peer, FailureCause cause, Receiver& receiver) {
    find_unrung(peer);
    std::size_t events = 0;
    if (peer.inbox.attached()) {
        bool more = true;
        while (more) {
            more = false;
            events += drain(peer, receiver, kMessagesPerVisit, more);
        }
    }
    peer.gone = true;
    std::erase(watched_, peer.index);
    const bool in_peace = peer.segment.board && peer.segment.header().departed.value.read() != 0;
    if (peer.fenced) return events;
    if (in_peace)
        receiver.peer_left(peer.rank);
    else
        receiver.peer_failed(peer.rank, cause);
    return events + 1;
}

void ShmTransport::forget(Seat rank) {
    Peer* const peer = find(rank);
    if (peer == nullptr) return;
    peer->gone = true;
    std::erase(watched_, peer->index);
    if (sleep_.watched == peer->index) {
        sleep_.watched = kNobody;
        if (sleep_.process >= 0) close(std::exchange(sleep_.process, -1));
    }
    peer->segment.mailroom = shm::Mapping();
    peer_of_rank_[rank.value] = kNobody;
    peer->may_be_on_the_next = peer->may_be_on_boards;
    forgotten_.push_back(peer->index);
    if (forgotten_.size() > own_.layout().inboxes)
        peers_[forgotten_[forgotten_.size() - own_.layout().inboxes - 1]]->may_be_on_the_next = false;
    give_back_what_was_forgotten();
}

// Boards of groups that had it, or will have, read what it has published, and what was kept of its payloads is in its inbox.
void ShmTransport::give_back_what_was_forgotten() {
    std::erase_if(forgotten_, [this](std::uint32_t index) {
        Peer& peer = *peers_[index];
        if (!peer.gave_inbox_back) give_inbox_back(peer);
        const bool is_read = peer.may_be_on_the_next || is_on_a_board(peer);
        if (peer.segment.board && !is_read) peer.segment.board = shm::Mapping();
        if (peer.segment.board || !peer.gave_inbox_back) return false;
        unused_.push_back(index);
        return true;
    });
}

bool ShmTransport::is_on_a_board(const Peer& peer) const {
    for (std::uint32_t panel = 0; panel < kPanels; ++panel) {
        const bool is_open = boards_[panel] != nullptr && ((closed_ | clean_) & (1U << panel)) == 0;
        if (is_open && boards_[panel]->refers_to(peer.segment.board.base())) return true;
    }
    return false;
}

// One that is only taken for dead, or is just dying, may still write there. It may also have claimed one and never used it.
void ShmTransport::give_inbox_back(Peer& peer) {
    if (peer.inbox.holds()) return;
    own_.open_reserve();
    const ProcessState state = process_state(peer.address.pid, peer.address.start_time);
    own_.close_reserve();
    if (state != ProcessState::gone) return;
    for (std::uint32_t inbox = 0; inbox < own_.layout().inboxes; ++inbox) {
        if (claim(inbox).holder.get() != peer.address.nonce) continue;
        peer_of_inbox_[inbox] = kNobody;
        pending_[inbox / 64] &= ~(std::uint64_t{1} << (inbox % 64));
        unknown_[inbox / 64] &= ~(std::uint64_t{1} << (inbox % 64));
        own_.clear_inbox(inbox);
        claim(inbox).ready.publish(0);
        claim(inbox).holder.set(0);
    }
    peer.gave_inbox_back = true;
}

void ShmTransport::fence(Seat rank) {
    Peer* const peer = find(rank);
    if (peer == nullptr) return;
    peer->fenced = true;
    if (!peer->segment.mailroom) return;
    auto& mail = shared::at<shm::Mailroom>(peer->segment.mailroom.base());
    mail.fencers[mail.fences.add() % shm::kMaxLocal].publish(own_.header().nonce);
    mail.is_fenced.publish(1);
    // A rank that looks at its own word after it has published something, and finds nothing there, is seen to have
    // published it by every rank that looks for it after this line: PublishedAgreement rests on that.
    shared::ProcessMemory::order_all();
}

// Another process may have its number by now.
ShmTransport::Peer* ShmTransport::find_by_nonce(std::uint64_t nonce) const {
    const auto it = std::ranges::find_if(
        peers_, [nonce](const auto& peer) { return peer != nullptr && peer->address.nonce == nonce; });
    return it == peers_.end() ? nullptr : it->get();
}

// All of them, not the first alone: a group of this rank need not have that one as a member.
std::size_t ShmTransport::tell_who_fenced(Receiver& receiver) {
    shm::Mailroom& mail = mailroom();
    const std::uint32_t fences = std::min(mail.fences.value(), shm::kMaxLocal);
    std::size_t events = 0;
    for (std::uint32_t place = 0; place < fences; ++place) {
        const std::uint64_t fencer = mail.fencers[place].read();
        if (fencer == 0) continue;  // told, or about to be written
        Peer* const peer = find_by_nonce(fencer);
        if (peer == nullptr) continue;  // its word stays, for it may be added yet
        mail.fencers[place].publish(0);
        peer->fences_us = true;
        if (find(peer->rank) != peer) continue;
        receiver.fenced(peer->rank);
        ++events;
    }
    return events;
}

bool ShmTransport::is_fenced_on(const shm::ShmBoard& board) const {
    const auto is_member = [&board](const Peer& peer) { return board.refers_to(peer.segment.board.base()); };
    if (std::ranges::any_of(peers_, [&](const auto& peer) { return peer && peer->fences_us && is_member(*peer); }))
        return true;
    const shm::Mailroom& mail = mailroom();
    const std::uint32_t fences = std::min(mail.fences.value(), shm::kMaxLocal);
    for (std::uint32_t place = 0; place < fences; ++place) {
        const std::uint64_t fencer = mail.fencers[place].read();
        const Peer* const peer = fencer == 0 ? nullptr : find_by_nonce(fencer);
        if (peer != nullptr && is_member(*peer)) return true;
    }
    return false;
}

}  // namespace coppice::transport
