// When a rank that one group takes for dead is cut off from all groups that share the transports; what is said to, and by, groups that
// are not here; and what a launcher reports.
#include <gtest/gtest.h>
#include <poll.h>

#include "some_transport_set.hpp"

namespace coppice::engine {
namespace {

TEST(TransportSet, CutsOffARankThatItsOnlyGroupTakesForDead) {
    Set set;
    set.suspect(set.first);
    EXPECT_TRUE(set.is_cut_off());
}

TEST(TransportSet, LetsARankLiveThatIsWellInAnotherGroup) {
    Set set;
    set.groups.attach(2, set.second);
    set.suspect(set.first);
    EXPECT_TRUE(set.wire->fenced.empty());
    set.suspect(set.second);
    EXPECT_TRUE(set.is_cut_off());
}

TEST(TransportSet, LetsARankLiveThatIsWellInAGroupThatThisRankLeaves) {
    Set set;
    set.groups.attach(2, set.second);
    set.suspect(set.first);
    set.groups.detach(set.second);
    set.groups.expect_group();
    set.groups.expect_no_more();
    EXPECT_TRUE(set.wire->fenced.empty());
}

TEST(TransportSet, CutsARankOffThoughAGroupThatWasDoneWithItIsLeftBefore) {
    Set set;
    set.groups.attach(2, set.second);
    set.suspect(set.first);
    SomeGroup third;
    set.groups.attach(3, third);
    set.suspect(third);
    set.groups.detach(third);
    EXPECT_TRUE(set.wire->fenced.empty());
    set.suspect(set.second);
    EXPECT_TRUE(set.is_cut_off());
}

TEST(TransportSet, WaitsForTheGroupThatIsBeingMade) {
    Set set;
    set.groups.expect_group();
    set.suspect(set.first);
    EXPECT_TRUE(set.wire->fenced.empty());
    set.groups.attach(2, set.second);
    EXPECT_TRUE(set.wire->fenced.empty());  // it may be a member there
    set.suspect(set.second);
    EXPECT_TRUE(set.is_cut_off());
}

TEST(TransportSet, CutsARankOffWhenTheGroupThatIsMadeIsWithoutIt) {
    Set set;
    set.groups.expect_group();
    set.suspect(set.first);
    set.second.dead.insert(kPeer);
    set.groups.attach(2, set.second);
    EXPECT_TRUE(set.is_cut_off());
}

TEST(TransportSet, CutsARankOffWhenNoGroupIsMadeAfterAll) {
    Set set;
    set.groups.expect_group();
    set.suspect(set.first);
    set.groups.expect_no_more();
    EXPECT_TRUE(set.is_cut_off());
}

TEST(TransportSet, AProcessThatIsTakenForDeadIsDeadToAllGroupsAtOnce) {
    Set set;
    set.groups.attach(2, set.second);
    set.groups.expect_group();  // in which it would be waited for
    set.groups.take_for_dead(kPeer);
    EXPECT_TRUE(set.is_cut_off());
    EXPECT_EQ(set.first.dead, std::set<Seat>{kPeer});
    EXPECT_EQ(set.second.dead, std::set<Seat>{kPeer});
    SomeGroup third;
    set.groups.attach(3, third);
    EXPECT_EQ(third.dead, std::set<Seat>{kPeer});
}

TEST(TransportSet, AProcessThatHasLeftInPeaceIsNotTakenForDead) {
    Set set;
    set.hear([](transport::Receiver& set_) { set_.peer_left(kPeer); });
    set.groups.take_for_dead(kPeer);
    EXPECT_TRUE(set.wire->fenced.empty());
}

TEST(TransportSet, ABeatOfAGroupThatHasYetToBeMadeIsAnsweredAndNotKept) {
    Set set;
    set.groups.expect_group();
    const auto say_beat = [&set](Beat beat) {
        const auto sequence = static_cast<std::uint64_t>(beat);
        const WireHeader header{
            .token = 2, .tag = {Channel::members, MembersKind::heartbeat}, .sequence = sequence, .epoch = 1};
        set.hear([&header](transport::Receiver& set_) { set_.message(kPeer, encode(header), {}, 0); });
        set.groups.poll();
    };
    say_beat(Beat::unasked);
    say_beat(Beat::answers);
    EXPECT_TRUE(set.wire->sent.empty()) << "these are not answered";
    say_beat(Beat::asks);
    ASSERT_EQ(set.wire->sent.size(), 1U);
    EXPECT_EQ(set.wire->sent[0].token, 2U);
    EXPECT_EQ(set.wire->sent[0].epoch, 1U);
    EXPECT_EQ(set.wire->sent[0].tag, Tag(Channel::members, MembersKind::heartbeat));
    EXPECT_EQ(set.wire->sent[0].sequence, static_cast<std::uint64_t>(Beat::answers));
    set.groups.attach(2, set.second);
    EXPECT_TRUE(set.second.heard.empty());
}

TEST(TransportSet, WhatComesForAGroupThatHasYetToBeMadeIsKept) {
    Set set;
    set.first.last_epoch = 0;
    set.hear([](transport::Receiver& set_) {
        say(set_, 2, 1);
        say(set_, 7, 0);  // of no group that could come of this one
    });
    EXPECT_EQ(set.first.heard.size(), 1U) << "somebody counts what makes no sense";
    set.groups.poll();
    ASSERT_EQ(set.wire->sent.size(), 1U) << "one that is made later is not said to be over";
    EXPECT_EQ(set.wire->sent[0].token, 7U);
    EXPECT_EQ(set.wire->sent[0].tag, Tag(Channel::members, MembersKind::never_here));
    set.groups.attach(2, set.second);
    EXPECT_EQ(set.second.heard, std::vector<Seat>{kPeer});
}

TEST(TransportSet, NothingIsKeptForAGroupThatCannotComeAnyMore) {
    Set set;
    set.first.last_epoch = 0;
    set.hear([](transport::Receiver& set_) { say(set_, 3, 1); });
    set.groups.attach(2, set.second);
    set.groups.detach(set.first);
    SomeGroup third;
    set.groups.attach(3, third);
    EXPECT_TRUE(third.heard.empty());
}

// Of two groups that may come of one, on two sides of a cut network say, one comes: members of the other wait for this process until they hear
// that it is not there.
TEST(TransportSet, ThoseThatWroteToAGroupThatCannotComeAnyMoreAreToldSo) {
    Set set;
    set.first.last_epoch = 0;
    set.hear([](transport::Receiver& set_) {
        say(set_, 3, 1);
        say(set_, 3, 1);
    });
    SomeGroup second;
    second.last_epoch = 1;
    set.groups.attach(2, second);
    set.groups.poll();
    EXPECT_TRUE(set.wire->sent.empty()) << "the first group may come to it yet";
    set.groups.detach(set.first);
    set.groups.poll();
    ASSERT_EQ(set.wire->sent.size(), 1U) << "once";
    EXPECT_EQ(set.wire->sent[0].token, 3U);
    EXPECT_EQ(set.wire->sent[0].tag, Tag(Channel::members, MembersKind::never_here));
}

TEST(TransportSet, ThoseThatWriteToAGroupThatIsGoneAreToldHowItWasLeft) {
    Set set;
    SomeGroup third;
    set.groups.attach(2, set.second);
    set.groups.attach(3, third);
    set.groups.detach(set.second);
    set.groups.detach(third, Rank(1));
    set.hear([](transport::Receiver& set_) {
        say(set_, 2, 1);
        say(set_, 3, 2);
    });
    set.groups.poll();
    ASSERT_EQ(set.wire->sent.size(), 2U);
    EXPECT_EQ(set.wire->sent[0].tag, Tag(Channel::members, MembersKind::left));
    EXPECT_EQ(set.wire->sent[1].tag, Tag(Channel::members, MembersKind::failure_notice));
    EXPECT_EQ(set.wire->sent[1].detail, 1U);
    EXPECT_TRUE(set.first.heard.empty());
}

TEST(TransportSet, FarewellsAreNotAnswered) {
    for (const MembersKind kind : {MembersKind::left, MembersKind::never_here}) {
        Set set;
        set.hear([kind](transport::Receiver& set_) {
            const WireHeader farewell{.token = 7, .tag = {Channel::members, kind}};
            set_.message(kPeer, encode(farewell), {}, 0);
        });
        set.groups.poll();
        EXPECT_TRUE(set.wire->sent.empty()) << "two that have left would answer each other for ever";
    }
}

TEST(TransportSet, TwoThatHaveGivenTheSameGroupUpEndTheirTalkOfIt) {
    Set here;
    Set there;
    for (Set* set : {&here, &there}) {
        SomeGroup given_up;
        set->groups.attach(3, given_up);
        set->groups.detach(given_up, Rank(1));
    }
    here.hear([](transport::Receiver& set) { say(set, 3, 1); });
    here.groups.poll();
    ASSERT_EQ(here.wire->sent.size(), 1U);
    there.hear([&](transport::Receiver& set) { set.message(kPeer, encode(here.wire->sent[0]), {}, 0); });
    there.groups.poll();
    EXPECT_TRUE(there.wire->sent.empty()) << "they would answer each other for ever";
}

// A member's notice about a third rank is not an answer.
TEST(TransportSet, AMemberThatTellsOfADeathHearsThatTheGroupWasGivenUp) {
    Set set;
    SomeGroup given_up;
    set.groups.attach(3, given_up);
    set.groups.detach(given_up, Rank(1));
    set.hear([](transport::Receiver& set_) {
        const WireHeader news{.token = 3, .tag = {Channel::members, MembersKind::failure_notice}, .detail = 2};
        set_.message(kPeer, encode(news), {}, 0);
    });
    set.groups.poll();
    EXPECT_EQ(set.wire->sent.size(), 1U);
}

TEST(TransportSet, WhatCannotBeSentToStrangersIsBounded) {
    Set set;
    set.wire->answer = transport::SendStatus::again;
    set.hear([](transport::Receiver& set_) {
        for (int i = 0; i < 1000; ++i)
            say(set_, 7, 0);
    });
    set.wire->answer = transport::SendStatus::sent;
    set.groups.poll();
    EXPECT_EQ(set.wire->sent.size(), kRanks);
}

TEST(TransportSet, WhatIsKeptForAGroupThatMayComeIsBounded) {
    constexpr std::size_t kMostEarly = 65536;
    Set set;
    set.groups.expect_group();
    set.hear([](transport::Receiver& set_) {
        for (std::size_t i = 0; i < kMostEarly + 1000; ++i)
            say(set_, 2, 1);
    });
    set.groups.attach(2, set.second);
    EXPECT_EQ(set.second.heard.size(), kMostEarly);
}

TEST(TransportSet, HeedsTheLaunchersReports) {
    Set set;
    set.groups.attach(2, set.second);
    set.groups.directory().take(kPeer, 0);
    set.report(kPeer);
    EXPECT_EQ(set.first.failed, std::vector{kPeer});
    EXPECT_EQ(set.second.failed, std::vector{kPeer});
    SomeGroup later;
    set.groups.attach(3, later);
    EXPECT_EQ(later.failed, std::vector{kPeer});
    set.report(kPeer);
    EXPECT_EQ(set.first.failed, std::vector{kPeer});
}

// A rank that is alone in its group, or whose peers died before it met them, has no transport. Its progress thread may sleep long.
TEST(TransportSet, MissesNothingWithoutTransports) {
    TransportSet alone(1);
    EXPECT_FALSE(alone.arm().unheard);
    EXPECT_TRUE(alone.arm().complete);
}

TEST(TransportSet, TransportsThatHaveNothingToSleepOnGoUnheard) {
    Set set;
    EXPECT_TRUE(set.groups.arm().unheard);
    const SomeReports quiet;
    set.wire->sleeps_on = quiet.descriptor();
    EXPECT_FALSE(set.groups.arm().unheard);
    set.groups.add(std::make_unique<Wire>());
    EXPECT_TRUE(set.groups.arm().unheard) << "one of two is heard";
    EXPECT_EQ(set.groups.arm().descriptor, -1);
}

TEST(TransportSet, IsWokenByAReport) {
    Set set;
    set.groups.directory().take(kPeer, 0);
    const SomeReports quiet;
    set.wire->sleeps_on = quiet.descriptor();
    set.report(kPeer);
    pollfd entry{.fd = set.groups.arm().descriptor, .events = POLLIN, .revents = 0};
    ASSERT_GE(entry.fd, 0);
    EXPECT_EQ(::poll(&entry, 1, 0), 0);
    set.reports->say(Rank(1));
    EXPECT_EQ(::poll(&entry, 1, 0), 1);
}

TEST(TransportSet, KeepsAPeacefulLeaveWhateverTheLauncherSays) {
    Set set;
    set.groups.directory().take(kPeer, 0);
    set.hear([](transport::Receiver& receiver) { receiver.peer_left(kPeer); });
    set.report(kPeer);
    EXPECT_TRUE(set.first.failed.empty());
}

}  // namespace
}  // namespace coppice::engine
