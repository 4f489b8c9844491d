// coppice-perf shrink: each group is shrunk to the next one, with and without deaths.
#pragma once

#include "perf/options.hpp"

namespace perf {

// Runs at every rank of the job; returns this process's exit code.
int run_shrink(const GroupSettings& group, const ShrinkSettings& settings);

}  // namespace perf
