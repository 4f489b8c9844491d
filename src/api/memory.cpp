// Memory of the caller's, or given to it, for large payloads.
#include "api/api.hpp"

using namespace coppice;

namespace {

// What was refused may be asked for again and again until it can be had. Under the guard.
coppice_status_t outcome(const coppice_group& group, Result<void> done) {
    if (done) return COPPICE_OK;
    group.context->glance();
    return api::given(std::move(done));
}

}  // namespace

extern "C" {

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
        return outcome(*group,
                       group->engine->broadcasts().register_memory(static_cast<const std::byte*>(address), bytes));
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
        if (!allocated) return outcome(*group, tl::unexpected(std::move(allocated.error())));
        *memory = *allocated;
        return COPPICE_OK;
    });
}

coppice_status_t coppice_memory_free(coppice_group_t* group, void* memory) {
    if (!api::is_group(group)) return api::no_group("coppice_memory_free", group);
    if (memory == nullptr) return COPPICE_OK;
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        return outcome(*group, group->engine->payloads().give_back(static_cast<const std::byte*>(memory)));
    });
}

coppice_status_t coppice_memory_deregister(coppice_group_t* group, void* address) {
    if (!api::is_group(group)) return api::no_group("coppice_memory_deregister", group);
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        return outcome(*group, group->engine->broadcasts().deregister_memory(static_cast<const std::byte*>(address)));
    });
}

}  // extern "C"
