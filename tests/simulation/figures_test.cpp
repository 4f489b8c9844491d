// What PPoPP'19 says of Figures 8, 9, 10 and 14, with few broadcasts of the machines that ship (coppice-sim reproduce
// has many). Figures 1b, 6 and 7 are in lemmas_test.cpp, Table 1 in table1_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>

#include "protocol/baselines/names.hpp"
#include "protocol/gossip_time.hpp"
#include "simulation/broadcast_simulation.hpp"
#include "simulation/checker.hpp"
#include "simulation/faults.hpp"
#include "simulation/gossip_simulation.hpp"

namespace coppice::simulation {
namespace {

constexpr std::array<const char*, 4> kTrees{"binomial", "kary:4", "lame:2", "optimal:1,2"};
constexpr std::uint32_t kProcesses = 65536;

struct Means {
    double quiescence = 0;
    double messages = 0;  // per process
    double gap = 0;
    std::vector<Outcome> outcomes;
};

Means measure(Simulator& simulator, double rate, std::uint64_t runs) {
    Means means;
    const FaultPlan plan{.dead_rate = rate};
    for (std::uint64_t seed = 1; seed <= runs; ++seed) {
        const auto outcome = simulator.run(plan.draw(simulator.processes(), seed), seed);
        if (!outcome) {
            ADD_FAILURE() << to_string(outcome.error(), 20);
            break;
        }
        EXPECT_TRUE(outcome->unreached.empty());
        const auto share = static_cast<double>(runs);
        means.quiescence += outcome->quiescence_latency / share;
        means.messages += static_cast<double>(outcome->messages) / simulator.processes() / share;
        means.gap += outcome->gaps.largest / share;
        means.outcomes.push_back(*outcome);
    }
    return means;
}

std::unique_ptr<Simulator> tree_simulator(const char* tree, const char* correction, std::uint32_t processes) {
    return make_simulator({.processes = processes,
                           .tree = *topology::parse_tree(tree),
                           .correction = *protocol::baselines::parse_correction(correction)})
        .value();
}

std::unique_ptr<Simulator> gossip_simulator(std::uint32_t processes) {
    GossipSetup setup;
    setup.processes = processes;
    setup.spec = *protocol::baselines::parse_gossip("ccg");
    setup.delta = protocol::delta_for(0.5, 1e6);
    return make_simulator(setup).value();
}

// Synchronized checked correction and checked corrected gossip, at the smallest and the largest of the paper's rates.
class UnderFailures : public ::testing::Test {
  protected:
    struct Rates {
        Means few;   // 0.01 %
        Means many;  // 4 %
        double growth() const { return many.quiescence / few.quiescence - 1; }
    };

    // Once for the three figures.
    static void SetUpTestSuite() {
        if (!trees_.empty()) return;
        for (const char* tree : kTrees) {
            const auto simulator = tree_simulator(tree, "checked:synchronized", kProcesses);
            trees_[tree] = {measure(*simulator, 0.0001, 2), measure(*simulator, 0.04, 12)};
            start_[tree] = *simulator->correction_start();
        }
        const auto gossip = gossip_simulator(kProcesses);
        gossip_ = {measure(*gossip, 0.0001, 2), measure(*gossip, 0.04, 3)};
    }

    static inline std::map<std::string, Rates> trees_;
    static inline std::map<std::string, Step> start_;
    static inline Rates gossip_;
};

using Figure8 = UnderFailures;
using Figure9 = UnderFailures;
using Figure10 = UnderFailures;

// "degrades proportionally by 12-14 % from 0.01 % to 4 % fault rate … latency of Corrected Gossip degrades only by 4 %"
TEST_F(Figure8, LatencyOfTreesGrowsBy12To14PercentUpTo4PercentFailuresAndOfGossipHardly) {
    for (const char* tree : kTrees) {
        EXPECT_GE(trees_[tree].growth(), 0.10) << tree;
        EXPECT_LE(trees_[tree].growth(), 0.16) << tree;
    }
    EXPECT_LE(gossip_.growth(), 0.06);
}

// "With more faults, the number of messages drops for all types of collectives … Corrected Tree-based broadcast still
// maintains a significantly lower number of messages than Corrected Gossip."
TEST_F(Figure9, MessagesDropWithFailuresAndTreesSendFarFewerThanGossip) {
    for (const char* tree : kTrees) {
        EXPECT_LT(trees_[tree].many.messages, trees_[tree].few.messages) << tree;
        EXPECT_LT(trees_[tree].few.messages, 0.7 * gossip_.few.messages) << tree;
        EXPECT_LT(trees_[tree].many.messages, 0.7 * gossip_.many.messages) << tree;
    }
    EXPECT_LT(gossip_.many.messages, gossip_.few.messages);
}

// "Upper and lower bounds surround the data points", which are pairs of g_max and correction time; "most large gaps
// happened only for binomial trees".
TEST_F(Figure10, CorrectionTimeLiesBetweenTheBoundsOfTheLargestGapWhichIsLargestInBinomialTrees) {
    std::set<std::pair<std::uint32_t, Step>> points;
    for (const char* tree : kTrees) {
        for (const Means* means : {&trees_[tree].few, &trees_[tree].many}) {
            for (const Outcome& outcome : means->outcomes)
                points.emplace(outcome.gaps.largest, outcome.quiescence_latency - start_[tree]);
        }
        EXPECT_LE(trees_[tree].many.gap, trees_["binomial"].many.gap) << tree;
    }
    EXPECT_GE(points.size(), 12U);
    for (const auto& [gap, lasted] : points) {
        // L = 2, o = 1: 8 + g_max to 8 + 2 g_max + 1.
        EXPECT_GE(lasted, 8 + gap);
        EXPECT_LE(lasted, 8 + 2 * gap + 1);
        const Bounds bounds = checked_latency_bounds({}, gap);
        EXPECT_EQ(std::pair(bounds.least, bounds.most), std::pair(Step{8 + gap}, Step{9 + 2 * gap}));
    }
}

// "In the fault-free case all nodes are colored when the last process receives a tree message and there is no
// difference in coloring latency between corrected and acknowledged trees. Corrected Gossip usually finishes full
// coloring only during correction." And §4.1: "opportunistic correction may speed up coloring and a binomial tree
// benefits the most".
TEST(Figure14, ColoringWithoutFailuresIsTheTreesOwnWhateverFollowsIt) {
    const auto coloring = [](const char* tree, const char* correction) {
        return tree_simulator(tree, correction, 4096)->run({}, 1).value().coloring_latency;
    };
    const Step gained_most = coloring("binomial", "none") - coloring("binomial", "optimized-paper:4");
    EXPECT_GT(gained_most, 0U);
    for (const char* tree : kTrees) {
        const Step alone = coloring(tree, "none");
        EXPECT_EQ(coloring(tree, "ack"), alone) << tree;
        EXPECT_EQ(coloring(tree, "checked:synchronized"), alone) << tree;
        EXPECT_LE(coloring(tree, "optimized-paper:4"), alone) << tree;
        EXPECT_LE(alone - coloring(tree, "optimized-paper:4"), gained_most) << tree;
    }
    const auto gossip = gossip_simulator(4096);
    std::uint32_t during_correction = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed)
        during_correction += gossip->run({}, seed).value().coloring_latency > *gossip->correction_start() ? 1U : 0U;
    EXPECT_GT(during_correction, 30U);
}

// Abstract: "a latency reduction of 50% and with up to six times fewer messages sent in comparison to existing schemes". The latency
// is that of trees with acknowledgements until all is quiet, and messages are those of opportunistic corrected gossip beside a tree with
// one correction a process: five times with the gossip that the equations choose, six with one that is two steps longer.
TEST(Headline, HalfTheLatencyOfAcknowledgementsAndFiveToSixTimesFewerMessagesThanGossip) {
    double best = 0;
    for (const char* tree : kTrees) {
        const double acknowledged = measure(*tree_simulator(tree, "ack", kProcesses), 0, 1).quiescence;
        for (const char* correction : {"checked:synchronized", "optimized:4"}) {
            const double corrected = measure(*tree_simulator(tree, correction, kProcesses), 0, 1).quiescence;
            best = std::max(best, 1 - corrected / acknowledged);
        }
    }
    EXPECT_NEAR(best, 0.49, 0.01);

    const double one =
        measure(*tree_simulator("binomial", "opportunistic-paper:1:one-directional", kProcesses), 0, 1).messages;
    const auto gossip = [&](std::uint32_t time) {
        GossipSetup setup;
        setup.processes = kProcesses;
        setup.spec = {.kind = protocol::GossipKind::opportunistic, .limit = time, .corrections = 8};
        return measure(*make_simulator(setup).value(), 0, 3).messages / one;
    };
    EXPECT_NEAR(gossip(37), 4.95, 0.1);
    EXPECT_NEAR(gossip(39), 5.92, 0.1);
}

}  // namespace
}  // namespace coppice::simulation
