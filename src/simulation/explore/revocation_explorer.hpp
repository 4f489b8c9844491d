// Every schedule of a revocation, with the machine that ships: which ranks revoke and when, when pages are read and
// messages arrive, which ranks die and when, when each survivor learns of it, and when ranks that may leave do.
//
// What the machine promises (protocol/revocation/revocation.hpp), and where it is checked:
//
//   if a rank that lives, or has left as it may, knows of the revocation,      check_end()
//   in the end all living know
//   what a rank has said on its page reaches all living of its node            check_end()
//   nobody needs patience to leave, while all living take part                 check_end(), with `leave`
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/revocation/revocation.hpp"
#include "simulation/explore/walk.hpp"

namespace coppice::simulation {

struct RevocationScenario {
    std::vector<std::uint32_t> node_of{0, 1, 2, 3};  // by rank
    std::uint32_t crashes = 0;
    std::uint32_t revokers = 1;           // as bits: each may revoke, at any time
    bool leave = true;                    // ranks leave as soon as they may, or later; else they stay
    std::uint32_t farthest = UINT32_MAX;  // neighbour that is told
    std::uint8_t faults = 0;              // protocol::RevocationFault
    std::uint64_t max_states = 30'000'000;
};

WalkResult explore(const RevocationScenario& scenario);

}  // namespace coppice::simulation
