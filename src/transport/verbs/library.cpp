#include "transport/verbs/library.hpp"

#include <array>
#include <mutex>

#include "base/shared_library.hpp"

namespace coppice::transport::verbs {

constinit Library library;

namespace {

constexpr SharedLibrary kIbverbs{.soname = "libibverbs.so.1", .package = "libibverbs1"};
constexpr SharedLibrary kRdmacm{.soname = "librdmacm.so.1", .package = "librdmacm1"};

#define COPPICE_AS_ENTRY(function) LibraryFunction{#function, &library.function},
constexpr std::array kIbverbsFunctions{COPPICE_IBV_FUNCTIONS(COPPICE_AS_ENTRY)};
constexpr std::array kRdmacmFunctions{COPPICE_RDMA_FUNCTIONS(COPPICE_AS_ENTRY)};
#undef COPPICE_AS_ENTRY

Result<void> load_both() {
    auto loaded = load_library(kIbverbs, kIbverbsFunctions);
    if (loaded) loaded = load_library(kRdmacm, kRdmacmFunctions);
    if (loaded) return {};
    if (const auto limit = limit_of_used_up_descriptors())
        return fail(COPPICE_ERR_NO_RESOURCES, "verbs: {} (the limit is {} descriptors: raise it with 'ulimit -n')",
                    loaded.error(), *limit);
    return fail(COPPICE_ERR_NO_TRANSPORT, "verbs: {}", loaded.error());
}

}  // namespace

// What is missing now may be there later: a descriptor, say.
Result<void> load() {
    static std::mutex mutex;
    static bool is_loaded = false;
    const std::lock_guard lock(mutex);
    if (is_loaded) return {};
    auto loaded = load_both();
    is_loaded = loaded.has_value();
    return loaded;
}

}  // namespace coppice::transport::verbs
