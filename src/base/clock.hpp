// The clock: CLOCK_MONOTONIC in nanoseconds, the same for all processes of one kernel. The engine and what stands on it read it
// through a Clock, which a simulation replaces by its own. Transports, bootstrap/, which waits for launchers and doors through sockets, and
// what reads the pages of other processes (status/gather.cpp) call now_ns(): a simulation has other parts in their place.
#pragma once

#include <cstdint>
#include <ctime>

namespace coppice {

inline std::uint64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

class Clock {
  public:
    virtual std::uint64_t now_ns() const = 0;

  protected:
    ~Clock() = default;
};
const Clock& real_clock();

// The deadline `timeout_ns` from now; UINT64_MAX means never.
inline std::uint64_t deadline_after(const Clock& clock, std::uint64_t timeout_ns) {
    const std::uint64_t now = clock.now_ns();
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

// A deadline that counts from the first look at it: a call that never has to wait reads no clock. UINT64_MAX means
// never.
class Deadline {
  public:
    Deadline(const Clock& clock, std::uint64_t timeout_ns) : clock_(clock), timeout_ns_(timeout_ns) {}

    bool passed() {
        if (timeout_ns_ == UINT64_MAX) return false;
        if (at_ns_ == 0) at_ns_ = deadline_after(clock_, timeout_ns_);
        return clock_.now_ns() >= at_ns_;
    }

  private:
    const Clock& clock_;
    std::uint64_t timeout_ns_;
    std::uint64_t at_ns_ = 0;
};

}  // namespace coppice
