// What PPoPP'19 proves and says of its simulations, with the machines that ship.
#include <gtest/gtest.h>

#include <cmath>

#include "protocol/baselines/names.hpp"
#include "simulation/broadcast_simulation.hpp"
#include "simulation/checker.hpp"
#include "simulation/faults.hpp"

namespace coppice::simulation {
namespace {

constexpr std::array<const char*, 4> kTrees{"binomial", "kary:4", "lame:2", "optimal"};

BroadcastSetup setup_of(const std::string& tree, const char* correction, std::uint32_t processes,
                        const LogP& model = {}) {
    BroadcastSetup setup{
        .processes = processes, .correction = *protocol::baselines::parse_correction(correction), .model = model};
    std::string name = tree;
    if (tree == "optimal") {
        name.append(":").append(std::to_string(model.overhead)).append(",").append(std::to_string(model.latency));
    }
    setup.tree = *topology::parse_tree(name);
    return setup;
}

Outcome run(const BroadcastSetup& setup, const Faults& faults = {}) {
    return make_simulator(setup).value()->run(faults, 1).value();
}

// Every L up to 9 and o up to 4.
template <class Use>
void for_models(Use&& use) {
    for (Step overhead = 1; overhead <= 4; ++overhead) {
        for (Step latency = 1; latency <= 9; ++latency)
            use(LogP{.latency = latency, .overhead = overhead});
    }
}

TEST(Lemma2, FaultFreeCheckedCorrectionLasts4oPlusLPlusFloorLByOTimesOWhereODividesL) {
    for_models([](const LogP& model) {
        for (const char* tree : kTrees) {
            for (const std::uint32_t processes : {64U, 100U, 1000U}) {
                const auto simulator = make_simulator(setup_of(tree, "checked:synchronized", processes, model)).value();
                const Outcome outcome = simulator->run({}, 1).value();
                const Step lasted = outcome.quiescence_latency - *simulator->correction_start();
                const Step o = model.overhead;
                // Elsewhere one o longer: one more message is out before the one that stops a member comes in.
                const Step more = model.latency % o == 0 ? 0 : o;
                EXPECT_EQ(lasted, 4 * o + model.latency + model.latency / o * o + more)
                    << tree << " P=" << processes << " L=" << model.latency << " o=" << o;
                EXPECT_EQ(lasted, fault_free_checked_latency(model));
            }
        }
    });
}

TEST(Corollary1, EachMemberSends3PlusFloorLByOCorrectionsWhereODividesL) {
    for_models([](const LogP& model) {
        for (const char* tree : kTrees) {
            const Outcome outcome = run(setup_of(tree, "checked:synchronized", 1000, model));
            const Step more = model.latency % model.overhead == 0 ? 0 : 1;
            EXPECT_EQ(outcome.messages - 999, 1000ULL * (3 + model.latency / model.overhead + more)) << tree;
        }
    });
}

// The simulator checks the bounds in every such run itself, here it only has to be given many.
TEST(Lemma3, BoundsTheLatencyByTheLargestGap) {
    for_models([](const LogP& model) {
        for (const char* tree : kTrees) {
            const BroadcastSetup setup = setup_of(tree, "checked:synchronized", 256, model);
            const auto simulator = make_simulator(setup).value();
            for (std::uint64_t seed = 1; seed <= 60; ++seed) {
                const FaultPlan plan{.dead_count = static_cast<std::uint32_t>(1 + seed % 40)};
                const auto outcome = simulator->run(plan.draw(256, seed), seed);
                ASSERT_TRUE(outcome.has_value()) << to_string(outcome.error(), 20);
                const Step lasted = outcome->quiescence_latency - *simulator->correction_start();
                const Bounds bounds = checked_latency_bounds(model, outcome->gaps.largest);
                if (!is_ring_large_enough(model, 256, outcome->gaps.largest)) continue;
                EXPECT_GE(lasted, bounds.least);
                EXPECT_LE(lasted, bounds.most);
            }
        }
    });
}

TEST(Lemma3, IsOneOShortAsPrintedWhereODoesNotDivideL) {
    const LogP model{.latency = 1, .overhead = 2};
    const auto simulator = make_simulator(setup_of("binomial", "checked:synchronized", 18, model)).value();
    const Outcome outcome = simulator->run({.dead = {Position{3}}}, 1).value();
    EXPECT_EQ(outcome.gaps.largest, 1U);
    const Step printed_fault_free = 4 * 2 + 1 + 1 / 2 * 2;
    EXPECT_EQ(printed_fault_free + (2 * 1 + 1) * 2, 15U);
    EXPECT_EQ(outcome.quiescence_latency - *simulator->correction_start(), 17U);
}

TEST(Figure6, TreesSendTheSameWhateverTheirShapeAndSize) {
    for (const char* tree : kTrees) {
        for (const std::uint32_t processes : {256U, 4096U, 65536U}) {
            const double p = processes;
            // One tree message each but the root, and 5 corrections (L = 2, o = 1).
            EXPECT_EQ(run(setup_of(tree, "checked:synchronized", processes)).messages, 6ULL * processes - 1) << tree;
            EXPECT_EQ(run(setup_of(tree, "ack", processes)).messages, 2ULL * (processes - 1));
            // One correction in one direction costs what acknowledgements cost.
            const Outcome one = run(setup_of(tree, "opportunistic-paper:1:one-directional", processes));
            EXPECT_EQ(one.messages, 2ULL * processes - 1);
            const Outcome optimized = run(setup_of(tree, "optimized-paper:2", processes));
            EXPECT_LE(static_cast<double>(optimized.messages) / p, 6.0);
        }
    }
}

TEST(Figure7, FaultFreeQuiescenceIsTheDisseminationAndEightStepsWhateverTheTree) {
    for (const char* tree : kTrees) {
        for (const std::uint32_t processes : {128U, 1024U, 16384U}) {
            const Step alone = run(setup_of(tree, "none", processes)).coloring_latency;
            const Outcome outcome = run(setup_of(tree, "checked:synchronized", processes));
            EXPECT_EQ(outcome.coloring_latency, alone);
            EXPECT_EQ(outcome.quiescence_latency, alone + 8);
            EXPECT_GT(run(setup_of(tree, "ack", processes)).quiescence_latency, outcome.quiescence_latency + 5);
        }
    }
    EXPECT_LT(run(setup_of("optimal", "none", 16384)).coloring_latency,
              run(setup_of("lame:2", "none", 16384)).coloring_latency);
    EXPECT_LT(run(setup_of("lame:2", "none", 16384)).coloring_latency,
              run(setup_of("binomial", "none", 16384)).coloring_latency);
}

// Figure 1b: mean and percentile of the correction after one failure, of 1024.
TEST(Figure1b, InOrderNumberingMakesTheCorrectionWaitForWholeSubtrees) {
    const auto correction = [](const char* tree, std::uint32_t position) {
        const auto simulator = make_simulator(setup_of(tree, "checked:synchronized", 1024)).value();
        const Outcome outcome = simulator->run({.dead = {Position{position}}}, 1).value();
        return outcome.quiescence_latency - *simulator->correction_start();
    };
    double interleaved = 0;
    double in_order = 0;
    for (std::uint32_t position = 1; position < 1024; ++position) {
        interleaved += correction("binomial", position);
        in_order += correction("binomial:inorder", position);
    }
    EXPECT_DOUBLE_EQ(interleaved / 1023, 10.0);
    EXPECT_NEAR(in_order / 1023, 14.5, 0.5);
    EXPECT_GE(correction("binomial:inorder", 512), 500U);
}

// §4.2: a k-ary tree with d >= k tolerates k - 1 failures.
TEST(OpportunisticCorrection, ToleratesKMinus1FailuresInAKaryTreeWithDAtLeastK) {
    for (const std::uint32_t k : {2U, 3U, 4U}) {
        BroadcastSetup setup = setup_of("kary:" + std::to_string(k), "opportunistic-paper:1", 64);
        for (const auto kind : {protocol::CorrectionKind::opportunistic_paper, protocol::CorrectionKind::opportunistic,
                                protocol::CorrectionKind::optimized_opportunistic}) {
            setup.correction = {.kind = kind, .distance = k};
            const auto simulator = make_simulator(setup).value();
            for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
                const auto outcome = simulator->run(FaultPlan{.dead_count = k - 1}.draw(64, seed), seed);
                ASSERT_TRUE(outcome.has_value());
                ASSERT_TRUE(outcome->unreached.empty()) << "k=" << k << " seed " << seed;
            }
        }
    }
}

// §3.1: opportunistic correction colors everybody while no gap is longer than 2d, which the simulator checks in every
// run. In a chain whose first member is dead, of three live ones the root reaches those at its sides and not the one in
// the middle.
TEST(OpportunisticCorrection, DoesNotCloseGapsLongerThan2d) {
    for (const std::uint32_t d : {1U, 2U, 4U}) {
        BroadcastSetup setup = setup_of("chain", "opportunistic:1", 40);
        setup.correction.distance = d;
        Faults faults;
        for (std::uint32_t position = 1; position < 40; ++position) {
            if (position != d && position != 40 - d && position != 20) faults.dead.push_back(Position{position});
        }
        EXPECT_EQ(run(setup, faults).unreached, std::vector<Position>{Position{20}});
    }
}

TEST(OneSided, RingMessagesThatCostTheReceiverNothingEndTheCorrectionEarlier) {
    for (const char* tree : kTrees) {
        const Outcome two_sided = run(setup_of(tree, "checked:synchronized", 4096));
        const Outcome one_sided = run(setup_of(tree, "checked:synchronized", 4096, {.one_sided_ring = true}));
        EXPECT_EQ(one_sided.coloring_latency, two_sided.coloring_latency);
        // The receptions' o are saved, of the message that stops a member and of the last one.
        EXPECT_EQ(two_sided.quiescence_latency - one_sided.quiescence_latency, 2U);
        EXPECT_EQ(two_sided.messages - one_sided.messages, 4096U);
    }
}

}  // namespace
}  // namespace coppice::simulation
