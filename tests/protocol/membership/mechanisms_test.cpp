// The mechanisms of Varma et al., ICS'06, one by one, in the order of the paper.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "conversation.hpp"

namespace coppice::protocol {
namespace {

using Standing = Membership::Standing;
using Lines = std::vector<std::string>;
using Ranks = std::vector<std::uint32_t>;

std::size_t count_of(const Lines& said, const std::string& words) {
    return static_cast<std::size_t>(
        std::ranges::count_if(said, [&words](const std::string& line) { return line.ends_with(words); }));
}

// §3.4: "The root acknowledges each failure detection message but disregards all but the first."
TEST(Membership, M4EveryDetectorIsAnsweredAndTheDeathCountsOnce) {
    Conversation group(4, {.reports = true});
    group.crash(3);
    group.notice(1, 3);
    group.notice(2, 3);
    group.deliver_all();
    EXPECT_EQ(group.said(), (Lines{"1 -> 0 NODE_FAILURE", "2 -> 0 NODE_FAILURE", "0 -> 1 FAILURE_DET_ACK",
                                   "0 -> 2 FAILURE_DET_ACK"}));
    EXPECT_EQ(group[0].failures().suspected.count(), 1U);
    EXPECT_EQ(group[0].failures().certain.count(), 1U);
    // The root has not noticed it itself, and leaves it out.
    group.all_renew();
    group.notice(0, 3);
    group.deliver_all();
    EXPECT_EQ(group.members_at(2), (Ranks{0, 1, 2}));
}

// §3.4, rules 1 to 4. What the tree says is in radix_tree_test.cpp; here the orders follow it.
TEST(Membership, M5TheChildrenOfTheDeadHearFromItsParent) {
    Conversation group(7);
    group.all_renew();
    ASSERT_TRUE(group.deliver());
    EXPECT_EQ(group.said(), Lines{"0 -> 1 FAILED_NODE"});
    group.crash(1);
    group.lose_all();
    group.all_notice(1);
    group.deliver_all();
    const Lines said = group.said();
    EXPECT_EQ(std::ranges::count(said, "0 -> 3 FAILED_NODE"), 1);
    EXPECT_EQ(std::ranges::count(said, "0 -> 4 FAILED_NODE"), 1);
    EXPECT_EQ(std::ranges::count(said, "3 -> 0 FAILURE_ACK"), 1);
}

// §3.4: "Leaves respond with a FAILURE_ACK message to parents. Higher nodes acknowledge once they have received the
// acknowledgments from their children. The tree becomes stable once the root receives a FAILURE_ACK from all children."
TEST(Membership, M6OrdersGoDownTheTreeAndAcknowledgementsComeUp) {
    Conversation group(5);
    group.crash(2);
    group.all_notice(2);
    group.all_renew();
    group.deliver_all();
    EXPECT_EQ(group.said(),
              (Lines{"0 -> 1 FAILED_NODE", "1 -> 3 FAILED_NODE", "1 -> 4 FAILED_NODE", "3 -> 1 FAILURE_ACK",
                     "4 -> 1 FAILURE_ACK", "1 -> 0 FAILURE_ACK", "0 -> 1 STABLE", "1 -> 3 STABLE", "1 -> 4 STABLE"}));
    for (const std::uint32_t process : {0U, 1U, 3U, 4U}) {
        EXPECT_EQ(group[process].epoch(), 1U);
        EXPECT_EQ(group.members_at(process), (Ranks{0, 1, 3, 4}));
    }
}

// Ours: the paper's members install what they hear, ours what is stable.
TEST(Membership, NobodyInstallsAViewBeforeItIsStable) {
    Conversation group(4);
    group.all_renew();
    ASSERT_TRUE(group.deliver_until(MembershipKind::stable));
    EXPECT_EQ(group[0].epoch(), 1U);
    for (const std::uint32_t process : {1U, 2U, 3U})
        EXPECT_EQ(group[process].epoch(), 0U);
}

TEST(Membership, AMemberVotesWhenItsCallerWantsTheNextView) {
    Conversation group(3);
    group[0].renew();
    group[1].renew();
    group.deliver_all();
    EXPECT_EQ(group[0].epoch(), 0U);
    group[2].renew();
    group.deliver_all();
    for (const std::uint32_t process : {0U, 1U, 2U})
        EXPECT_EQ(group[process].epoch(), 1U);
}

// §3.4: "Failure to receive a FAILURE_ACK message will invoke another instance of the failure detector"; §3.5: "The node
// that fails to get an acknowledgment from the dead node informs the root".
TEST(Membership, M7AParentThatMissesAnAcknowledgementTellsTheRootWhoDied) {
    Conversation group(7, {.reports = true});
    group.all_renew();
    ASSERT_TRUE(group.deliver_until(MembershipKind::failure_ack));
    group.said();
    group.crash(4);
    group.notice(1, 4);
    group.deliver_all();
    const Lines said = group.said();
    EXPECT_EQ(std::ranges::count(said, "1 -> 0 NODE_FAILURE"), 1);
    EXPECT_TRUE(group[0].view().rank_of(Process(4)));  // the proposal was under way; the next one leaves it out
    EXPECT_TRUE(group[0].failures().certain.contains(4));
    group.all_notice(4);
    group.all_renew();
    group.deliver_all();
    EXPECT_EQ(group.members_at(6), (Ranks{0, 1, 2, 3, 5, 6}));
}

// §3.5: "the root sends a list of dead nodes".
TEST(Membership, M8SeveralDeadAreOneChange) {
    Conversation group(7);
    for (const std::uint32_t dead : {4U, 5U})
        group.crash(dead);
    for (const std::uint32_t dead : {4U, 5U})
        group.all_notice(dead);
    group.all_renew();
    group.deliver_all();
    const Lines said = group.said();
    EXPECT_EQ(count_of(said, "FAILED_NODE"), 4U);
    EXPECT_EQ(group.members_at(6), (Ranks{0, 1, 2, 3, 6}));
}

// "If a node failure has occurred at each level of the tree, it will take H - 1 initial tree stabilization phases." Ours
// takes one and what the dead still owe: only their children are told again.
TEST(Membership, M8ADeathAtEachLevelDoesNotStartTheWaveAgain) {
    Conversation group(15);
    group.all_renew();
    ASSERT_TRUE(group.deliver_until(MembershipKind::failure_ack));
    group.said();
    for (const std::uint32_t dead : {1U, 5U, 13U})
        group.crash(dead);
    for (const std::uint32_t dead : {1U, 5U, 13U})
        group.all_notice(dead);
    group.deliver_all();
    // 3 and 4 of 1, 11 and 12 of 5.
    EXPECT_EQ(count_of(group.said(), "FAILED_NODE"), 4U);
    EXPECT_EQ(group[14].epoch(), 1U);
    group.all_renew();
    for (const std::uint32_t dead : {1U, 5U, 13U})
        group.all_notice(dead);
    group.deliver_all();
    EXPECT_EQ(group.members_at(14), (Ranks{0, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 14}));
}

// §3.6: "The detecting node sends a ROOT_FAILURE message to the next live node in the linear list. The new root sends a
// ROOT_DEAD message to its children who transitively send it to their children."
TEST(Membership, M9ADetectorTellsTheNextInTheListWhichAsksAll) {
    Conversation group(4, {.reports = true});
    group.crash(0);
    group.all_renew();
    group.notice(3, 0);
    group.deliver_all();
    const Lines said = group.said();
    ASSERT_FALSE(said.empty());
    EXPECT_EQ(said.front(), "3 -> 1 ROOT_FAILURE");
    EXPECT_EQ(std::ranges::count(said, "1 -> 3 FAILURE_DET_ACK"), 1);
    EXPECT_EQ(std::ranges::count(said, "1 -> 3 ROOT_DEAD"), 1);
    EXPECT_EQ(std::ranges::count(said, "1 -> 2 ROOT_DEAD"), 1);
    EXPECT_EQ(std::ranges::count(said, "3 -> 1 ROOT_DEAD_ACK"), 1);
    for (const std::uint32_t process : {1U, 2U, 3U})
        EXPECT_EQ(group.members_at(process), (Ranks{1, 2, 3}));
}

// Ours: the paper's new root forgets what the old one began.
TEST(Membership, ANewRootCarriesOnWithTheLatestVoteThatItFinds) {
    Conversation group(4);
    group.join({.process = Process(9)});
    group.deliver_all();
    group.all_renew();
    ASSERT_TRUE(group.deliver_until(MembershipKind::new_node_join_ack));
    group.crash(0);
    group.lose_all();
    group.all_notice(0);
    group.deliver_all();
    // 0 is still a member of it, for it may have told somebody.
    EXPECT_EQ(group.members_at(1), (Ranks{0, 1, 2, 3, 9}));
    EXPECT_EQ(group.members_at(3), group.members_at(1));
}

// §3.6: "To distinguish this case from a single root failure, a different message, ROOT_AND_NODE_FAILURE, will be
// propagated down the tree indicating the new root and the set of failed nodes."
TEST(Membership, M10WhereOthersAreDeadTooTheNewRootSaysSo) {
    Conversation group(5);
    group.crash(0);
    group.crash(3);
    group.all_renew();
    group.notice(1, 3);
    group.notice(1, 0);
    group.deliver_all();
    EXPECT_EQ(count_of(group.said(), "ROOT_AND_NODE_FAILURE"), 2U);
    EXPECT_EQ(group.members_at(4), (Ranks{1, 2, 4}));
}

// §3.7, Figure 3(c); the answer once the tree is stable, as the text has it, not at once, as the figure.
TEST(Membership, M11AJoinerIsWelcomedWhenAllKnowIt) {
    Conversation group(3);
    group.join({.process = Process(7)});
    group.deliver_all();
    group.all_renew();
    group.deliver_all();
    EXPECT_EQ(group.said(),
              (Lines{"7 -> 0 NEW_NODE", "0 -> 1 NEW_NODE_JOIN", "0 -> 2 NEW_NODE_JOIN", "1 -> 0 NEW_NODE_JOIN_ACK",
                     "2 -> 0 NEW_NODE_JOIN_ACK", "0 -> 1 STABLE", "0 -> 2 STABLE", "0 -> 7 JOIN_DET_ACK"}));
    EXPECT_EQ(group.members_at(7), (Ranks{0, 1, 2, 7}));
    EXPECT_EQ(group[7].standing(), Standing::member);
}

// §3.7: "Recovered nodes may re-join with their original ID."
TEST(Membership, M12AProcessThatIsStartedAgainGetsItsSeatBackInAnotherIncarnation) {
    Conversation group(3);
    group.crash(1);
    group.join({.process = Process(7), .seat = 1});
    group.deliver_all();
    group.all_notice(1);
    group.all_renew();
    group.deliver_all();
    const Lines said = group.said();
    EXPECT_EQ(said.front(), "7 -> 0 NODE_ALIVE");
    EXPECT_EQ(std::ranges::count(said, "0 -> 2 ALIVE_NODE_JOIN"), 1);
    EXPECT_EQ(std::ranges::count(said, "2 -> 0 ALIVE_NODE_JOIN_ACK"), 1);
    EXPECT_EQ(said.back(), "0 -> 7 ALIVE_NODE_JOIN_DET_ACK");
    EXPECT_EQ(group.members_at(2), (Ranks{0, 7, 2}));
    EXPECT_EQ(group[2].view().incarnation_of(Seat(1)), 1U);
    // What was under way of the earlier one's death is not the present one's.
    group.notice(2, 1);
    EXPECT_TRUE(group[2].failures().suspected.empty());
}

TEST(Membership, WhoWantsASeatThatItHadComesBeforeWhoWantsAny) {
    Conversation group(3);
    group.crash(1);
    group.join({.process = Process(8)});
    group.deliver_all();
    group.join({.process = Process(7), .seat = 1});
    group.deliver_all();
    group.all_notice(1);
    group.all_renew();
    group.deliver_all();
    EXPECT_EQ(group.members_at(2), (Ranks{0, 7, 2, 8}));
}

TEST(Membership, TheSeatOfALivingMemberIsNotGivenAway) {
    Conversation group(3);
    group.join({.process = Process(7), .seat = 2});
    group.deliver_all();
    EXPECT_EQ(group.said(), (Lines{"7 -> 0 NODE_ALIVE", "0 -> 2 NODE_ALIVE", "2 -> 7 SEAT_TAKEN"}));
    EXPECT_EQ(group[7].standing(), Standing::refused);
    EXPECT_EQ(group[7].refused_by(), MembershipKind::seat_taken);
}

// §3.7: "A failure to get a JOIN_DET_ACK from the root triggers the new node to send a NEW_NODE message to the next node
// in its sequential list of nodes."
TEST(Membership, M13AJoinerScansOnWhereTheRootIsDead) {
    Conversation group(3);
    group.join({.process = Process(7)});
    group.crash(0);
    group.lose_all();
    group.notice(7, 0);
    group.deliver_all();
    EXPECT_EQ(group.said(), Lines{"7 -> 1 NEW_NODE"});
    // 1 does not know that it is root yet; it keeps the request.
    EXPECT_TRUE(group[1].knows_request(Process(7)));
    group.notice(1, 0);
    group.notice(2, 0);
    group.all_renew();
    group.deliver_all();
    EXPECT_EQ(group.members_at(7), (Ranks{7, 1, 2}));
    EXPECT_EQ(group.members_at(2), (Ranks{7, 1, 2}));
    Conversation gone(2);
    gone.join({.process = Process(7)});
    gone.crash(0);
    gone.crash(1);
    gone.notice(7, 0);
    gone.notice(7, 1);
    EXPECT_EQ(gone[7].standing(), Standing::unanswered);
}

// §3.7: "The root node sends a list of failed and (prior) joined nodes. One message suffices."
TEST(Membership, M14OneMessageTellsTheJoinerAllThatWentBefore) {
    Conversation group(4);
    group.crash(1);
    group.all_notice(1);
    group.join({.process = Process(7)});
    group.deliver_all();
    group.all_renew();
    group.deliver_all();
    group.crash(3);
    group.all_notice(3);
    group.join({.process = Process(8), .seat = 9});
    group.deliver_all();
    group.all_renew();
    group.said();
    group.deliver_all();
    std::size_t to_joiner = 0;
    for (const std::string& line : group.said())
        to_joiner += line.find("-> 8 ") != std::string::npos ? 1U : 0U;
    EXPECT_EQ(to_joiner, 1U);
    EXPECT_EQ(group[8].view(), group[0].view());
    EXPECT_EQ(group.members_at(8), (Ranks{0, 7, 2, 8}));
}

// §3.7: "If the joiner happens to be the new root, every node agrees on this during the tree recalculation phase."
TEST(Membership, M15AJoinerInTheLowestSeatIsRootOfTheNextView) {
    Conversation group(3);
    group.crash(0);
    group.all_notice(0);
    group.join({.process = Process(7)});
    group.notice(7, 0);
    group.deliver_all();
    group.all_renew();
    group.deliver_all();
    ASSERT_EQ(group.members_at(2), (Ranks{7, 1, 2}));
    EXPECT_TRUE(group[7].is_root());
    // One that asks another member is told to it.
    group.join({.process = Process(8)});
    group.notice(8, 0);
    group.deliver_all();
    EXPECT_TRUE(group[7].knows_request(Process(8)));
    group.all_renew();
    group.deliver_all();
    for (const std::uint32_t process : {7U, 1U, 2U, 8U})
        EXPECT_EQ(group.members_at(process), (Ranks{7, 1, 2, 8}));
}

// §3.3: "partitions reorganize to form a new view"; §8: "we do not allow multiple disjoint views". The quorum decides.
TEST(Membership, M17OfTwoSidesOneGoesOn) {
    Conversation group(5);
    const auto part = [&group] {
        for (const std::uint32_t a : {0U, 1U}) {
            for (const std::uint32_t b : {2U, 3U, 4U}) {
                group[a].peer_failed(Process(b));
                group[b].peer_failed(Process(a));
            }
        }
    };
    part();
    group.all_renew();
    group.deliver_all();
    for (const std::uint32_t process : {2U, 3U, 4U})
        EXPECT_EQ(group.members_at(process), (Ranks{2, 3, 4}));
    for (const std::uint32_t process : {0U, 1U}) {
        EXPECT_EQ(group[process].epoch(), 0U);
        EXPECT_TRUE(group[process].lacks_quorum());
    }
}

// Footnote 1: "Any messages from the excluded nodes pertaining to the old job are henceforth ignored by other nodes. If
// the node is fully responsive again, it may join the set of running nodes."
TEST(Membership, M18AnExcludedMemberIsIgnoredAndMayJoinAgain) {
    Conversation group(4);
    for (const std::uint32_t other : {0U, 1U, 2U})
        group[other].peer_failed(Process(3));
    for (const std::uint32_t process : {0U, 1U, 2U})
        group[process].renew();
    group.deliver_all();
    ASSERT_EQ(group.members_at(1), (Ranks{0, 1, 2}));
    // It wakes up, takes nobody for dead and says what it has to say.
    EXPECT_EQ(group[1].delivery(Process(3), 0), Membership::Delivery::never);
    MembershipMessage late{.kind = MembershipKind::failed_node, .from = Process(3), .to = Process(1)};
    late.proposal = Change{};
    EXPECT_TRUE(group[1].receive(late));
    EXPECT_TRUE(group.under_way().empty());
    group.join({.process = Process(8), .seat = 3});
    group.deliver_all();
    for (const std::uint32_t process : {0U, 1U, 2U})
        group[process].renew();
    group.deliver_all();
    EXPECT_EQ(group.members_at(8), (Ranks{0, 1, 2, 8}));
}

// Where each view makes a group of its own, its newcomers are gone from this one for good: a majority is one of those that are left.
TEST(Membership, NewcomersThatHaveGoneToTheirOwnGroupCountForNoQuorum) {
    for (const bool go : {true, false}) {
        Conversation group(3, {.quorum = Quorum::majority, .consents = true, .introduces = true, .newcomers_go = go});
        for (std::uint32_t newcomer = 10; newcomer < 14; ++newcomer)
            group.join({.process = Process(newcomer), .waits = true});
        group.deliver_all();
        group.all_renew();
        group.deliver_all();
        ASSERT_EQ(group.members_at(0), (Ranks{0, 1, 2, 10, 11, 12, 13}));
        for (std::uint32_t newcomer = 10; newcomer < 14; ++newcomer)
            group.crash(newcomer);
        for (std::uint32_t newcomer = 10; newcomer < 14; ++newcomer)
            group.all_notice(newcomer);
        group.all_renew();
        group.deliver_all();
        for (const std::uint32_t process : {0U, 1U, 2U})
            EXPECT_EQ(group[process].epoch(), go ? 2U : 1U) << process;
        EXPECT_EQ(group[0].lacks_quorum(), !go);
        EXPECT_EQ(group[0].voiceless().count(), 0U);
        // And of those that are left.
        if (!go) continue;
        group.crash(1);
        group.all_notice(1);
        group.all_renew();
        group.deliver_all();
        EXPECT_EQ(group.members_at(2), (Ranks{0, 2}));
    }
}

}  // namespace
}  // namespace coppice::protocol
