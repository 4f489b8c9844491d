#include "perf/levels.hpp"

#include <algorithm>

#include "topology/domains.hpp"

namespace perf {

namespace {

std::string_view outermost(std::string_view path) {
    return path.substr(0, path.find('/'));
}

bool has_pod(std::string_view path) {
    return path.find('/') != std::string_view::npos;
}

bool share_a_cache(const Place& one, const Place& other) {
    const std::string_view domain = coppice::topology::domain_in(one.within);
    return !domain.empty() && domain == coppice::topology::domain_in(other.within);
}

}  // namespace

std::string_view level_between(const Place& one, const Place& other) {
    if (one.host == other.host) return share_a_cache(one, other) ? kLevelNames[0] : kLevelNames[1];
    if (one.switches.empty() || other.switches.empty()) return kLevelNames[4];
    if (one.switches == other.switches) return kLevelNames[2];
    const bool share =
        has_pod(one.switches) && has_pod(other.switches) && outermost(one.switches) == outermost(other.switches);
    return share ? kLevelNames[3] : kLevelNames[4];
}

std::vector<Level> levels_of(std::span<const Place> places) {
    std::vector<Level> found;
    for (const std::string_view name : kLevelNames) {
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
