// The lock of several calling threads: one inside at a time, and a thread that wants it gets it.
#include "engine/progress/turn_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace coppice::engine {
namespace {

TEST(TurnLock, IsTakenAgainByTheThreadThatHasIt) {
    TurnLock lock;
    lock.lock();
    lock.lock();
    EXPECT_TRUE(lock.try_lock());
    lock.unlock();
    lock.unlock();
    std::thread([&] { EXPECT_FALSE(lock.try_lock()) << "it was taken three times and given back twice"; }).join();
    lock.unlock();
    std::thread([&] {
        EXPECT_TRUE(lock.try_lock());
        lock.unlock();
    }).join();
}

TEST(TurnLock, KeepsThreadsApart) {
    constexpr int kThreads = 5;
    constexpr std::uint64_t kEach = 20'000;
    TurnLock lock;
    std::uint64_t value = 0;  // plain, so that two inside at once lose counts (and the thread sanitizer says so)
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
            for (std::uint64_t done = 0; done < kEach;) {
                if (i == 0 && !lock.try_lock()) continue;
                if (i != 0) lock.lock();
                ++value;
                ++done;
                lock.unlock();
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(value, kThreads * kEach);
    EXPECT_FALSE(lock.is_awaited());
}

// As a program does that asks again and again whether its request has ended.
TEST(TurnLock, IsHandedToAThreadThatWaitsHoweverOftenOthersComeBack) {
    constexpr std::uint32_t kWaiters = 3;
    TurnLock lock;
    std::atomic<std::uint32_t> served{0};
    lock.lock();
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < kWaiters; ++i) {
        threads.emplace_back([&] {
            const std::scoped_lock turn(lock);
            ++served;
        });
    }
    while (lock.waiting() < kWaiters)
        std::this_thread::yield();
    std::uint32_t turns = 0;
    for (; served < kWaiters; ++turns) {
        lock.unlock();
        lock.lock();
    }
    lock.unlock();
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_LE(turns, kWaiters * (TurnLock::kOvertakes + 1));
}

TEST(TurnLock, IsNotTriedWhileOthersWait) {
    TurnLock lock;
    lock.lock();
    std::thread waiter([&] { const std::scoped_lock turn(lock); });
    while (lock.waiting() == 0)
        std::this_thread::yield();
    std::thread([&] { EXPECT_FALSE(lock.try_lock()); }).join();
    lock.unlock();
    waiter.join();
    EXPECT_TRUE(lock.try_lock());
    lock.unlock();
}

}  // namespace
}  // namespace coppice::engine
