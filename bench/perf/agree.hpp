// coppice-perf agree: one agreement after the other, on and on when ranks die, each compared at all survivors.
#pragma once

#include "perf/options.hpp"

namespace perf {

// Runs at every rank of the job; returns this process's exit code.
int run_agree(const GroupSettings& group, const AgreeSettings& settings);

}  // namespace perf
