#include "perf/levels.hpp"

#include <algorithm>
#include <array>

namespace perf {

namespace {

constexpr std::array<std::string_view, 4> kNames{"host", "leaf", "pod", "network"};

std::string_view outermost(std::string_view path) {
    return path.substr(0, path.find('/'));
}

bool has_pod(std::string_view path) {
    return path.find('/') != std::string_view::npos;
}

}  // namespace

std::string_view level_between(const Place& one, const Place& other) {
    if (one.host == other.host) return kNames[0];
    if (one.switches.empty() || other.switches.empty()) return kNames[3];
    if (one.switches == other.switches) return kNames[1];
    const bool share =
        has_pod(one.switches) && has_pod(other.switches) && outermost(one.switches) == outermost(other.switches);
    return share ? kNames[2] : kNames[3];
}

std::vector<Level> levels_of(std::span<const Place> places) {
    std::vector<Level> found;
    for (const std::string_view name : kNames) {
        for (std::uint32_t first = 0; first < places.size(); ++first) {
            const auto second = std::find_if(places.begin() + first + 1, places.end(), [&](const Place& other) {
                return level_between(places[first], other) == name;
            });
            if (second == places.end()) continue;
            found.push_back({name, first, static_cast<std::uint32_t>(second - places.begin())});
            break;
        }
    }
    return found;
}

}  // namespace perf
