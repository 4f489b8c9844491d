// Which descriptors forked children keep.
#include "base/process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

namespace coppice {
namespace {

constexpr int kMostNumbers = 128;

std::set<int> open_numbers() {
    std::set<int> numbers;
    for (int number = 0; number < kMostNumbers; ++number)
        if (fcntl(number, F_GETFD) >= 0) numbers.insert(number);
    return numbers;
}

int make_any() {
    return eventfd(0, EFD_CLOEXEC);
}

// In a child of fork.
template <class Condition>
bool child_finds(Condition&& condition) {
    const pid_t child = fork();
    if (child == 0) _exit(condition() ? 0 : 1);
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0;
}

TEST(Process, AChildKeepsNoneThatAnotherThreadOpensOrClosesJustThen) {
    const process::Use use;
    const std::set<int> before = open_numbers();
    std::atomic<bool> over = false;
    std::thread other([&] {
        while (!over) {
            process::close_own(process::open_own([] {
                const int made = make_any();
                std::this_thread::yield();
                return made;
            }));
            std::this_thread::sleep_for(std::chrono::microseconds(20));  // else a fork hardly gets its turn
        }
    });
    int wrong = 0;
    for (int forks = 0; forks < 500; ++forks)
        wrong += child_finds([&] { return open_numbers() == before; }) ? 0 : 1;
    over = true;
    other.join();
    EXPECT_EQ(wrong, 0);
}

TEST(Process, WhatAChildOpensItsOwnChildKeeps) {
    const process::Use use;
    const int own = process::open_own(make_any);
    EXPECT_TRUE(child_finds([own] {
        if (fcntl(own, F_GETFD) >= 0 || make_any() != own) return false;
        return child_finds([own] { return fcntl(own, F_GETFD) >= 0; });
    }));
    process::close_own(own);
}

TEST(Process, AChildThatClosesItsCopyOfOneClosesNoFileOfItsOwn) {
    const process::Use use;
    const int own = process::open_own(make_any);
    EXPECT_TRUE(child_finds([own] {
        if (make_any() != own) return false;
        process::close_own(own);
        return fcntl(own, F_GETFD) >= 0;
    }));
    process::close_own(own);
    EXPECT_LT(fcntl(own, F_GETFD), 0);
}

TEST(Process, WithoutAContextAChildKeepsThem) {
    const int own = process::open_own(make_any);
    EXPECT_TRUE(child_finds([own] { return fcntl(own, F_GETFD) >= 0; }));
    process::close_own(own);
}

}  // namespace
}  // namespace coppice
