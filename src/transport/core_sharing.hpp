// Whether others want the core of a waiting thread: found out from what happens when the thread gives it away, without a
// clock or a system call of its own.
//
// What shares a core cannot be counted: other jobs, containers and simulated hosts do. But it shows:
//   - Alone: sched_yield does not switch. The thread spins first, so that it sees at once what is on its way.
//   - Shared: most yields switch, and the core comes back after microseconds: the others are ranks that wait, too. What is
//     waited for may need this very core, so the thread yields at once.
//   - Taken: yields cost a good part of a time slice, and more than one did: the other is a program that computes. A
//     thread that yields gives up its claim to the core; one that sleeps keeps it, and runs soon after it is woken. So the thread
//     sleeps until it is rung for. It spins before that only while spinning was of use lately. Now and then it tries a yield again.
//   - Limited: the kernel stops all threads of the process for a while, because its control group has run out of CPU time. What
//     is spent on waiting is missing later: the thread does not spin, and soon sleeps.
// It goes on finding out in all directions. One of these per thread, for all of its waits.
#pragma once

#include <algorithm>
#include <cstdint>

namespace coppice::transport {

class CoreSharing {
  public:
    static constexpr std::uint32_t kYieldsAlone = 4;    // between two looks at the count of switches, while alone
    static constexpr std::uint32_t kYieldsShared = 64;  // and while others share the core
    // A program that computes keeps the core for 0.7 to 2.8 ms, the more the more cores there are, and until the next tick. Ranks that wait
    // give it back long before, but each of them may have some work of its own first: a new group is the most.
    static constexpr std::uint64_t kSliceNs = 900'000;
    static constexpr std::uint64_t kTurnNs = 200'000;  // of each further rank of the group on this core
    static constexpr std::uint32_t kRemembered = 16;   // yields after which one that cost a slice is forgotten
    static constexpr std::uint32_t kLeastSleeps = 32;  // waits that sleep at once before a yield is tried again
    static constexpr std::uint32_t kMostSleeps = 1024;
    static constexpr std::uint32_t kVainSpins = 4;   // in a row, and spinning is left alone, while the core is taken
    static constexpr std::uint32_t kSpinAgain = 16;  // waits later it is tried once more

    enum class Step : std::uint8_t { spin, yield, sleep };

    // Before the first wait nothing is known. `oversubscribed`: a group has more ranks here than cores.
    void begin(bool oversubscribed) {
        if (begun_) return;
        begun_ = true;
        shared_ = oversubscribed;
    }

    // How a wait begins.
    Step first() {
        if (limited_) return then();
        if (!taken_) return shared_ ? Step::yield : Step::spin;
        if (spun_ && !slept_) vain_spins_ = 0;
        slept_ = false;
        spun_ = vain_spins_ < kVainSpins || vain_spins_ % kSpinAgain == 0;
        if (!spun_) ++vain_spins_;
        return spun_ ? Step::spin : Step::sleep;
    }
    // And how it goes on, when it has spun.
    Step then() const { return taken_ ? Step::sleep : Step::yield; }
    // A sleeper is rung for by ranks of its host that publish: those spend time on that.
    bool wants_rings() const { return taken_ || limited_; }

    void set_limited(bool limited) { limited_ = limited; }
    bool limited() const { return limited_; }

    // A yield took so long. True: counted() is to follow.
    bool yielded(std::uint64_t took_ns, std::uint32_t ranks_per_core) {
        if (took_ns >= kSliceNs + (std::max(ranks_per_core, 1U) - 1) * kTurnNs) {
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
        slept_ = true;
        if (spun_) ++vain_spins_;
        if (!taken_ || --sleeps_left_ > 0) return;
        taken_ = false;
        slice_remembered_ = kRemembered;  // one more yield like those is enough
    }

  private:
    void take() {
        taken_ = true;
        vain_spins_ = 0;
        sleeps_left_ = sleeps_;
        sleeps_ = std::min(2 * sleeps_, kMostSleeps);
    }

    bool begun_ = false;
    bool shared_ = false;
    bool taken_ = false;
    bool limited_ = false;
    bool counting_ = false;
    bool spun_ = false;   // the last wait on a core that is taken did
    bool slept_ = false;  // and came to sleep
    std::uint32_t vain_spins_ = 0;
    std::uint32_t yields_ = 0;            // since the last look at the count
    std::uint32_t slice_remembered_ = 0;  // yields for which one that cost a slice is still remembered
    std::uint32_t sleeps_ = kLeastSleeps;
    std::uint32_t sleeps_left_ = 0;
    std::uint64_t switches_ = 0;
};

}  // namespace coppice::transport
