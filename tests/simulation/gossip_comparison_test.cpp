// Figure 7 of IPDPS'17: corrected gossip against gossip alone (GOS), the binomial graph (BIG) and Buntinas' broadcast
// (BFB). The table (§IV.D) for N = 4,096, and 7a and 7b (§IV.E), how they scale.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "gossip_sample.hpp"
#include "simulation/buntinas_simulation.hpp"

namespace coppice::simulation {
namespace {

using protocol::GossipKind;

// With the gossip times that the equations choose.
Sample case_study(const char* name, std::uint32_t runs) {
    return sample(setup_of(name, 4096), {}, runs);
}

TEST(Figure7, OcgSends60PercentFewerMessagesThanGos) {
    const Sample gos = case_study("gos", 100);
    const Sample ocg = case_study("ocg", 100);
    // "60% less messages": 59.5 %.
    EXPECT_NEAR(ocg.messages.mean() / gos.messages.mean(), 0.40, 0.01);
    // "20% lower latency". Members of GOS leave at T + L + O, when no gossip can be under way any more, those of OCG at
    // T + 2L + (2 + K)O: 42 against 53 steps, 21 % less, if receptions never wait for each other. They do, and more so
    // where more is sent: OCG is quiet 36 % earlier.
    const auto gos_time = *protocol::choose_gossip_time(GossipKind::gossip, {4096, 4096, 2, 1}, kDelta);
    const auto ocg_time = *protocol::choose_gossip_time(GossipKind::opportunistic, {4096, 4096, 2, 1}, kDelta);
    EXPECT_EQ(gos_time.total, 53U);
    EXPECT_EQ(ocg_time.total, 42U);
    EXPECT_NEAR(ocg.quiescence.mean() / gos.quiescence.mean(), 0.64, 0.01);
    EXPECT_EQ(gos.unreached.sum, 0);
    EXPECT_EQ(ocg.unreached.sum, 0);
}

// "over 50% less work and 15% lower latency … than BIG": the latency holds, the work does not. FCG with f = 1 sends 28
// % more than BIG's N·log2 N at the T with the lowest latency, and even with the least work that still pays in time (T
// = 28) no less.
TEST(Figure7, FcgIs15PercentFasterThanBigButSends28PercentMore) {
    const auto big = make_simulator(BinomialGraphSetup{4096, {}, {}}).value();
    const Outcome reached = *big->run({}, 1);
    const double big_leaves = reached.quiescence_latency - 3;  // the last send's end
    EXPECT_EQ(big_leaves, 60);                                 // T^BIG
    EXPECT_EQ(reached.messages, 4096U * 12);
    const Sample fcg = sample(setup_of("fcg:1:32", 4096), {}, 100);
    EXPECT_NEAR((fcg.quiescence.mean() - 3) / big_leaves, 0.85, 0.01);
    EXPECT_NEAR(fcg.messages.mean() / static_cast<double>(reached.messages), 1.28, 0.01);
    const Sample least = sample(setup_of("fcg:1:28", 4096), {}, 50);
    EXPECT_LT(least.quiescence.mean() - 3, big_leaves);
    EXPECT_GT(least.messages.mean() / static_cast<double>(reached.messages), 0.98);
}

// Abstract: "the latency by 20% and the network load by 53% compared to the fastest known algorithm". Both of CCG beside BIG with a
// gossip of 26 steps; with the 30 that are fastest, 28 % and 28 %. Beside a binomial graph that is used both ways neither CCG nor FCG
// has 53 % less.
TEST(Abstract, LatencyIs20PercentLowerAndTheLoad53PercentLessWithAShorterGossipThanTheFastest) {
    const auto graph = [](protocol::BinomialGraph::Directions directions) {
        BinomialGraphSetup setup{4096, {}, {}};
        setup.directions = directions;
        return *make_simulator(setup).value()->run({}, 1);
    };
    const auto less = [](const Sample& sample, const Outcome& big) {
        return std::pair{1 - sample.quiescence.mean() / static_cast<double>(big.quiescence_latency),
                         1 - sample.messages.mean() / static_cast<double>(big.messages)};
    };
    const Outcome one_way = graph(protocol::BinomialGraph::Directions::right);
    const Outcome both_ways = graph(protocol::BinomialGraph::Directions::both);
    EXPECT_EQ(both_ways.messages, 4096U * 23);  // ±2^11 is one neighbour
    EXPECT_LE(both_ways.coloring_latency, one_way.coloring_latency);

    const auto shorter = less(sample(setup_of("ccg:26", 4096), {}, 60), one_way);
    EXPECT_NEAR(shorter.first, 0.22, 0.015);
    EXPECT_NEAR(shorter.second, 0.538, 0.01);
    const Sample ccg = sample(setup_of("ccg:30", 4096), {}, 60);
    EXPECT_NEAR(less(ccg, one_way).first, 0.28, 0.01);
    EXPECT_NEAR(less(ccg, one_way).second, 0.285, 0.01);
    EXPECT_NEAR(less(ccg, both_ways).second, 0.627, 0.01);
    EXPECT_NEAR(less(sample(setup_of("fcg:1:31", 4096), {}, 60), both_ways).second, 0.37, 0.01);
}

// Conclusion: "up to 30% lower latency and 60% less messages than existing algorithms": OCG beside GOS.
TEST(Conclusion, LatencyIsUpTo30PercentLowerAndMessages60PercentFewer) {
    const Sample gos = case_study("gos", 60);
    const Sample ocg = case_study("ocg", 60);
    EXPECT_LT(ocg.quiescence.mean() / gos.quiescence.mean(), 0.705);
    EXPECT_NEAR(ocg.messages.mean() / gos.messages.mean(), 0.40, 0.01);
}

// §IV.E: "omitted work plots … FCG consistently completes with less than 50% of the work of BIG". Not for f = 1, at any
// size.
TEST(Figure7a, FcgIsFasterThanBigFrom512MembersOnButNeverSendsHalf) {
    for (const std::uint32_t processes : {64U, 512U, 1024U, 16384U}) {
        SCOPED_TRACE(processes);
        const Outcome big = *make_simulator(BinomialGraphSetup{processes, {}, {}}).value()->run({}, 1);
        double fastest = 1e9;
        double fewest = 1e18;
        const auto bound =
            *protocol::choose_gossip_time(GossipKind::failure_proof, {processes, processes, 2, 1}, kDelta, 1);
        for (std::uint32_t time = bound.time - 12; time <= bound.time; time += 2) {
            const Sample fcg =
                sample(setup_of("fcg:1:" + std::to_string(time), processes), {}, processes > 2000 ? 3 : 20);
            fastest = std::min(fastest, fcg.quiescence.mean());
            fewest = std::min(fewest, fcg.messages.mean());
        }
        EXPECT_EQ(fastest < big.quiescence_latency, processes >= 512);
        EXPECT_GT(fewest, 0.5 * static_cast<double>(big.messages));
    }
}

// "BFB requires the least amount of messages", 2 (N - 1), and takes 2 (2O + L) log2 N.
TEST(Figure7, BfbSendsTheLeastAndTakesTwiceTheDepthOfItsTree) {
    for (const std::uint32_t degree : {3U, 8U, 12U}) {
        const std::uint32_t processes = 1U << degree;
        const Outcome bfb = *make_simulator(BuntinasSetup{processes, {}, {}}).value()->run({}, 1);
        EXPECT_EQ(bfb.quiescence_latency, 2 * (2 + 2) * degree);
        EXPECT_EQ(bfb.messages, 2ULL * (processes - 1));
    }
    for (const char* other : {"gos", "ocg", "ccg", "fcg:1"})
        EXPECT_GT(sample(setup_of(other, 4096), {}, 3).messages.mean(), 2.0 * 4095) << other;
}

// "FCG's latency is nearly 3 times less": of three that fail one does so on the way in the mean of 0.6. Even then BFB,
// which starts again only after some of these deaths, takes less than twice as long.
TEST(Figure7, BfbTakesNearlyTwiceAsLongAsFcgAndNotThreeTimes) {
    const Sample fcg = sample(setup_of("fcg:1:32", 4096), {.dead_count = 3}, 50);
    const auto bfb = make_simulator(BuntinasSetup{4096, {}, {}}).value();
    const auto latency = [&bfb](std::uint32_t dead, std::uint32_t dying) {
        const FaultPlan faults{.dead_count = dead, .dying_count = dying, .dying_until = 96, .notice_after = 0};
        return sample(*bfb, faults, 30).quiescence.mean();
    };
    const double mixed = 0.512 * latency(3, 0) + 0.384 * latency(2, 1) + 0.096 * latency(1, 2) + 0.008 * latency(0, 3);
    EXPECT_GT(mixed / fcg.quiescence.mean(), 1.75);
    EXPECT_LT(mixed / fcg.quiescence.mean(), 2.1);
}

// "With 1.5625 % (N/64) node failures … All executions are strongly consistent, except OCG which reached at least
// 99.999 % consistency in all cases … OCG outperforms GOS across the board. FCG … outperforms BIG when the number of
// nodes exceeds 256."
TEST(Figure7b, WithN64thFailedAllAreConsistentAndFcgIsFasterThanBigFrom512MembersOn) {
    for (const std::uint32_t processes : {256U, 512U, 4096U}) {
        SCOPED_TRACE(processes);
        const FaultPlan faults{.dead_count = processes / 64};
        const std::uint32_t runs = 40;
        const Sample gos = sample(setup_of("gos", processes), faults, runs);
        const Sample ocg = sample(setup_of("ocg", processes), faults, runs);
        const Sample ccg = sample(setup_of("ccg", processes), faults, runs);
        EXPECT_LE(ocg.unreached.mean(), 1e-5 * processes);
        EXPECT_EQ(ccg.unreached.sum, 0);
        EXPECT_LT(ocg.quiescence.mean(), gos.quiescence.mean());
        const Sample big = sample(*make_simulator(BinomialGraphSetup{processes, {}, {}}).value(), faults, runs);
        EXPECT_EQ(big.unreached.sum, 0);
        // The fastest gossip time, as the paper chose it.
        const auto bound =
            *protocol::choose_gossip_time(GossipKind::failure_proof, {processes, processes, 2, 1}, kDelta, 1);
        double fastest = 1e9;
        for (std::uint32_t time = bound.time - 8; time <= bound.time; time += 2) {
            const Sample fcg = sample(setup_of("fcg:1:" + std::to_string(time), processes), faults, runs);
            EXPECT_EQ(fcg.unreached.sum, 0);
            fastest = std::min(fastest, fcg.quiescence.mean());
        }
        EXPECT_TRUE(processes <= 256 || fastest < big.quiescence.mean()) << fastest;
    }
}

}  // namespace
}  // namespace coppice::simulation
