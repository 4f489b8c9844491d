// When a rank that one group takes for dead is cut off from all groups that share the transports; and what is left of a process
// whose seat another one takes.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/router.hpp"
#include "engine/transport_set.hpp"
#include "transport/board.hpp"

namespace coppice::engine {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr Seat kPeer{2};

// Notes which ranks it is to cut off.
class Wire final : public transport::Transport {
  public:
    std::vector<Seat> fenced;
    std::vector<Seat> forgotten;
    transport::SendStatus answer = transport::SendStatus::sent;
    std::vector<Seat> sent_to;
    std::vector<WireHeader> sent;
    std::function<void(transport::Receiver&)> next_poll;
    int sleeps_on = -1;

    const transport::Capabilities& capabilities() const override { return capabilities_; }
    transport::Counters counters() const override { return {}; }
    std::vector<std::byte> address() const override { return {}; }
    Result<void> add_peer(Seat, std::span<const std::byte>) override { return {}; }
    void watch(Seat) override {}
    transport::SendStatus send(Seat to, std::span<const std::byte> header, std::span<const std::byte>,
                               std::uint32_t*) override {
        if (answer != transport::SendStatus::sent) return answer;
        sent_to.push_back(to);
        std::memcpy(&sent.emplace_back(), header.data(), header.size());
        return answer;
    }
    transport::SendStatus write(Seat, std::span<const std::byte>, std::span<const std::byte>, std::uint32_t*) override {
        return transport::SendStatus::sent;
    }
    std::size_t poll(transport::Receiver& receiver) override {
        if (next_poll) std::exchange(next_poll, nullptr)(receiver);
        return 0;
    }
    int arm() override { return sleeps_on; }
    void release(transport::Buffer) override {}
    void fence(Seat peer) override { fenced.push_back(peer); }
    void forget(Seat peer) override { forgotten.push_back(peer); }
    bool leave() override { return true; }

  private:
    transport::Capabilities capabilities_{.name = "wire", .inline_size = transport::kMaxPayload};
};

class SomeGroup final : public SetUser {
  public:
    std::set<Seat> dead;  // or gone
    std::set<Seat> vacated;
    std::vector<Seat> heard;
    std::vector<Seat> failed;
    std::uint32_t last_epoch = UINT32_MAX;

    bool is_done_with(Seat there) const override { return dead.contains(there); }
    bool message(Seat from, std::span<const std::byte>, std::span<const std::byte>, transport::Buffer) override {
        heard.push_back(from);
        return false;
    }
    void peer_failed(Seat peer, transport::FailureCause) override {
        dead.insert(peer);
        failed.push_back(peer);
    }
    void peer_left(Seat peer) override { dead.insert(peer); }
    void seat_vacated(Seat seat) override { vacated.insert(seat); }
    bool may_precede(Epoch epoch) const override { return epoch.value > last_epoch; }
    void fenced(Seat) override {}
    void alive(Seat) override {}
};

// What a launcher says of deaths.
class SomeReports final : public bootstrap::Reports {
  public:
    SomeReports() : bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
    ~SomeReports() override { ::close(bell_); }
    SomeReports(const SomeReports&) = delete;
    SomeReports& operator=(const SomeReports&) = delete;
    int descriptor() const override { return bell_; }
    std::vector<Rank> take() override {
        std::uint64_t rung = 0;
        if (::read(bell_, &rung, sizeof rung) != sizeof rung) return {};
        return std::exchange(news_, {});
    }
    void say(Rank rank) {
        news_.push_back(rank);
        const std::uint64_t one = 1;
        if (::write(bell_, &one, sizeof one) != sizeof one) throw std::runtime_error("no bell");
    }

  private:
    int bell_;
    std::vector<Rank> news_;
};

struct Set {
    TransportSet groups{kRanks};
    Wire* wire = nullptr;
    SomeReports* reports = nullptr;
    SomeGroup first;
    SomeGroup second;

    Set() {
        auto made = std::make_unique<Wire>();
        wire = made.get();
        const std::uint8_t index = groups.add(std::move(made));
        for (std::uint32_t peer = 0; peer < kRanks; ++peer)
            groups.route(Seat(peer), index);
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
    // Of the launcher's word for a death.
    void report(Seat peer) {
        if (reports == nullptr) {
            auto made = std::make_unique<SomeReports>();
            reports = made.get();
            groups.heed(std::move(made));
        }
        reports->say(Rank(peer.value));
        groups.arm();
        groups.poll();
    }
    bool is_cut_off() const { return wire->fenced == std::vector<Seat>{kPeer}; }
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

void say(transport::Receiver& set, std::uint32_t token, std::uint32_t epoch) {
    const WireHeader header{.token = token, .tag = {Channel::members, MembersKind::failure_notice}, .epoch = epoch};
    set.message(kPeer, encode(header), {}, 0);
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
static_assert(!std::is_invocable_v<decltype(&TransportSet::to), const TransportSet&, Rank>);
static_assert(!std::is_invocable_v<decltype(&TransportSet::fence), TransportSet&, Rank>);
static_assert(!std::is_invocable_v<decltype(&Router::to), const Router&, Seat>);
static_assert(!std::is_invocable_v<decltype(&Router::seat_of), const Router&, Seat>);
static_assert(!std::is_invocable_v<decltype(&Router::rank_at), const Router&, Rank>);
static_assert(!std::is_invocable_v<decltype(&transport::Transport::fence), transport::Transport&, Rank>);
static_assert(!std::is_invocable_v<decltype(&transport::Board::alive), const transport::Board&, Seat>);
static_assert(!std::is_assignable_v<decltype((Origin::seat)), Rank>);

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

TEST(TransportSet, SparesTheLaterHolderOfASeatAReportOfTheEarlierOne) {
    Set set;
    set.groups.directory().take(kPeer, 1);
    set.report(kPeer);
    set.groups.directory().vacate(kPeer);
    set.report(kPeer);
    EXPECT_TRUE(set.first.failed.empty());
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
