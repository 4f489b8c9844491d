// --count-links: packets over the leaves' up-links, as their ends at the leaf bridges have counted them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coppice::run {

struct LinkCount {
    std::uint64_t up = 0;  // packets from the leaf to the bridge above
    std::uint64_t down = 0;
};

// What /proc/net/dev says of each leaf's up-link; zeros where it does not know it.
std::vector<LinkCount> read_links(std::string_view devices, std::uint32_t leaves);

// Of the calling process's network, which has to be that of the bridges.
std::vector<LinkCount> count_links(std::uint32_t leaves);

// What was counted between two readings, for people: a line for each leaf and one for all. `operations`: 0, or what to divide by.
std::vector<std::string> describe_links(const std::vector<LinkCount>& before, const std::vector<LinkCount>& after,
                                        std::uint64_t operations);

}  // namespace coppice::run
