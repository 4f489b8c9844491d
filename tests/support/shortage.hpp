// A process that has no descriptor left.
#pragma once

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "support/processes.hpp"

namespace coppice::testing {

// While it lives this process can open no more than `left`, its tests and the library together.
class Shortage {
  public:
    explicit Shortage(std::size_t left = 0) {
        COPPICE_CHECK(getrlimit(RLIMIT_NOFILE, &before_) == 0);
        const int last = ::dup(STDERR_FILENO);
        COPPICE_CHECK(last >= 0);
        taken_.push_back(last);
        rlimit fewer = before_;
        fewer.rlim_cur = std::min<rlim_t>(fewer.rlim_cur, static_cast<rlim_t>(last) + 64);
        COPPICE_CHECK(setrlimit(RLIMIT_NOFILE, &fewer) == 0);
        // What other threads have open for a moment is free again a moment later.
        for (int rounds = 0; rounds < 50; ++rounds) {
            for (int more = ::dup(STDERR_FILENO); more >= 0; more = ::dup(STDERR_FILENO))
                taken_.push_back(more);
            COPPICE_CHECK(errno == EMFILE);
            ::poll(nullptr, 0, 10);
        }
        for (; left > 0; --left) {
            ::close(taken_.back());
            taken_.pop_back();
        }
    }
    ~Shortage() {
        for (const int one : taken_)
            ::close(one);
        setrlimit(RLIMIT_NOFILE, &before_);
    }
    Shortage(const Shortage&) = delete;
    Shortage& operator=(const Shortage&) = delete;

  private:
    rlimit before_{};
    std::vector<int> taken_;
};

// How long a sleeper is watched, and how often it may wake meanwhile: twenty times what two looks in half a second come to. One that is
// woken again and again wakes some 100,000 times; on a slow machine both wake less often.
inline constexpr std::uint64_t kWatchedNs = 3'000'000'000;
inline constexpr std::uint64_t kMostWakes = 20 * 14;

// Of one that sleeps on that descriptor, and does `work` when it is readable.
template <class Work>
std::uint64_t count_wakes(int descriptor, Work&& work) {
    std::uint64_t wakes = 0;
    for (const std::uint64_t end = now_ns() + kWatchedNs; now_ns() < end;) {
        pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
        if (::poll(&entry, 1, 100) <= 0) continue;
        ++wakes;
        work();
    }
    return wakes;
}

}  // namespace coppice::testing
