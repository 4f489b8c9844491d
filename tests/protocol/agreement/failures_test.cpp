// Acknowledged failures, agreed failed sets, and trees that are rebuilt.
#include <gtest/gtest.h>

#include <map>

#include "plans.hpp"
#include "simulation/explore/agreement_group.hpp"

namespace coppice::protocol::testing {
namespace {

using simulation::AgreementGroup;

class Failures : public ::testing::Test {
  protected:
    void make(const AgreementPlan& plan) { group.emplace(plan, false); }
    void agree() {
        for (std::uint32_t rank = 0; rank < group->ranks(); ++rank) {
            if (!group->is_dead(rank)) {
                ASSERT_TRUE(group->start(rank));
            }
        }
        settle();
    }
    void settle() {
        for (bool moved = true; moved;) {
            moved = false;
            for (std::uint32_t rank = 0; rank < group->ranks(); ++rank) {
                while (!group->is_dead(rank) && group->pull(rank) != nullptr) {
                    ++messages;
                    ++sent[rank];
                }
            }
            while (!group->under_way().empty()) {
                moved = true;
                group->deliver(0);
            }
        }
    }
    void die(std::uint32_t rank) {
        group->crash(rank);
        for (std::uint32_t other = 0; other < group->ranks(); ++other) {
            if (!group->is_dead(other)) group->notice(other, rank);
        }
    }
    void acknowledge_all() {
        for (std::uint32_t rank = 0; rank < group->ranks(); ++rank)
            group->acknowledge_all(rank);
    }
    AgreementOutcome outcome(std::uint32_t rank, std::uint64_t agreement) {
        return *group->machine(rank).outcome(Sequence{agreement});
    }
    void TearDown() override { EXPECT_EQ(group->violation(), ""); }

    std::optional<AgreementGroup> group;
    std::uint64_t messages = 0;
    std::map<std::uint32_t, std::uint32_t> sent;
};

TEST_F(Failures, AreReportedUntilEverybodyHasAcknowledgedThem) {
    make(plan_of("binary", 8));
    agree();
    EXPECT_TRUE(outcome(7, 0).acknowledged);
    die(3);
    agree();
    EXPECT_FALSE(outcome(7, 1).acknowledged);
    EXPECT_EQ(*outcome(7, 1).failed, set_of({3}));
    agree();
    EXPECT_FALSE(outcome(7, 2).acknowledged) << "nobody has acknowledged";
    for (std::uint32_t rank = 0; rank < 7; ++rank)
        group->acknowledge_all(rank);
    agree();
    EXPECT_FALSE(outcome(0, 3).acknowledged) << "rank 7 has not";
    group->acknowledge_all(7);
    agree();
    EXPECT_TRUE(outcome(0, 4).acknowledged);
    EXPECT_EQ(*outcome(0, 4).failed, set_of({3})) << "still in the set";
    die(5);
    agree();
    EXPECT_FALSE(outcome(0, 5).acknowledged);
    EXPECT_EQ(*outcome(0, 5).failed, set_of({3, 5}));
}

TEST_F(Failures, AcknowledgedByAllBeforeTheyWereAgreedUponAreNoError) {
    make(plan_of("binary", 8));
    die(3);
    acknowledge_all();
    agree();
    EXPECT_TRUE(outcome(7, 0).acknowledged);
    EXPECT_EQ(*outcome(7, 0).failed, set_of({3}));
}

TEST_F(Failures, AreAgreedUponByRanksThatHaveNotNoticedThem) {
    make(plan_of("chain", 5));
    group->crash(4);
    for (std::uint32_t rank = 0; rank < 4; ++rank)
        ASSERT_TRUE(group->start(rank));
    group->notice(3, 4);
    settle();
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(*outcome(rank, 0).failed, set_of({4}));
        EXPECT_EQ(group->machine(rank).failed(), set_of({4})) << "and are known from then on";
    }
}

TEST_F(Failures, AcknowledgingWhatOneDoesNotKnowIsNothing) {
    make(plan_of("star", 3));
    group->machine(0).acknowledge(set_of({1, 2}));
    EXPECT_TRUE(group->machine(0).acknowledged().empty());
}

TEST_F(Failures, AddNothingToMessagesOnceAgreedUpon) {
    make(plan_of("binary", 40, 2));
    for (const std::uint32_t rank : {3U, 9U, 20U, 21U, 30U})
        die(rank);
    acknowledge_all();
    for (int i = 0; i < 4; ++i)
        agree();
    for (std::uint32_t rank = 0; rank < 40; ++rank) {
        if (!group->is_dead(rank)) group->start(rank);
    }
    for (std::uint32_t rank = 0; rank < 40; ++rank) {
        if (group->is_dead(rank)) continue;
        if (const auto* message = group->pull(rank)) {
            EXPECT_EQ(message->body.size(), body_bytes(16));
        }
    }
    settle();
}

TEST_F(Failures, AreKeptInTheTreeUntilItHasDegenerated) {
    AgreementPlan plan = plan_of("star", 9);
    plan.tree = *AgreementTree::make(*parse_agreement_tree("binary"), 31, nullptr, {});
    make(plan);
    agree();
    die(plan.tree.child(0, 0));
    agree();
    agree();
    sent.clear();
    agree();
    // The root has three children: one death is not worth a new tree.
    EXPECT_EQ(sent[0], 3U);
}

TEST_F(Failures, MakeANewTreeWhenItHasDegenerated) {
    for (const Rebalance rebalance : {Rebalance::never, Rebalance::when_degenerated, Rebalance::always}) {
        AgreementPlan plan = plan_of("binary", 63);
        plan.rebalance = rebalance;
        make(plan);
        agree();
        for (std::uint32_t i = 0; i < 2; ++i) {
            const std::uint32_t child = plan.tree.child(0, i);
            die(plan.tree.child(child, 0));
            die(plan.tree.child(child, 1));
            die(child);
        }
        acknowledge_all();
        agree();
        agree();
        sent.clear();
        messages = 0;
        agree();
        std::uint32_t most = 0;
        for (const auto& [rank, count] : sent)
            most = std::max(most, count);
        EXPECT_EQ(messages, 2U * 56) << "two messages for each of 57 live ranks but one";
        EXPECT_EQ(most, rebalance == Rebalance::never ? 8U : 3U);
        EXPECT_TRUE(outcome(62, 3).acknowledged);
        EXPECT_EQ(group->violation(), "");
    }
}

TEST_F(Failures, OfAllOthersLeaveOneThatAgreesWithItself) {
    make(plan_of("binary", 6));
    for (const std::uint32_t rank : {0U, 1U, 2U, 4U, 5U})
        die(rank);
    agree();
    EXPECT_EQ(*outcome(3, 0).failed, set_of({0, 1, 2, 4, 5}));
    acknowledge_all();
    agree();
    EXPECT_TRUE(outcome(3, 1).acknowledged);
}

TEST_F(Failures, WhileEverybodyButOneHasReturned) {
    // The last one calls late, when all others but the root have died with the decision.
    make(plan_of("binary", 4));
    for (const std::uint32_t rank : {0U, 1U, 3U})
        group->start(rank);
    settle();
    die(1);
    die(3);
    die(0);
    agree();
    EXPECT_EQ(*outcome(2, 0).failed, set_of({0, 1, 3}));
}

}  // namespace
}  // namespace coppice::protocol::testing
