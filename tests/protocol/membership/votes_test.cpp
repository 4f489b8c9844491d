// Which vote a member carries on with, of those that it hears of.
#include <gtest/gtest.h>

#include "conversation.hpp"

namespace coppice::protocol {
namespace {

LastVote vote_for(const Membership& member, std::uint32_t root, std::uint32_t gone) {
    LastVote vote;
    vote.epoch = member.last_vote().epoch;
    vote.followed = root + 1;
    vote.latest = Vote{.root = root, .change = {}};
    vote.latest->change.gone.insert(gone);
    return vote;
}

// Roots follow each other in the order of ranks, and a later one has looked at what the earlier ones have begun.
TEST(Votes, TheOneForTheLatestRootCountsInWhateverOrderTheyAreHeard) {
    for (const bool earlier_first : {true, false}) {
        SCOPED_TRACE(earlier_first);
        Conversation group(5);
        Membership& member = group[3];
        const LastVote earlier = vote_for(member, 0, 4);
        const LastVote later = vote_for(member, 1, 0);
        member.peer_failed(Process(earlier_first ? 0 : 1), earlier_first ? &earlier : &later);
        member.peer_failed(Process(earlier_first ? 1 : 0), earlier_first ? &later : &earlier);
        ASSERT_TRUE(member.last_vote().latest);
        EXPECT_EQ(*member.last_vote().latest, *later.latest);
    }
}

// What a certain death makes of the quorum holds where its vote is known, too: six members, of which only two were asked by a root
// that is then cut off.
TEST(Votes, ACertainDeathIsToldWithTheVoteOfTheDead) {
    MembershipPlan plan;
    plan.radix_bits = 3;  // all are children of the root
    plan.consents = true;
    Conversation group(6, plan);
    Membership& root = group[0];
    Membership& next = group[1];
    Membership& teller = group[2];
    group.join({.process = Process(9)});
    for (const std::uint32_t process : {1U, 2U, 3U, 4U, 5U})
        group[process].renew();
    group.deliver_all();
    root.renew();
    ASSERT_EQ(root.phase(), Phase::voting);
    // The order comes to 2 and 3 alone; 3 votes, and dies.
    for (const MembershipMessage& order : group.under_way())
        if (order.to == Process(2) || order.to == Process(3)) group[order.to.value].receive(order);
    group.lose_all();
    ASSERT_EQ(teller.phase(), Phase::voting);
    group.crash(3);
    group.notice(2, 3);
    group.lose_all();
    // The cut: 2 tells the next root that it wants a view, and of whose deaths it knows.
    teller.peer_failed(Process(0));
    ASSERT_EQ(group.under_way().size(), 1U);
    const MembershipMessage told = group.under_way().front();
    EXPECT_EQ(told.to, Process(1));
    EXPECT_TRUE(told.failures.certain.contains(3));
    EXPECT_TRUE(told.latest);
    group.lose_all();
    group.crash(2);
    next.receive(told);
    // Nobody knows what 2 has voted, and the rest has a quorum: it makes the view that the old root may have made.
    for (const std::uint32_t process : {1U, 4U, 5U})
        for (const std::uint32_t gone : {0U, 2U})
            group[process].peer_failed(Process(gone));
    group.deliver_all();
    EXPECT_EQ(group.members_at(1), (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 9}));
}

// Four members, of which two have died: only the one that shares a host with the old root ever knows for certain, after it has said
// all that it knew. With that the two that are left are a quorum.
TEST(Votes, WhatIsCertainLaterIsToldToARootThatLacksAQuorum) {
    for (const bool is_told_first : {true, false}) {
        SCOPED_TRACE(is_told_first);
        Conversation group(4, {.consents = true});
        group[2].renew();
        group[3].renew();
        for (const std::uint32_t process : {2U, 3U})
            for (const std::uint32_t gone : {0U, 1U})
                group[process].peer_failed(Process(gone));
        if (is_told_first) group.deliver_all();
        group.deliver_until(MembershipKind::no_quorum);
        if (is_told_first) {
            EXPECT_TRUE(group[2].lacks_quorum());
            EXPECT_TRUE(group[3].lacks_quorum());
        }
        const LastVote vote = group[0].last_vote();
        group[3].peer_failed(Process(0), &vote);
        group.deliver_all();
        EXPECT_EQ(group.members_at(2), (std::vector<std::uint32_t>{2, 3}));
        EXPECT_EQ(group.members_at(3), (std::vector<std::uint32_t>{2, 3}));
    }
}

}  // namespace
}  // namespace coppice::protocol
