// Every schedule of a large payload's chunks in a small group, with the machine that ships: when each rank learns how many chunks
// there are, when the root has which of them, when messages leave and arrive, when a rank looks what another one shows in the memory of their host, which ranks die and when,
// when each survivor learns of it, which ranks fall silent and when others lose patience.
//
// What the machine promises (protocol/pull/pull.hpp), and where it is checked:
//
//   no live rank has all chunks when a live rank is told that the root failed    check(): every state
//   a rank sends only chunks that it has                                         pull()
//   and no chunk again to a rank that has it and has left nobody                 check_end(), `again`
//   a live root's payload reaches every live rank                                check_end()
//   without it all ranks that know of the payload get it, or all are told        check_end()
//   a rank that is silent holds nobody up but itself                             check_end(), with `silent`
//
// Where ranks fall silent or may lose patience, they also lose it when nothing else can happen any more; but not once the root is
// dead, as nobody has to lose it then.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/pull/pull.hpp"
#include "simulation/explore/walk.hpp"

namespace coppice::simulation {

struct PullScenario {
    std::vector<std::uint32_t> node_of{0, 1, 2};  // by rank
    std::uint32_t root = 0;
    std::uint32_t chunks = 2;
    std::uint32_t credit = 1;
    std::uint32_t crashes = 0;
    std::uint32_t may_crash = 0xff;         // which ranks, as bits
    std::uint32_t silent = 0;               // as bits: ranks that do nothing at all; their messages are not even read
    std::uint32_t unaware = 0;              // as bits: ranks that never learn how many chunks there are
    std::uint32_t patience_is_lost = 0;     // how many times, by all together, though something else happens soon
    bool one_by_one = false;                // messages leave at any time later: ranks die between them
    std::uint32_t most_again = UINT32_MAX;  // chunks that may be sent for each rank that has to look for another source
    bool fills = false;                     // the root's chunks get there one by one, while others already take theirs
    bool shows = false;                     // ranks of a host show each other their chunks
    std::uint32_t unshown = 0;              // as bits: ranks that have no memory to do so
    std::uint16_t faults = 0;               // protocol::PullFault
    std::uint64_t max_states = 30'000'000;
};

WalkResult explore(const PullScenario& scenario);

}  // namespace coppice::simulation
