#include "api/api.hpp"
#include "api/structures.hpp"

using namespace coppice;

extern "C" {

coppice_status_t coppice_context_create(const coppice_context_options_t* options, coppice_context_t** context) {
    if (context == nullptr) return api::null_argument("coppice_context_create", "context");
    *context = nullptr;
    return api::guarded([&] {
        const auto given = api::options_given<coppice_context_options_t>(
            options, COPPICE_CONTEXT_OPTIONS_INIT, COPPICE_SIZE_THROUGH(coppice_context_options_t, transports),
            "coppice_context_create", "COPPICE_CONTEXT_OPTIONS_INIT");
        if (!given) return api::remember(given.error());
        const auto mode = api::number_of(given->thread_mode);
        if (mode != COPPICE_THREAD_SINGLE && mode != COPPICE_THREAD_MULTIPLE) {
            return api::remember(COPPICE_ERR_INVALID_ARGUMENT,
                                 "coppice_context_create: options.thread_mode is none of COPPICE_THREAD_SINGLE and "
                                 "COPPICE_THREAD_MULTIPLE");
        }
        engine::SettingTexts texts;
        if (given->progress_thread < -1 || given->progress_thread > 1) {
            return api::remember(
                COPPICE_ERR_INVALID_ARGUMENT,
                fmt::format("coppice_context_create: options.progress_thread is {}: 0 (default), 1 (a "
                            "thread that calls the application's functions) and -1 (none) are possible",
                            given->progress_thread));
        }
        if (given->progress_thread != 0)
            texts.override_with("COPPICE_PROGRESS_THREAD", given->progress_thread > 0 ? "1" : "0");
        if (given->transports != nullptr) texts.override_with("COPPICE_TRANSPORT", given->transports);
        auto made = engine::Context::create(std::move(texts), mode == COPPICE_THREAD_MULTIPLE);
        if (!made) return api::remember(std::move(made.error()));
        *context = new coppice_context{std::move(*made)};
        return COPPICE_OK;
    });
}

coppice_status_t coppice_context_destroy(coppice_context_t* context) {
    if (context == nullptr) return COPPICE_OK;
    return api::guarded([&] {
        if (engine::Context::is_progress_thread()) {
            return api::remember(COPPICE_ERR_BUSY,
                                 "coppice_context_destroy: a callback on the progress thread may destroy no context");
        }
        {
            const engine::Context::Guard guard(*context->engine);
            if (context->engine->has_groups()) {
                return api::remember(COPPICE_ERR_BUSY, "coppice_context_destroy: destroy the context's groups first");
            }
        }
        delete context;
        return COPPICE_OK;
    });
}

coppice_status_t coppice_progress(coppice_context_t* context) {
    if (context == nullptr) return api::null_argument("coppice_progress", "context");
    return api::guarded([&] {
        context->engine->offer_progress();
        return COPPICE_OK;
    });
}

}  // extern "C"
