// How often the progress thread looks at callers that never stop, and by which clock it sleeps.
#include "engine/progress/progress_thread.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "base/clock.hpp"

namespace coppice::engine {
namespace {

// A caller that has entered or left since each look: it is found inside every other time.
class Busy final : public Attended {
  public:
    explicit Busy(std::size_t looks) : times_(looks) {}

    BiasedLock& lock() override {
        const std::size_t look = looks_;
        if (look < times_.size()) times_[look] = coppice::now_ns();
        if (look % 2 == 0) {
            lock_.enter();
        } else {
            lock_.leave();
        }
        looks_ = look + 1;
        return lock_;
    }
    const Clock& clock() const override { return real_clock(); }
    bool has_work() const override { return false; }
    std::size_t progress_for_callers() override { return 0; }
    std::uint64_t arm(std::vector<pollfd>& /*descriptors*/) override { return UINT64_MAX; }
    void note_duty() override {}

    // Once all looks have been taken.
    const std::vector<std::uint64_t>& times() const { return times_; }
    bool is_over() const { return looks_ > times_.size(); }

  private:
    BiasedLock lock_;
    std::vector<std::uint64_t> times_;
    std::atomic<std::size_t> looks_{0};
};

// Nobody calls it; it has a timer each time it is to be slept on, by a clock that is an hour ahead.
class Ahead final : public Attended, private Clock {
  public:
    BiasedLock& lock() override { return lock_; }
    const Clock& clock() const override { return *this; }
    bool has_work() const override { return true; }
    std::size_t progress_for_callers() override { return 0; }
    std::uint64_t arm(std::vector<pollfd>& /*descriptors*/) override {
        ++sleeps_;
        return now_ns() + 1'000'000;
    }
    void note_duty() override {}
    std::size_t sleeps() const { return sleeps_; }

  private:
    std::uint64_t now_ns() const override { return coppice::now_ns() + 3'600'000'000'000; }

    BiasedLock lock_;
    std::atomic<std::size_t> sleeps_{0};
};

TEST(ProgressThreads, SleepByTheClockOfWhatTheyAttendTo) {
    Ahead ahead;
    ASSERT_TRUE(ProgressThread::instance().attend(ahead).has_value());
    const std::uint64_t deadline = coppice::now_ns() + 60'000'000'000;
    while (ahead.sleeps() < 3 && coppice::now_ns() < deadline)
        ::usleep(1000);
    ProgressThread::instance().forsake(ahead);
    EXPECT_GE(ahead.sleeps(), 3U) << "it sleeps until the hour is over";
}

TEST(ProgressThreads, LookSeldomAtCallersThatNeverStop) {
    constexpr std::size_t kLooks = ProgressThread::kTicks + 12;
    Busy busy(kLooks);
    ASSERT_TRUE(ProgressThread::instance().attend(busy).has_value());
    const std::uint64_t deadline = coppice::now_ns() + 60'000'000'000;
    while (!busy.is_over() && coppice::now_ns() < deadline)
        ::usleep(1000);
    const bool is_over = busy.is_over();
    ProgressThread::instance().forsake(busy);
    ASSERT_TRUE(is_over);
    // The first ones are of the time before it knew that.
    for (std::size_t look = kLooks - 8; look < kLooks; ++look)
        EXPECT_GE(busy.times()[look] - busy.times()[look - 1], ProgressThread::kLongTickNs) << look;
}

}  // namespace
}  // namespace coppice::engine
