#include "transport/shm/keeper.hpp"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
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

#if defined(__has_feature)
#define COPPICE_HAS_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define COPPICE_HAS_THREAD_SANITIZER 0
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

namespace coppice::transport::shm {

namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;
#endif

constexpr std::size_t kStack = 32 * 1024;
constexpr int kLeastNice = 19;
// How often it looks. A signal at the rank's end would wake it just when the survivors need the cores.
constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 250'000'000};
// Some agreements' time, and a shrink's.
constexpr timespec kHold{.tv_sec = 0, .tv_nsec = 20'000'000};

// nanosleep, which goes on as restart_syscall after it was stopped; exit; and setpriority(PRIO_PROCESS, 0, 19). All else fails with
// EPERM: a filter that kills would leave a core file, of the rank's memory.
constexpr sock_filter kFilter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 0, 11),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_nanosleep, 10, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_restart_syscall, 9, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 8, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setpriority, 0, 6),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PRIO_PROCESS, 0, 4),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kLeastNice, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
constexpr sock_fprog kRights{.len = sizeof kFilter / sizeof *kFilter, .filter = const_cast<sock_filter*>(kFilter)};
constexpr sched_param kNoPriority{};

// Runs in a process of its own that has this one's memory, thread-local storage included, which belongs to the thread that
// started it: so nothing here but system calls, whose errno that thread, which waits for nothing, does not need, and loads.
[[gnu::no_sanitize_address]] int keep(void* argument) {
    const Obituary& life = *static_cast<const Obituary*>(argument);
    // They are copies of the rank's. As long as they are open, no connection of its breaks.
    if (syscall(SYS_close_range, 0U, ~0U, 0U) != 0) return 1;
    syscall(SYS_prctl, PR_SET_NAME, "coppice-keep", 0, 0, 0);
    syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &kNoPriority);
    if (!give_up_rights()) return 1;
    while (is_held(life))
        syscall(SYS_nanosleep, &kLook, nullptr);
    syscall(SYS_nanosleep, &kHold, nullptr);
    syscall(SYS_setpriority, PRIO_PROCESS, 0, kLeastNice);
    return 0;
}

// Valgrind ends programs that start a process in a way that it does not know, and ThreadSanitizer takes it for a fork.
bool is_watched() {
#if defined(__SANITIZE_THREAD__) || COPPICE_HAS_THREAD_SANITIZER
    return true;
#else
    const char* const preloaded = std::getenv("LD_PRELOAD");
    return preloaded != nullptr && std::string_view(preloaded).find("vgpreload") != std::string_view::npos;
#endif
}

}  // namespace

[[gnu::no_sanitize_address]] bool give_up_rights() {
    syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &kRights, 0, 0) == 0;
}

pid_t start_keeper(const Obituary& life) {
    alignas(64) static std::byte stack[kStack];
    const bool closes_files = syscall(SYS_close_range, ~0U, ~0U, 0U) == 0;
    if (kArchitecture == 0 || !closes_files || is_watched()) return -1;
    // No signal at its end, and no tracer is told of it: debuggers would take it for a thread.
    return clone(keep, stack + kStack, CLONE_VM | CLONE_UNTRACED, const_cast<Obituary*>(&life));
}

void end_keeper(pid_t keeper) {
    kill(keeper, SIGKILL);
    while (waitpid(keeper, nullptr, __WALL) < 0 && errno == EINTR)
        continue;
}

}  // namespace coppice::transport::shm
