#include "api/api.hpp"
#include "api/structures.hpp"
#include "api/traced.hpp"

using namespace coppice;

static_assert(COPPICE_MAX_AGREED == protocol::AgreementPlan::kMaxValue);

namespace {

std::optional<protocol::Operator> operator_of(const coppice_agree_options_t& options) {
    switch (api::number_of(options.operation)) {
        case COPPICE_AND:
            return protocol::Operator::bit_and;
        case COPPICE_OR:
            return protocol::Operator::bit_or;
        case COPPICE_MIN:
            return protocol::Operator::min;
        case COPPICE_MAX:
            return protocol::Operator::max;
        case COPPICE_COMBINE:
            return protocol::Operator::user;
        default:
            return std::nullopt;
    }
}

std::optional<protocol::Element> element_of(const coppice_agree_options_t& options) {
    switch (api::number_of(options.type)) {
        case COPPICE_UINT8:
            return protocol::Element::u8;
        case COPPICE_UINT16:
            return protocol::Element::u16;
        case COPPICE_UINT32:
            return protocol::Element::u32;
        case COPPICE_UINT64:
            return protocol::Element::u64;
        case COPPICE_INT8:
            return protocol::Element::i8;
        case COPPICE_INT16:
            return protocol::Element::i16;
        case COPPICE_INT32:
            return protocol::Element::i32;
        case COPPICE_INT64:
            return protocol::Element::i64;
        default:
            return std::nullopt;
    }
}

Result<engine::AgreementCall> call_of(const char* name, void* value, size_t bytes,
                                      const coppice_agree_options_t* options) {
    const auto given = api::options_given<coppice_agree_options_t>(
        options, COPPICE_AGREE_OPTIONS_INIT, COPPICE_SIZE_THROUGH(coppice_agree_options_t, combine_argument), name,
        "COPPICE_AGREE_OPTIONS_INIT");
    if (!given) return tl::unexpected(given.error());
    engine::AgreementCall call{.operation = {}, .value = static_cast<std::byte*>(value), .bytes = bytes};
    const auto op = operator_of(*given);
    if (!op) {
        return fail(COPPICE_ERR_INVALID_ARGUMENT, "{}: options.operation is no coppice_operation_t: {}", name,
                    api::number_of(given->operation));
    }
    call.operation.op = *op;
    if (*op == protocol::Operator::min || *op == protocol::Operator::max) {
        const auto element = element_of(*given);
        if (!element) {
            return fail(COPPICE_ERR_INVALID_ARGUMENT, "{}: options.type is no coppice_type_t: {}", name,
                        api::number_of(given->type));
        }
        call.operation.element = *element;
    } else if (*op == protocol::Operator::user) {
        call.combine = given->combine;
        call.combine_argument = given->combine_argument;
    }
    return call;
}

// `start` begins an agreement, or a barrier, which takes the place of one: there may be none for a while.
template <class Start>
coppice_status_t wait_for_end(coppice_group_t* group, status::Kind kind, uint64_t timeout_ns, Start&& start) {
    engine::Context& context = *group->context;
    engine::Group& inner = *group->engine;
    const engine::Context::Visit visit(context);
    api::TracedCall traced(context, api::named(*group, kind));
    Deadline deadline(context.clock(), timeout_ns);
    engine::Request request;
    request.group = &inner;
    const api::GiveUp give_up(context, inner, request);
    std::optional<Error> refused;
    bool tried = false;
    const auto try_it = [&] {
        tried = true;
        if (auto started = start(request); !started) refused = std::move(started.error());
    };
    const auto is_over = [&] {
        if (!tried && !inner.agreement().has_room()) return false;
        if (!tried) try_it();
        return refused.has_value() || inner.peek(request);
    };
    if (!context.wait(inner, deadline, is_over, {.kind = kind, .request = &request})) {
        const engine::Context::Turn turn(context);
        if (!tried) try_it();  // at the deadline: for the sentence that says who holds the others up
        if (!refused && request.state == engine::RequestState::waiting) {
            traced.is(request);
            return traced.ended(api::remember(COPPICE_ERR_TIMEOUT, api::in_vain(inner, request, timeout_ns)));
        }
    }
    traced.is(request);
    if (refused) return traced.ended(api::remember(std::move(*refused)));
    return traced.ended(api::outcome(request, nullptr));
}

// The same without waiting.
template <class Start>
coppice_status_t start_request(coppice_group_t* group, coppice_request_t** request, Start&& start) {
    const engine::Context::Guard guard(*group->context);
    group->context->progress(*group->engine);
    const std::uint64_t began_ns = api::trace_time(*group->context);
    auto started = group->engine->start_pooled(start);
    if (!started) return api::remember(std::move(started.error()));
    api::trace_begin(*group->context, **started, began_ns);
    *request = api::handle_of(*started);
    return COPPICE_OK;
}

void copy_ranks(const protocol::FailedSet* failed, uint32_t* ranks, size_t capacity, size_t* count) {
    *count = failed == nullptr ? 0 : failed->count();
    if (failed == nullptr) return;
    size_t at = 0;
    for (const protocol::FailedSet::Interval& interval : failed->intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last && at < capacity; ++rank)
            ranks[at++] = rank;
    }
}

}  // namespace

extern "C" {

coppice_status_t coppice_agree(coppice_group_t* group, void* value, size_t bytes,
                               const coppice_agree_options_t* options, uint64_t timeout_ns) {
    if (!api::is_group(group)) return api::no_group("coppice_agree", group);
    return api::guarded([&] {
        const auto call = call_of("coppice_agree", value, bytes, options);
        if (!call) return api::remember(call.error());
        return wait_for_end(group, status::Kind::agreement, timeout_ns,
                            [&](engine::Request& request) { return group->engine->agreement().start(*call, request); });
    });
}

coppice_status_t coppice_agree_nb(coppice_group_t* group, void* value, size_t bytes,
                                  const coppice_agree_options_t* options, coppice_request_t** request) {
    if (!api::is_group(group)) return api::no_group("coppice_agree_nb", group);
    if (request == nullptr) return api::null_argument("coppice_agree_nb", "request");
    *request = nullptr;
    return api::guarded([&] {
        const auto call = call_of("coppice_agree_nb", value, bytes, options);
        if (!call) return api::remember(call.error());
        return start_request(group, request,
                             [&](engine::Request& place) { return group->engine->agreement().start(*call, place); });
    });
}

coppice_status_t coppice_barrier(coppice_group_t* group, uint64_t timeout_ns) {
    if (!api::is_group(group)) return api::no_group("coppice_barrier", group);
    return api::guarded([&] {
        return wait_for_end(group, status::Kind::barrier, timeout_ns,
                            [&](engine::Request& request) { return group->engine->barrier().start(request); });
    });
}

coppice_status_t coppice_barrier_nb(coppice_group_t* group, coppice_request_t** request) {
    if (!api::is_group(group)) return api::no_group("coppice_barrier_nb", group);
    if (request == nullptr) return api::null_argument("coppice_barrier_nb", "request");
    *request = nullptr;
    return api::guarded([&] {
        return start_request(group, request,
                             [&](engine::Request& place) { return group->engine->barrier().start(place); });
    });
}

coppice_status_t coppice_group_agreed(const coppice_group_t* group, uint32_t* ranks, size_t capacity, size_t* count) {
    if (!api::is_group(group)) return api::no_group("coppice_group_agreed", group);
    if (count == nullptr) return api::null_argument("coppice_group_agreed", "count");
    if (ranks == nullptr && capacity > 0) return api::null_argument("coppice_group_agreed", "ranks");
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        copy_ranks(group->engine->agreement().last_agreed(), ranks, capacity, count);
        api::move_on(group);
        return COPPICE_OK;
    });
}

coppice_status_t coppice_request_agreed(const coppice_request_t* request, uint32_t* ranks, size_t capacity,
                                        size_t* count) {
    if (request == nullptr) return api::null_argument("coppice_request_agreed", "request");
    if (count == nullptr) return api::null_argument("coppice_request_agreed", "count");
    if (ranks == nullptr && capacity > 0) return api::null_argument("coppice_request_agreed", "ranks");
    return api::guarded([&] {
        const engine::Request* const known = api::request_of(request);
        if (known == nullptr) return api::no_request("coppice_request_agreed", request);
        const engine::Request& inner = *known;
        const engine::Context::Guard guard(inner.group->context());
        if (inner.state != engine::RequestState::done || !inner.agreed) {
            inner.group->context().glance();
            return api::remember(COPPICE_ERR_INVALID_ARGUMENT,
                                 "coppice_request_agreed: the request is a broadcast, or has not ended (well)");
        }
        copy_ranks(inner.agreed.get(), ranks, capacity, count);
        return COPPICE_OK;
    });
}

coppice_status_t coppice_group_ack_failed(coppice_group_t* group, const uint32_t* ranks, size_t count) {
    if (!api::is_group(group)) return api::no_group("coppice_group_ack_failed", group);
    if (ranks == nullptr && count > 0) return api::null_argument("coppice_group_ack_failed", "ranks");
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        if (ranks == nullptr) {
            group->engine->agreement().acknowledge_failures();
            api::move_on(group);
            return COPPICE_OK;
        }
        auto done = group->engine->agreement().acknowledge_failures(std::span(ranks, count));
        api::move_on(group);
        return done ? COPPICE_OK : api::remember(std::move(done.error()));
    });
}

}  // extern "C"
