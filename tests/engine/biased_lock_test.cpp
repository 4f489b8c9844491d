// The lock between callers and the progress thread: never both inside, and neither waits for the other for good.
#include "engine/progress/biased_lock.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace coppice::engine {
namespace {

TEST(BiasedLock, CountsEntriesAndShowsWhichThreadIsInside) {
    BiasedLock lock;
    EXPECT_FALSE(BiasedLock::is_inside(lock.entries()));
    const std::uint32_t before = lock.entries();
    lock.enter();
    EXPECT_TRUE(BiasedLock::is_inside(lock.entries()));
    lock.enter();
    EXPECT_FALSE(lock.leave()) << "nested";
    EXPECT_TRUE(BiasedLock::is_inside(lock.entries()));
    EXPECT_TRUE(lock.leave());
    EXPECT_FALSE(BiasedLock::is_inside(lock.entries()));
    EXPECT_NE(lock.entries(), before) << "that somebody was here must show";
}

TEST(BiasedLock, IsNotClaimedWhileACallerIsInside) {
    BiasedLock lock;
    lock.enter();
    EXPECT_FALSE(lock.try_claim());
    lock.leave();
    EXPECT_TRUE(lock.try_claim());
    lock.release();
    lock.enter();  // would wait for ever if the claim were not given back
    lock.leave();
}

TEST(BiasedLock, KeepsCallersAndTheThreadApart) {
    constexpr std::uint64_t kEach = 20'000;
    BiasedLock lock;
    // Plain, so that two inside at once lose counts (and the thread sanitizer says so).
    std::uint64_t value = 0;
    std::thread thread([&] {
        for (std::uint64_t claimed = 0; claimed < kEach;) {
            if (!lock.try_claim()) continue;
            ++value;
            ++claimed;
            lock.release();
        }
    });
    for (std::uint64_t i = 0; i < kEach; ++i) {
        lock.enter();
        ++value;
        lock.leave();
        if (i % 16 == 0) std::this_thread::yield();
    }
    thread.join();
    EXPECT_EQ(value, 2 * kEach);
}

TEST(BiasedLock, SaysThatACallerWaits) {
    BiasedLock lock;
    ASSERT_TRUE(lock.try_claim());
    std::thread caller([&] {
        lock.enter();
        lock.leave();
    });
    while (!lock.is_wanted())
        std::this_thread::yield();
    lock.release();
    caller.join();
    EXPECT_FALSE(BiasedLock::is_inside(lock.entries()));
}

// A thread that gives the lock back and claims it again at once would keep out a caller that has to be woken first.
TEST(BiasedLock, IsNotClaimedAgainBeforeACallerThatWaitsHasBeenIn) {
    for (int round = 0; round < 100; ++round) {
        BiasedLock lock;
        bool was_in = false;
        ASSERT_TRUE(lock.try_claim());
        std::thread caller([&] {
            lock.enter();
            was_in = true;
            lock.leave();
        });
        while (!lock.is_wanted())
            std::this_thread::yield();
        lock.release();
        while (!lock.try_claim())
            std::this_thread::yield();
        const bool was_in_first = was_in;
        lock.release();
        caller.join();
        ASSERT_TRUE(was_in_first) << "round " << round;
    }
}

// The progress thread goes by what entries() has become since its last look.
TEST(BiasedLock, AGlanceIsNoEntryOnceItIsOver) {
    BiasedLock lock;
    const std::uint32_t before = lock.entries();
    lock.enter();
    lock.note_glance();
    EXPECT_TRUE(BiasedLock::is_inside(lock.entries()));
    lock.leave();
    EXPECT_EQ(lock.entries(), before);
    lock.enter();
    lock.leave();
    EXPECT_NE(lock.entries(), before);
}

}  // namespace
}  // namespace coppice::engine
