// The detector's rules, one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "hosts.hpp"
#include "protocol/detector/detector.hpp"

namespace coppice::protocol {
namespace {

using Kind = DetectorKind;

constexpr Nanoseconds kPeriod{100};
constexpr Nanoseconds kBound{400};

std::vector<DetectorMessage> all_sends(Detector& detector, Nanoseconds now = Nanoseconds(0)) {
    std::vector<DetectorMessage> all;
    while (const auto next = detector.next_send(now))
        all.push_back(*next);
    return all;
}

std::set<std::uint32_t> told_of(const std::vector<DetectorMessage>& messages, std::uint32_t about) {
    std::set<std::uint32_t> told;
    for (const DetectorMessage& message : messages) {
        if (message.kind == Kind::notice && message.about.value == about) told.insert(message.to.value);
    }
    return told;
}

std::vector<std::uint32_t> failures_of(Detector& detector) {
    std::vector<std::uint32_t> ranks;
    while (const auto rank = detector.next_failed())
        ranks.push_back(rank->value);
    return ranks;
}

class Alone : public ::testing::Test {
  protected:
    Detector make(std::uint32_t self, const std::vector<std::uint32_t>& hosts, bool beats = false) {
        nodes_ = std::make_unique<topology::Nodes>(hosts_of(hosts));
        DetectorPlan plan{.nodes = nodes_.get()};
        if (beats) {
            plan.period = kPeriod;
            plan.bound = kBound;
        }
        return Detector(plan, Rank(self));
    }
    Detector flat(std::uint32_t self, std::uint32_t ranks, bool beats = false) {
        return make(self, std::vector<std::uint32_t>(ranks, 1), beats);
    }
    std::unique_ptr<topology::Nodes> nodes_;
};

TEST_F(Alone, ObserversFormOneRingThroughAllRanks) {
    for (const auto& hosts :
         std::vector<std::vector<std::uint32_t>>{{1}, {2}, {4}, {1, 1, 1}, {2, 2}, {3, 1, 2}, {1, 4}}) {
        std::map<std::uint32_t, std::uint32_t> next;
        const std::uint32_t ranks = hosts_of(hosts).ranks();
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            const Detector detector = make(rank, hosts);
            if (const auto observed = detector.observed()) next[rank] = observed->value;
        }
        if (ranks == 1) {
            EXPECT_TRUE(next.empty());
            continue;
        }
        std::uint32_t at = 0;
        std::set<std::uint32_t> seen;
        while (seen.insert(at).second) {
            const Detector observed = make(next[at], hosts);
            EXPECT_EQ(observed.observer(), Rank(at));
            at = next[at];
        }
        EXPECT_EQ(seen.size(), ranks);
        EXPECT_EQ(at, 0U);
    }
}

TEST_F(Alone, NeighboursOnTheRingDoNotShareAHostWhereHostsAreEqual) {
    for (std::uint32_t rank = 0; rank < 12; ++rank) {
        const Detector detector = make(rank, {4, 4, 4});
        EXPECT_NE(nodes_->node_of(*detector.observed()), nodes_->node_of(Rank(rank)));
    }
}

TEST_F(Alone, ALostHostIsGapsOfOne) {
    for (std::uint32_t rank = 0; rank < 16; ++rank) {
        Detector detector = make(rank, {4, 4, 4, 4});
        if (nodes_->node_of(Rank(rank)) == 2) continue;
        const Rank before = *detector.observed();
        for (std::uint32_t dead = 8; dead < 12; ++dead)
            detector.peer_failed(Rank(dead));
        // The rank that observed the lost host observes the next one, in the same row; no other is concerned.
        EXPECT_EQ(detector.observed(), nodes_->node_of(before) == 2 ? Rank(before.value + 4) : before);
    }
}

TEST_F(Alone, WhatIsObservedIsWatched) {
    Detector detector = flat(0, 4);
    EXPECT_EQ(all_sends(detector), (std::vector<DetectorMessage>{{Kind::watch, Rank(0), Rank(1), Rank(1)}}));
    detector.peer_failed(Rank(1));
    const auto sends = all_sends(detector);
    EXPECT_EQ(sends.back(), (DetectorMessage{Kind::watch, Rank(0), Rank(2), Rank(2)}));
    EXPECT_EQ(detector.next_timer(), kNever);
}

TEST_F(Alone, SeveralDeathsAtOnceAreEachTold) {
    Detector detector = flat(0, 16);
    FailedSet dead;
    for (const std::uint32_t rank : {3U, 4U, 9U, 12U})
        dead.insert(rank);
    detector.peers_failed(dead);
    const auto sends = all_sends(detector);
    for (const std::uint32_t rank : {3U, 4U, 9U, 12U})
        EXPECT_FALSE(told_of(sends, rank).empty()) << rank;
    EXPECT_TRUE(failures_of(detector).empty()) << "this rank's driver has told it";
    EXPECT_FALSE(detector.peer_failed(Rank(9))) << "known";
}

TEST_F(Alone, ADeathIsToldToLogarithmicallyMany) {
    for (const std::uint32_t ranks : {2U, 3U, 8U, 100U, 1000U}) {
        Detector detector = flat(0, ranks);
        std::uint32_t log = 0;
        while ((1U << log) < ranks)
            ++log;
        EXPECT_TRUE(detector.peer_failed(Rank(ranks - 1)));
        EXPECT_FALSE(detector.peer_failed(Rank(ranks - 1)));
        const auto first = all_sends(detector);
        EXPECT_LE(told_of(first, ranks - 1).size(), 2 * log) << ranks;
        EXPECT_FALSE(told_of(first, ranks - 1).contains(ranks - 1));
        EXPECT_TRUE(failures_of(detector).empty());
        // The next one is told to as many, and the first not again, except to a rank that takes a place.
        detector.peer_failed(Rank(ranks / 2));
        const auto second = all_sends(detector);
        EXPECT_LE(told_of(second, ranks / 2).size(), 2 * log) << ranks;
        EXPECT_LE(told_of(second, ranks - 1).size(), 2U) << ranks;
    }
}

// Without 3 the place one to the left is 2's, and so is the one two to the right.
TEST_F(Alone, ALeaderInTwoPlacesIsToldOnce) {
    Detector detector = flat(0, 4);
    detector.peer_failed(Rank(3));
    std::vector<std::uint32_t> told;
    for (const DetectorMessage& message : all_sends(detector)) {
        if (message.kind == Kind::notice) told.push_back(message.to.value);
    }
    EXPECT_EQ(told, (std::vector<std::uint32_t>{1, 2}));
}

TEST_F(Alone, NewsGoesRoundInLogarithmicallyManySteps) {
    constexpr std::uint32_t kRanks = 1000;
    std::vector<Detector> all;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
        all.push_back(flat(rank, kRanks));
    const topology::Nodes nodes = hosts_of(std::vector<std::uint32_t>(kRanks, 1));
    all.clear();
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
        all.emplace_back(DetectorPlan{.nodes = &nodes}, Rank(rank));
    all[16].peer_failed(Rank(17));
    std::uint32_t steps = 0;
    for (std::size_t knowing = 1; knowing < kRanks - 1; ++steps) {
        ASSERT_LT(steps, 11U);  // ⌈log2 P⌉, and one for what was sent to the dead one
        std::vector<DetectorMessage> sent;
        for (Detector& one : all) {
            for (const DetectorMessage& message : all_sends(one))
                sent.push_back(message);
        }
        for (const DetectorMessage& message : sent) {
            if (message.kind == Kind::notice && message.to != Rank(17)) all[message.to.value].receive(message);
        }
        knowing = static_cast<std::size_t>(
            std::ranges::count_if(all, [](Detector& one) { return one.failed().contains(17); }));
    }
}

TEST_F(Alone, OnlyTheLeaderOfAHostTellsOthers) {
    Detector second = make(1, {2, 2, 2});
    second.peer_failed(Rank(4));
    EXPECT_TRUE(told_of(all_sends(second), 4).empty());
    // It stands in: now everything is to be told, to the leaders.
    second.peer_failed(Rank(0));
    const auto sends = all_sends(second);
    EXPECT_EQ(told_of(sends, 4), (std::set<std::uint32_t>{2, 5}));
    EXPECT_EQ(told_of(sends, 0), (std::set<std::uint32_t>{2, 5}));
}

TEST_F(Alone, ANewLeaderOfANeighbourIsToldEverything) {
    Detector detector = make(0, {1, 2, 1});
    detector.peer_failed(Rank(3));
    EXPECT_EQ(told_of(all_sends(detector), 3), (std::set<std::uint32_t>{1}));
    detector.peer_failed(Rank(1));
    const auto sends = all_sends(detector);
    EXPECT_EQ(told_of(sends, 3), (std::set<std::uint32_t>{2}));
    EXPECT_EQ(told_of(sends, 1), (std::set<std::uint32_t>{2}));
}

TEST_F(Alone, WhatANoticeSaysIsHandedOutAndPassedOn) {
    Detector detector = flat(2, 5);
    all_sends(detector);
    EXPECT_TRUE(detector.receive({Kind::notice, Rank(1), Rank(2), Rank(4)}));
    EXPECT_TRUE(detector.receive({Kind::notice, Rank(0), Rank(2), Rank(4)}));
    EXPECT_EQ(failures_of(detector), (std::vector<std::uint32_t>{4}));
    EXPECT_TRUE(failures_of(detector).empty());
    EXPECT_FALSE(told_of(all_sends(detector), 4).empty());
    EXPECT_FALSE(detector.receive({Kind::notice, Rank(1), Rank(2), Rank(5)}));
    EXPECT_FALSE(detector.receive({Kind::notice, Rank(2), Rank(2), Rank(3)}));
    EXPECT_FALSE(detector.receive({Kind::watch, Rank(1), Rank(2), Rank(3)}));
}

TEST_F(Alone, ARankThatIsTakenForDeadSaysNothingMore) {
    Detector detector = flat(1, 3, true);
    EXPECT_TRUE(detector.receive({Kind::notice, Rank(0), Rank(1), Rank(1)}));
    EXPECT_TRUE(detector.fenced());
    EXPECT_TRUE(all_sends(detector, Nanoseconds(1000)).empty());
    EXPECT_EQ(detector.next_timer(), kNever);
    EXPECT_TRUE(failures_of(detector).empty());
}

TEST_F(Alone, ARankThatGivesUpTellsOthersThatItFailed) {
    Detector detector = make(1, {2, 2});
    all_sends(detector);
    detector.give_up();
    EXPECT_EQ(told_of(all_sends(detector), 1), (std::set<std::uint32_t>{2}));
}

TEST_F(Alone, ARankThatLeftInPeaceIsNobodysToObserveAndNotToldOf) {
    Detector detector = flat(0, 3, true);
    all_sends(detector);
    detector.peer_left(Rank(1));
    EXPECT_EQ(detector.observed(), Rank(2));
    for (const DetectorMessage& message : all_sends(detector, Nanoseconds(50)))
        EXPECT_NE(message.kind, Kind::notice);
    detector.peer_left(Rank(2));
    EXPECT_EQ(detector.observed(), std::nullopt);
    all_sends(detector, Nanoseconds(100'000));
    EXPECT_TRUE(detector.failed().empty());
}

TEST_F(Alone, ABeatGoesToTheObserverOnceAPeriod) {
    Detector detector = flat(1, 3, true);
    std::uint32_t beats = 0;
    for (std::uint64_t now = 0; now < 1000; now += 10) {
        detector.heard(Rank(2));
        for (const DetectorMessage& message : all_sends(detector, Nanoseconds(now))) {
            if (message.kind != Kind::heartbeat) continue;
            EXPECT_EQ(message.to, Rank(0));
            ++beats;
        }
        EXPECT_GT(detector.next_timer(), Nanoseconds(now));
    }
    EXPECT_EQ(beats, 10U);
}

TEST_F(Alone, SilenceOfTheBoundIsAFailureAndOfLessIsNone) {
    Detector detector = flat(0, 3, true);
    detector.heard(Rank(1));
    for (std::uint64_t now = 0; now < kBound.value; now += 10)
        all_sends(detector, Nanoseconds(now));
    EXPECT_TRUE(detector.failed().empty());
    const auto sends = all_sends(detector, kBound);
    EXPECT_EQ(failures_of(detector), (std::vector<std::uint32_t>{1}));
    EXPECT_EQ(told_of(sends, 1), (std::set<std::uint32_t>{2}));
    EXPECT_EQ(detector.observed(), Rank(2));
}

TEST_F(Alone, WithoutABoundSilenceMeansNothing) {
    Detector detector = flat(0, 3);
    all_sends(detector, Nanoseconds(0));
    EXPECT_TRUE(all_sends(detector, Nanoseconds(3'600'000'000'000)).empty());
    EXPECT_TRUE(detector.failed().empty());
}

TEST_F(Alone, AnAdoptedRankHasTwoBoundsAndHearsOfTheDeathsBetween) {
    Detector detector = flat(0, 4, true);
    detector.heard(Rank(1));
    all_sends(detector, Nanoseconds(0));
    detector.peer_failed(Rank(1));
    detector.peer_failed(Rank(2));
    const auto sends = all_sends(detector, Nanoseconds(0));
    EXPECT_TRUE(told_of(sends, 1).contains(3));
    EXPECT_TRUE(told_of(sends, 2).contains(3));
    for (std::uint64_t now = 0; now < 2 * kBound.value; now += 10)
        all_sends(detector, Nanoseconds(now));
    EXPECT_FALSE(detector.failed().contains(3));
    all_sends(detector, Nanoseconds(2 * kBound.value));
    EXPECT_TRUE(detector.failed().contains(3));
}

// Not only from leaders, which tell those in such places anyway.
TEST_F(Alone, ARankThatIsAdoptedByOneThatDoesNotLeadHearsOfTheDeathsBetween) {
    Detector detector = make(1, {2, 2, 2, 2}, true);  // 0 leads here; 1 observes 3, 5, 7
    EXPECT_EQ(detector.observed(), Rank(3));
    all_sends(detector, Nanoseconds(0));
    detector.peer_failed(Rank(3));
    detector.peer_failed(Rank(5));
    const auto sends = all_sends(detector, Nanoseconds(0));
    EXPECT_EQ(told_of(sends, 3), std::set<std::uint32_t>{7});
    EXPECT_EQ(told_of(sends, 5), std::set<std::uint32_t>{7});
}

// Two seconds in which this rank did not look are one period of silence, so that beats that wait to be read are in
// time.
TEST_F(Alone, TheOwnAbsenceIsNotHeldAgainstOthers) {
    Detector detector = flat(0, 3, true);
    detector.heard(Rank(1));
    all_sends(detector, Nanoseconds(0));
    std::uint64_t now = 2'000'000;
    all_sends(detector, Nanoseconds(now));
    EXPECT_TRUE(detector.failed().empty());
    for (std::uint64_t end = now + kBound.value - kPeriod.value; now < end; now += 10)
        all_sends(detector, Nanoseconds(now));
    EXPECT_TRUE(detector.failed().empty());
    all_sends(detector, Nanoseconds(now));
    EXPECT_TRUE(detector.failed().contains(1));
}

TEST_F(Alone, ARankWhoseMemoryCanBeReadIsNotSuspectedHoweverSilent) {
    Detector detector = flat(0, 3, true);
    std::uint32_t probes = 0;
    for (std::uint64_t now = 0; now < 100 * kBound.value; now += 10) {
        for (const DetectorMessage& message : all_sends(detector, Nanoseconds(now))) {
            if (message.kind != Kind::probe) continue;
            EXPECT_EQ(message.to, Rank(1));
            ++probes;
            detector.heard(message.to);
        }
    }
    EXPECT_TRUE(detector.failed().empty());
    EXPECT_GT(probes, 100U);
    EXPECT_LE(probes, 400U);
}

TEST_F(Alone, OnlyWhatComesFromTheObservedRankBreaksItsSilence) {
    Detector detector = flat(0, 4, true);
    for (std::uint64_t now = 0; now <= 2 * kBound.value; now += 10) {
        detector.heard(Rank(2));
        EXPECT_TRUE(detector.receive({Kind::heartbeat, Rank(3), Rank(0), Rank(0)}));
        all_sends(detector, Nanoseconds(now));
    }
    EXPECT_EQ(failures_of(detector), (std::vector<std::uint32_t>{1}));
}

}  // namespace
}  // namespace coppice::protocol
