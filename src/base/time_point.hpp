// A deadline as the standard library's waits take it. Apart from clock.hpp, which all of the library includes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace coppice {

// CLOCK_MONOTONIC; UINT64_MAX is as good as never.
inline std::chrono::steady_clock::time_point time_of(std::uint64_t deadline_ns) {
    return std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(std::min<std::uint64_t>(deadline_ns, INT64_MAX)));
}

}  // namespace coppice
