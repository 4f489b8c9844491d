// What to use on a machine: IPDPS'17 §IV.C and D as the worked example, probabilities against counting, and what is
// refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <tuple>

#include "simulation/advice.hpp"
#include "simulation/broadcast_simulation.hpp"
#include "simulation/mortality.hpp"

namespace coppice::simulation {
namespace {

// TSUBAME 2.0: a rank fails every 18,304 hours, jobs take 12 hours between checkpoints.
constexpr double kMtbf = 18304;
constexpr double kJob = 12;

topology::Tree tree_of(const char* name, std::uint32_t processes) {
    return topology::Tree::make(*topology::parse_tree(name), processes).value();
}

// "with 4,096 nodes, we expect ≈ 2.69 node failures during the application run"
TEST(Tsubame, Expects2Point69FailuresInAJobOf4096Ranks) {
    EXPECT_NEAR(4096 * kJob / kMtbf, 2.69, 0.005);
    EXPECT_NEAR(4096 * probability_of_death(kMtbf, kJob), 2.69, 0.01);
}

// "The probability that CCG is inconsistent, because nodes fail during the execution, is at most" 4096 · 55 µs / 18,304
// h = 3.4 · 10^-9; that two nodes do, about half the square of that.
TEST(Tsubame, ADeathWhileABroadcastRunsIsRareAndTwoAreNever) {
    const double one = probability_of_more_deaths(4096, kMtbf, 55e-6, 0);
    EXPECT_NEAR(one, 3.4e-9, 0.05e-9);
    const double two = probability_of_more_deaths(4096, kMtbf, 55e-6, 1);
    EXPECT_NEAR(two / (one * one / 2), 1, 0.001);
}

// "f(N) = 12N / 18304. Thus, for N > 22,001, BIG may not be consistent on the TSUBAME 2.0 system." To be exact, 22,004.
TEST(Tsubame, TheBinomialGraphIsConsistentUpTo22001Ranks) {
    EXPECT_NEAR(ranks_with_log2_failures(kMtbf, kJob), 22001, 5);
    EXPECT_EQ(ranks_with_log2_failures(1, 1), 2);
    EXPECT_EQ(ranks_with_log2_failures(1e9, 1, 1000), 1000);
}

Wishes tsubame() {
    return {.ranks = 4096, .mtbf_hours = kMtbf, .job_hours = kJob, .reliability = 0.5, .broadcasts = 1e6, .runs = 4};
}

const auto kQuietly = [](std::size_t, std::size_t) {};

const Candidate& candidate_of(const Advice& advice, const std::string& name) {
    for (const Candidate& candidate : advice.candidates) {
        if (candidate.name().starts_with(name)) return candidate;
    }
    throw std::runtime_error("no candidate " + name);
}

// §IV.D: half a chance for 10^6 broadcasts, δ = 6.93 · 10^-7; T = 31 with five corrections for OCG, T = 33 for CCG.
TEST(Tsubame, IsAdvisedATreeWithTwoCorrectionsASideOrAGossipOf31Steps) {
    const Advice advice = advise(tsubame(), kQuietly).value();
    EXPECT_NEAR(advice.tolerated, 6.93e-7, 0.01e-7);
    EXPECT_EQ(candidate_of(advice, "ocg").gossip_time, 31U);
    EXPECT_EQ(candidate_of(advice, "ocg").distance, 5U);
    EXPECT_EQ(candidate_of(advice, "ccg").gossip_time, 33U);
    EXPECT_EQ(advice.gossip().family, Family::gossip);

    const Candidate& best = advice.recommended();
    EXPECT_EQ(best.family, Family::tree);
    EXPECT_TRUE(best.is_reliable);
    EXPECT_EQ(best.distance, 2U);
    EXPECT_GT(advice.shorter_distance, advice.tolerated);
    EXPECT_EQ(best.settings, "COPPICE_TREE=" + best.tree + " COPPICE_CORRECTION=" + best.correction);
    EXPECT_LT(best.quiescence, advice.gossip().quiescence);
    EXPECT_LT(best.messages, advice.gossip().messages);
    for (const Candidate& candidate : advice.candidates) {
        EXPECT_GT(candidate.coloring, 0) << candidate.name();
        EXPECT_GE(candidate.quiescence, candidate.coloring);
        if (!candidate.is_reliable || !candidate.is_eligible) continue;
        EXPECT_LE(best.quiescence, 1.05 * candidate.quiescence) << candidate.name();
    }
    // The tree alone leaves somebody out in most jobs.
    EXPECT_GT(candidate_of(advice, "binomial none").unreached_dead, 0.5);
}

TEST(Advice, TakesAFailureProofCorrectionWhereADeathOnTheWayIsTooLikely) {
    Wishes wishes = tsubame();
    wishes.reliability = 0.999999;
    wishes.ranks = 1024;
    wishes.runs = 1;
    const Advice advice = advise(wishes, kQuietly).value();
    EXPECT_TRUE(advice.recommended().is_reliable);
    EXPECT_TRUE(advice.recommended().correction.starts_with("failure-proof:1") ||
                advice.recommended().correction.starts_with("fcg:1"))
        << advice.recommended().name();
}

// A star needs nobody but its root. Probabilities are computed, by equations with limits of their own; what the runs
// leave out over and over is not advised.
TEST(Advice, IsNothingThatTheRunsRefute) {
    for (const std::uint32_t ranks : {2U, 8U, 64U, 512U}) {
        for (const double reliability : {0.5, 0.8, 0.95}) {
            Wishes wishes = tsubame();
            wishes.ranks = ranks;
            wishes.broadcasts = 1;
            wishes.reliability = reliability;
            wishes.runs = 60;
            const Advice advice = advise(wishes, kQuietly).value();
            EXPECT_TRUE(advice.recommended().is_reliable) << ranks << " " << reliability;
            EXPECT_LT(static_cast<double>(advice.recommended().incomplete) / 60, 1 - reliability + 0.25)
                << advice.recommended().name() << " " << ranks << " " << reliability;
            for (const Candidate& candidate : advice.candidates)
                EXPECT_FALSE(candidate.is_reliable && candidate.incomplete == 60) << candidate.name() << " " << ranks;
        }
    }
}

TEST(Advice, OfAFewRanksIsAStar) {
    Wishes wishes = tsubame();
    wishes.ranks = 8;
    wishes.broadcasts = 1;
    wishes.reliability = 0.999;
    const Advice advice = advise(wishes, kQuietly).value();
    EXPECT_TRUE(advice.recommended().is_reliable);
    EXPECT_EQ(candidate_of(advice, "star opportunistic").unreached_dead, 0);
}

TEST(Advice, RefusesWhatMakesNoSense) {
    EXPECT_FALSE(reason_against(tsubame()).has_value());
    const auto refused = [](auto change) {
        Wishes wishes = tsubame();
        change(wishes);
        return reason_against(wishes).has_value() && !advise(wishes, kQuietly).has_value();
    };
    EXPECT_TRUE(refused([](Wishes& wishes) { wishes.ranks = 1; }));
    EXPECT_TRUE(refused([](Wishes& wishes) { wishes.model.overhead = 0; }));
    EXPECT_TRUE(refused([](Wishes& wishes) { wishes.step_seconds = 0; }));
    EXPECT_TRUE(refused([](Wishes& wishes) { wishes.mtbf_hours = 0; }));
    EXPECT_TRUE(refused([](Wishes& wishes) { wishes.mtbf_hours = std::nan(""); }));
    EXPECT_TRUE(refused([](Wishes& wishes) { wishes.job_hours = -1; }));
    EXPECT_TRUE(refused([](Wishes& wishes) { wishes.job_hours = 1e6; }));
    EXPECT_TRUE(refused([](Wishes& wishes) { wishes.reliability = 1; }));
    EXPECT_TRUE(refused([](Wishes& wishes) { wishes.reliability = 0; }));
    EXPECT_TRUE(refused([](Wishes& wishes) { wishes.broadcasts = 0.5; }));
}

// Counted where it happens often enough to be counted: 8 and 15 % dead.
TEST(UnreachedProbability, IsWhatBroadcastsShow) {
    constexpr std::uint64_t kRuns = 2000;
    for (const auto& [name, distance, dead] :
         {std::tuple{"binomial", 1U, 0.08}, {"lame:2", 1U, 0.08}, {"kary:4", 2U, 0.15}, {"optimal:1,2", 2U, 0.15}}) {
        for (const char* kind : {"opportunistic:", "optimized:"}) {
            SCOPED_TRACE(std::string(name) + " " + kind + std::to_string(distance));
            const auto simulator =
                make_simulator({.processes = 128,
                                .tree = *topology::parse_tree(name),
                                .correction = *protocol::parse_correction(kind + std::to_string(distance)),
                                .options = {.check = false}})
                    .value();
            std::uint64_t incomplete = 0;
            for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
                Random random(seed);
                const Faults faults{.dead = draw_dead(128, dead, random)};
                incomplete += simulator->run(faults, seed).value().unreached.empty() ? 0U : 1U;
            }
            const double computed = probability_of_unreached(tree_of(name, 128), distance, dead);
            const double counted = static_cast<double>(incomplete) / kRuns;
            EXPECT_GT(incomplete, 8U);
            EXPECT_NEAR(counted, computed, 4 * std::sqrt(computed / kRuns) + 0.1 * computed);
        }
    }
}

TEST(UnreachedProbability, FallsWithEachMessageASideAndIsNothingUnderAStar) {
    const topology::Tree binomial = tree_of("binomial", 4096);
    const double dead = probability_of_death(kMtbf, kJob);
    double before = 1;
    for (std::uint32_t distance = 1; distance <= 8; ++distance) {
        const double now = probability_of_unreached(binomial, distance, dead);
        // Two more ranks must be dead.
        EXPECT_LT(now, before * dead);
        EXPECT_GT(now, 0);
        before = now;
    }
    EXPECT_EQ(distance_for(binomial, dead, 1e-5), 1U);
    EXPECT_EQ(distance_for(binomial, dead, 1e-7), 2U);
    EXPECT_EQ(distance_for(binomial, 0.4, 1e-300, 5), 5U);
    EXPECT_EQ(probability_of_unreached(tree_of("star", 100), 1, 0.3), 0);
    EXPECT_EQ(probability_of_unreached(tree_of("binomial", 3), 1, 0.3), 0);
}

TEST(Mortality, TailsAreThoseOfTheBinomialDistribution) {
    EXPECT_NEAR(probability_of_more_dead(3, 0.5, 1), 0.5, 1e-12);
    EXPECT_NEAR(probability_of_more_dead(100, 0.02, 0), 1 - std::pow(0.98, 100), 1e-12);
    EXPECT_EQ(probability_of_more_dead(10, 0.3, 10), 0);
    EXPECT_EQ(probability_of_more_dead(10, 0, 0), 0);
    EXPECT_NEAR(probability_of_more_dead(1U << 20, 0.3, 11), 1, 1e-12);
    EXPECT_NEAR(probability_of_more_dead(1001, 0.5, 500), 0.5, 1e-9);
    EXPECT_NEAR(dead_at_most(1U << 20, 0.3, 0.001), 0.3 * (1U << 20) + 3.09 * std::sqrt(0.21 * (1U << 20)), 3);
    EXPECT_EQ(dead_at_most(4096, probability_of_death(kMtbf, kJob), 0.001), 9U);
    EXPECT_NEAR(probability_of_unreached_by_tree(tree_of("chain", 3), 0.1), 0.1, 1e-12);
}

TEST(Mortality, DrawsEachRankButTheRootAsOftenAsTold) {
    std::vector<std::uint32_t> drawn(50, 0);
    for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
        Random random(seed);
        const std::vector<Position> dead = draw_dead(50, 0.1, random);
        EXPECT_TRUE(std::ranges::is_sorted(dead));
        for (const Position position : dead)
            ++drawn[position.value];
    }
    EXPECT_EQ(drawn[0], 0U);
    for (std::size_t rank = 1; rank < 50; ++rank)
        EXPECT_NEAR(drawn[rank], 400, 5 * std::sqrt(360)) << rank;
    Random random(1);
    EXPECT_TRUE(draw_dead(50, 0, random).empty());
}

}  // namespace
}  // namespace coppice::simulation
