// Where a host is, as one short string: the names of the switches above it, from the outermost to the leaf switch, with slashes
// between them: "pod1/leaf3".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/placement.hpp"

namespace coppice::topology {

inline constexpr std::size_t kMaxSwitchPath = 255;
inline constexpr std::size_t kMaxSwitches = 8;  // of one path

// Printable names without blanks, and not too many of them. The empty path, which says nothing, is fine.
tl::expected<void, std::string> check_switch_path(std::string_view path);
// One path of names; what can't stand in a name becomes '_'.
std::string make_switch_path(std::span<const std::string> names);

// The sites of hosts with these paths. Leaves are told apart by their whole paths; pods by what stands above the leaf, where each path
// has that, else all are one. None when a host's path is empty: then nothing is known that all agree upon.
std::vector<Site> sites_of(std::span<const std::string> paths);

// How many pods there are, leaves in the largest pod, hosts on the largest leaf.
struct LevelSizes {
    std::uint32_t pods = 0;
    std::uint32_t leaves = 0;
    std::uint32_t hosts = 0;
};
LevelSizes level_sizes(std::span<const Site> sites);

// Whether knowing these sites is of use: several leaves, and a leaf with several hosts, or several pods and one with several leaves.
bool is_worth_placing(std::span<const Site> sites);

}  // namespace coppice::topology
