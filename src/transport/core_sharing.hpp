// Whether others want the core of a waiting thread: found out from what happens when the thread gives it away, without a
// clock or a system call of its own.
//
// Nobody can count who shares a core: other jobs, containers and simulated hosts do. But it shows:
//   - Alone: sched_yield does not switch. The thread spins first, so that it sees at once what is on its way.
//   - Shared: most yields switch, and the core comes back after microseconds: the others are ranks that wait, too. What is
//     waited for may need this very core, so the thread yields at once.
//   - Taken: yields cost a good part of a time slice, and more than one did: the other is a program that computes. The
//     thread spins (the scheduler takes the core by itself in time) and then sleeps instead of yielding, because a sleeper
//     keeps its claim to the core and who yields gives it up. Now and then it tries to yield again.
// It goes on finding out in both directions. One of these per thread, for all of its waits.
#pragma once

#include <algorithm>
#include <cstdint>

namespace coppice::transport {

class CoreSharing {
  public:
    static constexpr std::uint32_t kYieldsAlone = 4;    // between two looks at the count of switches, while alone
    static constexpr std::uint32_t kYieldsShared = 64;  // and while others share the core
    static constexpr std::uint64_t kSliceNs = 500'000;  // ranks that wait give the core back long before
    static constexpr std::uint32_t kRemembered = 16;    // yields after which one that cost a slice is forgotten
    static constexpr std::uint32_t kLeastSleeps = 32;   // waits that sleep at once before a yield is tried again
    static constexpr std::uint32_t kMostSleeps = 1024;

    // Before the first wait nothing is known. `oversubscribed`: a group has more ranks here than cores.
    void begin(bool oversubscribed) {
        if (begun_) return;
        begun_ = true;
        shared_ = oversubscribed;
    }

    // How a wait goes on: it spins first; then it yields, or else sleeps at once.
    bool spins() const { return !shared_ || taken_; }
    bool yields() const { return !taken_; }

    // A yield took so long. True: counted() is to follow.
    bool yielded(std::uint64_t took_ns) {
        if (took_ns >= kSliceNs) {
            if (slice_remembered_ > 0) take();
            slice_remembered_ = kRemembered;
        } else if (slice_remembered_ > 0 && --slice_remembered_ == 0) {
            sleeps_ = kLeastSleeps;
        }
        ++yields_;
        return !counting_ || yields_ >= (shared_ ? kYieldsShared : kYieldsAlone);
    }

    // How often the kernel has run others in place of this thread since it began, as ru_nivcsw has it (yields count there).
    void counted(std::uint64_t switches) {
        const std::uint64_t others = switches - switches_;
        if (counting_) shared_ = shared_ ? 8 * others >= yields_ : 2 * others >= yields_;
        counting_ = true;
        switches_ = switches;
        yields_ = 0;
    }

    // A wait slept where it would have yielded.
    void slept() {
        if (!taken_ || --sleeps_left_ > 0) return;
        taken_ = false;
        slice_remembered_ = kRemembered;  // one more yield like those is enough
    }

  private:
    void take() {
        taken_ = true;
        sleeps_left_ = sleeps_;
        sleeps_ = std::min(2 * sleeps_, kMostSleeps);
    }

    bool begun_ = false;
    bool shared_ = false;
    bool taken_ = false;
    bool counting_ = false;
    std::uint32_t yields_ = 0;            // since the last look at the count
    std::uint32_t slice_remembered_ = 0;  // yields for which one that cost a slice is still remembered
    std::uint32_t sleeps_ = kLeastSleeps;
    std::uint32_t sleeps_left_ = 0;
    std::uint64_t switches_ = 0;
};

}  // namespace coppice::transport
