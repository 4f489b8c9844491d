// Broadcasts on a LogP clock (PPoPP'19 §2.2), with the machines that ship. Integer steps; g = o.
//
// A send that starts at t keeps its sender's port until t + o and arrives at t + o + L, where it keeps the receiver's port
// for o, first come, first served, and takes effect when that is over. Sending and receiving overlap. At equal times:
// receptions take effect first, then sends are decided, in the order of positions; of messages that arrive at once those of
// the tree are served first. A message to a dead member costs its sender the same and vanishes on arrival.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/broadcast.hpp"

namespace coppice::protocol::testing {

struct LogPModel {
    std::uint32_t latency = 2;   // L
    std::uint32_t overhead = 1;  // o
    // The ring cut open between the last position and the first. The papers' simulator does so for overlapped checked
    // and plain opportunistic correction.
    bool line = false;
};

struct LogPOutcome {
    std::uint64_t messages = 0;       // those to the dead included
    std::uint64_t coloring_time = 0;  // until the last of the live members that were reached had the payload
    std::uint64_t total_time = 0;     // until the last port was idle and the last message to the dead had arrived
    std::uint32_t reached = 0;        // live members
    std::vector<std::uint32_t> unreached;
};

// `dead`: positions, from before the start; nobody knows of them.
LogPOutcome run_logp(const BroadcastPlan& plan, const std::vector<std::uint32_t>& dead, const LogPModel& model);

}  // namespace coppice::protocol::testing
