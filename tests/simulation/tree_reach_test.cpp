// What follows from a tree and the dead alone is what the machines leave.
#include "simulation/tree_reach.hpp"

#include <gtest/gtest.h>

#include <array>

#include "simulation/broadcast_simulation.hpp"
#include "simulation/faults.hpp"
#include "simulation/reach.hpp"

namespace coppice::simulation {
namespace {

constexpr std::array<const char*, 7> kTrees{"binomial", "kary:4",         "lame:2",          "optimal:1,2",
                                            "chain",    "lame:3:inorder", "binomial:inorder"};

TEST(TreeReach, LeavesTheGapsThatTheMachinesLeave) {
    for (const char* shape : kTrees) {
        for (const std::uint32_t processes : {2U, 63U, 64U, 65U, 1000U, 4096U}) {
            SCOPED_TRACE(std::string(shape) + " " + std::to_string(processes));
            const auto spec = *topology::parse_tree(shape);
            const auto tree = topology::Tree::make(spec, processes).value();
            TreeReach reach(tree);
            for (const char* correction : {"none", "checked:synchronized"}) {
                const auto simulator =
                    make_simulator(
                        {.processes = processes, .tree = spec, .correction = *protocol::parse_correction(correction)})
                        .value();
                for (std::uint64_t seed = 1; seed <= 20; ++seed) {
                    const FaultPlan plan{.dead_rate = static_cast<double>(seed) / 200};
                    const Faults faults = plan.draw(processes, seed);
                    const auto outcome = simulator->run(faults, seed);
                    ASSERT_TRUE(outcome) << to_string(outcome.error());
                    ASSERT_EQ(reach.gaps(faults.dead), outcome->gaps) << seed;
                }
            }
        }
    }
}

TEST(TreeReach, LeavesNoGapWithoutFailures) {
    const auto tree = topology::Tree::make(*topology::parse_tree("lame:2"), 1000).value();
    EXPECT_EQ(TreeReach(tree).gaps({}).largest, 0U);
}

// At the size of Table 1 (PPoPP'19), with the seeds that `coppice-sim reproduce table1` begins with.
TEST(TreeReach, LeavesTheGapsOfTable1) {
    constexpr std::uint32_t kProcesses = 65536;
    for (const char* shape : {"binomial", "kary:4", "lame:2", "optimal:1,2"}) {
        const auto spec = *topology::parse_tree(shape);
        const auto tree = topology::Tree::make(spec, kProcesses).value();
        TreeReach reach(tree);
        const auto simulator = make_simulator({.processes = kProcesses,
                                               .tree = spec,
                                               .correction = *protocol::parse_correction("checked:synchronized")})
                                   .value();
        for (const std::uint32_t dead : {6U, 65U, 655U, 1310U, 2621U}) {
            for (std::uint64_t seed = 1; seed <= 4; ++seed) {
                const Faults faults = FaultPlan{.dead_count = dead}.draw(kProcesses, seed);
                ASSERT_EQ(reach.gaps(faults.dead), simulator->run(faults, seed).value().gaps) << shape << " " << dead;
            }
        }
    }
}

// PPoPP'19 §4.3: around 2,600 of two million broadcasts with opportunistic correction, over four trees and five rates,
// left somebody out. With two messages a side nearly all of them are at 4 %: one of 150 there. `coppice-sim reproduce
// incomplete` counts two million.
TEST(Incomplete, OneBroadcastOf150LeavesSomebodyOutAt4PercentWithTwoMessagesASideAndNoneWithFour) {
    constexpr std::uint32_t kProcesses = 65536;
    constexpr std::uint64_t kSeeds = 1000;
    std::uint64_t incomplete = 0;
    for (const char* shape : {"binomial", "kary:4", "lame:2", "optimal:1,2"}) {
        SCOPED_TRACE(shape);
        const auto spec = *topology::parse_tree(shape);
        const auto tree = topology::Tree::make(spec, kProcesses).value();
        const protocol::BroadcastPlan two{tree, *protocol::parse_correction("opportunistic:2")};
        const protocol::BroadcastPlan four{tree, *protocol::parse_correction("opportunistic:4")};
        const auto simulator =
            make_simulator({.processes = kProcesses, .tree = spec, .correction = two.correction}).value();
        Reach by_two(two);
        Reach by_four(four);
        std::uint64_t with_this_tree = 0;
        for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
            const Faults faults = FaultPlan{.dead_count = 2621}.draw(kProcesses, seed);
            ASSERT_TRUE(by_four.left_out(faults.dead).empty()) << seed;
            const std::vector<Position>& left_out = by_two.left_out(faults.dead);
            if (left_out.empty()) continue;
            // The first ones also with the machines.
            if (++with_this_tree > 2) continue;
            ASSERT_EQ(simulator->run(faults, seed).value().unreached, left_out) << seed;
        }
        EXPECT_GT(with_this_tree, 0U);
        incomplete += with_this_tree;
    }
    // Drawn: three standard deviations around 4 · 1000 · 0.65 %.
    EXPECT_GE(incomplete, 11U);
    EXPECT_LE(incomplete, 41U);
}

}  // namespace
}  // namespace coppice::simulation
