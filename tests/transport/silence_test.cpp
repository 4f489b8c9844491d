// When the host at the other end of a connection counts as lost: what the kernel says, look by look.
#include "transport/silence.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace coppice::transport
