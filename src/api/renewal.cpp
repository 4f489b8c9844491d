// Groups that are made of others: shrinking, renewing, leaving; and revoking, which comes before.
#include "api/api.hpp"
#include "api/structures.hpp"
#include "api/traced.hpp"

using namespace coppice;

namespace {

// A shrink is a renewal without newcomers.
constexpr engine::RenewalOptions kAdmitsNobody{.bounds = protocol::Bounds{.least = 0, .most = 0}, .is_shrink = true};

template <class Renew>
coppice_status_t with_options(const char* call, const coppice_renew_options_t* options, Renew&& renew) {
    return api::caught([&] {
        const auto given = api::options_given<coppice_renew_options_t>(
            options, COPPICE_RENEW_OPTIONS_INIT, COPPICE_SIZE_THROUGH(coppice_renew_options_t, numbering), call,
            "COPPICE_RENEW_OPTIONS_INIT");
        if (!given) return api::remember(given.error());
        const auto numbering = api::number_of(given->numbering);
        const protocol::Bounds bounds{.least = given->least, .most = given->most == 0 ? UINT32_MAX : given->most};
        if (bounds.least > bounds.most) {
            return api::remember(COPPICE_ERR_INVALID_ARGUMENT, fmt::format("{}: at least {} members and at most {}",
                                                                           call, bounds.least, bounds.most));
        }
        if (numbering != COPPICE_NUMBERS_OF_THE_GONE && numbering != COPPICE_NUMBERS_LAST)
            return api::remember(COPPICE_ERR_INVALID_ARGUMENT, fmt::format("{}: {} is no numbering", call, numbering));
        engine::RenewalOptions asked{.bounds = {}, .newcomers_last = numbering == COPPICE_NUMBERS_LAST};
        if (options != nullptr) asked.bounds = bounds;
        return renew(asked);
    });
}

coppice_status_t renew(const char* call, const char* result, coppice_group_t* group,
                       const engine::RenewalOptions& asked, coppice_group_t** next, std::uint64_t timeout_ns) {
    if (!api::is_group(group)) return api::no_group(call, group);
    if (next == nullptr) return api::null_argument(call, result);
    *next = nullptr;
    return api::guarded([&] {
        engine::Context& context = *group->context;
        engine::Group& inner = *group->engine;
        const engine::Context::Visit visit(context);
        api::TracedCall traced(context, api::named(*group, status::Kind::renewal));
        Deadline deadline(context.clock(), timeout_ns);
        engine::Request request;
        request.group = &inner;
        request.old = group;
        request.shrunk = next;
        const api::GiveUp give_up(context, inner, request);
        {
            const engine::Context::Turn turn(context);
            if (auto started = inner.shrink().start(request, asked); !started)
                return traced.ended(api::remember(std::move(started.error())));
        }
        if (!context.wait(inner, deadline, [&] { return inner.peek(request); }, {.request = &request})) {
            const engine::Context::Turn turn(context);
            if (request.state == engine::RequestState::waiting) {
                return traced.ended(api::remember(COPPICE_ERR_TIMEOUT, api::in_vain(inner, request, timeout_ns)));
            }
        }
        return traced.ended(api::outcome(request, nullptr));
    });
}

coppice_status_t renew_nb(const char* call, const char* result, coppice_group_t* group,
                          const engine::RenewalOptions& asked, coppice_group_t** next, coppice_request_t** request) {
    if (!api::is_group(group)) return api::no_group(call, group);
    if (next == nullptr) return api::null_argument(call, result);
    if (request == nullptr) return api::null_argument(call, "request");
    *next = nullptr;
    *request = nullptr;
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        group->context->progress(*group->engine);
        engine::Group& inner = *group->engine;
        const std::uint64_t began_ns = api::trace_time(*group->context);
        auto started = inner.start_pooled([&](engine::Request& place) {
            place.old = group;
            place.shrunk = next;
            return inner.shrink().start(place, asked);
        });
        if (!started) return api::remember(std::move(started.error()));
        api::trace_begin(*group->context, **started, began_ns);
        *request = api::handle_of(*started);
        return COPPICE_OK;
    });
}

}  // namespace

extern "C" {

coppice_status_t coppice_group_revoke(coppice_group_t* group) {
    if (!api::is_group(group)) return api::no_group("coppice_group_revoke", group);
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        engine::Group& inner = *group->engine;
        inner.revocation().begin();
        inner.progress();
        return COPPICE_OK;
    });
}

coppice_status_t coppice_group_shrink(coppice_group_t* group, coppice_group_t** shrunk, uint64_t timeout_ns) {
    return renew("coppice_group_shrink", "shrunk", group, kAdmitsNobody, shrunk, timeout_ns);
}

coppice_status_t coppice_group_shrink_nb(coppice_group_t* group, coppice_group_t** shrunk,
                                         coppice_request_t** request) {
    return renew_nb("coppice_group_shrink_nb", "shrunk", group, kAdmitsNobody, shrunk, request);
}

coppice_status_t coppice_group_renew(coppice_group_t* group, const coppice_renew_options_t* options,
                                     coppice_group_t** next, uint64_t timeout_ns) {
    return with_options("coppice_group_renew", options, [&](const engine::RenewalOptions& asked) {
        return renew("coppice_group_renew", "next", group, asked, next, timeout_ns);
    });
}

coppice_status_t coppice_group_renew_nb(coppice_group_t* group, const coppice_renew_options_t* options,
                                        coppice_group_t** next, coppice_request_t** request) {
    return with_options("coppice_group_renew_nb", options, [&](const engine::RenewalOptions& asked) {
        return renew_nb("coppice_group_renew_nb", "next", group, asked, next, request);
    });
}

coppice_status_t coppice_group_leave(coppice_group_t* group) {
    if (!api::is_group(group)) return api::no_group("coppice_group_leave", group);
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        api::move_on(group);
        return api::given(group->engine->shrink().leave());
    });
}

}  // extern "C"
