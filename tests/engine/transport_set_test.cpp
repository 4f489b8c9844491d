// When a rank that one group takes for dead is cut off from all groups that share the transports; and what is left of a process
// whose seat another one takes.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "engine/router.hpp"
#include "engine/transport_set.hpp"

namespace coppice::engine {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr Rank kPeer{2};

// Notes which ranks it is to cut off.
class Wire final : public transport::Transport {
  public:
    std::vector<Rank> fenced;
    std::vector<Rank> forgotten;
    transport::SendStatus answer = transport::SendStatus::sent;
    std::vector<Rank> sent_to;
    std::vector<WireHeader> sent;
    std::function<void(transport::Receiver&)> next_poll;

    const transport::Capabilities& capabilities() const override { return capabilities_; }
    transport::Counters counters() const override { return {}; }
    std::vector<std::byte> address() const override { return {}; }
    Result<void> add_peer(Rank, std::span<const std::byte>) override { return {}; }
    void watch(Rank) override {}
    transport::SendStatus send(Rank to, std::span<const std::byte> header, std::span<const std::byte>,
                               std::uint32_t*) override {
        if (answer != transport::SendStatus::sent) return answer;
        sent_to.push_back(to);
        std::memcpy(&sent.emplace_back(), header.data(), header.size());
        return answer;
    }
    transport::SendStatus write(Rank, std::span<const std::byte>, std::span<const std::byte>, std::uint32_t*) override {
        return transport::SendStatus::sent;
    }
    std::size_t poll(transport::Receiver& receiver) override {
        if (next_poll) std::exchange(next_poll, nullptr)(receiver);
        return 0;
    }
    void release(transport::Buffer) override {}
    void fence(Rank peer) override { fenced.push_back(peer); }
    void forget(Rank peer) override { forgotten.push_back(peer); }
    bool leave() override { return true; }

  private:
    transport::Capabilities capabilities_{"wire", false, 0, transport::kMaxPayload};
};

class SomeGroup final : public SetUser {
  public:
    std::set<Rank> dead;  // or gone
    std::set<Rank> vacated;
    std::vector<Rank> heard;
    std::uint32_t last_epoch = UINT32_MAX;

    bool is_done_with(Rank there) const override { return dead.contains(there); }
    bool message(Rank from, std::span<const std::byte>, std::span<const std::byte>, transport::Buffer) override {
        heard.push_back(from);
        return false;
    }
    void peer_failed(Rank peer, transport::FailureCause) override { dead.insert(peer); }
    void peer_left(Rank peer) override { dead.insert(peer); }
    void seat_vacated(Rank seat) override { vacated.insert(seat); }
    bool may_precede(Epoch epoch) const override { return epoch.value > last_epoch; }
    void fenced(Rank) override {}
    void alive(Rank) override {}
};

struct Set {
    TransportSet groups{kRanks};
    Wire* wire = nullptr;
    SomeGroup first;
    SomeGroup second;

    Set() {
        auto made = std::make_unique<Wire>();
        wire = made.get();
        const std::uint8_t index = groups.add(std::move(made));
        for (std::uint32_t peer = 0; peer < kRanks; ++peer)
            groups.route(Rank(peer), index);
        groups.attach(1, first);
    }
    void suspect(SomeGroup& group) {
        group.dead.insert(kPeer);
        groups.fence(kPeer);
    }
    // What the wire has to say is heard.
    void hear(std::function<void(transport::Receiver&)> what) {
        wire->next_poll = std::move(what);
        groups.poll();
    }
    bool is_cut_off() const { return wire->fenced == std::vector<Rank>{kPeer}; }
};

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
    EXPECT_EQ(set.wire->forgotten, std::vector<Rank>{kPeer});
    EXPECT_EQ(set.groups.to(kPeer), nullptr);
    EXPECT_EQ(set.first.vacated, std::set<Rank>{kPeer});
    EXPECT_EQ(set.second.vacated, std::set<Rank>{kPeer});
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
    EXPECT_EQ(other.wire->forgotten, std::vector<Rank>{kPeer});
}

TEST(TransportSet, ASeatThatWasNeverTakenCanBeHad) {
    TransportSet groups(kRanks);
    EXPECT_TRUE(groups.vacate(kPeer));
}

TEST(TransportSet, NoDeathOfAnEarlierHolderIsToldToLaterGroups) {
    Set set;
    set.hear([](transport::Receiver& set_) {
        set_.peer_failed(kPeer, transport::FailureCause::obituary);
        set_.peer_left(Rank(3));
    });
    set.groups.attach(2, set.second);
    EXPECT_EQ(set.second.dead, (std::set<Rank>{kPeer, Rank(3)}));
    ASSERT_TRUE(set.groups.vacate(kPeer));
    ASSERT_TRUE(set.groups.vacate(Rank(3)));
    SomeGroup third;
    set.groups.attach(3, third);
    EXPECT_TRUE(third.dead.empty());
    set.hear([](transport::Receiver& set_) { set_.peer_failed(kPeer, transport::FailureCause::obituary); });
    EXPECT_EQ(third.dead, std::set<Rank>{kPeer}) << "the later holder has died, too";
    EXPECT_FALSE(set.groups.vacate(Rank(3))) << "the third group may hear of its holder";
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
        for (const Rank from : {kPeer, Rank(3)})
            set_.message(from, encode(header), {}, 0);
    });
    set.first.dead.insert(kPeer);
    ASSERT_TRUE(set.groups.vacate(kPeer));
    set.groups.route(kPeer, 0);
    set.wire->answer = transport::SendStatus::sent;
    set.groups.poll();
    EXPECT_EQ(set.wire->sent_to, std::vector<Rank>{Rank(3)});
}

TEST(TransportSet, AProcessThatIsTakenForDeadIsDeadToAllGroupsAtOnce) {
    Set set;
    set.groups.attach(2, set.second);
    set.groups.expect_group();  // in which it would be waited for
    set.groups.take_for_dead(kPeer);
    EXPECT_TRUE(set.is_cut_off());
    EXPECT_EQ(set.first.dead, std::set<Rank>{kPeer});
    EXPECT_EQ(set.second.dead, std::set<Rank>{kPeer});
    SomeGroup third;
    set.groups.attach(3, third);
    EXPECT_EQ(third.dead, std::set<Rank>{kPeer});
}

TEST(TransportSet, AProcessThatHasLeftInPeaceIsNotTakenForDead) {
    Set set;
    set.hear([](transport::Receiver& set_) { set_.peer_left(kPeer); });
    set.groups.take_for_dead(kPeer);
    EXPECT_TRUE(set.wire->fenced.empty());
}

void say(transport::Receiver& set, std::uint32_t token, std::uint32_t epoch) {
    const WireHeader header{.token = token, .tag = {Channel::members, MembersKind::heartbeat}, .epoch = epoch};
    set.message(kPeer, encode(header), {}, 0);
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
    set.groups.attach(2, set.second);
    EXPECT_EQ(set.second.heard, std::vector<Rank>{kPeer});
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
    Set set;
    set.hear([](transport::Receiver& set_) {
        const WireHeader farewell{.token = 7, .tag = {Channel::members, MembersKind::left}};
        set_.message(kPeer, encode(farewell), {}, 0);
    });
    set.groups.poll();
    EXPECT_TRUE(set.wire->sent.empty()) << "two that have left would answer each other for ever";
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

TEST(TransportSet, WhatAnEarlierHolderSaidTooEarlyIsHeardByNobody) {
    Set set;
    set.first.last_epoch = 0;
    set.hear([](transport::Receiver& set_) { say(set_, 2, 1); });
    set.first.dead.insert(kPeer);
    ASSERT_TRUE(set.groups.vacate(kPeer));
    set.groups.attach(2, set.second);
    EXPECT_TRUE(set.second.heard.empty());
}

TEST(Router, RanksMayHaveTheirSeatsInAnyOrder) {
    const auto transport_set = std::make_shared<TransportSet>(6);
    Router router(transport_set, {Rank(4), Rank(0), Rank(5)});
    EXPECT_EQ(router.set_rank(Rank(0)), Rank(4));
    EXPECT_EQ(router.own_rank(Rank(0)), Rank(1));
    EXPECT_EQ(router.own_rank(Rank(5)), Rank(2));
    EXPECT_FALSE(router.own_rank(Rank(1)));
    EXPECT_FALSE(router.own_rank(Rank(6)));
}

TEST(Router, ASeatBehindTheFirstGroupsIsNoMembers) {
    const auto transport_set = std::make_shared<TransportSet>(6);
    const Router router(transport_set, 4);
    EXPECT_EQ(router.own_rank(Rank(3)), Rank(3));
    EXPECT_FALSE(router.own_rank(Rank(4)));
}

TEST(Router, AMemberWhoseSeatIsGivenUpIsOutOfReach) {
    const auto transport_set = std::make_shared<TransportSet>(6);
    const std::uint8_t index = transport_set->add(std::make_unique<Wire>());
    for (std::uint32_t seat = 0; seat < 6; ++seat)
        transport_set->route(Rank(seat), index);
    for (Router router : {Router(transport_set, 4), Router(transport_set, {Rank(3), Rank(1), Rank(2), Rank(0)})}) {
        const Rank lost = *router.own_rank(kPeer);
        router.give_up(kPeer);
        router.give_up(kPeer);
        EXPECT_FALSE(router.to(lost));
        EXPECT_FALSE(router.own_rank(kPeer));
        for (const std::uint32_t seat : {0U, 1U, 3U}) {
            ASSERT_TRUE(router.own_rank(Rank(seat)));
            EXPECT_EQ(router.set_rank(*router.own_rank(Rank(seat))), Rank(seat));
            EXPECT_TRUE(router.to(*router.own_rank(Rank(seat))));
        }
        router.fence(lost);  // of nobody
    }
}

}  // namespace
}  // namespace coppice::engine
