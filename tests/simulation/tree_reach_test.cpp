// What follows from a tree and the dead alone is what the machines leave.
#include "simulation/tree_reach.hpp"

#include <gtest/gtest.h>

#include <array>

#include "simulation/broadcast_simulation.hpp"
#include "simulation/faults.hpp"

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

}  // namespace
}  // namespace coppice::simulation
