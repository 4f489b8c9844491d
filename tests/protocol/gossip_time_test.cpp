// Equations 1 to 5 of IPDPS'17, against the paper's numbers and against counting.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "protocol/gossip_time.hpp"

namespace coppice::protocol {
namespace {

// §IV.A and Figures 3, 5, 9: at least 50 % chance of consistency in 10^6 trials.
const double kDelta = delta_for(0.5, 1e6);

constexpr GossipModel kPizDaint{4096, 4096, 2, 1};
constexpr GossipModel kFigures{1024, 1024, 1, 1};

TEST(Delta, HalfAChanceForAMillionRunsIsThePapersNumber) {
    EXPECT_NEAR(kDelta, 6.9315e-7, 1e-11);
    EXPECT_NEAR(delta_for(0.99, 1), 0.01, 1e-12);
}

TEST(Equation1, OnlyTheRootIsReachedUntilItsFirstMessageArrives) {
    const std::vector<double> reached = expected_reached({100, 100, 5, 2}, 12);
    ASSERT_EQ(reached.size(), 13U);
    for (std::uint32_t t = 0; t < 9; ++t)
        EXPECT_EQ(reached[t], 1) << t;
    EXPECT_NEAR(reached[9], 2, 1e-9);
}

TEST(Equation1, Figure1GrowsFastestAroundHalfOfTheMembersAndReachesThemAll) {
    const std::vector<double> reached = expected_reached(kFigures, 60);
    std::size_t fastest = 1;
    for (std::size_t t = 1; t + 1 < reached.size(); ++t) {
        EXPECT_GE(reached[t + 1], reached[t]);
        if (reached[t + 1] - reached[t] > reached[fastest + 1] - reached[fastest]) fastest = t;
    }
    // The paper: "the rate increases up to around 512 nodes (t ≈ 18), then it decreases towards zero".
    EXPECT_NEAR(static_cast<double>(fastest), 18, 1);
    EXPECT_NEAR(reached[fastest], 512, 120);
    EXPECT_NEAR(reached[60], 1024, 1e-6);
}

TEST(Equation1, DeadMembersTakeUpMessagesAndAreNeverReached) {
    const std::vector<double> all = expected_reached({1000, 1000, 2, 1}, 80);
    const std::vector<double> most = expected_reached({1000, 900, 2, 1}, 80);
    EXPECT_NEAR(most[80], 900, 0.01);
    for (std::size_t t = 12; t <= 80; ++t)
        EXPECT_LT(most[t], all[t]);
}

// Members reached, by gossip drawn by hand: one message per step and member, taking effect `delay` later.
double simulate_reached(const GossipModel& model, std::uint32_t until, std::mt19937& random) {
    std::vector<std::uint32_t> since(model.processes, UINT32_MAX);
    since[0] = 0;
    double count = 1;
    const std::uint32_t delay = model.latency + 2 * model.overhead;
    for (std::uint32_t now = 0; now + delay <= until; now += model.overhead) {
        for (std::uint32_t member = 0; member < model.processes; ++member) {
            if (since[member] > now) continue;
            std::uint32_t other = static_cast<std::uint32_t>(random() % (model.processes - 1));
            if (other >= member) ++other;
            if (since[other] != UINT32_MAX) continue;
            since[other] = now + delay;
            ++count;
        }
    }
    return count;
}

// Lemma 1 is Equation 1.
TEST(Lemma1, GossipDrawnByHandReachesTheExpectedNumberOfMembersOnAverage) {
    const GossipModel model{512, 512, 2, 1};
    std::mt19937 random(7);
    for (const std::uint32_t time : {20U, 24U, 28U, 32U}) {
        double sum = 0;
        for (int run = 0; run < 300; ++run)
            sum += simulate_reached(model, time, random);
        const double expected = expected_reached(model, time)[time];
        EXPECT_NEAR(sum / 300 / expected, 1, 0.03) << time;
    }
}

// Equation 2 as printed, summed term by term.
double as_printed(std::uint32_t processes, double reached, std::uint32_t length) {
    const double n = processes;
    std::vector<double> alpha(processes);
    for (std::uint32_t k = 0; k < processes; ++k) {
        const double p = reached * reached / n / n * std::pow((n - reached) / n, k);
        alpha[k] = 1 - std::pow(1 - p, n);
    }
    double sum = 0;
    for (std::uint32_t k = length + 1; k < processes; ++k) {
        double term = alpha[k];
        for (std::uint32_t i = k + 1; i < processes; ++i)
            term *= 1 - alpha[i];
        sum += term;
    }
    return sum;
}

TEST(Equation2, TheSumIsThatOfThePrintedTerms) {
    for (const double share : {0.3, 0.6, 0.9, 0.99}) {
        for (const std::uint32_t length : {0U, 1U, 2U, 5U, 11U}) {
            const double expected = as_printed(400, 400 * share, length);
            const double computed = probability_of_longer_gap(400, 400 * share, length);
            EXPECT_NEAR(computed, expected, 1e-9 + 1e-6 * expected) << share << " " << length;
        }
    }
}

TEST(Equation2, TheLongestGapIsTheFirstThatIsRareEnough) {
    for (const double share : {0.05, 0.5, 0.95, 0.999}) {
        const std::uint32_t length = longest_gap(4096, 4096 * share, kDelta);
        EXPECT_LT(probability_of_longer_gap(4096, 4096 * share, length), kDelta);
        EXPECT_TRUE(length == 0 || probability_of_longer_gap(4096, 4096 * share, length - 1) >= kDelta);
    }
    EXPECT_EQ(longest_gap(4096, 4096, kDelta), 0U);
}

// The root alone leaves one gap, of everybody else; whatever is asked for, gossip has to begin.
TEST(Equation2, GapsAreNoShorterThanTheAverageOne) {
    EXPECT_LT(probability_of_longer_gap(4096, 1, 0), 0.5);  // as the equation has it
    EXPECT_EQ(longest_gap(4096, 1, 0.5), 4095U);
    EXPECT_GE(longest_gap(4096, 256, 0.999999), 15U);
    for (const GossipKind kind : {GossipKind::opportunistic, GossipKind::checked})
        for (const std::uint32_t processes : {5U, 64U, 4096U})
            EXPECT_GT(choose_gossip_time(kind, {processes, processes, 2, 1}, 0.5)->time, 0U) << processes;
}

// How long the longest run of unreached ones really is, when members are reached independently.
TEST(Equation2, IsNearWhatIsDrawnByHand) {
    constexpr std::uint32_t kMembers = 1024;
    constexpr int kRuns = 4000;
    std::mt19937 random(11);
    std::vector<int> longer(12, 0);
    for (int run = 0; run < kRuns; ++run) {
        std::uint32_t longest = 0;
        std::uint32_t current = 0;
        for (std::uint32_t i = 0; i < kMembers; ++i) {
            current = random() % 100 < 80 ? 0 : current + 1;
            longest = std::max(longest, current);
        }
        for (std::uint32_t length = 0; length < longest && length < longer.size(); ++length)
            ++longer[length];
    }
    for (const std::uint32_t length : {2U, 3U, 4U, 5U}) {
        EXPECT_NEAR(probability_of_longer_gap(kMembers, 0.8 * kMembers, length), double(longer[length]) / kRuns, 0.03)
            << length;
    }
}

// §IV.D, N = 4096, L = 2 µs, O = 1 µs.
TEST(Equations, ChooseTheGossipTimesOfTheCaseStudy) {
    const GossipTime gos = *choose_gossip_time(GossipKind::gossip, kPizDaint, kDelta);
    EXPECT_EQ(gos.time, 50U);
    const GossipTime ocg = *choose_gossip_time(GossipKind::opportunistic, kPizDaint, kDelta);
    EXPECT_EQ(ocg.time, 31U);
    EXPECT_EQ(ocg.length, 5U);
    EXPECT_EQ(ocg.total, 42U);
    const GossipTime ccg = *choose_gossip_time(GossipKind::checked, kPizDaint, kDelta);
    EXPECT_EQ(ccg.time, 33U);
    EXPECT_EQ(ccg.length, 3U);
}

// Equation 5 is an upper bound of the time and so asks for more gossip than the T = 32 that simulation finds to be
// fastest.
TEST(Equation5, AsksForSomewhatMoreGossipThanSimulationDoes) {
    const GossipTime fcg = *choose_gossip_time(GossipKind::failure_proof, kPizDaint, kDelta, 1);
    EXPECT_EQ(fcg.time, 36U);
    EXPECT_EQ(fcg.length, 7U);
    EXPECT_EQ(fcg.total, 36U + 4 * 7 + 2 - 13);
    EXPECT_GT(fcg.time, 32U);
    EXPECT_LE(fcg.time, 32U + 4);
}

// Figures 3 and 5 (L = O = 1, N = 1024): the paper has 24 and 25, and adds one step to all its T. The equations are
// flat there: within one step of the minimum at the paper's times.
TEST(Equation3, IsWithinOneStepOfFigure3) {
    const GossipTime ocg = *choose_gossip_time(GossipKind::opportunistic, kFigures, kDelta);
    EXPECT_EQ(ocg.total, 31U);
    EXPECT_NEAR(ocg.time, 24, 1);
}

TEST(Equation4, IsWithinOneStepOfFigure5) {
    const GossipTime ccg = *choose_gossip_time(GossipKind::checked, kFigures, kDelta);
    EXPECT_EQ(ccg.total, 34U);
    EXPECT_NEAR(ccg.time, 25, 1);
}

TEST(Equations, ATotalIsTheSumThatIsPrinted) {
    const GossipModel model{2000, 1990, 6, 2};
    const std::uint64_t l = 6;
    const std::uint64_t o = 2;
    const GossipTime ocg = *choose_gossip_time(GossipKind::opportunistic, model, 1e-6);
    EXPECT_EQ(ocg.total, ocg.time + 2 * l + (2 + ocg.length) * o);
    const GossipTime ccg = *choose_gossip_time(GossipKind::checked, model, 1e-6);
    EXPECT_EQ(ccg.total, ccg.time + 2 * l + (2 + 2 * ccg.length) * o);
    const GossipTime fcg = *choose_gossip_time(GossipKind::failure_proof, model, 1e-6);
    EXPECT_EQ(fcg.total, fcg.time + 4 * fcg.length * o + l - 13 * o);
    for (const GossipTime& one : {ocg, ccg, fcg}) {
        EXPECT_LT(one.unreached, 1e-6);
        EXPECT_EQ(one.time % o, 0U);
    }
}

TEST(Equations, MoreReliabilityTakesMoreTime) {
    for (const GossipKind kind :
         {GossipKind::gossip, GossipKind::opportunistic, GossipKind::checked, GossipKind::failure_proof}) {
        std::uint64_t before = 0;
        for (const double delta : {1e-2, 1e-4, 1e-7, 1e-10}) {
            const GossipTime one = *choose_gossip_time(kind, kPizDaint, delta);
            EXPECT_GE(one.total, before);
            before = one.total;
        }
    }
}

// Appendix B: q(G, V) as printed.
double chains_as_printed(std::uint32_t processes, double reached, std::uint32_t ones, std::uint32_t length) {
    const double n = processes;
    double none = 0;
    for (std::uint32_t g = std::max(length + 1, ones); g < processes; ++g) {
        const double q = std::exp(ones * std::log(reached / n) + (g - ones) * std::log(1 - reached / n) +
                                  std::lgamma(g - 1) - std::lgamma(ones - 1) - std::lgamma(g - ones + 1));
        none += n * std::log1p(-q);
    }
    return 1 - std::exp(none);
}

TEST(Equation5, TheChainsAreThoseOfThePrintedFormula) {
    for (const double share : {0.2, 0.7, 0.95}) {
        for (const std::uint32_t ones : {3U, 5U, 7U}) {
            for (const std::uint32_t length : {3U, 6U, 12U, 30U}) {
                const double expected = chains_as_printed(300, 300 * share, ones, length);
                EXPECT_NEAR(probability_of_longer_chain(300, 300 * share, ones, length), expected,
                            1e-9 + 1e-6 * expected)
                    << share << " " << ones << " " << length;
            }
            const std::uint32_t chain = longest_chain(300, 300 * share, ones, 1e-3);
            EXPECT_LT(chains_as_printed(300, 300 * share, ones, chain), 1e-3);
        }
    }
    EXPECT_EQ(longest_chain(300, 300, 5, 1e-6), 5U);
}

// A hop of L/O + 1 rounds makes rounds what steps are.
TEST(Rounds, AreStepsWhenAHopCostsAsManyAsItTakes) {
    const GossipTime steps = *choose_gossip_time(GossipKind::opportunistic, kPizDaint, kDelta);
    const GossipTime rounds = *choose_gossip_rounds(GossipKind::opportunistic, 4096, 4096, 3, kDelta);
    EXPECT_EQ(rounds.time, steps.time);
    EXPECT_EQ(rounds.length, steps.length);
    const GossipTime fast = *choose_gossip_rounds(GossipKind::opportunistic, 4096, 4096, 0, kDelta);
    EXPECT_LT(fast.time, steps.time);
    EXPECT_GE(fast.time, 12U);  // a message a round at most doubles the members that have it
}

TEST(Equations, AreQuickForAMillionMembersAndSoundForTwo) {
    for (const GossipKind kind :
         {GossipKind::gossip, GossipKind::opportunistic, GossipKind::checked, GossipKind::failure_proof}) {
        const GossipTime large = *choose_gossip_time(kind, {1U << 20, 1U << 20, 2, 1}, 1e-9);
        EXPECT_GT(large.time, 20U);
        EXPECT_LT(large.time, 100U);
        const GossipTime small = *choose_gossip_time(kind, {2, 2, 2, 1}, 1e-6);
        EXPECT_LE(small.time, 60U);
    }
}

TEST(Equations, RefuseWhatIsNoGroupAndNoProbability) {
    EXPECT_FALSE(choose_gossip_time(GossipKind::checked, {1, 1, 2, 1}, 0.1).has_value());
    EXPECT_FALSE(choose_gossip_time(GossipKind::checked, {8, 9, 2, 1}, 0.1).has_value());
    EXPECT_FALSE(choose_gossip_time(GossipKind::checked, {8, 0, 2, 1}, 0.1).has_value());
    EXPECT_FALSE(choose_gossip_time(GossipKind::checked, {8, 8, 2, 0}, 0.1).has_value());
    EXPECT_FALSE(choose_gossip_time(GossipKind::checked, {8, 8, 2, 1}, 0).has_value());
    EXPECT_FALSE(choose_gossip_time(GossipKind::checked, {8, 8, 2, 1}, 1).has_value());
    EXPECT_FALSE(choose_gossip_rounds(GossipKind::checked, 0, 0, 1, 0.1).has_value());
}

}  // namespace
}  // namespace coppice::protocol
