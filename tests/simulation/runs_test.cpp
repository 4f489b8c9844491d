// Faults that are drawn, many runs on several threads, and orders drawn by chance.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "simulation/batch.hpp"
#include "simulation/broadcast_simulation.hpp"
#include "support/allocations.hpp"

namespace coppice::simulation {
namespace {

BroadcastSetup setup_of(const char* tree, const char* correction, std::uint32_t processes) {
    return {.processes = processes,
            .tree = *topology::parse_tree(tree),
            .correction = *protocol::parse_correction(correction)};
}

TEST(FaultPlan, DrawsTheSameForASeedAndOthersForOthers) {
    const FaultPlan plan{
        .dead = {Position{7}}, .dead_count = 5, .dead_rate = 0.01, .dying_count = 3, .dying_until = 20};
    const Faults faults = plan.draw(1000, 42);
    EXPECT_EQ(faults.dead, plan.draw(1000, 42).dead);
    EXPECT_EQ(faults.dying, plan.draw(1000, 42).dying);
    EXPECT_NE(faults.dead, plan.draw(1000, 43).dead);
    EXPECT_EQ(faults.dead.size(), 1U + 5U + 9U);  // 1 % of 999
    std::set<Position> all(faults.dead.begin(), faults.dead.end());
    for (const Death& death : faults.dying) {
        all.insert(death.position);
        EXPECT_LE(death.at, 20U);
    }
    EXPECT_EQ(all.size(), 18U);
    EXPECT_FALSE(all.contains(Position{0}));
    EXPECT_TRUE(all.contains(Position{7}));
}

TEST(FaultPlan, RoundsRatesAsThePapersDo) {
    const auto count = [](double percent) { return FaultPlan{.dead_rate = percent / 100}.dead_of(65536); };
    EXPECT_EQ(count(0.01), 6U);
    EXPECT_EQ(count(0.1), 65U);
    EXPECT_EQ(count(1), 655U);
    EXPECT_EQ(count(2), 1310U);
    EXPECT_EQ(count(4), 2621U);
}

TEST(FaultPlan, DrawsEveryPositionEquallyOften) {
    for (const std::uint32_t count : {3U, 7U}) {  // few, and most
        std::array<std::uint32_t, 10> drawn{};
        Random random(1);
        for (int i = 0; i < 9000; ++i) {
            for (const Position position : choose_positions(10, count, random))
                ++drawn[position.value];
        }
        EXPECT_EQ(drawn[0], 0U);
        for (std::uint32_t position = 1; position < 10; ++position)
            EXPECT_NEAR(drawn[position], 1000.0 * count, 200.0);
    }
}

TEST(FaultPlan, SaysWhatCannotBe) {
    EXPECT_EQ(FaultPlan{.dead_count = 9}.reason_against(10), std::nullopt);
    EXPECT_NE(FaultPlan{.dead_count = 10}.reason_against(10), std::nullopt);
    EXPECT_NE(FaultPlan{.dead = {Position{0}}}.reason_against(10), std::nullopt);
    EXPECT_NE(FaultPlan{.dead = {Position{10}}}.reason_against(10), std::nullopt);
    EXPECT_NE((FaultPlan{.dead = {Position{3}}, .dying = {{Position{3}, 1}}}.reason_against(10)), std::nullopt);
    EXPECT_EQ(parse_rate("1%").value(), 0.01);
    for (const char* wrong : {"", "1", "%", "-1%", "101%", "x%", "1%%", "nan%", " 1%"})
        EXPECT_FALSE(parse_rate(wrong).has_value()) << wrong;
}

TEST(Batch, HandsOverTheSameInTheOrderOfSeedsWhateverTheThreads) {
    const auto run = [](unsigned threads) {
        std::vector<std::pair<std::uint64_t, Outcome>> outcomes;
        run_batch(
            {.first_seed = 5, .runs = 300, .threads = threads, .faults = {.dead_rate = 0.05}},
            [] { return make_simulator(setup_of("lame:2", "checked", 200)).value(); },
            [&](std::uint64_t seed, const Faults&, auto&& result) {
                outcomes.emplace_back(seed, result.value());
                return true;
            });
        return outcomes;
    };
    const auto alone = run(1);
    ASSERT_EQ(alone.size(), 300U);
    EXPECT_EQ(alone.front().first, 5U);
    EXPECT_EQ(alone.back().first, 304U);
    EXPECT_EQ(alone, run(4));
}

TEST(Batch, EndsWhenItsUserHasEnough) {
    std::uint64_t used = 0;
    run_batch(
        {.runs = 100'000, .threads = 3, .faults = {}},
        [] { return make_simulator(setup_of("binomial", "checked", 16)).value(); },
        [&](std::uint64_t, const Faults&, auto&&) { return ++used < 10; });
    EXPECT_EQ(used, 10U);
}

// A simulator that has run other things before comes to the same as a new one.
TEST(Simulator, KeepsNothingFromRunToRun) {
    const BroadcastSetup setup = setup_of("kary:3", "optimized:3:synchronized", 300);
    const auto used = make_simulator(setup).value();
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        const Faults faults =
            FaultPlan{.dead_count = static_cast<std::uint32_t>(seed), .dying_count = 3, .dying_until = 60}.draw(300,
                                                                                                                seed);
        EXPECT_EQ(used->run(faults, seed).value(), make_simulator(setup).value()->run(faults, seed).value());
    }
}

TEST(Simulator, AViolationComesWithItsSeedItsFaultsAndItsConversation) {
    BroadcastSetup setup = setup_of("chain", "checked", 8);
    setup.options.give_up_at = 10;  // far too early
    const Faults faults{.dead = {Position{5}}};
    const auto result = make_simulator(setup).value()->run(faults, 77);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().what, "the run is not over at step 10");
    EXPECT_EQ(result.error().seed, 77U);
    EXPECT_EQ(result.error().faults.dead, faults.dead);
    const std::string text = to_string(result.error());
    EXPECT_NE(text.find("seed 77; dead: 5; dying:"), std::string::npos);
    EXPECT_NE(text.find("       0  send     0 -> 1  tree"), std::string::npos);
}

// Promises hold in any order, too; the simulator checks them.
TEST(Shuffled, PromisesHoldInOrdersDrawnByChance) {
    for (const char* correction : {"checked", "checked:synchronized", "opportunistic:2", "optimized:3", "delayed:5",
                                   "failure-proof:1", "ack", "none"}) {
        for (const char* tree : {"binomial", "kary:4", "lame:2", "chain"}) {
            const auto simulator = make_simulator(setup_of(tree, correction, 24)).value();
            for (std::uint64_t seed = 1; seed <= 100; ++seed) {
                const FaultPlan plan{.dead_count = static_cast<std::uint32_t>(seed % 6)};
                const auto result = simulator->run_shuffled(plan.draw(24, seed), seed);
                ASSERT_TRUE(result.has_value()) << tree << " " << correction << "\n" << to_string(result.error(), 50);
            }
        }
    }
}

// All or none under up to f deaths at any time, and without notices.
TEST(FailureProof, AllOrNoneWhileNoMoreThanFDieOnTheWay) {
    std::uint64_t seed = 0;
    for (const std::uint32_t f : {1U, 2U, 3U}) {
        const std::string correction = "failure-proof:" + std::to_string(f);
        for (const char* tree : {"binomial", "kary:4", "lame:2"}) {
            const auto simulator = make_simulator(setup_of(tree, correction.c_str(), 40)).value();
            for (int i = 0; i < 300; ++i) {
                const FaultPlan plan{
                    .dead_count = static_cast<std::uint32_t>(++seed % 9), .dying_count = f, .dying_until = 80};
                Faults faults = plan.draw(40, seed);
                if (seed % 5 == 0) faults.dying.front().position = Position{0};
                const auto result =
                    seed % 2 == 0 ? simulator->run(faults, seed) : simulator->run_shuffled(faults, seed);
                ASSERT_TRUE(result.has_value()) << to_string(result.error(), 50);
            }
        }
    }
}

// What is allocated in a run does not depend on how many messages there are.
TEST(Simulator, AllocatesNothingForAMessage) {
    const auto allocations_of = [](std::uint32_t processes) {
        const auto simulator = make_simulator(setup_of("binomial", "checked:synchronized", processes)).value();
        simulator->run({}, 1).value();
        const std::uint64_t before = coppice::testing::allocations_so_far().objects;
        simulator->run({}, 2).value();
        return coppice::testing::allocations_so_far().objects - before;
    };
    EXPECT_LE(allocations_of(16384), allocations_of(64) + 4);
}

}  // namespace
}  // namespace coppice::simulation
