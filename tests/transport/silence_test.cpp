// When the host at the other end of a connection counts as lost: what the kernel says, look by look.
#include "transport/silence.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace coppice::transport {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// Looks from a second on, each kLookNs, until it lasts; what is heard by then is told by `health_at`. When that was.
template <class HealthAt>
std::uint64_t lasts_at(Silence silence, HealthAt&& health_at, std::uint64_t until_ns = 60 * kSecond) {
    std::uint64_t now = kSecond;
    while (now < until_ns && !silence.lasts(health_at(now), now))
        now += Silence::kLookNs;
    return now;
}

TEST(Silence, OnlyWhatTheKernelSaysInSeveralLooksCounts) {
    const Health silent{.silence_ms = 100'000, .outstanding = true, .repetitions = 3};
    Silence away;
    EXPECT_FALSE(away.lasts(silent, kSecond));
    EXPECT_FALSE(away.lasts(silent, 60 * kSecond));  // nobody looked in between
    EXPECT_FALSE(away.lasts(silent, 120 * kSecond));
    Silence in_a_tick;  // answered right after the last look, in the same tick of the kernel's clock
    EXPECT_FALSE(in_a_tick.lasts(silent, kSecond));
    for (std::uint64_t now = 5; now < 60; now += 4)
        EXPECT_FALSE(in_a_tick.lasts({.silence_ms = 4004, .outstanding = true, .repetitions = 3}, now * kSecond));
    Silence unasked;  // our own kernel is starved, too: it has repeated nothing yet
    for (std::uint64_t now = 1; now < 60; ++now)
        EXPECT_FALSE(unasked.lasts({.silence_ms = 100'000, .outstanding = true, .repetitions = 0}, now * kSecond));
    EXPECT_EQ(lasts_at(Silence(), [&](std::uint64_t) { return silent; }), kSecond + 5 * Silence::kLookNs);
    Silence recent;  // a kernel that repeats often: it has not been silent for long enough yet
    for (std::uint64_t at = kSecond; at < 60 * kSecond; at += kSecond)
        EXPECT_FALSE(recent.lasts({.silence_ms = 3200, .outstanding = true, .repetitions = 9}, at));
    Silence idle;
    for (std::uint64_t at = kSecond; at < 60 * kSecond; at += kSecond)
        EXPECT_FALSE(idle.lasts({.silence_ms = 100'000, .outstanding = false, .repetitions = 3}, at));
}

// A kernel that drops what it has no room for acknowledges nothing. What it asks itself comes once in two seconds at least.
TEST(Silence, AReceiverWithoutRoomLivesAsLongAsItsKernelAsks) {
    const auto health = [](std::uint64_t now_ns) {
        return Health{.silence_ms = static_cast<std::uint32_t>(now_ns / 1'000'000),
                      .outstanding = true,
                      .repetitions = 5,
                      .packets = static_cast<std::uint32_t>(now_ns / (2 * kSecond))};
    };
    EXPECT_EQ(lasts_at(Silence(Silence::Load::any), health), 60 * kSecond);
    EXPECT_LT(lasts_at(Silence(Silence::Load::fits), health), 4 * kSecond);
}

// The last packet came just before the first look.
TEST(Silence, AHostOfWhichNoPacketComesIsLostAsSoonWhateverIsUnderWay) {
    const auto health = [](std::uint64_t now_ns) {
        return Health{.silence_ms = static_cast<std::uint32_t>((now_ns - kSecond) / 1'000'000),
                      .outstanding = true,
                      .repetitions = 3,
                      .packets = 7};
    };
    EXPECT_EQ(lasts_at(Silence(Silence::Load::any), health), lasts_at(Silence(Silence::Load::fits), health));
}

// ------------------------------------------------------------------------------------------- when to look at it next ---

TEST(Looks, AreOftenWhileThereIsTalkSeldomElseAndNeverWithoutAConnection) {
    Looks looks;
    EXPECT_FALSE(looks.is_due(UINT64_MAX - 1));
    looks.talk(kSecond);
    EXPECT_TRUE(looks.talks());
    EXPECT_EQ(looks.next_ns(), kSecond + Silence::kLookNs);
    looks.begin();
    EXPECT_FALSE(looks.talks());
    looks.end(2 * kSecond, true, false);
    EXPECT_EQ(looks.next_ns(), 2 * kSecond + Silence::kIdleLookNs);
    looks.talk(2 * kSecond);
    EXPECT_EQ(looks.next_ns(), 2 * kSecond + Silence::kLookNs);
    EXPECT_FALSE(looks.is_due(looks.next_ns() - 1));
    EXPECT_TRUE(looks.is_due(looks.next_ns()));
    looks.begin();
    looks.talk(3 * kSecond);  // a question of the look's own
    looks.end(3 * kSecond, true, false);
    EXPECT_EQ(looks.next_ns(), 3 * kSecond + Silence::kLookNs);
    looks.begin();
    looks.end(4 * kSecond, true, true);
    EXPECT_EQ(looks.next_ns(), 4 * kSecond + Silence::kLookNs);
    looks.hasten(4 * kSecond);
    EXPECT_TRUE(looks.is_due(4 * kSecond));
    looks.begin();
    looks.end(5 * kSecond, false, true);
    EXPECT_FALSE(looks.is_due(UINT64_MAX - 1));
}

// --------------------------------------------------------------------------------------- what the kernel is told to do ---

int option(int socket, int name) {
    int value = 0;
    socklen_t length = sizeof value;
    EXPECT_EQ(getsockopt(socket, IPPROTO_TCP, name, &value, &length), 0);
    return value;
}

void ask_every(int socket, int seconds) {
    const int on = 1;
    EXPECT_EQ(setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on), 0);
    EXPECT_EQ(setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds), 0);
    EXPECT_EQ(setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds), 0);
}

// For how long in vain stays what it was.
TEST(Silence, TheKernelAsksOnceInTwoSecondsAtLeastWhateverItWasTold) {
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_GE(made, 0);
    ask_often_enough(made);
    EXPECT_EQ(option(made, TCP_KEEPIDLE), 1);
    EXPECT_EQ(option(made, TCP_KEEPINTVL), 1);
    const int questions = 7;
    EXPECT_EQ(setsockopt(made, IPPROTO_TCP, TCP_KEEPCNT, &questions, sizeof questions), 0);
    for (const int seconds : {3, 60}) {
        ask_every(made, seconds);
        ask_often_enough(made);
        EXPECT_EQ(option(made, TCP_KEEPIDLE), 2);
        EXPECT_EQ(option(made, TCP_KEEPINTVL), 2);
    }
    ask_every(made, 1);
    ask_often_enough(made);
    EXPECT_EQ(option(made, TCP_KEEPIDLE), 1);
    EXPECT_EQ(option(made, TCP_KEEPINTVL), 1);
    EXPECT_EQ(option(made, TCP_KEEPCNT), questions);
    close(made);
}

}  // namespace
}  // namespace coppice::transport
