// What coppice-run tells a process that it has started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/words.hpp"

namespace coppice::bootstrap {

// What coppice-run tells its ranks.
struct LauncherEnvironment {
    Rank rank;                // COPPICE_RANK
    std::uint32_t size = 0;   // COPPICE_SIZE
    std::string socket_path;  // COPPICE_LAUNCHER
    // COPPICE_INCARNATION: set where the process was started late, to join the group of the others; how many had its number before. Such a
    // number may be beyond the size.
    std::optional<std::uint32_t> incarnation{};
};

// Reads these variables. None of them set: nullopt. Some missing or not parsing: COPPICE_ERR_CONFIG,
// naming the variable and its value.
Result<std::optional<LauncherEnvironment>> read_launcher_environment();

}  // namespace coppice::bootstrap
