// Which levels of a network the ranks of a job really have between them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perf {

inline constexpr std::array<std::string_view, 5> kLevelNames{"cache", "host", "leaf", "pod", "network"};

// Where a rank is, as it tells the others.
struct Place {
    std::string host;        // host_identity()
    std::string switches{};  // a path (topology/switch_path.hpp); empty: unknown
    std::string within{};    // the host: "numa1/l3-9/core75"; empty: unknown, or nothing tells its cores apart
};

// Two ranks that a message between them crosses this level: "cache" between cores that share one (or, where none is shared, a NUMA node),
// "host" between others of a host, "leaf" between hosts of a leaf switch, "pod" between
// leaves below one switch, "network" where no switch is known to be above both.
struct Level {
    std::string_view name;
    std::uint32_t first = 0;
    std::uint32_t second = 0;
};

std::string_view level_between(const Place& one, const Place& other);

// From the innermost to the outermost, each with the first two ranks of it that there are.
std::vector<Level> levels_of(std::span<const Place> places);

}  // namespace perf
