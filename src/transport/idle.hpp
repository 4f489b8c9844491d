// How a waiting loop waits: spin, then give the core away, then sleep a little.
//
// The order is what measurements ask for. A short spin catches what is already on its way; it is bounded by time, because a poll
// costs nanoseconds over shared memory and a system call over UCX. Where others want the core there is no spinning, as the
// one waited for may need this very core: which of these it is, CoreSharing finds out for each thread. (All ranks must be in
// one session: autogroup scheduling keeps yields inside a session.) Only after milliseconds of fruitless yielding does it
// sleep, at most kLongestSleepNs at a time, so that sixteen ranks waiting for something slow do not eat two cores, and nothing
// waits noticeably for a sleeper. Beside a program that computes it sleeps at once, and within a ration of CPU time soon.
//
// A wait that ends within kFreePolls reads no clock and makes no system call. One wait is one thread's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "transport/core_sharing.hpp"
#include "transport/cpu_quota.hpp"

namespace coppice::transport {

inline void relax_cpu() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
}

// What a wait needs of the machine, for the calling thread. Tests have another.
struct ThisThread {
    static CoreSharing& sharing();
    static std::uint64_t now_ns();
    static std::uint64_t switches();  // involuntary ones
    static void yield();
    // Until then, or until `descriptor` is readable; −1: none.
    static void sleep(int descriptor, std::uint64_t at_most_ns);
    // Whether the process has run out of CPU time lately. To be asked as often as one likes.
    static bool limited(std::uint64_t now_ns) { return cpu_is_limited(now_ns); }
    static void relax() { relax_cpu(); }
};

struct IdleTimes {
    static constexpr std::uint32_t kFreePolls = 16;  // before the first look at the clock
    static constexpr std::uint32_t kPollsPerLook = 8;
    static constexpr std::uint64_t kSpinNs = 20'000;
    static constexpr std::uint64_t kYieldForNs = 5'000'000;
    static constexpr std::uint64_t kYieldForLimitedNs = 200'000;  // where CPU time is rationed
    static constexpr std::uint64_t kShortestSleepNs = 50'000;
    static constexpr std::uint64_t kLongestSleepNs = 500'000;
    // Where whatever is waited for ends the sleep, but for rare things.
    static constexpr std::uint64_t kLongestWatchedSleepNs = 4'000'000;
};

template <class Machine>
class BasicIdle : public IdleTimes {
  public:
    // `ranks_per_core`: ranks of a group on this host for each core that they share. `spin_ns`: spin for so long, then yield, whatever else
    // wants the core.
    explicit BasicIdle(std::uint32_t ranks_per_core, std::optional<std::uint64_t> spin_ns = std::nullopt)
        : spin_ns_(spin_ns), ranks_per_core_(ranks_per_core) {}

    // Something happened: the next wait begins from the start.
    void reset() {
        polls_ = 0;
        phase_ = Phase::fresh;
    }

    // The next pause() sleeps: now is the time to have a descriptor to wake up by.
    bool sleeps_next() const { return phase_ == Phase::sleeping; }
    // And ranks of this host that publish shall ring for it.
    bool wants_rings() const { return !spin_ns_ && Machine::sharing().wants_rings(); }

    // Nothing happened: waits a little, the longer the more often it was called since reset(). A sleep ends early when
    // `descriptor` becomes readable, and may then be longer: `longest_ns`.
    void pause(int descriptor = -1, std::uint64_t longest_ns = kLongestSleepNs) {
        if (polls_ > 0) {
            --polls_;
            Machine::relax();
            return;
        }
        go_on(descriptor, longest_ns);
    }

  private:
    enum class Phase : std::uint8_t { fresh, free, spinning, yielding, sleeping };

    [[gnu::noinline]] void go_on(int descriptor, std::uint64_t longest_ns) {
        switch (phase_) {
            case Phase::fresh:
                begin();
                return;
            case Phase::free:
                since_ns_ = Machine::now_ns();
                phase_ = Phase::spinning;
                polls_ = kPollsPerLook - 1;
                Machine::relax();
                return;
            case Phase::spinning:
                spin();
                return;
            case Phase::yielding:
                yield();
                return;
            case Phase::sleeping:
                Machine::sleep(descriptor, sleep_ns_);
                sleep_ns_ = std::min(2 * sleep_ns_, longest_ns);
                return;
        }
    }

    void begin() {
        CoreSharing& sharing = Machine::sharing();
        sharing.begin(ranks_per_core_ > 1);
        CoreSharing::Step step = CoreSharing::Step::yield;
        if (!spin_ns_) {
            step = sharing.first();
        } else if (*spin_ns_ > 0) {
            step = CoreSharing::Step::spin;
        }
        if (step != CoreSharing::Step::spin) return go_to(step);
        phase_ = Phase::free;
        polls_ = kFreePolls - 1;
        Machine::relax();
    }

    void spin() {
        const std::uint64_t now = Machine::now_ns();
        if (now - since_ns_ < spin_ns_.value_or(kSpinNs)) {
            polls_ = kPollsPerLook - 1;
            Machine::relax();
            return;
        }
        if (spin_ns_) return go_to(CoreSharing::Step::yield);
        Machine::sharing().set_limited(Machine::limited(now));
        go_to(Machine::sharing().then());
    }

    void go_to(CoreSharing::Step step) {
        if (step == CoreSharing::Step::sleep) {
            Machine::sharing().slept();
            start_sleeping();
        } else {
            phase_ = Phase::yielding;
            since_ns_ = 0;
            yield();
        }
    }
    void start_sleeping() {
        phase_ = Phase::sleeping;
        sleep_ns_ = kShortestSleepNs;
    }

    void yield() {
        const std::uint64_t before = Machine::now_ns();
        if (since_ns_ == 0) since_ns_ = before;
        Machine::yield();
        const std::uint64_t after = Machine::now_ns();
        std::uint64_t longest = kYieldForNs;
        if (!spin_ns_) {
            CoreSharing& sharing = Machine::sharing();
            if (sharing.yielded(after - before, ranks_per_core_)) sharing.counted(Machine::switches());
            sharing.set_limited(Machine::limited(after));
            if (sharing.limited()) longest = kYieldForLimitedNs;
            if (sharing.then() == CoreSharing::Step::sleep) longest = 0;
        }
        if (after - since_ns_ >= longest) start_sleeping();
    }

    std::optional<std::uint64_t> spin_ns_;
    std::uint32_t ranks_per_core_;
    Phase phase_ = Phase::fresh;
    std::uint32_t polls_ = 0;     // before the next step
    std::uint64_t since_ns_ = 0;  // of spinning, or of yielding
    std::uint64_t sleep_ns_ = 0;
};

using Idle = BasicIdle<ThisThread>;

}  // namespace coppice::transport
