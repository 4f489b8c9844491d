// What the shared-memory transport knows of one peer. Its own, for the files that it is made of.
#pragma once

#include <cstdint>
#include <utility>

#include "transport/shm/link.hpp"
#include "transport/shm/segment.hpp"
#include "transport/shm/shm_transport.hpp"

namespace coppice::transport {

inline constexpr std::uint32_t kNobody = UINT32_MAX;
inline constexpr std::size_t kMessagesPerVisit = 64;  // so that one busy peer does not starve the others

struct ShmTransport::Peer {
    Peer(std::uint32_t i, Seat r, shm::Address a, const shm::InboxShape& shape)
        : index(i), rank(r), address(std::move(a)), outbox(shape), inbox(shape) {}

    // Nothing goes there.
    bool is_closed() const { return gone || fenced || lost; }

    const std::uint32_t index;
    const Seat rank;
    const shm::Address address;
    shm::PeerSegment segment;
    shm::PeerBulk bulk;
    shm::Outbox outbox;
    shm::Inbox inbox;
    std::uint32_t claimed = kNobody;  // the inbox at the peer that is ours
    bool shares_cores = false;        // has none but those of this rank
    bool watched = false;
    bool lost = false;  // can't be mapped, ever: poll() reports it
    FailureCause lost_cause = FailureCause::process_gone;
    bool gone = false;  // its end was dealt with: nothing in, nothing out
    bool fenced = false;
    std::uint32_t incarnation = 0;
    bool may_be_on_boards = false;  // it was sealed, or admitted
    bool fences_us = false;         // it takes this rank for dead
    // --- of one that was forgotten
    bool gave_inbox_back = false;
    bool may_be_on_the_next = false;  // board that is opened
};

}  // namespace coppice::transport
