// Every schedule of ranks that leave a group, with the machine that ships: who claims the group and wants to leave when, what is
// sent and arrives when, who dies, is taken for dead or gives up, and when each of the others learns of it.
//
// What a group's collectives do meanwhile is the least that makes ranks need each other, in a chain of all ranks: the
// highest says that it needs nothing more, each lower one says it when it and all above it do, and the lowest tells them
// that everything is over. A rank says it again where its neighbour in the chain has died.
//
// What the machine promises (protocol/departure/departure.hpp), and where it is checked:
//
//   no rank leaves in peace while a live rank needs something of it            when a rank leaves
//   and ranks that have to ask about the next group are answered               check_end()
//   when nothing holds them up, all living that want to leave get out          check_end()
//   a rank that is held up is told a name of a rank that does not leave        check_end(), with `all_leave`
//   a caller that claims the group has it, whatever has happened since         when it claims it
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/departure/departure.hpp"
#include "simulation/explore/walk.hpp"

namespace coppice::simulation {

struct DepartureScenario {
    std::vector<std::uint32_t> node_of{0, 1, 2};  // by rank
    std::uint32_t crashes = 0;
    bool fences = false;                  // of the crashes: ranks may be taken for dead that are not
    bool all_leave = false;               // it is over when all want to leave, else when all have what they wait for
    bool slow = false;                    // what is sent leaves a rank at any time later
    std::uint32_t wanting = 0;            // as bits: ranks that want to leave from the start
    std::uint32_t silent = 0;             // as bits: ranks that may do nothing at all any more, at any time
    std::uint32_t patience = 0;           // as bits: ranks that may lose it and give up, unclaimed ones too
    std::uint32_t unclaimed = 0;          // as bits: ranks whose callers may claim the group later; none of `wanting`
    std::uint32_t asks = 0;               // as bits: ranks that have to ask others about the next group
    std::uint32_t farthest = UINT32_MAX;  // neighbour that is told of a departure
    std::uint16_t faults = 0;             // protocol::DepartureFault
    std::uint64_t max_states = 30'000'000;
};

WalkResult explore(const DepartureScenario& scenario);

}  // namespace coppice::simulation
