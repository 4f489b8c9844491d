// How often the progress thread looks at callers that never stop.
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
