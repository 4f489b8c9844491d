// Gossip whose members keep no common time, as Drezner and Barak have it and IPDPS'17, §III, quotes it: from when it has the payload on a member
// sends once in each unit of time, at a moment of that unit that is its own, to any other member; a message takes no time.
#pragma once

#include <cstdint>
#include <vector>

#include "simulation/random.hpp"

namespace coppice::simulation {

// In how many of so many broadcasts, each of `units` of time, all members get the payload. At least two members.
inline std::uint64_t unsynchronized_gossips_that_reach_all(std::uint32_t members, std::uint32_t units,
                                                           std::uint64_t broadcasts, std::uint64_t seed) {
    Random random(seed);
    std::uint64_t reach_all = 0;
    std::vector<bool> colored(members);
    for (std::uint64_t broadcast = 0; broadcast < broadcasts; ++broadcast) {
        colored.assign(members, false);
        // Members are numbered by their moments, so it is by chance which of them is the root.
        colored[random.below(members)] = true;
        std::uint32_t count = 1;
        for (std::uint32_t unit = 0; unit < units && count < members; ++unit) {
            for (std::uint32_t member = 0; member < members; ++member) {
                if (!colored[member]) continue;
                const std::uint32_t other = (member + 1 + random.below(members - 1)) % members;
                count += colored[other] ? 0 : 1;
                colored[other] = true;
            }
        }
        reach_all += count == members ? 1 : 0;
    }
    return reach_all;
}

}  // namespace coppice::simulation
