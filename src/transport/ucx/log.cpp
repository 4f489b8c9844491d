#include "transport/ucx/log.hpp"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "transport/ucx/library.hpp"

namespace coppice::transport::ucx {

thread_local bool Hush::active = false;

namespace {

// Fixed, as UCX may complain about a lack of memory.
thread_local std::array<char, 256> caught{};

ucs_log_func_rc_t on_log(const char*, unsigned, const char*, ucs_log_level_t level, const ucs_log_component_config_t*,
                         const char* format, va_list arguments) {
    // A fatal error is followed by an abort of UCX's: then its last words are all there is.
    if (!Hush::active || level == UCS_LOG_LEVEL_FATAL || level > UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_CONTINUE;
    if (caught[0] == '\0') std::vsnprintf(caught.data(), caught.size(), format, arguments);
    return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

void Hush::install() {
    static std::once_flag once;
    std::call_once(once, [] {
        if (std::getenv("UCX_LOG_LEVEL") == nullptr) library.ucs_log_push_handler(&on_log);
    });
}

std::string Hush::take() {
    std::string text = caught.data();
    caught[0] = '\0';
    return text;
}

}  // namespace coppice::transport::ucx
