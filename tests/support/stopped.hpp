// Processes that stop themselves. One that is told to go on before it has would never do so.
#pragma once

#include <sys/wait.h>

#include "support/processes.hpp"

namespace coppice::testing {

// Waits until the child is stopped, or has ended. False at the deadline.
inline bool await_stopped(const Processes& processes, std::size_t index) {
    const auto child = static_cast<id_t>(processes.pid(index));
    return becomes([child] {
        siginfo_t info{};
        return waitid(P_PID, child, &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
    });
}

}  // namespace coppice::testing
