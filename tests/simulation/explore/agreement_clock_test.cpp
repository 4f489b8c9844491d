// Theorem 5 of SC'15 on a LogP clock, and what the older agreements cost beside it.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>

#include "simulation/explore/agreement_clock.hpp"
#include "simulation/random.hpp"
#include "topology/fat_tree.hpp"

namespace coppice::simulation {
namespace {

using protocol::AgreementPlan;
using protocol::AgreementTree;

AgreementSetup setup_of(const std::string& tree, std::uint32_t ranks) {
    AgreementSetup setup{
        AgreementPlan{*AgreementTree::make(*protocol::parse_agreement_tree(tree), ranks, nullptr, {})}};
    setup.plan.window = 1;
    setup.plan.max_value = 8;
    return setup;
}

struct Degree {
    const char* tree;
    double degree;
};
constexpr Degree kDegrees[] = {{"binary", 2}, {"kary:2", 2},         {"kary:3:inorder", 3},
                               {"kary:4", 4}, {"kary:8:inorder", 8}, {"heap", 2}};

// One walk of a message that waits for all others of its degree at the receiver's port.
double hop_of(const LogP& model, double degree) {
    return model.latency + 2.0 * model.overhead + (degree - 1) * model.interval();
}

TEST(Theorem5, WithoutFailuresAllDecideWithinTwiceTheLogarithmOfParallelSteps) {
    for (const auto& [tree, degree] : kDegrees) {
        for (const std::uint32_t ranks : {1U, 2U, 3U, 7U, 16U, 100U, 1000U, 4096U, 40000U}) {
            AgreementSetup setup = setup_of(tree, ranks);
            const AgreementTimings timings = run_agreements(setup);
            ASSERT_TRUE(timings.agreements[0].agreed);
            const double logarithm = std::log(static_cast<double>(ranks)) / std::log(degree);
            EXPECT_LE(timings.longest_chain, 2 * std::ceil(logarithm) + 1e-9) << tree << " " << ranks;
            EXPECT_LE(timings.agreements[0].latency, 2 * std::ceil(logarithm) * hop_of(setup.model, degree))
                << tree << " " << ranks;
            EXPECT_EQ(timings.messages, 2ULL * (ranks - 1));
            EXPECT_LE(timings.most_sent, degree + 1);
        }
    }
}

TEST(AgreementClock, ANetworkOfEvenLevelsIsNone) {
    const topology::FatTree fat{.ports = 8};
    const std::uint32_t ranks = fat.hosts();
    std::vector<std::uint32_t> host_at(ranks);
    std::iota(host_at.begin(), host_at.end(), 0U);
    for (const auto algorithm :
         {AgreementAlgorithm::era, AgreementAlgorithm::two_phase, AgreementAlgorithm::allreduce_doubling}) {
        AgreementSetup setup = setup_of("binomial", ranks);
        setup.algorithm = algorithm;
        setup.model = {.latency = 3, .overhead = 1, .gap = 2};
        if (algorithm != AgreementAlgorithm::allreduce_doubling) setup.deaths = {{5, 7}, {0, 11}};
        setup.notice_after = 20;
        setup.agreements = 2;
        const AgreementTimings plain = run_agreements(setup);
        setup.network =
            std::make_shared<Network>(fat.sites(ranks), host_at, NetworkTimes{.latency = {3, 3, 3}, .gap = {0, 0}});
        const AgreementTimings even = run_agreements(setup);
        EXPECT_EQ(std::accumulate(even.by_level.begin(), even.by_level.end(), std::uint64_t{0}), even.messages);
        ASSERT_EQ(even.messages, plain.messages);
        ASSERT_EQ(even.quiescence, plain.quiescence);
        for (std::size_t i = 0; i < plain.agreements.size(); ++i)
            ASSERT_EQ(even.agreements[i].latency, plain.agreements[i].latency);
        // What goes farther takes longer.
        setup.network =
            std::make_shared<Network>(fat.sites(ranks), host_at, NetworkTimes{.latency = {3, 6, 9}, .gap = {0, 0}});
        EXPECT_GT(run_agreements(setup).agreements[0].latency, plain.agreements[0].latency);
    }
}

TEST(Theorem5, WithFFailuresTheStepsGrowByFTimesTheDegreeAtMost) {
    for (const auto& [tree, degree] : kDegrees) {
        const std::uint32_t ranks = 1000;
        const double logarithm = std::log(static_cast<double>(ranks)) / std::log(degree);
        for (const std::uint32_t failures : {1U, 2U, 8U, 64U}) {
            for (const Step at : {0U, 20U, 40U, 60U}) {
                for (const bool elders : {true, false}) {
                    AgreementSetup setup = setup_of(tree, ranks);
                    setup.notice_after = 25;
                    Random random(failures * 100 + at);
                    for (std::uint32_t i = 0; i < failures; ++i)
                        setup.deaths.push_back({elders ? i : random.below(ranks), at});
                    const AgreementTimings timings = run_agreements(setup);
                    ASSERT_TRUE(timings.agreements[0].agreed) << tree << " " << failures << " at " << at;
                    const double bound =
                        at + setup.notice_after + (2 * logarithm + failures * degree + 2) * hop_of(setup.model, degree);
                    EXPECT_LE(timings.agreements[0].latency, bound) << tree << " " << failures << " at " << at;
                }
            }
        }
    }
}

TEST(Theorem5, KnownFailuresOnAFreshTreeCostNothing) {
    AgreementSetup fresh = setup_of("binary", 1000);
    fresh.agreements = 3;
    AgreementSetup repaired = setup_of("binary", 1500);
    repaired.agreements = 3;
    repaired.plan.rebalance = protocol::Rebalance::always;
    for (std::uint32_t rank = 0; rank < 1500; rank += 3)
        repaired.known.insert(rank);
    const Step expected = run_agreements(fresh).agreements[2].latency;
    const AgreementTimings timings = run_agreements(repaired);
    EXPECT_EQ(timings.agreements[2].decided, 1000U);
    EXPECT_EQ(timings.agreements[2].latency, expected);
}

TEST(OlderAgreements, TwoPhasesCostAsMuchAsEraAndThreeMoreThanTwice) {
    AgreementSetup setup = setup_of("binary", 4096);
    const Step era = run_agreements(setup).agreements[0].latency;
    setup.algorithm = AgreementAlgorithm::two_phase;
    EXPECT_EQ(run_agreements(setup).agreements[0].latency, era);
    setup.algorithm = AgreementAlgorithm::three_phase;
    EXPECT_GT(run_agreements(setup).agreements[0].latency, 2 * era);
}

// Up to 64 ranks, up to eight of which die, the low ones rather than others; each rank is told of each death at one
// time or, where `apart`, up to 60 steps later than others.
AgreementSetup drawn_by(std::uint64_t seed, bool apart) {
    Random random(seed);
    AgreementSetup setup = setup_of(random.one_in(2) ? "binary" : "binomial", 2 + random.below(63));
    setup.agreements = 4;
    setup.notice_after = random.below(40);
    setup.notice_spread = apart ? 1 + random.below(60) : 0;
    setup.seed = seed;
    const std::uint32_t ranks = setup.plan.tree.ranks();
    protocol::FailedSet dead;
    for (std::uint32_t i = 0; i < random.below(9) && dead.count() + 1 < ranks; ++i) {
        const std::uint32_t rank = random.below(1 + random.below(ranks));
        if (dead.insert(rank)) setup.deaths.push_back({rank, random.below(150)});
    }
    return setup;
}

void expect_all_agree(AgreementAlgorithm algorithm, bool apart, std::uint64_t seeds) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        AgreementSetup setup = drawn_by(seed, apart);
        setup.algorithm = algorithm;
        for (const AgreementTiming& timing : run_agreements(setup).agreements)
            ASSERT_TRUE(timing.agreed) << "seed " << seed;
    }
}

TEST(OlderAgreements, SurviveDeathsOfWhichAllAreToldAtOnce) {
    expect_all_agree(AgreementAlgorithm::two_phase, false, 500);
    expect_all_agree(AgreementAlgorithm::three_phase, false, 500);
}

TEST(OlderAgreements, SurviveDeathsOfWhichEachRankIsToldAtATimeOfItsOwn) {
    expect_all_agree(AgreementAlgorithm::two_phase, true, 3000);
    expect_all_agree(AgreementAlgorithm::three_phase, true, 1500);
}

TEST(OlderAgreements, EverybodyWaitsUntilTheCoordinatorIsTold) {
    AgreementSetup setup = setup_of("binary", 64);
    setup.algorithm = AgreementAlgorithm::two_phase;
    setup.deaths = {{63, 0}};
    setup.notice_after = 500;
    const AgreementTimings timings = run_agreements(setup);
    EXPECT_TRUE(timings.agreements[0].agreed);
    EXPECT_GT(timings.agreements[0].latency, 500U);
    // A call down, and then an agreement as any other.
    setup.deaths.clear();
    EXPECT_LE(timings.agreements[0].latency, 500 + 3 * run_agreements(setup).agreements[0].latency / 2 + 4);
}

TEST(Allreduce, GivesAllRanksWhatAllHaveSaidInEveryGroup) {
    for (const AgreementAlgorithm algorithm :
         {AgreementAlgorithm::allreduce_doubling, AgreementAlgorithm::allreduce_binomial,
          AgreementAlgorithm::allreduce_hosts}) {
        for (std::uint32_t ranks = 1; ranks <= 64; ++ranks) {
            AgreementSetup setup = setup_of("binary", ranks);
            setup.algorithm = algorithm;
            setup.agreements = 3;
            setup.ranks_per_host = 6;
            for (const AgreementTiming& timing : run_agreements(setup).agreements)
                ASSERT_TRUE(timing.agreed) << ranks << " ranks";
        }
    }
}

TEST(Allreduce, DoublingTakesOneMessageForEachPowerOfTwo) {
    AgreementSetup setup = setup_of("binary", 4096);
    setup.algorithm = AgreementAlgorithm::allreduce_doubling;
    const AgreementTimings timings = run_agreements(setup);
    EXPECT_EQ(timings.agreements[0].latency, 12 * (setup.model.latency + 2 * setup.model.overhead));
    EXPECT_EQ(timings.longest_chain, 12U);
    EXPECT_EQ(timings.messages, 12U * 4096);
    // Of two ranks more each has a partner that speaks for it. What these hear last comes from those that did not wait.
    setup = setup_of("binary", 4098);
    setup.algorithm = AgreementAlgorithm::allreduce_doubling;
    EXPECT_EQ(run_agreements(setup).longest_chain, 13U);
}

TEST(Allreduce, ByATreeGoesUpAndDownIt) {
    AgreementSetup setup = setup_of("binary", 4096);
    setup.algorithm = AgreementAlgorithm::allreduce_binomial;
    const AgreementTimings timings = run_agreements(setup);
    EXPECT_EQ(timings.longest_chain, 24U);
    EXPECT_EQ(timings.messages, 2U * 4095);
}

TEST(Clock, EraUnderRandomDeathsAgreesAsWell) {
    expect_all_agree(AgreementAlgorithm::era, false, 500);
    expect_all_agree(AgreementAlgorithm::era, true, 500);
}

}  // namespace
}  // namespace coppice::simulation
