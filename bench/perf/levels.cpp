#include "perf/levels.hpp"

#include <algorithm>

#include "topology/domains.hpp"

namespace perf {

namespace {

// What stands above the leaf, as topology::sites_of has it; empty: nothing does.
std::string_view pod_of(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
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
    const std::string_view pod = pod_of(one.switches);
    return !pod.empty() && pod == pod_of(other.switches) ? kLevelNames[3] : kLevelNames[4];
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
