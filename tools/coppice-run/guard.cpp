#include "guard.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "bootstrap/process_tree.hpp"
#include "message.hpp"

namespace coppice::run {
namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

bool ignored(int signal) {
    struct sigaction action {};
    return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Waits for the worker; hands signals on to it.
int guard(pid_t worker, const sigset_t& signals) {
    for (;;) {
        siginfo_t info{};
        const int signal = ::sigwaitinfo(&signals, &info);
        if (signal < 0) continue;
        if (signal != SIGCHLD) {
            sigval value{};
            value.sival_int = signal;
            ::sigqueue(worker, request_signal(), value);
            continue;
        }
        int status = 0;
        for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
            if (pid != worker) continue;
            if (WIFSIGNALED(status)) {
                say("the launcher's working process {} was killed by signal {} ({}); ending all ranks", worker,
                    WTERMSIG(status), strsignal(WTERMSIG(status)));
            }
            end_all_descendants();
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        }
    }
}

pid_t guard_of_this_worker = -1;

}  // namespace

void rearm_guard_signal() {
    ::prctl(PR_SET_PDEATHSIG, guard_died_signal());
    if (::getppid() != guard_of_this_worker) ::_exit(1);
}

int request_signal() {
    return SIGRTMIN;
}
int guard_died_signal() {
    return SIGRTMIN + 1;
}

void end_all_descendants() {
    constexpr int kPatienceMs = 10'000;
    for (int waited_ms = 0;; ++waited_ms) {
        while (::waitpid(-1, nullptr, WNOHANG) > 0) {
        }
        const auto left = bootstrap::descendants_of(::getpid());
        if (left.empty()) return;
        for (const pid_t pid : left)
            ::kill(pid, SIGKILL);
        if (waited_ms > kPatienceMs) {
            for (const pid_t pid : left)
                say("process {} does not die; it is left to itself", pid);
            return;
        }
        ::poll(nullptr, 0, 1);
    }
}

int run_guarded(const std::function<int(const SignalState&)>& worker) {
    SignalState before{};
    before.sigpipe_ignored = ignored(SIGPIPE);
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGCHLD);
    for (const int signal : kForwarded) {
        if (!ignored(signal)) ::sigaddset(&signals, signal);  // nohup means what it says
    }
    sigset_t blocked = signals;
    ::sigaddset(&blocked, request_signal());
    ::sigaddset(&blocked, guard_died_signal());
    ::sigprocmask(SIG_BLOCK, &blocked, &before.mask);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGCHLD, SIG_DFL);  // inherited as ignored, it would hide how ranks ended
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);

    const pid_t guard_pid = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) {
        say("cannot start: fork: {} (see `ulimit -u`)", std::strerror(errno));
        return 1;
    }
    if (pid > 0) return guard(pid, signals);

    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    guard_of_this_worker = guard_pid;
    rearm_guard_signal();
    const int code = worker(before);
    end_all_descendants();
    ::_exit(code);
}

}  // namespace coppice::run
