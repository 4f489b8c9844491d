#include <algorithm>
#include <span>
#include <utility>

#include "api/api.hpp"
#include "api/structures.hpp"
#include "api/traced.hpp"
#include "bootstrap/choose.hpp"
#include "bootstrap/launcher_environment.hpp"
#include "bootstrap/witness_callback.hpp"
#include "engine/formation/formation.hpp"
#include "engine/joining/joining.hpp"

using namespace coppice;

namespace {

// The group's own settings: the context's, with what the options say.
Result<engine::Settings> group_settings(const engine::Context& context, const coppice_group_options_t& options) {
    engine::SettingTexts texts = context.texts();
    if (options.algorithm != nullptr) texts.override_with("COPPICE_ALGORITHM", options.algorithm);
    if (options.tree != nullptr) texts.override_with("COPPICE_TREE", options.tree);
    if (options.correction != nullptr) texts.override_with("COPPICE_CORRECTION", options.correction);
    if (options.hierarchy != nullptr) texts.override_with("COPPICE_HIERARCHY", options.hierarchy);
    if (options.agreement_tree != nullptr) texts.override_with("COPPICE_AGREEMENT_TREE", options.agreement_tree);
    if (options.switches != nullptr) texts.override_with("COPPICE_SWITCHES", options.switches);
    if (options.window != 0) texts.override_with("COPPICE_WINDOW", fmt::format("{}", options.window));
    auto settings = engine::parse(texts);
    if (settings && options.timeout_ns != 0) settings->start_timeout_ns = options.timeout_ns;
    if (settings && options.witness != nullptr) {
        const auto witness =
            api::options_given<coppice_witness_t>(options.witness, COPPICE_WITNESS_INIT, sizeof(coppice_witness_t),
                                                  "coppice_group_options_t.witness", "COPPICE_WITNESS_INIT");
        if (!witness) return tl::unexpected(witness.error());
        if (witness->tell == nullptr || witness->ended == nullptr)
            return fail(COPPICE_ERR_INVALID_ARGUMENT, "a witness needs the functions tell and ended");
        settings->witness = std::make_shared<bootstrap::WitnessCallback>(*witness);
    }
    return settings;
}

// Where coppice-run has started this process after the others.
Result<std::optional<bootstrap::LauncherEnvironment>> started_late(const coppice_group_options_t& options,
                                                                   const engine::Settings& settings) {
    std::optional<bootstrap::LauncherEnvironment> none;
    if (options.exchange != nullptr || options.ranks != nullptr) return none;
    const auto launcher = bootstrap::launcher_here(settings.bootstrap);
    if (!launcher || *launcher != "coppice-run") return none;  // choose() says what is wrong
    auto environment = bootstrap::read_launcher_environment();
    if (environment && *environment && !(*environment)->incarnation) return none;
    return environment;
}

coppice_status_t take(coppice_context_t* context, Result<std::unique_ptr<engine::Group>> made,
                      std::unique_ptr<coppice_group> handle, coppice_group_t** group) {
    if (!made) return api::remember(std::move(made.error()));
    const engine::Context::Guard guard(*context->engine);
    handle->engine = std::move(*made);
    context->engine->attach(*handle->engine);
    *group = handle.release();
    return COPPICE_OK;
}

coppice_status_t create(coppice_context_t* context, const coppice_group_options_t& options, coppice_group_t** group) {
    auto settings = group_settings(*context->engine, options);
    if (!settings) return api::remember(std::move(settings.error()));
    const std::uint64_t deadline = deadline_after(context->engine->clock(), settings->start_timeout_ns);
    auto handle = std::make_unique<coppice_group>();
    handle->context = context->engine.get();
    handle->on_failure = options.on_failure;
    handle->on_failure_argument = options.on_failure_argument;
    const engine::Context::Creation creation(*context->engine);  // for the status page
    if (auto late = started_late(options, *settings); !late) {
        return api::remember(std::move(late.error()));
    } else if (*late) {
        auto joined = engine::join_group(*context->engine, *settings, **late, api::callback_of(handle.get()),
                                         options.timeout_ns == 0 ? UINT64_MAX : deadline);
        return take(context, std::move(joined), std::move(handle), group);
    }
    auto exchange = bootstrap::choose(options.exchange, options.exchange_argument, Rank(options.rank), options.size,
                                      settings->bootstrap, deadline, {options.ranks, options.rank_count});
    if (!exchange) return api::remember(std::move(exchange.error()));

    auto formed = engine::form_group(*context->engine, *settings, **exchange, api::callback_of(handle.get()), deadline);
    return take(context, std::move(formed), std::move(handle), group);
}

coppice_status_t join(coppice_context_t* context, std::span<const std::byte> tickets,
                      const coppice_group_options_t& options, coppice_group_t** group, std::uint64_t timeout_ns) {
    auto settings = group_settings(*context->engine, options);
    if (!settings) return api::remember(std::move(settings.error()));
    if (context->engine->platform() != nullptr)
        return api::remember(COPPICE_ERR_CONFIG, "coppice_group_join: simulated processes have no door");
    auto handle = std::make_unique<coppice_group>();
    handle->context = context->engine.get();
    handle->on_failure = options.on_failure;
    handle->on_failure_argument = options.on_failure_argument;
    const engine::Context::Creation creation(*context->engine);
    auto joined = engine::join_group(*context->engine, *settings, tickets, api::callback_of(handle.get()),
                                     deadline_after(context->engine->clock(), timeout_ns));
    return take(context, std::move(joined), std::move(handle), group);
}

// -------------------------------------------------------------------------------------------------------- renewing ---

// A shrink is a renewal without newcomers.
constexpr engine::Bounds kAdmitsNobody{.least = 0, .most = 0};

template <class Renew>
coppice_status_t with_bounds(const char* call, const coppice_renew_options_t* options, Renew&& renew) {
    return api::caught([&] {
        const auto given = api::options_given<coppice_renew_options_t>(
            options, COPPICE_RENEW_OPTIONS_INIT, COPPICE_SIZE_THROUGH(coppice_renew_options_t, numbering), call,
            "COPPICE_RENEW_OPTIONS_INIT");
        if (!given) return api::remember(given.error());
        const auto numbering = api::number_of(given->numbering);
        const engine::Bounds bounds{.least = given->least,
                                    .most = given->most == 0 ? UINT32_MAX : given->most,
                                    .newcomers_last = numbering == COPPICE_NUMBERS_LAST};
        if (bounds.least > bounds.most) {
            return api::remember(COPPICE_ERR_INVALID_ARGUMENT, fmt::format("{}: at least {} members and at most {}",
                                                                           call, bounds.least, bounds.most));
        }
        if (numbering != COPPICE_NUMBERS_OF_THE_GONE && numbering != COPPICE_NUMBERS_LAST)
            return api::remember(COPPICE_ERR_INVALID_ARGUMENT, fmt::format("{}: {} is no numbering", call, numbering));
        return renew(bounds);
    });
}

coppice_status_t renew(const char* call, const char* result, coppice_group_t* group, const engine::Bounds& bounds,
                       coppice_group_t** next, std::uint64_t timeout_ns) {
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
            if (auto started = inner.shrink().start(request, bounds); !started)
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

coppice_status_t renew_nb(const char* call, const char* result, coppice_group_t* group, const engine::Bounds& bounds,
                          coppice_group_t** next, coppice_request_t** request) {
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
            return inner.shrink().start(place, bounds);
        });
        if (!started) return api::remember(std::move(started.error()));
        api::trace_begin(*group->context, **started, began_ns);
        *request = api::handle_of(*started);
        return COPPICE_OK;
    });
}

}  // namespace

extern "C" {

coppice_status_t coppice_group_create(coppice_context_t* context, const coppice_group_options_t* options,
                                      coppice_group_t** group) {
    if (context == nullptr) return api::null_argument("coppice_group_create", "context");
    if (group == nullptr) return api::null_argument("coppice_group_create", "group");
    *group = nullptr;
    return api::guarded([&] {
        const auto given = api::options_given<coppice_group_options_t>(
            options, COPPICE_GROUP_OPTIONS_INIT, COPPICE_SIZE_THROUGH(coppice_group_options_t, agreement_tree),
            "coppice_group_create", "COPPICE_GROUP_OPTIONS_INIT");
        if (!given) return api::remember(given.error());
        if ((given->ranks == nullptr) != (given->rank_count == 0)) {
            return api::remember(COPPICE_ERR_INVALID_ARGUMENT,
                                 "coppice_group_create: a list of ranks needs options.ranks and options.rank_count");
        }
        api::TracedCall traced(*context->engine, {.kind = status::Kind::creation});
        const coppice_status_t status = create(context, *given, group);
        if (*group != nullptr) traced.is(api::named(**group, status::Kind::creation));
        return traced.ended(status);
    });
}

coppice_status_t coppice_group_join(coppice_context_t* context, const void* ticket, size_t bytes,
                                    const coppice_group_options_t* options, coppice_group_t** group,
                                    uint64_t timeout_ns) {
    if (context == nullptr) return api::null_argument("coppice_group_join", "context");
    if (ticket == nullptr) return api::null_argument("coppice_group_join", "ticket");
    if (group == nullptr) return api::null_argument("coppice_group_join", "group");
    *group = nullptr;
    return api::guarded([&] {
        const auto given = api::options_given<coppice_group_options_t>(
            options, COPPICE_GROUP_OPTIONS_INIT, COPPICE_SIZE_THROUGH(coppice_group_options_t, agreement_tree),
            "coppice_group_join", "COPPICE_GROUP_OPTIONS_INIT");
        if (!given) return api::remember(given.error());
        api::TracedCall traced(*context->engine, {.kind = status::Kind::creation});
        const std::span<const std::byte> tickets(static_cast<const std::byte*>(ticket), bytes);
        const coppice_status_t status = join(context, tickets, *given, group, timeout_ns);
        if (*group != nullptr) traced.is(api::named(**group, status::Kind::creation));
        return traced.ended(status);
    });
}

coppice_status_t coppice_group_invite(coppice_group_t* group, uint32_t uses, uint64_t lifetime_ns, void* ticket,
                                      size_t* bytes) {
    if (!api::is_group(group)) return api::no_group("coppice_group_invite", group);
    if (bytes == nullptr) return api::null_argument("coppice_group_invite", "bytes");
    if (ticket == nullptr && *bytes > 0) return api::null_argument("coppice_group_invite", "ticket");
    if (uses == 0) return api::remember(COPPICE_ERR_INVALID_ARGUMENT, "coppice_group_invite: a ticket for 0 uses");
    if (lifetime_ns == 0) {
        return api::remember(COPPICE_ERR_INVALID_ARGUMENT, "coppice_group_invite: a ticket with a lifetime of 0 ns");
    }
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        api::move_on(group);
        const auto made = group->engine->shrink().invite(uses, lifetime_ns);
        if (!made) return api::remember(made.error());
        const std::size_t room = std::exchange(*bytes, made->size());
        if (room < made->size()) {
            return api::remember(
                COPPICE_ERR_TRUNCATED,
                fmt::format("coppice_group_invite: the ticket has {} bytes, and there is room for {}: give "
                            "COPPICE_TICKET_BYTES",
                            made->size(), room));
        }
        std::ranges::copy(*made, static_cast<std::byte*>(ticket));
        return COPPICE_OK;
    });
}

coppice_status_t coppice_group_destroy(coppice_group_t* group, uint64_t timeout_ns) {
    if (group == nullptr) return COPPICE_OK;
    if (!api::is_group(group)) return api::no_group("coppice_group_destroy", group);
    return api::guarded([&] {
        engine::Context& context = *group->context;
        engine::Group& inner = *group->engine;
        const engine::Context::Visit visit(context);
        {
            const engine::Context::Turn turn(context);
            if (inner.requests_in_use() > 0) {
                return api::remember(COPPICE_ERR_BUSY,
                                     fmt::format("coppice_group_destroy: {} requests are open: free them first",
                                                 inner.requests_in_use()));
            }
        }
        api::TracedCall traced(context, api::named(*group, status::Kind::leaving));
        Deadline deadline(context.clock(), timeout_ns);
        std::string holder;
        constexpr engine::Awaited kLeaving{.kind = status::Kind::leaving};
        const bool drained = timeout_ns != 0 && context.wait(
                                                    inner, deadline, [&] { return inner.drained(); }, kLeaving);
        if (drained) {
            context.wait(
                inner, deadline, [&] { return inner.depart(); }, kLeaving);
        } else {
            const engine::Context::Turn turn(context);
            holder = inner.leaving_waits_for();
            inner.abandon();
        }
        std::optional<Error> mismatch;
        {
            const engine::Context::Turn turn(context);
            mismatch = inner.broadcasts().several_roots();
            context.retire(std::move(group->engine));
        }
        api::bury(group);
        if (mismatch) return traced.ended(api::remember(std::move(*mismatch)));
        if (drained || timeout_ns == 0) return traced.ended(COPPICE_OK);
        return traced.ended(api::remember(COPPICE_ERR_TIMEOUT,
                                          fmt::format("coppice_group_destroy: left without the others: {}", holder)));
    });
}

coppice_status_t coppice_group_query(const coppice_group_t* group, coppice_group_info_t* info) {
    if (!api::is_group(group)) return api::no_group("coppice_group_query", group);
    if (info == nullptr) return api::null_argument("coppice_group_query", "info");
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        const engine::Group& inner = *group->engine;
        coppice_group_info_t all{};
        all.rank = inner.members().self().value;
        all.size = inner.members().ranks();
        all.hosts = inner.members().nodes();
        all.window = inner.settings().window;
        all.max_payload = engine::kMaxBroadcast;
        all.connections = inner.connections();
        all.garbage = inner.garbage();
        all.refused = inner.refused();
        all.epoch = inner.epoch().value;
        const std::string transports = inner.transports();
        transports.copy(all.transports, sizeof all.transports - 1);
        all.leaves = inner.leaves();
        api::move_on(group);
        return api::given(api::give_answer(all, info, COPPICE_SIZE_THROUGH(coppice_group_info_t, refused),
                                           "coppice_group_query", "coppice_group_info_t"));
    });
}

coppice_status_t coppice_group_count(const coppice_group_t* group, coppice_group_counts_t* counts) {
    if (!api::is_group(group)) return api::no_group("coppice_group_count", group);
    if (counts == nullptr) return api::null_argument("coppice_group_count", "counts");
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        const transport::Counters now = group->engine->counters();
        coppice_group_counts_t all{};
        all.sends = now.sends;
        all.writes = now.writes;
        all.received = now.received;
        all.doorbells = now.doorbells;
        all.work_requests = now.work_requests;
        all.signalled = now.signalled;
        all.probes = now.probes;
        all.busy_polls = now.busy_polls;
        all.copies = now.copies;
        all.registrations = now.registrations;
        const engine::Context::Duty& duty = group->context->duty();
        all.takeovers = duty.takeovers;
        all.thread_rounds = duty.rounds;
        all.thread_events = duty.events;
        const engine::Payloads::Counts& payloads = group->engine->payloads().counts();
        all.chunks = payloads.taken;
        all.chunks_sent = payloads.sent;
        all.chunks_again = payloads.again;
        all.chunks_damaged = payloads.damaged;
        all.chunks_read = payloads.read;
        all.reads = now.reads;
        return api::given(api::give_answer(all, counts, COPPICE_SIZE_THROUGH(coppice_group_counts_t, registrations),
                                           "coppice_group_count", "coppice_group_counts_t"));
    });
}

coppice_status_t coppice_group_failed(const coppice_group_t* group, uint32_t* ranks, size_t capacity, size_t* count) {
    if (!api::is_group(group)) return api::no_group("coppice_group_failed", group);
    if (count == nullptr) return api::null_argument("coppice_group_failed", "count");
    if (ranks == nullptr && capacity > 0) return api::null_argument("coppice_group_failed", "ranks");
    return api::guarded<api::Callers::kAll>([&] {
        const engine::Context::Guard guard(*group->context);
        api::move_on(group);
        const auto failed = group->engine->members().failed_ranks();
        for (std::size_t i = 0; i < std::min(capacity, failed.size()); ++i)
            ranks[i] = failed[i].value;
        *count = failed.size();
        return COPPICE_OK;
    });
}

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
    return with_bounds("coppice_group_renew", options, [&](const engine::Bounds& bounds) {
        return renew("coppice_group_renew", "next", group, bounds, next, timeout_ns);
    });
}

coppice_status_t coppice_group_renew_nb(coppice_group_t* group, const coppice_renew_options_t* options,
                                        coppice_group_t** next, coppice_request_t** request) {
    return with_bounds("coppice_group_renew_nb", options, [&](const engine::Bounds& bounds) {
        return renew_nb("coppice_group_renew_nb", "next", group, bounds, next, request);
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

coppice_status_t coppice_group_pending(const coppice_group_t* group, int* pending) {
    if (!api::is_group(group)) return api::no_group("coppice_group_pending", group);
    if (pending == nullptr) return api::null_argument("coppice_group_pending", "pending");
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        *pending = group->engine->agreement().change_waits() ? 1 : 0;
        return COPPICE_OK;
    });
}

coppice_status_t coppice_group_view(const coppice_group_t* group, coppice_view_t* view, coppice_member_t* members,
                                    size_t capacity) {
    if (!api::is_group(group)) return api::no_group("coppice_group_view", group);
    if (view == nullptr) return api::null_argument("coppice_group_view", "view");
    if (members == nullptr && capacity > 0) return api::null_argument("coppice_group_view", "members");
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        const engine::Group& inner = *group->engine;
        const engine::Lineage& lineage = inner.core().lineage();
        coppice_view_t all{};
        all.epoch = inner.epoch().value;
        all.size = inner.members().ranks();
        for (std::uint32_t rank = 0; rank < all.size; ++rank) {
            const engine::Origin origin = lineage.of(Rank(rank));
            if (origin.before == engine::Origin::kNobody) ++all.newcomers;
            if (origin.since < lineage.of(Rank(all.eldest)).since) all.eldest = rank;
            if (rank < capacity) members[rank] = {origin.seat.value, origin.incarnation, origin.before, origin.since};
        }
        return api::given(api::give_answer(all, view, COPPICE_SIZE_THROUGH(coppice_view_t, eldest),
                                           "coppice_group_view", "coppice_view_t"));
    });
}

coppice_status_t coppice_memory_register(coppice_group_t* group, void* address, size_t bytes) {
    if (!api::is_group(group)) return api::no_group("coppice_memory_register", group);
    if (address == nullptr) return api::null_argument("coppice_memory_register", "address");
    if (bytes == 0) return api::remember(COPPICE_ERR_INVALID_ARGUMENT, "coppice_memory_register: 0 bytes");
    if (bytes > UINTPTR_MAX - reinterpret_cast<uintptr_t>(address)) {
        return api::guarded([&] {
            return api::remember(
                COPPICE_ERR_INVALID_ARGUMENT,
                fmt::format("coppice_memory_register: {} bytes at {} reach beyond the end of memory", bytes, address));
        });
    }
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        auto done = group->engine->broadcasts().register_memory(static_cast<const std::byte*>(address), bytes);
        return done ? COPPICE_OK : api::remember(std::move(done.error()));
    });
}

coppice_status_t coppice_memory_allocate(coppice_group_t* group, size_t bytes, void** memory) {
    if (!api::is_group(group)) return api::no_group("coppice_memory_allocate", group);
    if (memory == nullptr) return api::null_argument("coppice_memory_allocate", "memory");
    *memory = nullptr;
    if (bytes == 0) return api::remember(COPPICE_ERR_INVALID_ARGUMENT, "coppice_memory_allocate: 0 bytes");
    return api::guarded([&] {
        if (bytes > engine::kMaxBroadcast) {
            return api::remember(COPPICE_ERR_TOO_LARGE,
                                 fmt::format("coppice_memory_allocate: {} bytes are more than the {} that one "
                                             "broadcast carries",
                                             bytes, engine::kMaxBroadcast));
        }
        const engine::Context::Guard guard(*group->context);
        auto allocated = group->engine->payloads().allocate(bytes);
        if (!allocated) return api::remember(std::move(allocated.error()));
        *memory = *allocated;
        return COPPICE_OK;
    });
}

coppice_status_t coppice_memory_free(coppice_group_t* group, void* memory) {
    if (!api::is_group(group)) return api::no_group("coppice_memory_free", group);
    if (memory == nullptr) return COPPICE_OK;
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        auto done = group->engine->payloads().give_back(static_cast<const std::byte*>(memory));
        return done ? COPPICE_OK : api::remember(std::move(done.error()));
    });
}

coppice_status_t coppice_memory_deregister(coppice_group_t* group, void* address) {
    if (!api::is_group(group)) return api::no_group("coppice_memory_deregister", group);
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        auto done = group->engine->broadcasts().deregister_memory(static_cast<const std::byte*>(address));
        return done ? COPPICE_OK : api::remember(std::move(done.error()));
    });
}

}  // extern "C"
