// Every schedule of agreements in small groups: the promises hold; and each rule that departs from the printed one is
// needed.
#include <gtest/gtest.h>

#include <string>

#include "exploration.hpp"
#include "simulation/explore/agreement_explorer.hpp"
#include "simulation/explore/explored_value.hpp"

namespace coppice::simulation {
namespace {

using protocol::AgreementPlan;
using protocol::AgreementTree;
using protocol::Rebalance;

constexpr const char* kTrees[] = {"binary", "binomial", "kary:3", "star", "chain", "bin/bin", "bin/star", "heap"};

// Two hosts, whose ranks alternate.
const topology::Nodes& hosts_of(std::uint32_t ranks) {
    static std::vector<topology::Nodes> kept;
    kept.reserve(kMostExplored + 1);
    while (kept.size() <= ranks) {
        std::vector<std::uint64_t> host_of;
        for (std::uint64_t rank = 0; rank < kept.size(); ++rank)
            host_of.push_back(rank % 2);
        kept.push_back(topology::Nodes::by_host(host_of));
    }
    return kept[ranks];
}

AgreementScenario scenario_of(const std::string& tree, std::uint32_t ranks, std::uint32_t crashes) {
    const topology::Nodes& hosts = hosts_of(ranks);
    AgreementScenario scenario{
        AgreementPlan{*AgreementTree::make(*protocol::parse_agreement_tree(tree), ranks, &hosts, {}), &hosts}};
    scenario.plan.window = 1;
    scenario.plan.max_value = kExploredBytes;
    scenario.crashes = crashes;
    return scenario;
}

TEST(Everywhere, OneAgreementWhicheverDieAndWhenever) {
    for (const char* tree : kTrees) {
        for (const auto& [ranks, crashes] : {std::pair{1U, 0U}, {2U, 1U}, {3U, 2U}, {4U, 3U}, {5U, 2U}})
            expect_all_hold(scenario_of(tree, ranks, crashes), std::string(tree) + " " + std::to_string(ranks));
    }
}

TEST(Everywhere, TwoOverlappingAgreements) {
    for (const char* tree : kTrees) {
        AgreementScenario scenario = scenario_of(tree, 3, 2);
        scenario.agreements = 2;
        scenario.plan.window = 2;
        expect_all_hold(scenario, tree);
    }
}

TEST(Everywhere, OneAfterTheOtherOnATreeMadeAnew) {
    for (const char* tree : kTrees) {
        AgreementScenario scenario = scenario_of(tree, 4, 2);
        scenario.agreements = 2;
        scenario.plan.rebalance = Rebalance::always;
        expect_all_hold(scenario, tree);
        scenario = scenario_of(tree, 3, 2);
        scenario.agreements = 3;
        scenario.plan.rebalance = Rebalance::always;
        expect_all_hold(scenario, tree);
    }
}

TEST(Everywhere, FourOverlappingOnATreeMadeAnew) {
    AgreementScenario scenario = scenario_of("binary", 3, 2);
    scenario.agreements = 4;
    scenario.plan.window = 2;
    scenario.plan.rebalance = Rebalance::always;
    expect_all_hold(scenario, "binary");
}

TEST(Everywhere, AcknowledgedFailures) {
    for (const char* tree : {"binary", "chain"}) {
        AgreementScenario scenario = scenario_of(tree, 3, 2);
        scenario.agreements = 3;
        scenario.acknowledge = true;
        expect_all_hold(scenario, tree);
        scenario.agreements = 2;
        scenario.plan.window = 2;
        expect_all_hold(scenario, tree);
    }
}

// Four slots are there with a window of one, eight with two: each is used again, also by an agreement with failures.
TEST(Everywhere, SlotsAreUsedAgain) {
    for (const char* tree : kTrees) {
        for (const auto& [ranks, crashes] : {std::pair{2U, 1U}, {3U, 1U}, {3U, 2U}}) {
            AgreementScenario scenario = scenario_of(tree, ranks, crashes);
            scenario.agreements = 6;
            expect_all_hold(scenario, std::string(tree) + " " + std::to_string(ranks));
            for (const Rebalance rebalance : {Rebalance::always, Rebalance::never}) {
                scenario.plan.rebalance = rebalance;
                expect_all_hold(scenario, std::string(tree) +
                                              (rebalance == Rebalance::always ? " rebuilt, " : " kept, ") +
                                              std::to_string(ranks));
            }
        }
    }
    AgreementScenario scenario = scenario_of("binary", 2, 1);
    scenario.agreements = 10;
    scenario.plan.window = 2;
    expect_all_hold(scenario, "a window of two");
}

TEST(Everywhere, AcknowledgedFailuresStaySoWhenSlotsAreUsedAgain) {
    for (const auto& [ranks, crashes] : {std::pair{2U, 1U}, {3U, 2U}}) {
        AgreementScenario scenario = scenario_of("binary", ranks, crashes);
        scenario.agreements = 10;
        scenario.acknowledge = true;
        expect_all_hold(scenario, std::to_string(ranks));
    }
}

TEST(Everywhere, EveryOperation) {
    using protocol::Operator;
    for (const Operator op : {Operator::bit_and, Operator::min, Operator::max, Operator::user}) {
        for (const char* tree : {"binary", "star"}) {
            AgreementScenario scenario = scenario_of(tree, 4, 2);
            scenario.operation = op;
            expect_all_hold(scenario, tree);
            scenario = scenario_of(tree, 3, 2);
            scenario.operation = op;
            scenario.agreements = 2;
            scenario.plan.window = 2;
            expect_all_hold(scenario, std::string(tree) + ", overlapping");
        }
    }
}

TEST(Everywhere, ARankThatHasFlushedMayLeave) {
    for (const char* tree : kTrees) {
        AgreementScenario scenario = scenario_of(tree, 3, 1);
        scenario.agreements = 1;
        scenario.flush = true;
        expect_all_hold(scenario, tree);
        scenario.plan.window = 2;
        expect_all_hold(scenario, tree);
    }
}

AgreementExploration with_printed(std::uint8_t rules, const std::string& tree, std::uint32_t ranks,
                                  std::uint32_t agreements = 1) {
    AgreementScenario scenario = scenario_of(tree, ranks, 2);
    scenario.agreements = agreements;
    scenario.plan.window = agreements;
    scenario.plan.printed = rules;
    return explore(scenario);
}

TEST(PrintedRule, DownOnlyFromTheParentLeavesANewRootWithoutItsAnswer) {
    const auto found = with_printed(protocol::kDecisionsFromParentOnly, "binary", 4);
    EXPECT_NE(found.violation.find("Termination"), std::string::npos) << text_of(found);
    EXPECT_TRUE(found.shortest);
    EXPECT_EQ(found.way.size(), 17U) << text_of(found);
}

TEST(PrintedRule, UpDroppedWhileBroadcastingIsNeverAnswered) {
    const auto found = with_printed(protocol::kForgetsLateContributors | protocol::kLearnsFromNobody, "binary", 4);
    EXPECT_NE(found.violation.find("Termination"), std::string::npos) << text_of(found);
    EXPECT_EQ(with_printed(protocol::kForgetsLateContributors, "binary", 4).violation, "")
        << "unless messages tell of failures";
    EXPECT_EQ(with_printed(protocol::kLearnsFromNobody, "binary", 4).violation, "");
}

TEST(PrintedRule, ResultRequestThatTellsOfEldersOnlyAllowsTwoDecisions) {
    const auto found = with_printed(protocol::kRequestsTellOfElders, "binary", 5);
    EXPECT_NE(found.violation.find("Agreement"), std::string::npos) << text_of(found);
    EXPECT_EQ(found.way.size(), 29U) << text_of(found);
}

TEST(PrintedRule, MessagesOfTheDeadThatAreTakenInAllowTwoDecisions) {
    const auto found = with_printed(protocol::kHearsTheDead, "binary", 4);
    EXPECT_NE(found.violation.find("Agreement"), std::string::npos) << text_of(found);
}

TEST(PrintedRule, EldersMarkedSilentlyHoldUpOtherAgreements) {
    const auto found = with_printed(protocol::kMarksEldersSilently, "binary", 3, 2);
    EXPECT_NE(found.violation, "") << text_of(found);
    EXPECT_EQ(with_printed(protocol::kMarksEldersSilently, "binary", 4).violation, "") << "one alone is safe";
}

TEST(PrintedRule, AllTogetherBreakPromisesInAGroupOfThree) {
    std::uint8_t all = 63;
    EXPECT_NE(with_printed(all, "binary", 3).violation, "");
}

TEST(Explorer, StopsAtItsLimitAndSaysSo) {
    AgreementScenario scenario = scenario_of("binary", 4, 2);
    scenario.max_states = 1000;
    const AgreementExploration exploration = explore(scenario);
    EXPECT_FALSE(exploration.complete);
    EXPECT_EQ(exploration.violation, "");
}

TEST(Explorer, CountsTheSameStatesEachTime) {
    const AgreementScenario scenario = scenario_of("binomial", 4, 1);
    EXPECT_EQ(explore(scenario).states, explore(scenario).states);
}

}  // namespace
}  // namespace coppice::simulation
