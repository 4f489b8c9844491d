// Calls that do not return in time are left behind, and nobody is called beside them.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <new>
#include <semaphore>
#include <thread>

#include "base/clock.hpp"
#include "bootstrap/pmix_caller.hpp"
#include "support/no_memory.hpp"

namespace coppice::bootstrap::pmix {
namespace {

constexpr std::uint64_t kGenerous = 120'000'000'000;
constexpr std::uint64_t kBrief = 20'000'000;

std::uint64_t in_time() {
    return now_ns() + kGenerous;
}
std::uint64_t soon() {
    return now_ns() + kBrief;
}

std::unique_ptr<Caller> start(std::function<void()> last = {}, std::uint64_t least_ns = kBrief) {
    auto caller = Caller::start(in_time(), std::move(last), least_ns);
    return caller ? std::move(*caller) : nullptr;
}

TEST(PmixCaller, MakesCallsInTheirOrderOnOneThreadOfItsOwn) {
    bool was_last = false;
    const auto caller = start([&] { was_last = true; });
    ASSERT_TRUE(caller);
    const auto first = caller->call(in_time(), [] { return std::this_thread::get_id(); });
    const auto second = caller->call(UINT64_MAX, [] { return std::this_thread::get_id(); });
    ASSERT_TRUE(first && second);
    EXPECT_EQ(*first, *second);
    EXPECT_NE(*first, std::this_thread::get_id());
    EXPECT_FALSE(was_last);
    caller->goodbye(in_time());
    EXPECT_TRUE(was_last);
}

// The time for a group may be over though the server answers at once.
TEST(PmixCaller, GivesACallSomeTimeWhoseDeadlineHasPassedBefore) {
    bool was_last = false;
    const auto caller = start([&] { was_last = true; }, kGenerous);
    ASSERT_TRUE(caller);
    EXPECT_EQ(caller->call(0, [] { return 4711; }), 4711);
    EXPECT_EQ(caller->call(now_ns(), [] { return 4712; }), 4712);
    caller->goodbye(0);
    EXPECT_TRUE(was_last);
}

TEST(PmixCaller, SaysGoodbyeOnlyWhenItIsAsked) {
    const auto was_last = std::make_shared<bool>(false);
    start([was_last] { *was_last = true; }).reset();
    EXPECT_FALSE(*was_last);
}

// A destructor does it: an exception would end the process.
TEST(PmixCaller, NeedsNoMemoryToSayGoodbye) {
    bool was_last = false;
    auto caller = start([&] { was_last = true; });
    ASSERT_TRUE(caller);
    {
        const testing::NoMemory nothing;
        caller->goodbye(in_time());
        caller.reset();
    }
    EXPECT_TRUE(was_last);
}

TEST(PmixCaller, LeavesTheSignalsOfAThreadThatGetsNoMemoryForIt) {
    sigset_t usr1;
    sigset_t before;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &usr1, &before), 0);
    bool has_started = false;
    for (std::uint32_t pieces = 0; !has_started; ++pieces) {
        ASSERT_LT(pieces, 100U);
        try {
            const testing::NoMemory few(pieces);
            has_started = Caller::start(UINT64_MAX).has_value();
        } catch (const std::bad_alloc&) {
            has_started = false;
        }
        sigset_t now;
        ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &now), 0);
        ASSERT_EQ(sigismember(&now, SIGUSR1), 0) << "with " << pieces;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(PmixCaller, TellsWhatACallHadNoMemoryFor) {
    const auto caller = start();
    ASSERT_TRUE(caller);
    EXPECT_THROW(caller->call(in_time(), []() -> int { throw std::bad_alloc(); }), std::bad_alloc);
    EXPECT_EQ(caller->call(in_time(), [] { return 4711; }), 4711);
}

// What a call uses may be gone for its caller, and is there for the call.
TEST(PmixCaller, LeavesACallThatHangsAndMakesNoOtherUntilItIsBack) {
    const auto may_return = std::make_shared<std::latch>(1);
    const auto said_goodbye = std::make_shared<std::atomic<bool>>(false);
    auto caller = start([said_goodbye] { *said_goodbye = true; });
    ASSERT_TRUE(caller);
    EXPECT_FALSE(caller->call(soon(), [may_return] {
        may_return->wait();
        return 1;
    }));
    const auto was_called = std::make_shared<std::atomic<bool>>(false);
    EXPECT_FALSE(caller->call(soon(), [was_called] { return was_called->exchange(true); }));
    caller->goodbye(soon());
    caller.reset();
    EXPECT_FALSE(*said_goodbye);

    const auto refused = Caller::start(soon());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, COPPICE_ERR_BOOTSTRAP);
    EXPECT_NE(refused.error().message.find("earlier group"), std::string::npos) << refused.error().message;

    std::thread server([may_return] { may_return->count_down(); });
    const auto next = start();  // waits for the one that was left
    server.join();
    ASSERT_TRUE(next);
    EXPECT_TRUE(*said_goodbye);
    EXPECT_FALSE(*was_called);
    EXPECT_EQ(next->call(in_time(), [] { return 3; }), 3);
}

// What a call brings too late goes with it, and may call the library as it does, which hangs.
TEST(PmixCaller, DropsWhatComesTooLateWhereTheCallWasMadeAndNobodyWaitsForIt) {
    struct Events {
        std::binary_semaphore may_return{0};
        std::binary_semaphore going{0};
        std::binary_semaphore may_go{0};
        std::atomic<bool> gone{false};
        std::atomic<bool> was_where_it_came{false};
    };
    struct Late {
        explicit Late(std::shared_ptr<Events> of) : events(std::move(of)) {}
        Late(Late&& other) noexcept = default;
        ~Late() {
            if (!events) return;
            events->was_where_it_came = Caller::is_this_thread();
            events->going.release();
            (void)events->may_go.try_acquire_for(std::chrono::seconds(60));
            events->gone = true;
        }
        std::shared_ptr<Events> events;
    };
    const auto events = std::make_shared<Events>();
    auto caller = start();
    ASSERT_TRUE(caller);
    EXPECT_FALSE(caller->call(soon(), [events] {
        events->may_return.acquire();
        return Late(events);
    }));
    events->may_return.release();
    events->going.acquire();
    caller->goodbye(soon());
    caller.reset();
    EXPECT_FALSE(events->gone);
    events->may_go.release();
    ASSERT_TRUE(start());  // waits for the one that was left
    EXPECT_TRUE(events->gone);
    EXPECT_TRUE(events->was_where_it_came);
    EXPECT_FALSE(Caller::is_this_thread());
}

// It has none of the threads that its parent has left behind.
TEST(PmixCaller, WaitsForNobodyInAForkedChild) {
    const auto may_return = std::make_shared<std::latch>(1);
    auto caller = start();
    ASSERT_TRUE(caller);
    EXPECT_FALSE(caller->call(soon(), [may_return] {
        may_return->wait();
        return 1;
    }));
    caller.reset();
    const pid_t child = fork();
    if (child == 0) {
        const auto own = Caller::start(soon(), {}, kGenerous);
        _exit(own && (*own)->call(0, [] { return 3; }) == 3 ? 0 : 1);
    }
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_FALSE(Caller::start(soon())) << "the parent's is still there";
    may_return->count_down();
    EXPECT_TRUE(start());
}

}  // namespace
}  // namespace coppice::bootstrap::pmix
