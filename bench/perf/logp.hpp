// coppice-perf logp: latency, overhead and gap of each level of the network that a job really has.
#pragma once

#include "perf/options.hpp"

namespace perf {

// Runs at all ranks of a job; returns this process's exit code.
int run_logp(const LogpSettings& settings, double timeout_s);

}  // namespace perf
