// coppice-perf stabilize and join: groups that lose ranks and get others in their places, as a program has them.
#pragma once

#include "perf/options.hpp"

namespace perf {

// Each in every process of the job, those that are started late too; returns this process's exit code. `what` is "stabilize" (times of renewals
// after deaths) or "join" (of newcomers, from their call to their first agreement).
int run_views(const GroupSettings& group, const ViewSettings& settings, const char* what);

}  // namespace perf
