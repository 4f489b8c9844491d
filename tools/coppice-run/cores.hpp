// Which core each process is pinned to (--bind core): rank R to core R mod cores. A process that is started late gets the core with
// the fewest others, when it starts and again when another process is lost: a spare that shares its core with two ranks, while the
// dead one's is free, would make all wait for it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

namespace coppice::run {

class Cores {
  public:
    static constexpr int kAny = -1;

    // Those of the calling process.
    static Cores allowed();
    explicit Cores(std::vector<int> cores) : cores_(std::move(cores)) {}

    // kAny where there are none.
    int of_rank(std::uint32_t rank) const;
    // Which fewest of the others run on. Of several `wanted`, if it is among them, or else the first after it.
    int least_used(std::span<const int> others, int wanted) const;

  private:
    std::vector<int> cores_;
};

// The calling process.
void pin(int core);
// A process with those that it has started so far. What has pinned itself elsewhere since stays there.
void move(pid_t process, int from, int to);

}  // namespace coppice::run
