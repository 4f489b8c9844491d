// How a waiting loop waits: spin, then give the core away, then sleep a little.
//
// The order is what measurements ask for. A short spin catches what is already on its way. With more ranks than cores
// the one waited for may need this very core, so then there is no spinning, and sched_yield is the whole wait (all
// ranks must be in one session: autogroup scheduling keeps yields inside a session). Only after milliseconds of
// fruitless yielding does it sleep, at most kLongestSleepNs at a time, so that sixteen ranks waiting for something slow do
// not eat two cores, and nothing waits noticeably for a sleeper.
#pragma once

#include <poll.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"

namespace coppice::transport {

inline void relax_cpu() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
}

class Idle {
  public:
    static constexpr std::uint32_t kSpins = 2000;
    static constexpr std::uint32_t kYieldsPerLook = 64;  // yields between two looks at the clock
    static constexpr std::uint64_t kYieldForNs = 5'000'000;
    static constexpr std::uint64_t kShortestSleepNs = 50'000;
    static constexpr std::uint64_t kLongestSleepNs = 500'000;
    // Where whatever is waited for ends the sleep, but for rare things.
    static constexpr std::uint64_t kLongestWatchedSleepNs = 4'000'000;

    // `oversubscribed`: more ranks on this host than cores for them.
    explicit Idle(bool oversubscribed) : spins_(oversubscribed ? 0 : kSpins) {}

    // Something happened: the next wait begins from the start.
    void reset() { count_ = 0; }

    // The next pause() sleeps: now is the time to have a descriptor to wake up by.
    bool sleeps_next() const { return count_ > spins_ && sleep_ns_ != 0; }

    // Nothing happened: waits a little, the longer the more often it was called since reset(). A sleep ends early when
    // `descriptor` becomes readable, and may then be longer: `longest_ns`.
    void pause(int descriptor = -1, std::uint64_t longest_ns = kLongestSleepNs) {
        if (count_ < spins_) {
            ++count_;
            relax_cpu();
            return;
        }
        give_way(descriptor, longest_ns);
    }

  private:
    void give_way(int descriptor, std::uint64_t longest_ns) {
        if (count_ == spins_) {
            yielding_since_ns_ = 0;
            sleep_ns_ = 0;
        }
        // Far from wrapping: at a sleep or a yield each, 2^32 of them take an hour, and then the wait only starts over.
        ++count_;
        if (sleep_ns_ == 0) {
            sched_yield();
            if ((count_ - spins_) % kYieldsPerLook != 0) return;
            const std::uint64_t now = now_ns();
            if (yielding_since_ns_ == 0) yielding_since_ns_ = now;
            if (now - yielding_since_ns_ >= kYieldForNs) sleep_ns_ = kShortestSleepNs;
            return;
        }
        const timespec nap{0, static_cast<long>(sleep_ns_)};
        pollfd readable{.fd = descriptor, .events = POLLIN, .revents = 0};
        if (descriptor >= 0)
            ppoll(&readable, 1, &nap, nullptr);
        else
            nanosleep(&nap, nullptr);
        sleep_ns_ = std::min(2 * sleep_ns_, longest_ns);
    }

    std::uint32_t spins_;
    std::uint32_t count_ = 0;
    std::uint64_t yielding_since_ns_ = 0;
    std::uint64_t sleep_ns_ = 0;
};

}  // namespace coppice::transport
