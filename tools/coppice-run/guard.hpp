// Nothing is left behind, whichever process is killed.
//
// The launcher is two processes: the one that the user started only waits (the guard), its child does the
// work. Both are child subreapers. If the worker is killed, its ranks get SIGKILL from the kernel
// (PR_SET_PDEATHSIG) and what they had started falls to the guard, which ends it; if the guard is killed, the
// worker is told by the kernel and ends everything.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>

namespace coppice::run {

// What the process was started with, to be given to ranks unchanged.
struct SignalState {
    sigset_t mask;
    bool sigpipe_ignored = false;
};

// Sent to the worker by the guard; sigval is the signal that somebody sent to the launcher (SIGINT, SIGTERM,
// …).
int request_signal();
// Sent to the worker by the kernel when the guard has died.
int guard_died_signal();

// To be called by the worker after a change of its credentials, which may have taken guard_died_signal()
// away.
void rearm_guard_signal();

// Runs `worker` in a child process and waits for it. Returns the exit code of the launcher.
int run_guarded(const std::function<int(const SignalState&)>& worker);

// Kills and reaps everything that descends from this process, until nothing is left. A process that the
// kernel does not let die within 10 s is named and left.
void end_all_descendants();

}  // namespace coppice::run
