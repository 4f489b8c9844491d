#include "transport/ucx/library.hpp"

#include <array>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <span>

#include "base/shared_library.hpp"

namespace coppice::transport::ucx {

constinit Library library;

namespace {

constexpr SharedLibrary kUcs{.soname = "libucs.so.0", .package = "libucx0"};
constexpr SharedLibrary kUcp{.soname = "libucp.so.0", .package = "libucx0"};

#define COPPICE_AS_ENTRY(function) LibraryFunction{#function, &library.function},
constexpr std::array kUcsFunctions{COPPICE_UCS_FUNCTIONS(COPPICE_AS_ENTRY)};
constexpr std::array kUcpFunctions{COPPICE_UCP_FUNCTIONS(COPPICE_AS_ENTRY)};
#undef COPPICE_AS_ENTRY

bool set_by_user(const char* variable) {
    return std::getenv(variable) != nullptr;
}

// A fatal signal of another thread's that comes before the handlers are given back ends the process as UCX does it, whoever handled such
// signals. So libucs.so, which sets them, is loaded by itself: that takes less time than with libucp.so.
tl::expected<void, std::string> load_ucs() {
    const bool is_anothers = is_loaded(kUcs);
    stack_t stack{};
    sigaltstack(nullptr, &stack);
    auto loaded = load_library(kUcs, kUcsFunctions);
    const bool handles_errors = set_by_user("UCX_HANDLE_ERRORS") || set_by_user("UCX_ERROR_SIGNALS");
    if (!is_anothers && !handles_errors) sigaltstack(&stack, nullptr);
    if (!loaded || is_anothers) return loaded;
    if (!handles_errors) {
        for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE})
            library.ucs_debug_disable_signal(signal);
    }
    if (!set_by_user("UCX_DEBUG_SIGNO")) library.ucs_debug_disable_signal(SIGHUP);
    return loaded;
}

Result<void> load_both() {
    auto loaded = load_ucs();
    if (loaded) loaded = load_library(kUcp, kUcpFunctions);
    if (loaded) return {};
    if (const auto limit = limit_of_used_up_descriptors())
        return fail(COPPICE_ERR_NO_RESOURCES, "ucx: {} (the limit is {} descriptors: raise it with 'ulimit -n')",
                    loaded.error(), *limit);
    return fail(COPPICE_ERR_NO_TRANSPORT, "ucx: {}", loaded.error());
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

}  // namespace coppice::transport::ucx
