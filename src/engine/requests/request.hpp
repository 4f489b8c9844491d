// What an operation is to its caller. Lives in the group's pool (non-blocking) or on the caller's stack (blocking).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/words.hpp"
#include "coppice/coppice.h"
#include "protocol/failed_set.hpp"

namespace coppice::engine {

class Collective;
class Group;
struct GroupTrace;

enum class RequestState : std::uint8_t { free, waiting, done };

struct alignas(64) Request {
    // How often this place was given back, modulo as many values as fit into the low bits of its address.
    static constexpr std::uint8_t kUses = 64;

    Group* group = nullptr;
    Collective* collective = nullptr;  // that ends it
    Sequence sequence;
    Rank root;
    std::byte* buffer = nullptr;  // copy-into-buffer delivery; the root's payload before it is staged
    std::size_t capacity = 0;
    bool view = false;
    RequestState state = RequestState::free;
    std::uint8_t use = 0;
    coppice_status_t status = COPPICE_IN_PROGRESS;
    const std::byte* payload = nullptr;  // view delivery: where it landed
    std::size_t received = 0;            // so far, of what goes in chunks
    // What went wrong. Empty when the sentence is made only on demand: not_acknowledged(), of what is `agreed`.
    std::string message;
    // An agreement (or shrink) that has ended: the ranks that all hold to be dead.
    std::shared_ptr<const protocol::FailedSet> agreed;
    const GroupTrace* traced = nullptr;  // non-blocking: that has its beginning, and not its end
    bool change_waits = false;           // an agreement: a change of members, as some rank knew
    // For the status page (observation.hpp). 0: not yet.
    struct Seen {
        std::uint64_t waiting_ns = 0;       // non-blocking: when it was first seen to wait
        std::uint64_t awaited_ns = 0;       // since when its caller waits for it, or waited last
        std::uint64_t last_awaited_ns = 0;  // until when, as far as that was seen
        bool may_come_back = false;         // its caller, whose wait has ended in vain
        bool as_awaited = false;            // what the page says
    } seen;
    coppice_group_t* old = nullptr;      // a shrink: the group as the caller knows it, and
    coppice_group_t** shrunk = nullptr;  // where the new one goes

    // It waits from now on; what it had as a result before is gone.
    void begin(Collective* of, Sequence number) {
        collective = of;
        sequence = number;
        state = RequestState::waiting;
        status = COPPICE_IN_PROGRESS;
        payload = nullptr;
        received = 0;
        change_waits = false;
        seen = {};
    }
    void end(coppice_status_t with, std::string why = {}) {
        status = with;
        message = std::move(why);
        state = RequestState::done;
    }
};

static_assert(alignof(Request) >= Request::kUses);

}  // namespace coppice::engine
