#include "transport/shm/keeper.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "transport/shm/obituary.hpp"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

namespace coppice::transport::shm {

namespace {

constexpr std::size_t kStack = 32 * 1024;
constexpr int kLeastNice = 19;
// How often it looks. A signal at the rank's end would wake it just when the survivors need the cores.
constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 250'000'000};
// Some agreements' time, and a shrink's.
constexpr timespec kHold{.tv_sec = 0, .tv_nsec = 20'000'000};

// Runs in a process of its own that has this one's memory, thread-local storage included, which belongs to the thread that
// started it: so nothing here but system calls, whose errno that thread, which sleeps, does not need, and one load.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] int keep(void* argument) {
    const Obituary& life = *static_cast<const Obituary*>(argument);
    // They are copies of the rank's. As long as they are open, no connection of its breaks.
    if (syscall(SYS_close_range, 0U, ~0U, 0U) != 0) return 1;
    syscall(SYS_prctl, PR_SET_NAME, "coppice-keep", 0, 0, 0);
    syscall(SYS_setpriority, PRIO_PROCESS, 0, kLeastNice);
    while (is_held(life))
        syscall(SYS_nanosleep, &kLook, nullptr);
    syscall(SYS_nanosleep, &kHold, nullptr);
    return 0;
}

// It ends programs that start a process in a way that it does not know.
bool in_valgrind() {
    const char* const preloaded = std::getenv("LD_PRELOAD");
    return preloaded != nullptr && std::string_view(preloaded).find("vgpreload") != std::string_view::npos;
}

}  // namespace

pid_t start_keeper(const Obituary& life) {
    alignas(64) static std::byte stack[kStack];
    if (in_valgrind()) return -1;
    // No signal at its end, and no tracer is told of it: debuggers would take it for a thread.
    return clone(keep, stack + kStack, CLONE_VM | CLONE_UNTRACED, const_cast<Obituary*>(&life));
}

void end_keeper(pid_t keeper) {
    kill(keeper, SIGKILL);
    while (waitpid(keeper, nullptr, __WALL) < 0 && errno == EINTR)
        continue;
}

}  // namespace coppice::transport::shm
