#include "cores.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>

#include <fmt/format.h>

#include "bootstrap/process_tree.hpp"

namespace coppice::run {
namespace {

cpu_set_t only(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    return set;
}

void move_thread(pid_t thread, int from, int to) {
    const cpu_set_t old = only(from);
    const cpu_set_t next = only(to);
    cpu_set_t now;
    if (::sched_getaffinity(thread, sizeof now, &now) != 0 || !CPU_EQUAL(&now, &old)) return;
    ::sched_setaffinity(thread, sizeof next, &next);  // it may have ended
}

std::vector<pid_t> threads_of(pid_t process) {
    std::vector<pid_t> threads;
    std::error_code gone;
    for (std::filesystem::directory_iterator at(fmt::format("/proc/{}/task", process), gone), end; !gone && at != end;
         at.increment(gone)) {
        const std::string name = at->path().filename();
        pid_t thread = 0;
        if (std::from_chars(name.data(), name.data() + name.size(), thread).ec == std::errc{})
            threads.push_back(thread);
    }
    return threads;
}

// A thread that was being made meanwhile has its maker's core: those that are there when nothing is new have all been moved. A program that
// makes threads all the time is not followed for ever.
void move_threads(pid_t process, int from, int to) {
    constexpr int kMostLooks = 8;
    std::vector<pid_t> moved;
    for (int look = 0; look < kMostLooks; ++look) {
        std::vector<pid_t> threads = threads_of(process);
        if (threads == moved) return;
        for (const pid_t thread : threads)
            move_thread(thread, from, to);
        moved = std::move(threads);
    }
}

}  // namespace

Cores Cores::allowed() {
    std::vector<int> cores;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) == 0) {
        for (int core = 0; core < CPU_SETSIZE; ++core) {
            if (CPU_ISSET(core, &set)) cores.push_back(core);
        }
    }
    return Cores(std::move(cores));
}

int Cores::of_rank(std::uint32_t rank) const {
    return cores_.empty() ? kAny : cores_[rank % cores_.size()];
}

int Cores::least_used(std::span<const int> others, int wanted) const {
    if (cores_.empty()) return kAny;
    std::vector<int> in_turn = cores_;
    const auto first = std::ranges::find(in_turn, wanted);
    if (first != in_turn.end()) std::ranges::rotate(in_turn, first);
    return *std::ranges::min_element(in_turn, {}, [others](int core) { return std::ranges::count(others, core); });
}

void pin(int core) {
    if (core == Cores::kAny) return;
    const cpu_set_t set = only(core);
    ::sched_setaffinity(0, sizeof set, &set);
}

void move(pid_t process, int from, int to) {
    if (from == to || from == Cores::kAny || to == Cores::kAny) return;
    move_threads(process, from, to);
    for (const pid_t below : bootstrap::descendants_of(process))
        move_threads(below, from, to);
}

}  // namespace coppice::run
