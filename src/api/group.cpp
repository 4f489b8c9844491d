#include <algorithm>

#include "api/api.hpp"
#include "bootstrap/choose.hpp"
#include "engine/formation.hpp"

using namespace coppice;

namespace {

// The group's own settings: the context's, with what the options say.
Result<engine::Settings> group_settings(const engine::Context& context, const coppice_group_options_t& options) {
    engine::SettingTexts texts = context.texts();
    if (options.tree != nullptr) texts.override_with("COPPICE_TREE", options.tree);
    if (options.correction != nullptr) texts.override_with("COPPICE_CORRECTION", options.correction);
    if (options.hierarchy != nullptr) texts.override_with("COPPICE_HIERARCHY", options.hierarchy);
    if (options.window != 0) texts.override_with("COPPICE_WINDOW", fmt::format("{}", options.window));
    auto settings = engine::parse(texts);
    if (settings && options.timeout_ns != 0) settings->start_timeout_ns = options.timeout_ns;
    return settings;
}

coppice_status_t create(coppice_context_t* context, const coppice_group_options_t& options, coppice_group_t** group) {
    auto settings = group_settings(*context->engine, options);
    if (!settings) return api::remember(std::move(settings.error()));
    const std::uint64_t deadline = engine::deadline_after(settings->start_timeout_ns);
    auto exchange =
        bootstrap::choose(options.exchange, options.exchange_argument, Rank(options.rank), options.size, deadline);
    if (!exchange) return api::remember(std::move(exchange.error()));

    auto handle = std::make_unique<coppice_group>();
    handle->context = context->engine.get();
    engine::Group::FailureCallback on_failure;
    if (options.on_failure != nullptr) {
        on_failure = [callback = options.on_failure, argument = options.on_failure_argument,
                      raw = handle.get()](Rank rank) { callback(argument, raw, rank.value); };
    }
    auto formed = engine::form_group(*context->engine, *settings, **exchange, std::move(on_failure), deadline);
    if (!formed) return api::remember(std::move(formed.error()));
    const engine::Context::Guard guard(*context->engine);
    handle->engine = std::move(*formed);

    context->engine->attach(*handle->engine);
    *group = handle.release();
    return COPPICE_OK;
}

}  // namespace

extern "C" {

coppice_status_t coppice_group_create(coppice_context_t* context, const coppice_group_options_t* options,
                                      coppice_group_t** group) {
    if (context == nullptr) return api::null_argument("coppice_group_create", "context");
    if (group == nullptr) return api::null_argument("coppice_group_create", "group");
    *group = nullptr;
    const coppice_group_options_t defaults = COPPICE_GROUP_OPTIONS_INIT;
    if (options == nullptr) options = &defaults;
    return api::guarded([&] {
        if (options->struct_size < sizeof(coppice_group_options_t)) {
            return api::remember(COPPICE_ERR_INVALID_ARGUMENT,
                                 "coppice_group_create: options.struct_size is too small: initialise the options with "
                                 "COPPICE_GROUP_OPTIONS_INIT");
        }
        return create(context, *options, group);
    });
}

coppice_status_t coppice_group_destroy(coppice_group_t* group, uint64_t timeout_ns) {
    if (group == nullptr) return COPPICE_OK;
    return api::guarded([&] {
        engine::Context& context = *group->context;
        engine::Group& inner = *group->engine;
        {
            const engine::Context::Guard guard(context);
            if (inner.requests_in_use() > 0) {
                return api::remember(COPPICE_ERR_BUSY,
                                     fmt::format("coppice_group_destroy: {} requests are open: free them first",
                                                 inner.requests_in_use()));
            }
        }
        const std::uint64_t deadline = engine::deadline_after(timeout_ns);
        std::string holder;
        const bool drained = timeout_ns != 0 && context.wait(inner, deadline, [&] { return inner.drained(); });
        if (drained) {
            context.wait(inner, deadline, [&] { return inner.depart(); });
        } else {
            const engine::Context::Guard guard(context);
            holder = inner.window_holder();
            inner.abandon();
        }
        {
            const engine::Context::Guard guard(context);
            context.detach(inner);
        }
        delete group;
        if (drained || timeout_ns == 0) return COPPICE_OK;
        return api::remember(COPPICE_ERR_TIMEOUT,
                             fmt::format("coppice_group_destroy: left without the others: {}", holder));
    });
}

coppice_status_t coppice_group_query(const coppice_group_t* group, coppice_group_info_t* info) {
    if (group == nullptr) return api::null_argument("coppice_group_query", "group");
    if (info == nullptr) return api::null_argument("coppice_group_query", "info");
    if (info->struct_size < sizeof(coppice_group_info_t)) {
        return api::remember(COPPICE_ERR_INVALID_ARGUMENT,
                             "coppice_group_query: set info.struct_size to sizeof(coppice_group_info_t)");
    }
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        const engine::Group& inner = *group->engine;
        info->rank = inner.members().self().value;
        info->size = inner.members().ranks();
        info->hosts = inner.members().sites();
        info->window = inner.settings().window;
        info->max_payload = transport::kMaxPayload;
        info->connections = inner.connections();
        info->garbage = inner.garbage();
        info->refused = inner.refused();
        return COPPICE_OK;
    });
}

coppice_status_t coppice_group_failed(const coppice_group_t* group, uint32_t* ranks, size_t capacity, size_t* count) {
    if (group == nullptr) return api::null_argument("coppice_group_failed", "group");
    if (count == nullptr) return api::null_argument("coppice_group_failed", "count");
    if (ranks == nullptr && capacity > 0) return api::null_argument("coppice_group_failed", "ranks");
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        const auto failed = group->engine->members().failed_ranks();
        for (std::size_t i = 0; i < std::min(capacity, failed.size()); ++i)
            ranks[i] = failed[i].value;
        *count = failed.size();
        return COPPICE_OK;
    });
}

coppice_status_t coppice_memory_register(coppice_group_t* group, void* address, size_t bytes) {
    if (group == nullptr) return api::null_argument("coppice_memory_register", "group");
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
        auto done = group->engine->register_memory(static_cast<const std::byte*>(address), bytes);
        return done ? COPPICE_OK : api::remember(std::move(done.error()));
    });
}

coppice_status_t coppice_memory_deregister(coppice_group_t* group, void* address) {
    if (group == nullptr) return api::null_argument("coppice_memory_deregister", "group");
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        auto done = group->engine->deregister_memory(static_cast<const std::byte*>(address));
        return done ? COPPICE_OK : api::remember(std::move(done.error()));
    });
}

}  // extern "C"
