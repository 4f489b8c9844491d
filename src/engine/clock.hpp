// The one clock of the engine: CLOCK_MONOTONIC in nanoseconds, the same for all processes of one kernel.
#pragma once

#include <cstdint>
#include <ctime>

namespace coppice::engine {

inline std::uint64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

// The deadline `timeout_ns` from now; UINT64_MAX means never.
inline std::uint64_t deadline_after(std::uint64_t timeout_ns) {
    const std::uint64_t now = now_ns();
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

}  // namespace coppice::engine
