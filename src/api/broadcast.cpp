#include "api/api.hpp"
#include "api/traced.hpp"
#include "engine/collectives/broadcast/at_once.hpp"

using namespace coppice;

namespace {

engine::BroadcastCall call_of(void* buffer, size_t bytes, uint32_t root, bool view) {
    return {.buffer = static_cast<std::byte*>(buffer), .bytes = bytes, .root = Rank(root), .view = view};
}

coppice_status_t start_nb(coppice_group_t* group, const engine::BroadcastCall& call, coppice_request_t** request) {
    const engine::Context::Guard guard(*group->context);
    engine::Group& inner = *group->engine;
    const std::uint64_t began_ns = api::trace_time(*group->context);
    auto started = inner.start_pooled([&](engine::Request& place) -> Result<void> {
        if (inner.broadcasts().at_once(call, place)) return {};
        group->context->progress(inner);
        return inner.broadcasts().start(call, place);
    });
    if (!started) return api::remember(std::move(started.error()));
    api::trace_begin(*group->context, **started, began_ns);
    *request = api::handle_of(*started);
    return COPPICE_OK;
}

// How long a rank that has a large payload waits for others to ask for the next chunk of it. Behind that its progress thread serves them,
// which takes over some ticks later than this.
constexpr std::uint64_t kLongestSilenceNs = 200'000;

// A rank from which others take a large payload stays as long as they do. Within a Visit.
void serve(const coppice_group_t& handle, Sequence broadcast, Deadline& deadline, const engine::Awaited& awaited) {
    engine::Context& context = *handle.context;
    engine::Group& group = *handle.engine;
    const engine::Payloads& payloads = group.payloads();
    std::uint64_t sent = 0;
    const auto is_over = [&] { return !payloads.is_wanted(broadcast) || payloads.counts().sent != sent; };
    while (!deadline.passed()) {
        {
            const engine::Context::Turn turn(context);
            if (!payloads.is_wanted(broadcast)) return;
            sent = payloads.counts().sent;
        }
        Deadline silence(context.clock(), kLongestSilenceNs);
        if (context.wait(group, silence, is_over, awaited)) continue;
        if (context.is_attended()) context.watch_closely();
        return;
    }
}

// Within a Visit.
coppice_status_t wait_for_broadcast(const coppice_group_t& handle, const engine::BroadcastCall& call, size_t* received,
                                    uint64_t timeout_ns, api::TracedCall* traced) {
    engine::Context& context = *handle.context;
    engine::Group& group = *handle.engine;
    Deadline deadline(context.clock(), timeout_ns);
    engine::Request request;
    request.group = &group;
    // Whatever happens, nothing refers to `request` behind this frame.
    const api::GiveUp give_up(context, group, request);
    std::optional<Error> refused;
    const auto start = [&] {
        auto started = group.broadcasts().start(call, request);
        if (!started) refused = std::move(started.error());
    };
    bool tried = false;
    bool may_be_wanted = false;
    const auto is_over = [&] {
        if (!tried) {
            if (!group.broadcasts().has_room(call.root, call.bytes)) return false;
            tried = true;
            start();
        }
        if (!refused && !group.peek(request)) return false;
        may_be_wanted = !group.payloads().none();
        return true;
    };
    const engine::Awaited awaited{.kind = status::Kind::broadcast, .request = &request, .root = call.root};
    if (!context.wait(group, deadline, is_over, awaited)) {
        const engine::Context::Turn turn(context);
        if (!tried) start();  // at the deadline: for the sentence that says who holds the window up
        if (!refused && request.state == engine::RequestState::waiting) {
            if (traced != nullptr) traced->is(request);
            return api::remember(COPPICE_ERR_TIMEOUT, api::in_vain(group, request, timeout_ns));
        }
    }
    if (traced != nullptr) traced->is(request);
    if (refused) return api::remember(std::move(*refused));
    if (may_be_wanted && request.status == COPPICE_OK) [[unlikely]]
        serve(handle, request.sequence, deadline, awaited);
    return api::outcome(request, received);
}

// Within a Visit. Not inline: what it keeps on the stack costs each call that contains it.
[[gnu::noinline]] coppice_status_t broadcast_and_wait(const coppice_group_t& handle, const engine::BroadcastCall& call,
                                                      size_t* received, uint64_t timeout_ns) {
    const trace::Operation operation = api::named(handle, status::Kind::broadcast);
    COPPICE_PROBE(4, call__begin, static_cast<int>(operation.kind), operation.token, call.root.value, call.bytes);
    const coppice_status_t status = wait_for_broadcast(handle, call, received, timeout_ns, nullptr);
    COPPICE_PROBE(4, call__end, static_cast<int>(operation.kind), operation.token,
                  handle.engine->broadcasts().next().value - 1, static_cast<int>(status));
    return status;
}

// Within a Visit. Where there is a trace, the shortcut has no way. What this is given is in registers.
[[gnu::noinline]] coppice_status_t broadcast_traced(const coppice_group_t& handle, void* buffer, size_t bytes,
                                                    uint32_t root, size_t* received, uint64_t timeout_ns) {
    engine::BroadcastCall call = call_of(buffer, bytes, root, false);
    call.blocking = true;
    engine::Context& context = *handle.context;
    trace::Operation operation = api::named(handle, status::Kind::broadcast);
    operation.number = handle.engine->broadcasts().next().value;
    operation.root = root;
    api::TracedCall traced(context, operation, bytes);
    return traced.ended(wait_for_broadcast(handle, call, received, timeout_ns, &traced));
}

}  // namespace

extern "C" {

coppice_status_t coppice_broadcast(coppice_group_t* group, void* buffer, size_t bytes, uint32_t root, size_t* received,
                                   uint64_t timeout_ns) {
    if (!api::is_group(group)) return api::no_group("coppice_broadcast", group);
    return api::guarded([&] {
        engine::Context::FirstTurn turn(*group->context);
        if (group->engine->broadcasts().at_once(static_cast<std::byte*>(buffer), bytes, Rank(root), received))
            return COPPICE_OK;
        turn.end();
        if (group->context->trace() != nullptr) [[unlikely]]
            return broadcast_traced(*group, buffer, bytes, root, received, timeout_ns);
        engine::BroadcastCall call = call_of(buffer, bytes, root, false);
        call.blocking = true;
        return broadcast_and_wait(*group, call, received, timeout_ns);
    });
}

coppice_status_t coppice_broadcast_nb(coppice_group_t* group, void* buffer, size_t bytes, uint32_t root,
                                      coppice_request_t** request) {
    if (!api::is_group(group)) return api::no_group("coppice_broadcast_nb", group);
    if (request == nullptr) return api::null_argument("coppice_broadcast_nb", "request");
    *request = nullptr;
    return api::guarded([&] { return start_nb(group, call_of(buffer, bytes, root, false), request); });
}

coppice_status_t coppice_broadcast_view_nb(coppice_group_t* group, const void* payload, size_t bytes, uint32_t root,
                                           coppice_request_t** request) {
    if (!api::is_group(group)) return api::no_group("coppice_broadcast_view_nb", group);
    if (request == nullptr) return api::null_argument("coppice_broadcast_view_nb", "request");
    *request = nullptr;
    // The engine only ever reads the payload of a root.
    return api::guarded(
        [&] { return start_nb(group, call_of(const_cast<void*>(payload), bytes, root, true), request); });
}

coppice_status_t coppice_request_test(coppice_request_t* request, size_t* received) {
    if (request == nullptr) return api::null_argument("coppice_request_test", "request");
    return api::guarded([&] {
        engine::Request* const known = api::request_of(request);
        if (known == nullptr) return api::no_request("coppice_request_test", request);
        engine::Request& inner = *known;
        const engine::Context::Guard guard(inner.group->context());
        if (inner.state == engine::RequestState::waiting && !inner.group->peek(inner))
            inner.group->context().progress(*inner.group);
        if (inner.state == engine::RequestState::waiting) return COPPICE_IN_PROGRESS;
        return api::outcome(inner, received);
    });
}

coppice_status_t coppice_request_wait(coppice_request_t* request, size_t* received, uint64_t timeout_ns) {
    if (request == nullptr) return api::null_argument("coppice_request_wait", "request");
    return api::guarded([&] {
        engine::Request* const known = api::request_of(request);
        if (known == nullptr) return api::no_request("coppice_request_wait", request);
        engine::Request& inner = *known;
        engine::Group& group = *inner.group;
        engine::Context& context = group.context();
        const engine::Context::Visit visit(context);
        api::TracedCall traced(context, "wait", engine::traced(inner, group.core().around().trace().name),
                               inner.capacity);
        Deadline deadline(context.clock(), timeout_ns);
        if (!context.wait(group, deadline, [&] { return group.peek(inner); }, {.request = &inner, .returns = true})) {
            const engine::Context::Turn turn(context);
            if (inner.state == engine::RequestState::waiting) {
                return traced.ended(api::remember(COPPICE_ERR_TIMEOUT, api::in_vain(group, inner, timeout_ns)));
            }
        }
        return traced.ended(api::outcome(inner, received));
    });
}

coppice_status_t coppice_request_view(const coppice_request_t* request, const void** payload, size_t* bytes) {
    if (request == nullptr) return api::null_argument("coppice_request_view", "request");
    if (payload == nullptr) return api::null_argument("coppice_request_view", "payload");
    if (bytes == nullptr) return api::null_argument("coppice_request_view", "bytes");
    return api::guarded([&] {
        const engine::Request* const known = api::request_of(request);
        if (known == nullptr) return api::no_request("coppice_request_view", request);
        const engine::Request& inner = *known;
        const engine::Context::Guard guard(inner.group->context());
        if (!inner.view) {
            return api::remember(COPPICE_ERR_INVALID_ARGUMENT,
                                 "coppice_request_view: the request delivers into a buffer; start it with "
                                 "coppice_broadcast_view_nb");
        }
        if (inner.state != engine::RequestState::done || inner.status != COPPICE_OK) {
            inner.group->context().glance();
            return api::remember(COPPICE_ERR_INVALID_ARGUMENT,
                                 "coppice_request_view: the request has not ended well (yet)");
        }
        if (inner.group->core().life().taken_for_dead()) {
            return api::remember(
                COPPICE_ERR_FENCED,
                "coppice_request_view: the others take this rank for dead, and its view's memory may be in use "
                "for later broadcasts");
        }
        *payload = inner.payload;
        *bytes = inner.received;
        return COPPICE_OK;
    });
}

coppice_status_t coppice_request_free(coppice_request_t* request) {
    if (request == nullptr) return COPPICE_OK;
    return api::guarded([&] {
        engine::Request* const known = api::request_of(request);
        if (known == nullptr) return api::no_request("coppice_request_free", request);
        engine::Request& inner = *known;
        const engine::Context::Guard guard(inner.group->context());
        inner.group->finish(inner);
        return COPPICE_OK;
    });
}

}  // extern "C"
