// Groups for the tests: how many ranks each host has.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/nodes.hpp"

namespace coppice::protocol {

// Ranks in the order of their hosts: {2, 1} is ranks 0 and 1 on one host, 2 on the other.
inline topology::Nodes hosts_of(const std::vector<std::uint32_t>& sizes) {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t host = 0; host < sizes.size(); ++host)
        keys.insert(keys.end(), sizes[host], host);
    return topology::Nodes::by_host(std::span<const std::uint64_t>(keys));
}

}  // namespace coppice::protocol
