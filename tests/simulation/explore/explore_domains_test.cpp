// Every schedule of agreements that are published in two levels: some ranks share a cache, and one of them speaks for all.
// Whichever die, speakers among them, the promises hold, and also where a live rank is taken for dead.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "exploration.hpp"
#include "simulation/explore/agreement_explorer.hpp"

namespace coppice::simulation {
namespace {

using protocol::AgreementPlan;
using protocol::AgreementTree;

// cache_of[r]: where rank r is.
AgreementScenario scenario_of(const std::vector<std::uint64_t>& cache_of, std::uint32_t crashes,
                              std::uint32_t suspicions = 0, const std::string& tree = "star") {
    const auto ranks = static_cast<std::uint32_t>(cache_of.size());
    AgreementScenario scenario{
        AgreementPlan{*AgreementTree::make(*protocol::parse_agreement_tree(tree), ranks, nullptr, {}), nullptr}};
    scenario.plan.window = 1;
    scenario.plan.max_value = 8;
    scenario.crashes = crashes;
    scenario.suspicions = suspicions;
    scenario.published = true;
    scenario.domains = topology::Nodes::by_host(cache_of);
    return scenario;
}

const std::vector<std::uint64_t> kPairAndOne{0, 0, 1};
const std::vector<std::uint64_t> kOneAndPair{0, 1, 1};
const std::vector<std::uint64_t> kInterleaved{0, 1, 0};
const std::vector<std::uint64_t> kEachItsOwn{0, 1, 2};
const std::vector<std::uint64_t> kTwoPairs{0, 0, 1, 1};

TEST(Domains, OneAgreementWhicheverDieAndWhenever) {
    for (const char* tree : {"star", "binary", "chain"}) {
        for (const auto& caches : {kPairAndOne, kOneAndPair, kInterleaved, kEachItsOwn})
            expect_all_hold(scenario_of(caches, 2, 0, tree), tree);
        expect_all_hold(scenario_of({0, 1}, 1, 0, tree), tree);
        expect_all_hold(scenario_of(kTwoPairs, 1, 0, tree), tree);
    }
    expect_all_hold(scenario_of(kTwoPairs, 2), "two of two pairs");
}

TEST(Domains, TwoOverlappingAgreements) {
    for (const auto& caches : {kPairAndOne, kInterleaved}) {
        AgreementScenario scenario = scenario_of(caches, 2);
        scenario.agreements = 2;
        scenario.plan.window = 2;
        expect_all_hold(scenario, "a window of two");
    }
}

TEST(Domains, LinesAreWrittenAgainAndAgain) {
    for (const auto& caches : {kPairAndOne, kOneAndPair}) {
        AgreementScenario scenario = scenario_of(caches, 1);
        scenario.agreements = 5;
        scenario.acknowledge = true;
        expect_all_hold(scenario, "a window of one");
    }
    AgreementScenario scenario = scenario_of({0, 1}, 1);
    scenario.agreements = 9;
    scenario.plan.window = 2;
    expect_all_hold(scenario, "a window of two");
}

TEST(Domains, AcknowledgedFailures) {
    AgreementScenario scenario = scenario_of(kPairAndOne, 2);
    scenario.acknowledge = true;
    scenario.agreements = 3;
    expect_all_hold(scenario, "one after the other");
}

TEST(Domains, EveryOperation) {
    using protocol::Operator;
    for (const Operator op : {Operator::bit_and, Operator::min, Operator::max, Operator::user}) {
        AgreementScenario scenario = scenario_of(kInterleaved, 2);
        scenario.operation = op;
        scenario.agreements = 2;
        expect_all_hold(scenario, "one after the other");
    }
}

TEST(Domains, ARankThatHasFlushedMayLeave) {
    for (const auto& caches : {kPairAndOne, kOneAndPair, kInterleaved}) {
        AgreementScenario scenario = scenario_of(caches, 2);
        scenario.flush = true;
        expect_all_hold(scenario, "a window of one");
    }
}

TEST(Domains, ALiveRankThatIsTakenForDeadDecidesLikeTheOthersOrNotAtAll) {
    for (const auto& caches : {kPairAndOne, kOneAndPair, kInterleaved}) {
        for (const auto& [crashes, suspicions] : {std::pair{0U, 1U}, {1U, 1U}, {0U, 2U}})
            expect_all_hold(scenario_of(caches, crashes, suspicions), "one agreement");
        AgreementScenario scenario = scenario_of(caches, 0, 1);
        scenario.agreements = 2;
        scenario.plan.window = 2;
        expect_all_hold(scenario, "two agreements");
    }
}

}  // namespace
}  // namespace coppice::simulation
