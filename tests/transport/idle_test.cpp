// How a thread waits, on a core that the test makes up: neighbours come and go, and time is a number.
#include "transport/idle.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "base/clock.hpp"

namespace coppice::testing {
namespace {

using transport::BasicIdle;
using transport::CoreSharing;
using transport::IdleTimes;

constexpr std::uint64_t kMicrosecond = 1000;
constexpr std::uint64_t kMillisecond = 1'000'000;

enum class Neighbour : std::uint8_t {
    none,
    waits,     // a rank that waits, too: it takes the core at each yield, for microseconds
    computes,  // takes it at two yields of five, for a time slice
};

struct Core {
    std::uint64_t now_ns = kMillisecond;
    std::uint64_t switches = 0;
    CoreSharing sharing;
    Neighbour neighbour = Neighbour::none;
    std::uint64_t poll_ns = 50;
    std::uint64_t turn_ns = 2 * kMicrosecond;  // of a neighbour that waits
    std::uint32_t slice_at_every = 0;          // so many yields, a neighbour that waits runs for a slice; 0: never

    bool limited = false;  // the process has a CPU quota, and runs out of it

    std::uint32_t clock_reads = 0;
    std::uint32_t yields = 0;
    std::uint32_t slices = 0;  // lost at yields
    std::uint32_t sleeps = 0;

    // The thread runs.
    void run(std::uint64_t ns) { now_ns += ns; }
    void yield() {
        ++yields;
        run(450);
        const bool waits_long = slice_at_every > 0 && yields % slice_at_every == 0;
        if ((neighbour == Neighbour::computes && (yields % 5 == 2 || yields % 5 == 4)) || waits_long) {
            now_ns += 4 * kMillisecond;
            ++slices;
            ++switches;
        } else if (neighbour == Neighbour::waits) {
            now_ns += turn_ns;
            ++switches;
        }
    }
};

// The one core of the test that runs.
Core* core = nullptr;

struct MadeUp {
    static CoreSharing& sharing() { return core->sharing; }
    static std::uint64_t now_ns() {
        ++core->clock_reads;
        return core->now_ns;
    }
    static std::uint64_t switches() { return core->switches; }
    static void yield() { core->yield(); }
    static void sleep(int, std::uint64_t at_most_ns) {
        ++core->sleeps;
        core->now_ns += at_most_ns;
    }
    static bool limited(std::uint64_t) { return core->limited; }
    static void relax() { core->run(10); }
};
using MadeUpIdle = BasicIdle<MadeUp>;

class IdleTest : public ::testing::Test {
  protected:
    IdleTest() { core = &core_; }

    // Waits until `done()`; how many polls that took.
    template <class Done>
    std::uint64_t wait_until(Done&& done) {
        MadeUpIdle idle(ranks_per_core_, spin_ns_);
        for (std::uint64_t polls = 1;; ++polls) {
            core_.run(core_.poll_ns);
            if (done()) return polls;
            if (polls > kManyPolls) {
                ADD_FAILURE() << "waits for ever";
                return polls;
            }
            const std::uint32_t sleeps = core_.sleeps;
            const bool said = idle.sleeps_next();
            idle.pause();
            EXPECT_EQ(core_.sleeps > sleeps, said) << "a sleep is announced, for a descriptor to wake it";
        }
    }
    void wait_for(std::uint64_t ns) {
        const std::uint64_t until = core_.now_ns + ns;
        wait_until([&] { return core_.now_ns >= until; });
    }
    // Something that a neighbour on this core does the next time that it runs.
    std::uint64_t wait_for_neighbour() {
        const std::uint64_t switches = core_.switches;
        return wait_until([&] { return core_.switches > switches; });
    }
    std::uint32_t yields_during(std::uint32_t waits, std::uint64_t ns) {
        const std::uint32_t before = core_.yields;
        for (std::uint32_t i = 0; i < waits; ++i)
            wait_for(ns);
        return core_.yields - before;
    }

    static constexpr std::uint64_t kManyPolls = 1'000'000;

    Core core_;
    std::uint32_t ranks_per_core_ = 1;
    std::optional<std::uint64_t> spin_ns_;
};

TEST_F(IdleTest, AWaitThatIsShortReadsNoClock) {
    for (int i = 0; i < 100; ++i) {
        std::uint32_t polls = 0;
        wait_until([&] { return ++polls > IdleTimes::kFreePolls; });
    }
    EXPECT_EQ(core_.clock_reads, 0U);
    EXPECT_EQ(core_.yields, 0U);
}

TEST_F(IdleTest, SpinningIsBoundedByTimeHoweverLongAPollTakes) {
    for (const std::uint64_t poll_ns : {20U, 50U, 500U, 1000U}) {
        core_ = Core{};
        core_.poll_ns = poll_ns;
        const std::uint64_t start = core_.now_ns;
        wait_until([&] { return core_.yields > 0; });
        const std::uint64_t polls_without_a_look = IdleTimes::kFreePolls + IdleTimes::kPollsPerLook + 1;
        EXPECT_GE(core_.now_ns - start, IdleTimes::kSpinNs) << poll_ns;
        EXPECT_LE(core_.now_ns - start, IdleTimes::kSpinNs + polls_without_a_look * (poll_ns + 10) + kMicrosecond)
            << poll_ns;
    }
}

TEST_F(IdleTest, AloneALongWaitYieldsForMillisecondsAndThenSleeps) {
    const std::uint64_t start = core_.now_ns;
    wait_until([&] { return core_.sleeps > 0; });
    EXPECT_GE(core_.now_ns - start, IdleTimes::kYieldForNs);
    EXPECT_LE(core_.now_ns - start, IdleTimes::kYieldForNs + kMillisecond);
}

TEST_F(IdleTest, ANeighbourComesAndTheCoreIsGivenAwayAtOnceAndItGoesAndTheThreadSpins) {
    for (int again = 0; again < 3; ++again) {
        EXPECT_EQ(yields_during(1000, 15 * kMicrosecond), 0U);
        core_.neighbour = Neighbour::waits;
        for (int i = 0; i < 8; ++i)
            wait_for_neighbour();
        for (int i = 0; i < 1000; ++i)
            EXPECT_LE(wait_for_neighbour(), 2U) << "a spin where the core is shared";
        core_.neighbour = Neighbour::none;
        EXPECT_LE(yields_during(100, 15 * kMicrosecond), 3 * CoreSharing::kYieldsShared);
    }
}

TEST_F(IdleTest, HalfOfTheYieldsMakeASharedCore) {
    core_.neighbour = Neighbour::waits;
    for (int i = 0; i < 20; ++i)
        wait_for_neighbour();
    for (int i = 0; i < 1000; ++i) {
        core_.neighbour = i % 4 == 0 ? Neighbour::waits : Neighbour::none;
        const std::uint32_t yields = core_.yields;
        wait_until([&] { return core_.yields > yields; });
    }
    core_.neighbour = Neighbour::waits;
    EXPECT_LE(wait_for_neighbour(), 2U);
}

TEST_F(IdleTest, MoreRanksThanCoresIsWhereItBeginsAndNotWhatItDecides) {
    ranks_per_core_ = 2;
    core_.neighbour = Neighbour::waits;
    EXPECT_LE(wait_for_neighbour(), 2U) << "the first wait knows already";
    core_.neighbour = Neighbour::none;
    yields_during(100, 15 * kMicrosecond);
    EXPECT_EQ(yields_during(100, 15 * kMicrosecond), 0U) << "nobody is there";
}

TEST_F(IdleTest, BesideAProgramThatComputesAYieldIsTriedOnceInAWhile) {
    wait_for(50 * kMicrosecond);
    core_.neighbour = Neighbour::computes;
    // Two slices are enough to find out.
    wait_for(100 * kMillisecond);
    EXPECT_EQ(core_.slices, 2U);
    // What is waited for comes from another core, after the spin.
    for (int i = 0; i < 3200; ++i)
        wait_for(40 * kMicrosecond);
    EXPECT_LE(core_.slices, 12U);
    EXPECT_GT(core_.slices, 2U) << "and it goes on finding out";
    // Waits that the spin is enough for lose nothing at all.
    const std::uint32_t slices = core_.slices;
    EXPECT_EQ(yields_during(1000, 15 * kMicrosecond), 0U);
    EXPECT_EQ(core_.slices, slices);

    core_.neighbour = Neighbour::none;
    for (std::uint32_t i = 0; i < 2 * CoreSharing::kMostSleeps; ++i)
        wait_for(40 * kMicrosecond);
    const std::uint32_t sleeps = core_.sleeps;
    EXPECT_GT(yields_during(100, 40 * kMicrosecond), 0U) << "it is gone: yields are cheap again";
    EXPECT_EQ(core_.sleeps, sleeps);
}

// What is waited for comes while this thread sleeps: another rank of this core has it.
TEST_F(IdleTest, BesideAProgramThatComputesItSleepsAtOnceWhereSpinningIsInVain) {
    core_.neighbour = Neighbour::computes;
    wait_until([&] { return core_.sharing.wants_rings(); });
    const auto wait_for_a_sleep = [this] {
        const std::uint32_t sleeps = core_.sleeps;
        return wait_until([&] { return core_.sleeps > sleeps; });
    };
    for (std::uint32_t i = 0; i <= CoreSharing::kVainSpins; ++i)
        wait_for_a_sleep();
    std::uint32_t spins = 0;
    for (std::uint32_t i = 0; i < CoreSharing::kSpinAgain; ++i)
        if (wait_for_a_sleep() > 3) ++spins;
    EXPECT_LE(spins, 2U) << "it is tried now and then";
    EXPECT_GE(spins, 1U);
    // And once that was of use, each wait begins with it.
    for (std::uint32_t i = 0; i < CoreSharing::kSpinAgain; ++i)
        wait_for(10 * kMicrosecond);
    const std::uint32_t sleeps = core_.sleeps;
    for (std::uint32_t i = 0; i < 100; ++i)
        wait_for(10 * kMicrosecond);
    EXPECT_EQ(core_.sleeps, sleeps);
}

TEST_F(IdleTest, WithinAQuotaItDoesNotSpinAndSoonSleeps) {
    wait_for(50 * kMicrosecond);
    EXPECT_FALSE(MadeUpIdle(false).wants_rings());
    core_.limited = true;
    wait_for(50 * kMicrosecond);
    EXPECT_TRUE(MadeUpIdle(false).wants_rings());
    const std::uint64_t start = core_.now_ns;
    const std::uint32_t yields = core_.yields;
    wait_until([&] { return core_.yields > yields; });
    EXPECT_LE(core_.now_ns - start, 2 * kMicrosecond) << "a spin within a quota";
    const std::uint64_t yields_since = core_.now_ns;
    const std::uint32_t sleeps = core_.sleeps;
    wait_until([&] { return core_.sleeps > sleeps; });
    EXPECT_LE(core_.now_ns - yields_since, 2 * IdleTimes::kYieldForLimitedNs);
    // A fixed time is kept all the same.
    spin_ns_ = 100 * kMicrosecond;
    const std::uint32_t before = core_.yields;
    const std::uint64_t spins_since = core_.now_ns;
    wait_until([&] { return core_.yields > before; });
    EXPECT_GE(core_.now_ns - spins_since, *spin_ns_);
    spin_ns_.reset();
    core_.limited = false;
    wait_for(50 * kMicrosecond);
    wait_for(50 * kMicrosecond);
    EXPECT_EQ(yields_during(100, 15 * kMicrosecond), 0U) << "the quota is gone: it spins";
}

TEST_F(IdleTest, OneThatComputedLongAgoIsForgotten) {
    core_.neighbour = Neighbour::computes;
    for (int i = 0; i < 3200; ++i)
        wait_for(40 * kMicrosecond);
    core_.neighbour = Neighbour::none;
    for (std::uint32_t i = 0; i < 2 * CoreSharing::kMostSleeps; ++i)
        wait_for(40 * kMicrosecond);
    // The next one is looked at as often as the first was.
    core_.neighbour = Neighbour::computes;
    wait_until([&] { return core_.sharing.then() == CoreSharing::Step::sleep; });
    core_.neighbour = Neighbour::none;
    const std::uint32_t sleeps = core_.sleeps;
    for (std::uint32_t i = 0; i < 2 * CoreSharing::kLeastSleeps; ++i)
        wait_for(40 * kMicrosecond);
    EXPECT_LE(core_.sleeps - sleeps, CoreSharing::kLeastSleeps);
}

TEST_F(IdleTest, RanksThatKeepTheCoreForASliceNowAndThenAreStillYieldedTo) {
    core_.neighbour = Neighbour::waits;
    core_.slice_at_every = 100;
    for (int i = 0; i < 20; ++i)
        wait_for_neighbour();
    for (int i = 0; i < 1000; ++i)
        EXPECT_LE(wait_for_neighbour(), 2U);
    EXPECT_EQ(core_.sleeps, 0U);
    EXPECT_GE(core_.slices, 10U);
}

// Such as in a new group, which each of them maps memory for.
TEST_F(IdleTest, RanksOfTheGroupThatShareTheCoreMayHaveSomeWorkFirst) {
    core_.neighbour = Neighbour::waits;
    core_.turn_ns = 2 * kMillisecond;
    ranks_per_core_ = 8;
    for (int i = 0; i < 100; ++i)
        wait_for_neighbour();
    EXPECT_EQ(core_.sleeps, 0U);
    ranks_per_core_ = 2;
    wait_until([&] { return core_.sharing.then() == CoreSharing::Step::sleep; });
}

TEST_F(IdleTest, AFixedTimeIsKeptWhateverElseWantsTheCore) {
    spin_ns_ = 0;
    for (int i = 0; i < 1000; ++i) {
        const std::uint32_t yields = core_.yields;
        EXPECT_LE(wait_until([&] { return core_.yields > yields; }), 2U) << "alone, and yields at once";
    }
    spin_ns_ = 100 * kMicrosecond;
    core_.neighbour = Neighbour::waits;
    for (int i = 0; i < 100; ++i) {
        const std::uint64_t start = core_.now_ns;
        wait_for_neighbour();
        EXPECT_GE(core_.now_ns - start, *spin_ns_);
    }
    // Also where an earlier wait of this thread has found out that yields are dear.
    core_.neighbour = Neighbour::computes;
    spin_ns_.reset();
    wait_until([&] { return core_.sharing.then() == CoreSharing::Step::sleep; });
    spin_ns_ = kMicrosecond;
    const std::uint32_t sleeps = core_.sleeps;
    for (int i = 0; i < 10; ++i)
        wait_for(kMillisecond);
    EXPECT_EQ(core_.sleeps, sleeps);
}

// With the real machine under it.
TEST(Idle, GoesOnWaitingAsOftenAsItIsAsked) {
    for (const std::uint32_t ranks_per_core : {1U, 2U}) {
        transport::Idle idle(ranks_per_core);
        const std::uint64_t end = now_ns() + 30'000'000;
        std::uint64_t pauses = 0;
        while (now_ns() < end) {
            idle.pause();
            ++pauses;
        }
        EXPECT_GT(pauses, 0U);
        idle.reset();
        EXPECT_FALSE(idle.sleeps_next());
        idle.pause();
    }
}

}  // namespace
}  // namespace coppice::testing
