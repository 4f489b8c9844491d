// What every component of a group is to the group core: broadcast, agreement, shrink, revocation, and those to come.
//
// A component owns the state that only it touches, and the channels on which it talks to its like at other ranks. The core
// hands it messages and changes of membership, and calls it when there may be progress. The components of a group are called
// in the order in which the group lists them.
//
// One thread at a time. Nothing here may call functions of the application unless Surroundings::may_call_back().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/error.hpp"
#include "base/words.hpp"
#include "coppice/coppice.h"
#include "engine/wire/wire.hpp"
#include "protocol/failed_set.hpp"
#include "status/page.hpp"
#include "transport/transport.hpp"

namespace coppice::engine {

struct Request;

// A member has failed. Members knows of it already.
struct Death {
    Rank rank;
    Node node;          // where it ran
    bool was_leader;    // of that node
    bool is_local;      // that is this rank's node
    bool node_is_gone;  // no rank of it is alive
};

class Collective {
  public:
    Collective() = default;
    Collective(const Collective&) = delete;
    Collective& operator=(const Collective&) = delete;

    // --- messages
    // On one of its channels, from a live member; `header` has passed decode(). The payload is valid during the call, or,
    // when this returns true, until the buffer is released to the transport. Ill-formed messages are told to
    // News::note_garbage(). On a channel that is frequent, and has short headers, nothing is thrown: what there is no memory for is told to
    // News::note_refused().
    virtual bool message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                         transport::Buffer buffer) = 0;

    // Where the payload of such a message is to be, of which `here` bytes are there (transport::Receiver::place). Nothing but the
    // header has been looked at.
    virtual std::byte* place(Rank /*from*/, const WireHeader& /*header*/, std::size_t /*bytes*/, std::size_t /*here*/) {
        return nullptr;
    }

    // --- membership
    // Somebody is about to be taken for dead, or has left: what it said last on the host's board is to be read now.
    virtual void hear_last_words() {}
    // Several members are about to be told of as failed, one by one: what they change together may be looked at once.
    virtual void members_failed(const protocol::FailedSet& /*news*/) {}
    virtual void member_failed(const Death& /*death*/) {}
    virtual void member_left(Rank /*rank*/) {}

    // --- progress
    // Makes all progress that can be made now. What changes rarely is looked at only when `thorough`.
    virtual void progress(bool thorough) = 0;
    // After that, when thorough: what the members of this host have written down, and what is told when everything else is done.
    virtual void keep_house() {}
    // The group has been revoked, or this rank is fenced: what waits ends with this status, now.
    virtual void end_all(coppice_status_t /*status*/, const std::string& /*why*/) {}
    // In a revoked group only such components get messages, and are waited for when the caller leaves.
    virtual bool outlives_revocation() const { return false; }
    // Where this component has the group revoked because calls went wrong: what.
    virtual std::optional<Error> reason_to_revoke() { return std::nullopt; }
    // The rank is about to sleep: others may have to hear of something first.
    virtual void before_sleep() {}
    // Messages wait that a transport has not taken, or a machine that waits for nothing but time.
    virtual bool waits_for_room() const { return false; }
    // When progress() is wanted though nothing happens, on the context's clock.
    virtual std::uint64_t next_timer_ns() const { return UINT64_MAX; }

    // --- its requests
    // A cheap look whether the request has ended.
    virtual bool peek(Request& request) = 0;
    // The caller goes away: nothing refers to the request any more.
    virtual void finish(Request& request) = 0;
    // What a waiting request waits for, and which ranks: for people.
    virtual std::string waiting_for(const Request& request) const = 0;
    // The same for a status page (status/page.hpp), and what the request is.
    virtual status::Kind kind() const { return status::Kind::none; }
    virtual void show_waits(const Request& /*request*/, status::Waits& /*waits*/) const {}

    // --- the end
    // The caller leaves the group: true when no member needs this rank for it any more. Called again until it is.
    virtual bool drained() { return true; }
    // What drained() waits for, for people; empty when it does not.
    virtual std::string leaving_waits_for() const { return {}; }
    // This rank may have voted in it for a next view (COPPICE_QUORUM).
    virtual bool has_voted() const { return false; }
    // One of the ranks whose message drained() waits for.
    virtual std::optional<Rank> leaving_depends_on() const { return std::nullopt; }
    // Transports refer to none of its memory, and nobody could ask it anything any more.
    virtual bool quiet() const { return true; }
    // They are there for the last time: what they keep for this one is released, and what is open on them closed.
    virtual void transports_end() {}

  protected:
    ~Collective() = default;
};

}  // namespace coppice::engine
