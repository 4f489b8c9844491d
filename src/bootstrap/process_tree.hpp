// Which process descends from which, as /proc tells it. A snapshot: processes may come and go while it is taken.
#pragma once

#include <sys/types.h>

#include <vector>

namespace coppice::bootstrap {

// 0 when there is no such process.
pid_t parent_of(pid_t pid);

// All living descendants of `pid`, nearest first, zombies included, `pid` itself not.
std::vector<pid_t> descendants_of(pid_t pid);

}  // namespace coppice::bootstrap
