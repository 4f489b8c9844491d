#include "support/processes.hpp"

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace coppice::testing {

namespace {

constexpr useconds_t kLookAgainUs = 200;

std::size_t entries(const char* directory) {
    DIR* const dir = opendir(directory);
    if (dir == nullptr) return 0;
    std::size_t count = 0;
    while (const dirent* entry = readdir(dir))
        if (entry->d_name[0] != '.') ++count;
    closedir(dir);
    return count;
}

}  // namespace

std::uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

bool Ending::well() const {
    return !timed_out && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool Ending::killed_by(int signal) const {
    return !timed_out && WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

std::string Ending::text() const {
    if (timed_out) return "still running at the deadline";
    if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
    return "exit code " + std::to_string(WEXITSTATUS(status));
}

std::size_t Processes::start(const std::function<int()>& body) {
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int code = 1;
        try {
            code = body();
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "process %d: %s\n", static_cast<int>(getpid()), failure.what());
        }
        std::exit(code);
    }
    children_.push_back({pid, false});
    return children_.size() - 1;
}

void Processes::signal(std::size_t index, int number) const {
    kill(children_[index].pid, number);
}

bool Processes::has_ended(std::size_t index) const {
    siginfo_t info{};
    const auto pid = static_cast<id_t>(children_[index].pid);
    return waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

bool Processes::await_zombie(std::size_t index) const {
    return becomes([&] { return has_ended(index); });
}

Ending Processes::wait(std::size_t index, std::uint64_t deadline_ns) {
    Child& child = children_[index];
    // Its number may be another process's by now.
    if (child.reaped) throw std::logic_error("child " + std::to_string(index) + " has been waited for before");
    Ending ending;
    while (true) {
        const pid_t reaped = waitpid(child.pid, &ending.status, WNOHANG);
        if (reaped == child.pid) break;
        if (now_ns() > deadline_ns) {
            kill(child.pid, SIGKILL);
            waitpid(child.pid, &ending.status, 0);
            ending.timed_out = true;
            break;
        }
        usleep(kLookAgainUs);
    }
    child.reaped = true;
    return ending;
}

Processes::~Processes() {
    clear();
}

void Processes::clear() {
    for (const Child& child : children_) {
        if (child.reaped) continue;
        kill(child.pid, SIGKILL);
        waitpid(child.pid, nullptr, 0);
    }
    children_.clear();
}

SharedMemory::SharedMemory(std::size_t bytes) : bytes_(bytes) {
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::runtime_error(std::string("mmap: ") + std::strerror(errno));
}

SharedMemory::~SharedMemory() {
    munmap(memory_, bytes_);
}

std::size_t open_descriptors() {
    return entries("/proc/self/fd");
}

bool becomes(const std::function<bool()>& condition, std::uint64_t within_ns) {
    const std::uint64_t deadline = now_ns() + within_ns;
    while (!condition()) {
        if (now_ns() > deadline) return false;
        usleep(kLookAgainUs);
    }
    return true;
}

std::size_t threads() {
    return entries("/proc/self/task");
}

}  // namespace coppice::testing
