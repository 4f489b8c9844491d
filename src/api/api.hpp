// What the files of the C API share: opaque types, the guard at the border, the last error.
//
// This room checks arguments and maps errors, nothing else.
#pragma once

#include <new>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/process.hpp"
#include "coppice/coppice.h"
#include "engine/context.hpp"
#include "engine/group.hpp"
#include "engine/requests/tracing.hpp"

struct coppice_context {
    std::unique_ptr<coppice::engine::Context> engine;
};

struct coppice_group {
    coppice::engine::Context* context = nullptr;  // null: destroyed
    std::unique_ptr<coppice::engine::Group> engine;
    coppice_failure_fn on_failure = nullptr;  // the caller's; handed on to groups that are shrunk from this one
    void* on_failure_argument = nullptr;
};

// A coppice_request_t is never defined: the pointer is the engine's own request.

namespace coppice::api {

// Remembers the sentence for coppice_last_error() of this thread and gives the status back.
coppice_status_t remember(coppice_status_t status, std::string message) noexcept;
inline coppice_status_t remember(Error error) noexcept {
    return remember(error.status, std::move(error.message));
}
inline coppice_status_t given(Result<void> outcome) noexcept {
    return outcome ? COPPICE_OK : remember(std::move(outcome.error()));
}
// Of a request that has waited until its deadline: for whom, and why they do not come. Under the guard.
std::string in_vain(const engine::Group& group, const engine::Request& request, std::uint64_t timeout_ns);
// remember(), of an agreement that met deaths; the sentence is made when somebody asks for it.
coppice_status_t remember_unacknowledged(const engine::Request& agreement) noexcept;
coppice_status_t null_argument(const char* call, const char* argument) noexcept;

// Not NULL, and not destroyed. The handles of groups that were destroyed are kept for a while, so that a caller that
// still uses one is told so.
inline bool is_group(const coppice_group* group) {
    return group != nullptr && group->context != nullptr;
}
// Every call on a group makes progress. Under the guard; nothing when a failure callback asks.
inline void move_on(const coppice_group* group) {
    if (!process::in_callback()) group->context->progress();
}
coppice_status_t no_group(const char* call, const coppice_group* group) noexcept;
void bury(coppice_group* group);

// Which callers may make a call.
enum class Callers : std::uint8_t { kAll, kNoCallbacks };
// Why this process or this thread may not: it was forked from one that uses Coppice, or is within a failure callback.
coppice_status_t refuse(Callers callers) noexcept;

// Runs a body so that no exception crosses the C border.
template <class Body>
coppice_status_t caught(Body&& body) noexcept {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return remember(COPPICE_ERR_NO_MEMORY, "out of memory");
    } catch (...) {
        return remember(COPPICE_ERR_INTERNAL, {});
    }
}

// Runs a call's body, if the call may be made at all.
template <Callers callers = Callers::kNoCallbacks, class Body>
coppice_status_t guarded(Body&& body) noexcept {
    if (process::is_unusual()) [[unlikely]] {
        if (const coppice_status_t refused = refuse(callers); refused != COPPICE_OK) return refused;
    }
    return caught(std::forward<Body>(body));
}

// A request as its caller knows it: its address, and in the bits that are free there which use of that place it is.
inline coppice_request_t* handle_of(engine::Request* request) {
    return reinterpret_cast<coppice_request_t*>(reinterpret_cast<std::uintptr_t>(request) | request->use);
}
// NULL: it was freed. (A place is used again; every 64th use looks alike. After the end of its group nothing can be told.)
inline engine::Request* request_of(const coppice_request_t* handle) {
    constexpr std::uintptr_t kUse = engine::Request::kUses - 1;
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    auto* const request = reinterpret_cast<engine::Request*>(number & ~kUse);
    return request->use == (number & kUse) ? request : nullptr;
}
coppice_status_t no_request(const char* call, const coppice_request_t* request) noexcept;

inline engine::Group::FailureCallback callback_of(coppice_group* handle) {
    if (handle->on_failure == nullptr) return nullptr;
    return [handle](Rank rank) {
        const process::InCallback within;
        handle->on_failure(handle->on_failure_argument, handle, rank.value);
    };
}

// A renewal has ended well: the caller gets the new group, once; none where it has left.
inline void hand_over(engine::Request& request) {
    if (request.shrunk == nullptr) return;
    auto successor = request.group->take_successor();
    if (!successor) {
        request.shrunk = nullptr;
        return;
    }
    auto handle = std::make_unique<coppice_group>();
    handle->context = request.old->context;
    handle->on_failure = request.old->on_failure;
    handle->on_failure_argument = request.old->on_failure_argument;
    handle->engine = std::move(successor);
    handle->engine->claim(callback_of(handle.get()));
    *request.shrunk = handle.release();
    request.shrunk = nullptr;
}

// How a request ended, for its caller.
inline coppice_status_t outcome(engine::Request& request, size_t* received) {
    if (received != nullptr) *received = request.received;
    if (request.traced) [[unlikely]] {
        const engine::Context::Guard guard(request.group->context());
        engine::trace_end(request);
    }
    if (request.agreed) {
        const engine::Context::Guard guard(request.group->context());
        request.group->agreement().note_agreed(request);
        if (request.status == COPPICE_OK) hand_over(request);
    }
    if (request.status == COPPICE_OK) return COPPICE_OK;
    const bool is_unsaid = request.message.empty();
    if (request.agreed && is_unsaid && request.status == COPPICE_ERR_PEER_FAILED)
        return remember_unacknowledged(request);
    return remember(request.status, request.message);
}

// A blocking call's request lives on its stack: whatever happens, nothing refers to it behind that frame. Within a Visit.
class GiveUp {
  public:
    GiveUp(engine::Context& context, engine::Group& group, engine::Request& request)
        : context_(context), group_(group), request_(request) {}
    ~GiveUp() {
        const engine::Context::Turn turn(context_);
        if (request_.state == engine::RequestState::waiting) group_.finish(request_);
    }
    GiveUp(const GiveUp&) = delete;
    GiveUp& operator=(const GiveUp&) = delete;

  private:
    engine::Context& context_;
    engine::Group& group_;
    engine::Request& request_;
};

}  // namespace coppice::api
