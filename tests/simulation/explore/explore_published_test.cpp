// Every schedule of agreements that are published on a board: the promises hold, whichever ranks die and whenever, and
// also where a live rank is taken for dead. And what the board's contract is for.
#include <gtest/gtest.h>

#include <string>

#include "exploration.hpp"
#include "simulation/explore/agreement_explorer.hpp"

namespace coppice::simulation {
namespace {

using protocol::AgreementPlan;
using protocol::AgreementTree;

constexpr const char* kTrees[] = {"star", "binary", "chain"};  // of recoveries

AgreementScenario scenario_of(const std::string& tree, std::uint32_t ranks, std::uint32_t crashes,
                              std::uint32_t suspicions = 0) {
    AgreementScenario scenario{
        AgreementPlan{*AgreementTree::make(*protocol::parse_agreement_tree(tree), ranks, nullptr, {}), nullptr}};
    scenario.plan.window = 1;
    scenario.plan.max_value = 8;
    scenario.crashes = crashes;
    scenario.suspicions = suspicions;
    scenario.published = true;
    return scenario;
}

TEST(Published, OneAgreementWhicheverDieAndWhenever) {
    for (const char* tree : kTrees) {
        for (const auto& [ranks, crashes] : {std::pair{1U, 0U}, {2U, 1U}, {3U, 2U}, {4U, 2U}})
            expect_all_hold(scenario_of(tree, ranks, crashes), std::string(tree) + " " + std::to_string(ranks));
    }
}

TEST(Published, TwoOverlappingAgreements) {
    for (const char* tree : kTrees) {
        AgreementScenario scenario = scenario_of(tree, 3, 2);
        scenario.agreements = 2;
        scenario.plan.window = 2;
        expect_all_hold(scenario, tree);
    }
}

TEST(Published, ThreeAgreementsThatWriteOnTheSameLines) {
    for (const char* tree : kTrees) {
        AgreementScenario scenario = scenario_of(tree, 3, 2);
        scenario.agreements = 3;
        expect_all_hold(scenario, tree);
    }
}

TEST(Published, AcknowledgedFailures) {
    AgreementScenario scenario = scenario_of("binary", 3, 2);
    scenario.acknowledge = true;
    scenario.agreements = 3;
    expect_all_hold(scenario, "one after the other");
    scenario.agreements = 2;
    scenario.plan.window = 2;
    expect_all_hold(scenario, "overlapping");
}

// Two lines are there with a window of one, four with two.
TEST(Published, LinesAreWrittenAgainAndAgain) {
    for (const auto& [ranks, crashes] : {std::pair{2U, 1U}, {3U, 1U}}) {
        AgreementScenario scenario = scenario_of("star", ranks, crashes);
        scenario.agreements = 6;
        scenario.acknowledge = true;
        expect_all_hold(scenario, std::to_string(ranks));
    }
    AgreementScenario scenario = scenario_of("star", 2, 1);
    scenario.agreements = 9;
    scenario.plan.window = 2;
    expect_all_hold(scenario, "a window of two");
}

TEST(Published, EveryOperation) {
    using protocol::Operator;
    for (const Operator op : {Operator::bit_and, Operator::min, Operator::max, Operator::user}) {
        AgreementScenario scenario = scenario_of("star", 3, 2);
        scenario.operation = op;
        scenario.agreements = 3;
        expect_all_hold(scenario, "one after the other");
    }
}

TEST(Published, ARankThatHasFlushedMayLeave) {
    for (const char* tree : kTrees) {
        AgreementScenario scenario = scenario_of(tree, 3, 2);
        scenario.flush = true;
        expect_all_hold(scenario, tree);
        scenario.plan.window = 2;
        expect_all_hold(scenario, tree);
    }
}

TEST(Suspected, ALiveRankDecidesLikeTheOthersOrNotAtAll) {
    for (const char* tree : kTrees) {
        for (const auto& [crashes, suspicions] : {std::pair{0U, 1U}, {1U, 1U}, {0U, 2U}}) {
            expect_all_hold(scenario_of(tree, 3, crashes, suspicions), tree);
            AgreementScenario scenario = scenario_of(tree, 3, crashes, suspicions);
            scenario.agreements = 2;
            scenario.plan.window = 2;
            if (suspicions == 1) expect_all_hold(scenario, tree);
        }
        expect_all_hold(scenario_of(tree, 4, 0, 1), tree);
    }
}

TEST(Suspected, SeveralAgreementsAndAcknowledgedFailures) {
    for (const bool published : {true, false}) {
        AgreementScenario scenario = scenario_of("star", 3, 0, 1);
        scenario.published = published;
        scenario.agreements = 3;
        expect_all_hold(scenario, "one after the other");
        scenario.agreements = 2;
        scenario.acknowledge = true;
        expect_all_hold(scenario, "acknowledged");
        scenario.plan.window = 2;
        expect_all_hold(scenario, "overlapping");
    }
}

// Four ranks, of which one is taken for dead and another one dies: long, but the shortest in which a suspected rank
// could talk to a rank that does not know, on a tree where it matters.
TEST(Suspected, ALiveRankWithdrawsBeforeItTalksToTheUnaware) {
    expect_all_hold(scenario_of("binary", 4, 1, 1), "binary");
}

TEST(Suspected, HasToBeToldOnTheBoard) {
    AgreementScenario scenario = scenario_of("star", 3, 0, 1);
    scenario.suspects_silently = true;
    const AgreementExploration found = explore(scenario);
    EXPECT_NE(found.violation.find("Agreement"), std::string::npos) << text_of(found);
    EXPECT_TRUE(found.shortest);
}

TEST(Suspected, WithoutABoardSurvivorsDecideAlike) {
    for (const char* tree : kTrees) {
        for (const std::uint32_t ranks : {3U, 4U}) {
            AgreementScenario scenario = scenario_of(tree, ranks, 0, 1);
            scenario.published = false;
            expect_all_hold(scenario, tree);
        }
        AgreementScenario scenario = scenario_of(tree, 3, 1, 1);
        scenario.published = false;
        expect_all_hold(scenario, tree);
    }
}

// docs/era.md, Wrong about a living rank.
TEST(Suspected, WithoutABoardADeathBesidesMaySplitSurvivors) {
    AgreementScenario scenario = scenario_of("binary", 4, 1, 1);
    scenario.published = false;
    const AgreementExploration found = explore(scenario);
    EXPECT_NE(found.violation.find("Agreement"), std::string::npos) << text_of(found);
    EXPECT_EQ(found.way.size(), 21U) << text_of(found);
}

}  // namespace
}  // namespace coppice::simulation
