#include <cstring>
#include <type_traits>

#include "api/api.hpp"

using namespace coppice;

extern "C" {

coppice_status_t coppice_context_create(const coppice_context_options_t* options, coppice_context_t** context) {
    if (context == nullptr) return api::null_argument("coppice_context_create", "context");
    *context = nullptr;
    return api::guarded([&] {
        engine::SettingTexts texts;
        bool multiple = false;
        if (options != nullptr) {
            if (options->size < sizeof(coppice_context_options_t)) {
                return api::remember(COPPICE_ERR_INVALID_ARGUMENT,
                                     "coppice_context_create: options.size is too small: initialise the options with "
                                     "COPPICE_CONTEXT_OPTIONS_INIT");
            }
            // A caller in C may have put any number there, which C++ must not read as the enumeration.
            std::underlying_type_t<coppice_thread_mode_t> mode;
            std::memcpy(&mode, &options->thread_mode, sizeof mode);
            if (mode != COPPICE_THREAD_SINGLE && mode != COPPICE_THREAD_MULTIPLE) {
                return api::remember(COPPICE_ERR_INVALID_ARGUMENT,
                                     "coppice_context_create: options.thread_mode is none of COPPICE_THREAD_SINGLE and "
                                     "COPPICE_THREAD_MULTIPLE");
            }
            multiple = mode == COPPICE_THREAD_MULTIPLE;
            if (options->progress_thread != 0) texts.override_with("COPPICE_PROGRESS_THREAD", "1");
            if (options->transports != nullptr) texts.override_with("COPPICE_TRANSPORT", options->transports);
        }
        auto made = engine::Context::create(std::move(texts), multiple);
        if (!made) return api::remember(std::move(made.error()));
        *context = new coppice_context{std::move(*made)};
        return COPPICE_OK;
    });
}

coppice_status_t coppice_context_destroy(coppice_context_t* context) {
    if (context == nullptr) return COPPICE_OK;
    return api::guarded([&] {
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
