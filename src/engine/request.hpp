// A broadcast, an agreement or a shrink as its caller sees it. Lives in the group's pool (non-blocking) or on the caller's stack (blocking).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "coppice/coppice.h"
#include "protocol/failed_set.hpp"
#include "topology/words.hpp"

namespace coppice::engine {

class Group;

enum class RequestKind : std::uint8_t { broadcast, agreement, shrink };
enum class RequestState : std::uint8_t { free, waiting, done };

struct alignas(64) Request {
    // How often this place was given back, modulo as many values as fit into the low bits of its address.
    static constexpr std::uint8_t kUses = 64;

    Group* group = nullptr;
    Sequence sequence;
    Rank root;
    std::byte* buffer = nullptr;  // copy-into-buffer delivery; the root's payload before it is staged
    std::size_t capacity = 0;
    bool view = false;
    RequestKind kind = RequestKind::broadcast;
    RequestState state = RequestState::free;
    std::uint8_t use = 0;
    coppice_status_t status = COPPICE_IN_PROGRESS;
    const std::byte* payload = nullptr;  // view delivery: where it landed
    std::size_t received = 0;
    std::string message;  // what went wrong; empty for COPPICE_ERR_PEER_FAILED of an agreement: not_acknowledged()
    std::shared_ptr<const protocol::FailedSet>
        agreed;                          // an agreement (or shrink) that has ended: whom all hold to be dead
    coppice_group_t* old = nullptr;      // a shrink: the group as the caller knows it, and
    coppice_group_t** shrunk = nullptr;  // where the new one goes
};

static_assert(alignof(Request) >= Request::kUses);

}  // namespace coppice::engine
