// coppice-perf put_lat and send_lat: a transport's own ping-pong, to compare with ib_write_lat and ib_send_lat.
#pragma once

#include "perf/options.hpp"

namespace perf {

// Runs at both ranks of a job of two; returns this process's exit code.
int run_latency(const LatencySettings& settings, double timeout_s);

}  // namespace perf
