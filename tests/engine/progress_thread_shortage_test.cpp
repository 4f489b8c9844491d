// A progress thread that can't be made leaves the caller's thread as it was.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <new>
#include <vector>

#include "engine/progress/progress_thread.hpp"
#include "support/no_memory.hpp"

namespace coppice::engine {
namespace {

class Idle final : public Attended {
  public:
    BiasedLock& lock() override { return lock_; }
    const Clock& clock() const override { return real_clock(); }
    bool has_work() const override { return false; }
    std::size_t progress_for_callers() override { return 0; }
    std::uint64_t arm(std::vector<pollfd>& /*descriptors*/) override { return UINT64_MAX; }
    void note_duty() override {}

  private:
    BiasedLock lock_;
};

int lowest_free_descriptor() {
    const int one = ::dup(STDERR_FILENO);
    ::close(one);
    return one;
}

std::ptrdiff_t threads() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST(ProgressThreads, WithoutMemoryLeaveSignalsAndDescriptorsAsTheyWere) {
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &usr1, nullptr), 0);
    const int free_before = lowest_free_descriptor();
    const auto threads_before = threads();
    Idle idle;
    std::uint32_t refused = 0;
    for (bool is_attended = false; !is_attended; ++refused) {
        ASSERT_LT(refused, 100U);
        try {
            const testing::NoMemory few(refused);
            is_attended = ProgressThread::instance().attend(idle).has_value();
        } catch (const std::bad_alloc&) {
            is_attended = false;
        }
        sigset_t now;
        ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &now), 0);
        ASSERT_EQ(sigismember(&now, SIGUSR1), 0) << "with " << refused;
        if (threads() == threads_before) {
            EXPECT_EQ(lowest_free_descriptor(), free_before) << "with " << refused;
        }
    }
    EXPECT_GT(refused, 2U);
    ProgressThread::instance().forsake(idle);
    EXPECT_EQ(lowest_free_descriptor(), free_before);
}

}  // namespace
}  // namespace coppice::engine
