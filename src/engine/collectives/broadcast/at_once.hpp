// The shortcut of a call that need not wait. That is nearly every call of a root, and every call of a rank that comes
// later than the payload. There is one for groups all of whose ranks publish on one host, and one for groups where nobody
// publishes and each rank's messages are known beforehand (at_once.cpp).
//
// A broadcast that is published needs no slot, and of a blocking call no request: it begins and ends within this function, and what a
// slot tells of an ended broadcast is that its place is free. The slot keeps what the broadcast W before it has left there, which says
// the same.
// All else is as start() and complete() leave it: the line, the roots noted, and the counts of what was started and consumed.
// What is new is looked at as often as start() does it, and at once where this rank takes part in nothing any more
// (next_look_). What can't end here, because it waits, fails or is a mistake of the caller's, is start()'s; nothing has been
// begun then.
//
// In a header so that it becomes a part of the call.
#pragma once

#include "engine/collectives/broadcast/broadcasts.hpp"

namespace coppice::engine {

inline bool Broadcasts::at_once(std::byte* buffer, std::size_t bytes, Rank root, std::size_t* received) {
    const Sequence sequence = window_.next();
    if (sequence >= next_look_ && !look_for_news()) [[unlikely]]
        return false;
    // With all consumed there is no request that waits and no view that is held.
    if (!window_.all_consumed() || (buffer == nullptr && bytes > 0)) return false;
    if (!publishing_) return at_once_by_messages(buffer, bytes, root, received);
    if (root == members_.self()) {
        const bool has_room = window_.has_known_room() || window_.may_start(root);
        if (!has_room || payloads_.goes_in_chunks(bytes)) return false;
        static_assert(LineKind::payload == LineKind{0});
        if (!board_->publish_unless_fenced(sequence, {buffer, bytes}, root)) return false;
        roots_.note(sequence);
        if (received != nullptr) *received = bytes;
    } else if (!board_->copy_published(root, sequence, {buffer, bytes}, received)) {
        return false;
    }
    window_.start_and_consume();
    return true;
}

inline bool Broadcasts::at_once(const BroadcastCall& call, Request& request) {
    std::size_t received = 0;
    if (!publishing_ || call.view || !at_once(call.buffer, call.bytes, call.root, &received)) return false;
    request.begin(this, Sequence(window_.next().value - 1));
    request.root = call.root;
    request.buffer = call.buffer;
    request.capacity = call.bytes;
    request.view = false;
    request.received = received;
    request.end(COPPICE_OK);
    return true;
}

}  // namespace coppice::engine
