// Calls that do not return in time are left behind, and nobody is called beside them.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <new>
#include <thread>

#include "base/clock.hpp"
#include "bootstrap/pmix_caller.hpp"

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

std::unique_ptr<Caller> start() {
    auto caller = Caller::start(in_time());
    return caller ? std::move(*caller) : nullptr;
}

TEST(PmixCaller, MakesCallsInTheirOrderOnOneThreadOfItsOwn) {
    const auto caller = start();
    ASSERT_TRUE(caller);
    const auto first = caller->call(in_time(), [] { return std::this_thread::get_id(); });
    const auto second = caller->call(UINT64_MAX, [] { return std::this_thread::get_id(); });
    ASSERT_TRUE(first && second);
    EXPECT_EQ(*first, *second);
    EXPECT_NE(*first, std::this_thread::get_id());
    bool was_last = false;
    caller->goodbye(in_time(), [&] { was_last = true; });
    EXPECT_TRUE(was_last);
}

TEST(PmixCaller, TellsWhatACallHadNoMemoryFor) {
    const auto caller = start();
    ASSERT_TRUE(caller);
    EXPECT_THROW(caller->call(in_time(), []() -> int { throw std::bad_alloc(); }), std::bad_alloc);
    EXPECT_EQ(caller->call(in_time(), [] { return 4711; }), 4711);
}

// What a call uses may be gone for its caller, and is there for the call.
TEST(PmixCaller, LeavesACallThatHangsAndMakesNoOtherUntilItIsBack) {
    auto caller = start();
    ASSERT_TRUE(caller);
    const auto may_return = std::make_shared<std::latch>(1);
    const auto said_goodbye = std::make_shared<std::atomic<bool>>(false);
    EXPECT_FALSE(caller->call(soon(), [may_return] {
        may_return->wait();
        return 1;
    }));
    const auto was_called = std::make_shared<std::atomic<bool>>(false);
    EXPECT_FALSE(caller->call(soon(), [was_called] { return was_called->exchange(true); }));
    caller->goodbye(soon(), [said_goodbye] { *said_goodbye = true; });
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

}  // namespace
}  // namespace coppice::bootstrap::pmix
