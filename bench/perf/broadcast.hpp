// coppice-perf broadcast: one broadcast after the other, each measured over all ranks, on and on when ranks die.
#pragma once

#include "perf/options.hpp"

namespace perf {

// Runs at every rank of the job; returns this process's exit code.
int run_broadcast(const GroupSettings& group, const BroadcastSettings& settings);

}  // namespace perf
