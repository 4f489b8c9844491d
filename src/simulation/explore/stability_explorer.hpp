// Every schedule of the counting of what is consumed, with the machine that ships: when each rank consumes and looks,
// when messages arrive, when a rank that is held up asks, which ranks die and when, and when each survivor learns of
// it.
//
// What the machine promises (protocol/stability/stability.hpp), and where it is checked:
//
//   nothing is stable that a live rank has not consumed                        check(): every state
//   no rank waits for ever while all live ranks go on                          check_end(): all have consumed everything,
//                                                                              and with `flush` all of it is stable
//   where a live rank stays away the others are exactly W beyond the slowest   check_end()
//   and each that is held up names a rank that has consumed no more            check_end(), with `in_order`: a name that
//                                                                              is overtaken by an older one is wrong
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/stability/stability.hpp"
#include "simulation/explore/walk.hpp"
#include "topology/nodes.hpp"

namespace coppice::simulation {

struct StabilityScenario {
    std::vector<std::uint32_t> node_of{0, 1, 2, 3};  // by rank
    std::uint32_t crashes = 0;
    std::uint32_t broadcasts = 3;
    std::uint32_t consumed = 2;  // of those, by everybody at the start, at most the window; and nothing is stable
    std::uint32_t window = 2;
    std::uint32_t away = 0;  // ranks that consume nothing beyond `away_at`, as bits
    std::uint32_t away_at = 0;
    bool flush = true;     // in the end all leave
    bool in_order = true;  // what one rank sends to another arrives in that order
    bool in_rounds =
        true;  // a rank that consumes, receives or learns makes progress at once, and asks when it is held up;
               // else that comes at any time later
    std::uint8_t faults = 0;  // protocol::StabilityFault
    std::uint64_t max_states = 30'000'000;
};

WalkResult explore(const StabilityScenario& scenario);

}  // namespace coppice::simulation
