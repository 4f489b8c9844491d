// Fat trees of switches with K ports: where their hosts are.
//
// Two levels: K leaves of K/2 hosts under K/2 spines. Three levels (Al-Fares et al., SIGCOMM'08): K pods of K/2 leaves of
// K/2 hosts. Hosts are numbered leaf by leaf, as a scheduler lays out a job.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/placement.hpp"

namespace coppice::topology {

struct FatTree {
    std::uint32_t ports = 4;   // K, even
    std::uint32_t levels = 3;  // of switches: 2 or 3
    // So many times fewer links lead up from a leaf than down from it: 1 is non-blocking.
    std::uint32_t taper = 1;

    std::uint32_t pods() const { return levels == 3 ? ports : 1; }
    std::uint32_t leaves() const { return levels == 3 ? ports * (ports / 2) : ports; }
    std::uint32_t hosts() const { return leaves() * (ports / 2); }
    Site site_of(std::uint32_t host) const {
        const std::uint32_t leaf = host / (ports / 2);
        return {levels == 3 ? leaf / (ports / 2) : 0, leaf};
    }
    // The first `hosts` of them.
    std::vector<Site> sites(std::uint32_t hosts) const;

    bool operator==(const FatTree&) const = default;
};

inline constexpr std::uint32_t kMaxFatTreePorts = 256;

// Reads "fattree:K", "fattree:K:LEVELS", "fattree:K:LEVELS:TAPER"; an empty LEVELS is 3.
tl::expected<FatTree, std::string> parse_fat_tree(std::string_view text);
std::string to_string(const FatTree& tree);

}  // namespace coppice::topology
