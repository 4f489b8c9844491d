#include "promises.hpp"

#include <gtest/gtest.h>

namespace coppice::protocol::testing {
namespace {

constexpr std::uint32_t kSeeds = 6000;

void expect_every_live_member_is_reached(const Draw& draw, std::uint32_t seed) {
    std::mt19937 random(seed);
    const Drawn drawn = draw(random, 20);
    SCOPED_TRACE(drawn.name + ", seed " + std::to_string(seed));
    World world(drawn.plan, drawn.root_member, seed);
    const std::uint32_t one_in = 1 + static_cast<std::uint32_t>(random() % 60);
    do {
        maybe_crash(world, random, one_in, false);
    } while (world.step(random, true));
    ASSERT_EQ(world.violation(), "");
    ASSERT_TRUE(world.all_live_colored());
    ASSERT_TRUE(world.all_live_ended());
}

// Counts in `colored` or `told` how it ended.
void expect_all_or_none(const Draw& draw, std::uint32_t seed, std::uint32_t& colored, std::uint32_t& told) {
    std::mt19937 random(seed);
    const Drawn drawn = draw(random, 12);
    SCOPED_TRACE(drawn.name + ", seed " + std::to_string(seed));
    World world(drawn.plan, drawn.root_member, seed);
    const std::uint32_t one_in = 1 + static_cast<std::uint32_t>(random() % 60);
    const std::uint32_t root_lives_for = static_cast<std::uint32_t>(random() % 12);
    std::uint32_t steps = 0;
    std::uint32_t restarts = seed % 2 == 0 ? 4 : 0;
    do {
        if (steps++ == root_lives_for) world.crash(0);
        maybe_crash(world, random, one_in, true);
        const auto position = static_cast<std::uint32_t>(random() % world.processes());
        if (restarts == 0 || random() % 10 != 0 || world.is_dead(position)) continue;
        world.restart(position);
        --restarts;
    } while (world.step(random, true));
    world.crash(0);
    world.settle(random, true);
    ASSERT_EQ(world.violation(), "");
    ASSERT_TRUE(world.all_live_ended());
    (world.all_live_colored() ? colored : told) += 1;
}

void expect_restarts_to_lose_nothing(const Draw& draw, std::uint32_t seed) {
    std::mt19937 random(seed);
    const Drawn drawn = draw(random, 12);
    SCOPED_TRACE(drawn.name + ", seed " + std::to_string(seed));
    World world(drawn.plan, drawn.root_member, seed);
    const bool others_die = random() % 2 == 0;
    std::uint32_t restarts = 0;
    do {
        if (others_die) maybe_crash(world, random, 40, false);
        const auto position = static_cast<std::uint32_t>(random() % world.processes());
        if (random() % 10 != 0 || restarts == 5 || world.is_dead(position)) continue;
        world.restart(position);
        ++restarts;
    } while (world.step(random, true));
    world.settle(random, true);
    ASSERT_EQ(world.violation(), "");
    ASSERT_TRUE(world.all_live_colored());
    ASSERT_TRUE(world.all_live_ended());
}

}  // namespace

void maybe_crash(World& world, std::mt19937& random, std::uint32_t one_in, bool root_may_die) {
    if (random() % one_in != 0) return;
    const auto position = static_cast<std::uint32_t>(random() % world.processes());
    if (position != 0 || root_may_die) world.crash(position);
}

void expect_every_live_member_is_reached_whoever_else_dies_and_whenever(const Draw& draw) {
    for (std::uint32_t seed = 1; seed <= kSeeds && !::testing::Test::HasFatalFailure(); ++seed)
        expect_every_live_member_is_reached(draw, seed);
}

void expect_all_are_colored_or_all_are_told_when_the_root_dies(const Draw& draw) {
    std::uint32_t told = 0;
    std::uint32_t colored = 0;
    for (std::uint32_t seed = 1; seed <= kSeeds && !::testing::Test::HasFatalFailure(); ++seed)
        expect_all_or_none(draw, seed, colored, told);
    EXPECT_GT(told, 500U);
    EXPECT_GT(colored, 500U);
}

void expect_what_may_be_lost_to_be_sent_again(const Draw& draw) {
    for (std::uint32_t seed = 1; seed <= kSeeds && !::testing::Test::HasFatalFailure(); ++seed)
        expect_restarts_to_lose_nothing(draw, seed);
}

}  // namespace coppice::protocol::testing
