#include "transport/ucx/library.hpp"

#include <array>
#include <csignal>
#include <cstdlib>
#include <span>

#include "base/shared_library.hpp"
#include "transport/loading.hpp"

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

// libucs.so sets handlers of fatal signals when it is loaded, and they are given back at once. A thread that gets such a signal in between
// ends the process by UCX's handler, not by the program's. So libucs.so is loaded by itself, which takes less time than with libucp.so.
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

tl::expected<void, std::string> load_both() {
    auto loaded = load_ucs();
    return loaded ? load_library(kUcp, kUcpFunctions) : loaded;
}

}  // namespace

Result<void> load() {
    static Loading loading;
    return loading.load("ucx", load_both);
}

}  // namespace coppice::transport::ucx
