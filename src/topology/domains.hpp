// Which ranks of a host publish in two levels: those that share a cache or a NUMA node, a domain, tell one of them, and that one
// speaks for all. docs/topology.md has the counts, and `coppice-sim host` counts what the shipped code does.
//
// Pure functions of what all ranks have exchanged, so the same at all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "topology/nodes.hpp"

namespace coppice::topology {

// Cache lines of one agreement among the ranks of a host, where nobody dies. A line that is read by several ranks of a domain moves
// into it once.
struct LineCount {
    std::uint64_t between = 0;  // moved from one domain into another
    std::uint64_t fetched = 0;  // by one rank at most, one after the other
};
// Each rank looks at everybody's line.
LineCount count_one_level(const Nodes& domains);
// Speakers look at the lines of their domain, and everybody at those of the speakers.
LineCount count_two_levels(const Nodes& domains);

// Up to so many ranks are never worth the two hand-overs that a second level takes.
inline constexpr std::uint32_t kMostInOneLevel = 16;
// Two levels where there are more ranks than that, at most half as many lines move between domains, and no rank fetches as many as before.
bool are_two_levels_better(const Nodes& domains);

// "numa1/l3-9" of "numa1/l3-9/core75": what is said of a place within a host, without its core.
std::string_view domain_in(std::string_view place);

// By the places of all ranks of a host; or by any numbers that tell domains apart. None: one level. A rank whose place is unknown, that is
// empty, leaves one level for all.
std::optional<Nodes> domains_of(std::span<const std::string> places);
std::optional<Nodes> domains_of(std::span<const std::uint64_t> keys);

}  // namespace coppice::topology
