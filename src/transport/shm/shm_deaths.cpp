// The deaths of the shared-memory transport's peers: which have died, what is done about it, and which are taken for
// dead.
#include <algorithm>

#include "base/clock.hpp"
#include "transport/host.hpp"
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
            claim(inbox).rank == peer.rank.value && claimant(inbox) == &peer)
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

void ShmTransport::fence(Rank rank) {
    Peer* const peer = find(rank);
    if (peer == nullptr) return;
    peer->fenced = true;
    if (!peer->segment.mailroom) return;
    auto& mail = shared::at<shm::Mailroom>(peer->segment.mailroom.base());
    mail.fenced_by.publish(self_.value + 1);
    // A rank that looks at its own word after it has published something, and finds nothing there, is seen to have
    // published it by every rank that looks for it after this line: PublishedAgreement rests on that.
    shared::ProcessMemory::order_all();
}

}  // namespace coppice::transport
