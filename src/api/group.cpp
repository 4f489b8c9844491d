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
Result<std::optional<bootstrap::LauncherEnvironment>> started_late(const engine::Context& context,
                                                                   const coppice_group_options_t& options,
                                                                   const engine::Settings& settings) {
    std::optional<bootstrap::LauncherEnvironment> none;
    if (const engine::Platform* const platform = context.platform()) return platform->started_late();
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
    if (auto late = started_late(*context->engine, options, *settings); !late) {
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

}  // extern "C"
