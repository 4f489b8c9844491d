// Which descriptors forked children keep.
#include "base/process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace coppice {
namespace {

// A close() of this descriptor waits until that thread has forked, or waits for something itself.
struct SlowClose {
    std::atomic<int> descriptor = -1;
    std::atomic<bool> is_entered = false;
    std::atomic<pid_t> forker = 0;  // about to fork
    std::atomic<bool> has_forked = false;
};
SlowClose slow_close;

bool sleeps(pid_t thread) {
    std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string line;
    std::getline(stat, line);
    const std::size_t name_end = line.rfind(')');
    return name_end != std::string::npos && line.compare(name_end, 3, ") S") == 0;
}

void wait_for_fork() {
    slow_close.is_entered = true;
    while (slow_close.forker == 0)
        std::this_thread::yield();
    while (!slow_close.has_forked && !sleeps(slow_close.forker))
        std::this_thread::yield();
}

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

TEST(Process, AChildKeepsNoneThatAnotherThreadIsAboutToClose) {
    const process::Use use;
    const int own = process::open_own(make_any);
    slow_close.descriptor = own;
    std::thread other([own] { process::close_own(own); });
    while (!slow_close.is_entered)
        std::this_thread::yield();
    slow_close.forker = gettid();
    const pid_t child = fork();
    if (child == 0) _exit(fcntl(own, F_GETFD) < 0 ? 0 : 1);
    slow_close.has_forked = true;
    other.join();
    slow_close.descriptor = -1;
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
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

// A set without members is read, too; a number that is not open has nothing to be read.
TEST(Process, WhetherTheMembersOfASetCouldBeReadIsSaid) {
    const int set = epoll_create1(EPOLL_CLOEXEC);
    const int member = eventfd(0, EFD_CLOEXEC);
    std::vector<int> members;
    const auto note = [&members](int one) { members.push_back(one); };
    EXPECT_TRUE(process::for_each_member(set, note));
    epoll_event event{};
    ASSERT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, member, &event), 0);
    EXPECT_TRUE(process::for_each_member(set, note));
    EXPECT_EQ(members, std::vector{member});
    close(set);
    EXPECT_FALSE(process::for_each_member(set, note));
    close(member);
}

}  // namespace
}  // namespace coppice

// In place of the C library's, in the whole program.
extern "C" int close(int descriptor) {
    if (descriptor >= 0 && descriptor == coppice::slow_close.descriptor) coppice::wait_for_fork();
    return static_cast<int>(syscall(SYS_close, descriptor));
}
