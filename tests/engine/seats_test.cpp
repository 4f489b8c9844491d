// Seats: which rank of a group has which, and what is left of a process whose seat another one takes.
#include <gtest/gtest.h>

#include <type_traits>

#include "engine/router.hpp"
#include "some_transport_set.hpp"
#include "transport/board.hpp"

namespace coppice::engine {
namespace {

static_assert(!std::is_invocable_v<decltype(&TransportSet::to), const TransportSet&, Rank>);
static_assert(!std::is_invocable_v<decltype(&TransportSet::fence), TransportSet&, Rank>);
static_assert(!std::is_invocable_v<decltype(&Router::to), const Router&, Seat>);
static_assert(!std::is_invocable_v<decltype(&Router::seat_of), const Router&, Seat>);
static_assert(!std::is_invocable_v<decltype(&Router::rank_at), const Router&, Rank>);
static_assert(!std::is_invocable_v<decltype(&transport::Transport::fence), transport::Transport&, Rank>);
static_assert(!std::is_invocable_v<decltype(&transport::Board::alive), const transport::Board&, Seat>);
static_assert(!std::is_assignable_v<decltype((Origin::seat)), Rank>);

TEST(TransportSet, KeepsTheSeatOfARankWithWhichAGroupIsNotDone) {
    Set set;
    set.groups.attach(2, set.second);
    set.suspect(set.first);
    EXPECT_FALSE(set.groups.vacate(kPeer));
    EXPECT_TRUE(set.wire->forgotten.empty());
    EXPECT_NE(set.groups.to(kPeer), nullptr);
    EXPECT_TRUE(set.first.vacated.empty());
    set.suspect(set.second);
    EXPECT_TRUE(set.groups.vacate(kPeer));
    EXPECT_EQ(set.wire->forgotten, std::vector<Seat>{kPeer});
    EXPECT_EQ(set.groups.to(kPeer), nullptr);
    EXPECT_EQ(set.first.vacated, std::set<Seat>{kPeer});
    EXPECT_EQ(set.second.vacated, std::set<Seat>{kPeer});
}

TEST(TransportSet, KeepsSeatsWhileAGroupIsMadeInWhichARankMayBeWell) {
    Set set;
    set.suspect(set.first);
    set.groups.expect_group();
    EXPECT_FALSE(set.groups.vacate(kPeer));
    set.groups.expect_no_more();
    EXPECT_TRUE(set.groups.vacate(kPeer));
}

TEST(TransportSet, CutsOffAProcessThatLosesItsSeatBeforeItsTransportKnowsOfItsEnd) {
    Set set;
    set.first.dead.insert(kPeer);  // by hearsay, and nobody has cut it off
    EXPECT_TRUE(set.groups.vacate(kPeer));
    EXPECT_TRUE(set.is_cut_off());
    Set other;
    other.hear([](transport::Receiver& set_) { set_.peer_failed(kPeer, transport::FailureCause::obituary); });
    EXPECT_TRUE(other.groups.vacate(kPeer));
    EXPECT_TRUE(other.wire->fenced.empty());
    EXPECT_EQ(other.wire->forgotten, std::vector<Seat>{kPeer});
}

TEST(TransportSet, ASeatThatWasNeverTakenCanBeHad) {
    TransportSet groups(kRanks);
    EXPECT_TRUE(groups.vacate(kPeer));
}

TEST(TransportSet, NoDeathOfAnEarlierHolderIsToldToLaterGroups) {
    Set set;
    set.hear([](transport::Receiver& set_) {
        set_.peer_failed(kPeer, transport::FailureCause::obituary);
        set_.peer_left(Seat(3));
    });
    set.groups.attach(2, set.second);
    EXPECT_EQ(set.second.dead, (std::set<Seat>{kPeer, Seat(3)}));
    ASSERT_TRUE(set.groups.vacate(kPeer));
    ASSERT_TRUE(set.groups.vacate(Seat(3)));
    SomeGroup third;
    set.groups.attach(3, third);
    EXPECT_TRUE(third.dead.empty());
    set.hear([](transport::Receiver& set_) { set_.peer_failed(kPeer, transport::FailureCause::obituary); });
    EXPECT_EQ(third.dead, std::set<Seat>{kPeer}) << "the later holder has died, too";
    EXPECT_FALSE(set.groups.vacate(Seat(3))) << "the third group may hear of its holder";
}

TEST(TransportSet, AnEarlierHoldersSuspicionDoesNotCutOffTheLaterOne) {
    Set set;
    set.groups.attach(2, set.second);
    set.suspect(set.first);
    set.second.dead.insert(kPeer);  // not told to the set
    ASSERT_TRUE(set.groups.vacate(kPeer));
    set.groups.route(kPeer, 0);
    set.wire->fenced.clear();
    SomeGroup third;
    third.dead.insert(kPeer);
    set.groups.attach(3, third);  // where all groups' opinions are looked at
    EXPECT_TRUE(set.wire->fenced.empty());
}

TEST(TransportSet, AnswersThatAreOwedToAnEarlierHolderGoToNobody) {
    Set set;
    set.wire->answer = transport::SendStatus::again;
    set.hear([](transport::Receiver& set_) {  // of a group that is not here
        const WireHeader header{.token = 7, .tag = {Channel::members, MembersKind::heartbeat}};
        for (const Seat from : {kPeer, Seat(3)})
            set_.message(from, encode(header), {}, 0);
    });
    set.first.dead.insert(kPeer);
    ASSERT_TRUE(set.groups.vacate(kPeer));
    set.groups.route(kPeer, 0);
    set.wire->answer = transport::SendStatus::sent;
    set.groups.poll();
    EXPECT_EQ(set.wire->sent_to, std::vector<Seat>{Seat(3)});
}

TEST(TransportSet, WhatAnEarlierHolderSaidTooEarlyIsHeardByNobody) {
    Set set;
    set.first.last_epoch = 0;
    set.hear([](transport::Receiver& set_) { say(set_, 2, 1); });
    set.first.dead.insert(kPeer);
    ASSERT_TRUE(set.groups.vacate(kPeer));
    set.groups.attach(2, set.second);
    EXPECT_TRUE(set.second.heard.empty());
}

// A rank of the group is never taken for a place in the transports, nor the other way around.

TEST(Router, RanksMayHaveTheirSeatsInAnyOrder) {
    const auto transport_set = std::make_shared<TransportSet>(6);
    Router router(transport_set, {Seat(4), Seat(0), Seat(5)});
    EXPECT_EQ(router.seat_of(Rank(0)), Seat(4));
    EXPECT_EQ(router.rank_at(Seat(0)), Rank(1));
    EXPECT_EQ(router.rank_at(Seat(5)), Rank(2));
    EXPECT_FALSE(router.rank_at(Seat(1)));
    EXPECT_FALSE(router.rank_at(Seat(6)));
}

TEST(Router, ASeatBehindTheFirstGroupsIsNoMembers) {
    const auto transport_set = std::make_shared<TransportSet>(6);
    const Router router(transport_set, 4);
    EXPECT_EQ(router.rank_at(Seat(3)), Rank(3));
    EXPECT_FALSE(router.rank_at(Seat(4)));
}

TEST(Router, AMemberWhoseSeatIsGivenUpIsOutOfReach) {
    const auto transport_set = std::make_shared<TransportSet>(6);
    const std::uint8_t index = transport_set->add(std::make_unique<Wire>());
    for (std::uint32_t seat = 0; seat < 6; ++seat)
        transport_set->route(Seat(seat), index);
    for (Router router : {Router(transport_set, 4), Router(transport_set, {Seat(3), Seat(1), Seat(2), Seat(0)})}) {
        const Rank lost = *router.rank_at(kPeer);
        router.give_up(kPeer);
        router.give_up(kPeer);
        EXPECT_FALSE(router.to(lost));
        EXPECT_FALSE(router.rank_at(kPeer));
        for (const std::uint32_t seat : {0U, 1U, 3U}) {
            ASSERT_TRUE(router.rank_at(Seat(seat)));
            EXPECT_EQ(router.seat_of(*router.rank_at(Seat(seat))), Seat(seat));
            EXPECT_TRUE(router.to(*router.rank_at(Seat(seat))));
        }
        router.fence(lost);  // of nobody
    }
}

TEST(TransportSet, SparesTheLaterHolderOfASeatAReportOfTheEarlierOne) {
    Set set;
    set.groups.directory().take(kPeer, 1);
    set.report(kPeer);
    set.groups.directory().vacate(kPeer);
    set.report(kPeer);
    EXPECT_TRUE(set.first.failed.empty());
}

}  // namespace
}  // namespace coppice::engine
