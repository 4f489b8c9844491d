// The promises of docs/corrections.md as predicates (simulation/reach.hpp) against the machines, in both directions:
// the members reached are exactly those that the predicate names. Every dead set of small groups under every tree, and
// drawn ones of large groups; on the clock, and in orders of messages drawn by chance.
#include "simulation/reach.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cctype>

#include "protocol/baselines/names.hpp"
#include "protocol/gossip_broadcast.hpp"
#include "simulation/broadcast_simulation.hpp"
#include "simulation/faults.hpp"

namespace coppice::simulation {
namespace {

constexpr std::array kTrees{"binomial", "kary:2", "kary:4", "lame:2", "optimal:1,2", "chain", "star", "lame:3:inorder"};

constexpr std::array kExact{"none",
                            "ack",
                            "opportunistic:1",
                            "opportunistic:2",
                            "opportunistic:1:one-directional",
                            "opportunistic:2:one-directional",
                            "opportunistic:1:synchronized",
                            "opportunistic:2:synchronized",
                            "opportunistic:2:one-directional:synchronized",
                            "opportunistic-paper:1",
                            "opportunistic-paper:2",
                            "optimized:1",
                            "optimized:2",
                            "optimized:1:one-directional",
                            "optimized:2:one-directional",
                            "optimized:2:synchronized",
                            "optimized:2:one-directional:synchronized",
                            "optimized-paper:2:one-directional",
                            "checked",
                            "checked:synchronized",
                            "delayed:3",
                            "delayed:3:synchronized",
                            "failure-proof:1"};

BroadcastSetup setup_of(const char* tree, const char* correction, std::uint32_t processes) {
    BroadcastSetup setup{.processes = processes,
                         .tree = *topology::parse_tree(tree),
                         .correction = *protocol::baselines::parse_correction(correction)};
    setup.options.check = false;  // the checker would ask the same predicate
    return setup;
}

protocol::BroadcastPlan plan_of(const BroadcastSetup& setup) {
    return {topology::Tree::make(setup.tree, setup.processes).value(), setup.correction, Nanoseconds{0}, setup.gossip};
}

std::string names(const std::vector<Position>& positions) {
    std::string text;
    for (const Position position : positions)
        text.append(text.empty() ? "" : ",").append(std::to_string(position.value));
    return text;
}

std::vector<Position> of_mask(std::uint32_t mask) {
    std::vector<Position> positions;
    for (std::uint32_t position = 0; mask >> position != 0; ++position) {
        if ((mask >> position & 1) != 0) positions.push_back(Position{position});
    }
    return positions;
}

class Reached : public ::testing::TestWithParam<const char*> {};

TEST_P(Reached, IsExactlyAsThePredicateSaysForEveryDeadSetOfUpToTwelve) {
    std::uint64_t somebody_left_out = 0;
    for (const char* tree : kTrees) {
        for (std::uint32_t processes = 2; processes <= 12; ++processes) {
            const BroadcastSetup setup = setup_of(tree, GetParam(), processes);
            const protocol::BroadcastPlan plan = plan_of(setup);
            Reach reach(plan);
            const auto simulator = make_simulator(setup).value();
            for (std::uint32_t mask = 0; mask < 1U << processes; mask += 2) {
                const Faults faults{.dead = of_mask(mask)};
                const std::vector<Position>& expected = reach.left_out(faults.dead);
                somebody_left_out += expected.empty() ? 0 : 1;
                ASSERT_EQ(names(simulator->run(faults, mask).value().unreached), names(expected))
                    << tree << ", " << processes << " with " << names(faults.dead) << " dead";
                ASSERT_EQ(names(simulator->run_shuffled(faults, mask).value().unreached), names(expected))
                    << tree << ", " << processes << " with " << names(faults.dead) << " dead, in any order";
            }
        }
    }
    const bool reaches_all = reach_rule(plan_of(setup_of("chain", GetParam(), 4))) == ReachRule::everybody;
    EXPECT_EQ(somebody_left_out == 0, reaches_all);
}

TEST_P(Reached, IsExactlyAsThePredicateSaysForDrawnDeadSetsOfUpTo4096) {
    for (const char* tree : kTrees) {
        for (const std::uint32_t processes : {32U, 100U, 512U, 4096U}) {
            const BroadcastSetup setup = setup_of(tree, GetParam(), processes);
            const protocol::BroadcastPlan plan = plan_of(setup);
            Reach reach(plan);
            const auto simulator = make_simulator(setup).value();
            const std::uint32_t seeds = processes == 4096 ? 4 : 12;
            for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
                const Faults faults = FaultPlan{.dead_rate = 0.6 * seed / seeds}.draw(processes, seed);
                ASSERT_EQ(names(simulator->run(faults, seed).value().unreached), names(reach.left_out(faults.dead)))
                    << tree << ", " << processes << ", seed " << seed;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Corrections, Reached, ::testing::ValuesIn(kExact), [](const auto& of) {
    std::string name = of.param;
    for (char& letter : name) {
        if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
    }
    return name;
});

// What the sentence "as long as no more than 2 D neighbours are dead in a row" got wrong.
TEST(Chain, NoTwoNeighboursAreDeadAndSomebodyIsLeftOut) {
    const auto left_out = [](std::uint32_t processes, std::vector<Position> dead) {
        const protocol::BroadcastPlan plan = plan_of(setup_of("binomial", "opportunistic:1", processes));
        return names(Reach(plan).left_out(dead));
    };
    EXPECT_EQ(left_out(8, {Position{1}, Position{4}, Position{6}}), "5");
    EXPECT_EQ(left_out(32, {Position{1}, Position{4}, Position{6}, Position{20}, Position{22}}), "5,21");
    EXPECT_EQ(left_out(8, {Position{4}, Position{6}}), "");
}

// It takes D dead on each side to cut somebody off from the ring, and under a binomial tree with D = 1 the parent
// besides: no parent but the root is so near.
TEST(Chain, FewerDeadThanTwiceTheDistanceLeaveNobodyOut) {
    for (const char* tree : kTrees) {
        for (const char* correction : {"opportunistic:1", "opportunistic:2", "optimized:1", "optimized:2"}) {
            for (std::uint32_t processes = 2; processes <= 16; ++processes) {
                const BroadcastSetup setup = setup_of(tree, correction, processes);
                const protocol::BroadcastPlan plan = plan_of(setup);
                Reach reach(plan);
                const std::uint32_t distance = setup.correction.distance;
                const bool has_far_parents = distance == 1 && setup.tree.shape == topology::TreeShape::binomial;
                const std::uint32_t harmless = has_far_parents ? 2 : 2 * distance - 1;
                for (std::uint32_t mask = 0; mask < 1U << processes; mask += 2) {
                    if (static_cast<std::uint32_t>(std::popcount(mask)) > harmless) continue;
                    ASSERT_EQ(names(reach.left_out(of_mask(mask))), "") << tree << " " << correction << " " << mask;
                }
            }
        }
    }
}

// However long, one run of dead in a row leaves nobody out: both of its ends are reached along the ring.
TEST(Chain, OneRunOfDeadLeavesNobodyOutHoweverLongUnlessCorrectionGoesOneWay) {
    for (const char* tree : kTrees) {
        for (const std::uint32_t processes : {9U, 64U}) {
            const protocol::BroadcastPlan both = plan_of(setup_of(tree, "opportunistic:1", processes));
            Reach reach(both);
            for (std::uint32_t first = 1; first < processes; ++first) {
                std::vector<Position> dead;
                for (std::uint32_t last = first; last < processes; ++last) {
                    dead.push_back(Position{last});
                    ASSERT_EQ(names(reach.left_out(dead)), "") << tree << " " << first << " to " << last;
                }
            }
        }
    }
    const protocol::BroadcastPlan right = plan_of(setup_of("chain", "opportunistic:1:one-directional", 9));
    EXPECT_EQ(names(Reach(right).left_out(std::vector{Position{4}})), "5,6,7,8");
}

// Everybody is reached when all deaths are known, and of some deaths only the others cut off.
TEST(Chain, DeathsThatAreKnownDoNotCount) {
    const protocol::BroadcastPlan plan = plan_of(setup_of("binomial", "opportunistic:1", 32));
    Reach reach(plan);
    const std::vector<Position> dead{Position{1}, Position{4}, Position{6}, Position{20}, Position{22}};
    EXPECT_EQ(names(reach.left_out(dead, dead)), "");
    EXPECT_EQ(names(reach.left_out(dead, std::vector{Position{6}})), "") << "21 is a child of 5";
    EXPECT_EQ(names(reach.left_out(dead, std::vector{Position{20}})), "5");
    EXPECT_EQ(names(reach.left_out(dead, std::vector{Position{1}})), "5,21") << "whose parent it was, still waits";
}

// With more than 64 children a member waits for acknowledgements before it sends to all.
TEST(AcknowledgedTree, ChildrenAfterThe64thWaitForTheFirst) {
    const BroadcastSetup setup = setup_of("star", "ack", 70);
    const protocol::BroadcastPlan plan = plan_of(setup);
    EXPECT_EQ(names(Reach(plan).left_out(std::vector{Position{3}})), "67,68,69");
    const Faults faults{.dead = {Position{3}}};
    EXPECT_EQ(names(make_simulator(setup).value()->run(faults, 1).value().unreached), "67,68,69");
}

// ------------------------------------------------------------------------------------------------------------- gossip

// The members that gossip reaches are seen in the messages.
TEST(Gossip, LeavesOutExactlyTheStretchesBetweenRunsOfDeadThatItDoesNotReach) {
    std::uint32_t left_somebody_out = 0;
    for (const char* correction : {"opportunistic:1", "opportunistic:2", "opportunistic:1:one-directional",
                                   "optimized:2", "opportunistic:1:synchronized", "checked"}) {
        for (const std::uint32_t processes : {5U, 8U, 12U, 40U, 512U}) {
            for (const std::uint32_t rounds : {1U, 2U, 5U}) {
                BroadcastSetup setup = setup_of("star", correction, processes);
                setup.gossip = {rounds, 0};
                const protocol::BroadcastPlan plan = plan_of(setup);
                Reach reach(plan);
                const auto simulator = make_simulator(setup).value();
                const auto gossip = static_cast<std::uint8_t>(protocol::MessageKind::gossip);
                for (std::uint32_t seed = 1; seed <= 60; ++seed) {
                    const Faults faults = FaultPlan{.dead_rate = 0.01 * seed}.draw(processes, seed);
                    std::vector<bool> reached(processes, false);
                    reached[0] = true;
                    for (const Event& event : simulator->conversation(faults, seed, SIZE_MAX)) {
                        if (event.what == Event::What::receive && event.kind == gossip) reached[event.to.value] = true;
                    }
                    const std::vector<Position> unreached = simulator->run(faults, seed).value().unreached;
                    std::vector<Position> expected;
                    if (reach_rule(plan) == ReachRule::gossip) {
                        expected =
                            reach.left_out_of_gossip(faults.dead, [&](Position at) { return reached[at.value]; });
                    }
                    left_somebody_out += expected.empty() ? 0 : 1;
                    ASSERT_EQ(names(unreached), names(expected))
                        << correction << ", " << processes << ", seed " << seed;
                }
            }
        }
    }
    EXPECT_GT(left_somebody_out, 500U);
}

// A member on one stretch with the root is always reached, and no other surely: in some draws gossip misses it.
TEST(Gossip, OnlyMembersOffTheRootsStretchMayBeLeftOut) {
    for (const std::uint32_t distance : {1U, 2U}) {
        BroadcastSetup setup = setup_of("star", distance == 1 ? "opportunistic:1" : "opportunistic:2", 8);
        setup.gossip = {2, 0};
        const protocol::BroadcastPlan plan = plan_of(setup);
        Reach reach(plan);
        const auto simulator = make_simulator(setup).value();
        for (std::uint32_t mask = 0; mask < 256; mask += 2) {
            const Faults faults{.dead = of_mask(mask)};
            std::vector<bool> missed(8, false);
            for (std::uint64_t seed = 1; seed <= 400; ++seed) {
                const Outcome outcome = simulator->run(faults, seed).value();
                for (const Position position : outcome.unreached)
                    missed[position.value] = true;
            }
            std::vector<bool> expected(8, false);
            for (const Position position :
                 reach.left_out_of_gossip(faults.dead, [](Position at) { return at.value == 0; }))
                expected[position.value] = true;
            ASSERT_EQ(missed, expected) << distance << ", dead " << names(faults.dead);
        }
    }
}

}  // namespace
}  // namespace coppice::simulation
