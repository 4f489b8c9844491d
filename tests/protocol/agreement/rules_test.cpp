// The guarded rules of SC'15, §2, one by one, on the chain 0 - 1 - 2 - 3 and the star 0 - {1, 2, 3}; and where ours
// depart.
#include <gtest/gtest.h>

#include "plans.hpp"
#include "simulation/explore/agreement_group.hpp"

namespace coppice::protocol::testing {
namespace {

using simulation::AgreementGroup;
using simulation::GroupMessage;

class Rules : public ::testing::Test {
  protected:
    void make(const std::string& tree, std::uint32_t ranks, std::uint32_t window = 1) {
        group.emplace(plan_of(tree, ranks, window), false);
    }
    void start(std::initializer_list<std::uint32_t> ranks) {
        for (const std::uint32_t rank : ranks)
            ASSERT_TRUE(group->start(rank));
    }
    // What this rank says next: "1 -> 0 up #0 (of 1)", or "".
    std::string says(std::uint32_t rank) {
        const GroupMessage* message = group->pull(rank);
        return message == nullptr ? "" : describe(*message, group->ranks());
    }
    // The first message under way from one to the other arrives.
    void hear(std::uint32_t from, std::uint32_t to) {
        for (std::size_t i = 0; i < group->under_way().size(); ++i) {
            if (group->under_way()[i].from != from || group->under_way()[i].to != to) continue;
            group->deliver(i);
            return;
        }
        FAIL() << "nothing under way from " << from << " to " << to;
    }
    void say_and_hear(std::uint32_t from, std::uint32_t to) {
        ASSERT_NE(says(from), "");
        hear(from, to);
    }
    void die(std::uint32_t rank, std::initializer_list<std::uint32_t> known_to) {
        group->crash(rank);
        for (const std::uint32_t other : known_to)
            group->notice(other, rank);
    }
    bool decided(std::uint32_t rank, std::uint64_t agreement = 0) {
        return group->machine(rank).decided(Sequence{agreement});
    }
    std::string outcome(std::uint32_t rank) { return group->describe_outcome(rank, 0); }
    void TearDown() override { EXPECT_EQ(group->violation(), ""); }

    std::optional<AgreementGroup> group;
};

// --- settled: nobody asks any more, and slots are used again

TEST_F(Rules, SettledAgreementsTakeNoMessageAnyMore) {
    make("chain", 2);
    std::optional<GroupMessage> late;
    for (std::uint64_t agreement = 0; agreement < 5; ++agreement) {
        start({0, 1});
        const GroupMessage* up = group->pull(1);
        ASSERT_NE(up, nullptr);
        if (!late) late = *up;
        hear(1, 0);
        say_and_hear(0, 1);
        ASSERT_TRUE(decided(1, agreement));
    }
    Agreement& root = group->machine(0);
    ASSERT_GT(root.settled_below().value, late->agreement);
    EXPECT_EQ(root.receive({late->kind, Rank{1}, Rank{0}, Sequence{late->agreement}, late->body}), Reception::stale);
    EXPECT_TRUE(root.outcome(Sequence{4})) << "the slot is that of the agreement four later";
}

// --- the spontaneous rule (part 3)

TEST_F(Rules, SpontaneousALeafContributesToItsParentAtOnce) {
    make("chain", 3);
    start({2});
    EXPECT_EQ(says(2), "2 -> 1 up #0 (of 2)");
    EXPECT_EQ(says(2), "") << "once";
}

TEST_F(Rules, SpontaneousAParentWaitsForItselfAndAllItsChildren) {
    make("star", 3);
    start({0, 1, 2});
    say_and_hear(1, 0);
    EXPECT_FALSE(decided(0));
    say_and_hear(2, 0);
    EXPECT_TRUE(decided(0));
}

TEST_F(Rules, SpontaneousContributionsBeforeOnesOwnCount) {
    make("chain", 3);
    start({2});
    say_and_hear(2, 1);
    EXPECT_EQ(says(1), "");
    start({1});
    EXPECT_EQ(says(1), "1 -> 0 up #0 (of 1,2)");
}

// --- decision

TEST_F(Rules, DecisionTheRootTellsItsChildrenAndReturnsAtOnce) {
    make("chain", 3);
    start({0, 1, 2});
    say_and_hear(2, 1);
    say_and_hear(1, 0);
    EXPECT_TRUE(decided(0)) << "before anybody else knows";
    EXPECT_EQ(says(0), "0 -> 1 down #0 (of 0,1,2)");
}

TEST_F(Rules, DecisionADownIsPassedOn) {
    make("chain", 3);
    start({0, 1, 2});
    say_and_hear(2, 1);
    say_and_hear(1, 0);
    say_and_hear(0, 1);
    EXPECT_TRUE(decided(1));
    EXPECT_EQ(says(1), "1 -> 2 down #0 (of 0,1,2)");
}

TEST_F(Rules, DecisionOfASingleRankIsItsOwn) {
    make("chain", 1);
    start({0});
    EXPECT_TRUE(decided(0));
    EXPECT_EQ(says(0), "");
}

// --- Recv(UP) (part 2)

TEST_F(Rules, UpWhoseSenderLostItsParentIsAnsweredWithTheDecision) {
    make("chain", 3);
    start({0, 1, 2});
    say_and_hear(2, 1);
    say_and_hear(1, 0);
    die(1, {2});
    EXPECT_EQ(says(2), "2 -> 0 up #0 (of 2; failed: 1)");
    hear(2, 0);
    // Rank 0 has learned of the death from the message: it does not send to 1 any more.
    EXPECT_EQ(says(0), "0 -> 2 down #0 (of 0,1,2)");
    hear(0, 2);
    EXPECT_EQ(outcome(2), "of 0,1,2, failed: none");
}

TEST_F(Rules, UpThatComesWhileBroadcastingIsRememberedUntilTheDecision) {
    make("chain", 4);
    start({0, 1, 2, 3});
    say_and_hear(3, 2);
    say_and_hear(2, 1);
    EXPECT_EQ(says(1), "1 -> 0 up #0 (of 1,2,3)");
    die(2, {3});
    say_and_hear(3, 1);  // 1 has contributed already
    hear(1, 0);
    say_and_hear(0, 1);
    EXPECT_EQ(says(1), "1 -> 3 down #0 (of 0,1,2,3)");
}

// --- Recv(DOWN)

TEST_F(Rules, DownFromTheDeadIsRefusedOnceTheDeathIsKnown) {
    make("star", 3);
    start({0, 1, 2});
    say_and_hear(1, 0);
    say_and_hear(2, 0);
    EXPECT_EQ(says(0), "0 -> 1 down #0 (of 0,1,2)");
    EXPECT_EQ(says(0), "0 -> 2 down #0 (of 0,1,2)");
    die(0, {1, 2});
    hear(0, 1);
    hear(0, 2);
    EXPECT_FALSE(decided(1));
    EXPECT_FALSE(decided(2)) << "rank 1 is root now, and may decide otherwise";
}

TEST_F(Rules, DownFromBelowIsTheAnswerThatARootAskedFor) {
    make("star", 3);
    start({0, 1, 2});
    say_and_hear(1, 0);
    say_and_hear(2, 0);
    EXPECT_EQ(says(0), "0 -> 1 down #0 (of 0,1,2)");
    say_and_hear(0, 2);
    die(0, {1});  // what it sent to 1 is refused now; 2 has it
    EXPECT_EQ(says(1), "1 -> 2 result_request #0 (failed: 0)");
    hear(1, 2);
    EXPECT_EQ(says(2), "2 -> 1 down #0 (of 0,1,2)");
    hear(2, 1);
    EXPECT_EQ(outcome(1), "of 0,1,2, failed: none");
}

// --- Recv(RESULTREQUEST)

TEST_F(Rules, ResultRequestIsAnsweredWithTheContributionWhileBroadcasting) {
    make("star", 3);
    start({1, 2});
    EXPECT_EQ(says(2), "2 -> 0 up #0 (of 2)");
    EXPECT_EQ(says(1), "1 -> 0 up #0 (of 1)");
    die(0, {1});
    say_and_hear(1, 2);
    EXPECT_EQ(says(2), "2 -> 1 up #0 (of 2; failed: 0)");
    hear(2, 1);
    EXPECT_EQ(outcome(1), "of 1,2, failed: 0, not acknowledged by all");
}

TEST_F(Rules, ResultRequestBeforeTheContributionIsAnsweredByIt) {
    make("star", 3);
    start({1});
    EXPECT_EQ(says(1), "1 -> 0 up #0 (of 1)");
    die(0, {1});
    say_and_hear(1, 2);
    EXPECT_EQ(says(2), "");
    start({2});
    EXPECT_EQ(says(2), "2 -> 1 up #0 (of 2; failed: 0)") << "to the one that asked: it has told of the death";
}

TEST_F(Rules, ResultRequestTellsOfAllFailuresSoThatNothingOlderIsTakenAfterTheAnswer) {
    // 0 - {1 - 2, 3 - 4}: the schedule that breaks the rule as printed.
    make("binary", 5);
    start({0, 1, 2, 3, 4});
    say_and_hear(2, 1);
    say_and_hear(4, 3);
    say_and_hear(1, 0);
    say_and_hear(3, 0);
    EXPECT_EQ(says(0), "0 -> 1 down #0 (of 0,1,2,3,4)");
    say_and_hear(0, 3);
    EXPECT_EQ(says(3), "3 -> 4 down #0 (of 0,1,2,3,4)");
    die(0, {1});
    die(3, {1});
    EXPECT_EQ(says(1), "1 -> 2 result_request #0 (failed: 0,3)");
    hear(1, 2);
    say_and_hear(2, 1);
    EXPECT_EQ(says(1), "1 -> 4 result_request #0 (failed: 0,3)");
    hear(1, 4);
    say_and_hear(4, 1);
    EXPECT_EQ(outcome(1), "of 1,2,4, failed: 0,3, not acknowledged by all");
    hear(3, 4);
    EXPECT_FALSE(decided(4)) << "4 has told 1 that it knows no decision: it may not learn 3's any more";
}

TEST_F(Rules, ResultRequestMovesTheOtherAgreementsToo) {
    // Rank 1 has contributed to #0 only; 2 to both, and hears of 0's death by the request for #0.
    make("star", 3, 2);
    start({1, 2});
    ASSERT_TRUE(group->start(2));
    EXPECT_EQ(says(2), "2 -> 0 up #0 (of 2)");
    EXPECT_EQ(says(2), "2 -> 0 up #1 (of 2)");
    EXPECT_EQ(says(1), "1 -> 0 up #0 (of 1)");
    die(0, {1});
    say_and_hear(1, 2);
    EXPECT_EQ(says(2), "2 -> 1 up #0 (of 2; failed: 0)");
    EXPECT_EQ(says(2), "2 -> 1 up #1 (of 2; failed: 0)");
}

// --- a process is discovered dead (part 4)

TEST_F(Rules, DeathOfTheParentContributionsGoToTheNearestLiveAncestor) {
    make("chain", 4);
    start({1, 2, 3});
    EXPECT_EQ(says(3), "3 -> 2 up #0 (of 3)");
    die(2, {3});
    EXPECT_EQ(says(3), "3 -> 1 up #0 (of 3; failed: 2)");
    die(1, {3});
    EXPECT_EQ(says(3), "3 -> 0 up #0 (of 3; failed: 1,2)");
}

TEST_F(Rules, DeathOfAllAboveMakesARootThatGathersAnewAndAsks) {
    make("star", 4);
    start({1, 2, 3});
    EXPECT_EQ(says(1), "1 -> 0 up #0 (of 1)");
    die(0, {1});
    EXPECT_EQ(says(1), "1 -> 2 result_request #0 (failed: 0)");
    EXPECT_EQ(says(1), "1 -> 3 result_request #0 (failed: 0)");
    EXPECT_EQ(says(1), "");
}

TEST_F(Rules, DeathOfAllAboveARootThatHadNotContributedNeedNotAsk) {
    make("star", 3);
    die(0, {1, 2});
    start({1});
    EXPECT_EQ(says(1), "") << "without it nobody can have decided";
    start({2});
    say_and_hear(2, 1);
    EXPECT_TRUE(decided(1));
}

TEST_F(Rules, DeathOfAChildOfANewRootItsChildrenAreAsked) {
    make("binary", 5);
    start({1, 2, 3, 4});
    say_and_hear(2, 1);
    say_and_hear(4, 3);
    EXPECT_EQ(says(1), "1 -> 0 up #0 (of 1,2)");
    EXPECT_EQ(says(3), "3 -> 0 up #0 (of 3,4)");
    die(0, {1});
    EXPECT_EQ(says(1), "1 -> 2 result_request #0 (failed: 0)");
    EXPECT_EQ(says(1), "1 -> 3 result_request #0 (failed: 0)");
    die(3, {1});
    EXPECT_EQ(says(1), "1 -> 4 result_request #0 (failed: 0,3)");
}

TEST_F(Rules, DeathOfAChildThatHadContributedDelaysNobody) {
    make("chain", 3);
    start({0, 1, 2});
    say_and_hear(2, 1);
    say_and_hear(1, 0);
    EXPECT_TRUE(decided(0));
    die(1, {0, 2});
    EXPECT_EQ(says(0), "") << "a rank that missed the decision asks for it";
    say_and_hear(2, 0);
    EXPECT_EQ(says(0), "0 -> 2 down #0 (of 0,1,2)");
}

TEST_F(Rules, DeathOfAChildThatHadNotContributedItsChildrenAreWaitedFor) {
    make("chain", 3);
    start({0, 2});
    say_and_hear(2, 1);
    die(1, {0});
    EXPECT_FALSE(decided(0));
    group->notice(2, 1);
    say_and_hear(2, 0);
    EXPECT_EQ(outcome(0), "of 0,2, failed: 1, not acknowledged by all");
}

TEST_F(Rules, DeathOfALeafIsTheLastThingWaitedFor) {
    make("star", 3);
    start({0, 1});
    say_and_hear(1, 0);
    EXPECT_FALSE(decided(0));
    die(2, {0});
    EXPECT_EQ(outcome(0), "of 0,1, failed: 2, not acknowledged by all");
}

// --- early return

TEST_F(Rules, EarlyReturnARankThatHasReturnedStillAnswers) {
    make("star", 3);
    start({0, 1, 2});
    say_and_hear(1, 0);
    say_and_hear(2, 0);
    EXPECT_EQ(says(0), "0 -> 1 down #0 (of 0,1,2)");
    hear(0, 1);
    ASSERT_TRUE(decided(1));
    EXPECT_EQ(says(1), "");
    die(0, {1, 2});
    EXPECT_EQ(says(2), "2 -> 1 up #0 (of 2; failed: 0)");
    hear(2, 1);
    EXPECT_EQ(says(1), "1 -> 2 down #0 (of 0,1,2)");
    hear(1, 2);
    EXPECT_TRUE(decided(2));
}

}  // namespace
}  // namespace coppice::protocol::testing
