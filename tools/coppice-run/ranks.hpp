// Starting the processes of the ranks.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cores.hpp"
#include "guard.hpp"
#include "hosts.hpp"
#include "options.hpp"
#include "starter.hpp"

namespace coppice::run {

// The launcher's ends of one rank's pipes; -1 when its output is inherited.
struct RankStart {
    pid_t pid = -1;
    int output = -1;
    int errors = -1;
};

struct StartPlan {
    const Options& options;
    const SignalState& signals;
    std::string launcher_path;                          // COPPICE_LAUNCHER
    std::string witness_path;                           // COPPICE_WITNESS; empty: none
    std::function<int(std::uint32_t)> core_of;          // a rank's, or Cores::kAny
    const Hosts* hosts = nullptr;                       // with --hosts, unless devices stand for them
    const Starter* starter = nullptr;                   // of late ones; null: the launcher does it itself
    rlimit descriptors{};                               // RLIMIT_NOFILE as the ranks shall have it
    int all_happened = -1;                              // COPPICE_RUN_DONE_FD
    std::function<void(std::uint32_t, pid_t)> started;  // told of each process before any of them runs PROGRAM
    std::function<void()> before_release;               // called when all exist, before any of them runs PROGRAM
};

// What start_ranks() could not do, with the launcher's exit code for it.
struct StartError {
    int exit_code = 1;
    std::string message;
};

// Starts all ranks or none: every process is made first and waits; only when all exist they run PROGRAM.
// After an error the caller ends what was started (end_all_descendants).
//
// Ranks stay in the launcher's session and process group: Ctrl-C reaches all, and sched_yield() works among
// them where the kernel schedules by session. Each gets SIGKILL from the kernel when the launcher dies. Rank
// 0 has the launcher's standard input, the others /dev/null.
tl::expected<std::vector<RankStart>, StartError> start_ranks(const StartPlan& plan);

// One more, late: it runs PROGRAM at once, and is told how many had its number before. `started` and `before_release` are not called.
tl::expected<RankStart, StartError> start_late(const StartPlan& plan, const Starter::Wish& wish);
// What that one does in the new process when there is a starter. `launcher` is the parent. Returns when it can't.
void become_late(const StartPlan& plan, pid_t launcher, const Starter::Wish& wish, const Starter::Pipes& pipes);

}  // namespace coppice::run
