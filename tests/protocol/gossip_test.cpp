// Gossip and its corrections at single members, and among members whose messages arrive in any order.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <type_traits>
#include <vector>

#include "any_order.hpp"
#include "protocol/baselines/binomial_graph.hpp"
#include "protocol/baselines/failure_proof_gossip.hpp"
#include "protocol/baselines/gossip.hpp"
#include "protocol/baselines/names.hpp"
#include "support/allocations.hpp"

namespace coppice::protocol::testing {
namespace {

static_assert(Machine<Gossip>);
static_assert(std::is_trivially_copyable_v<Gossip> && std::has_unique_object_representations_v<Gossip>);

constexpr auto kGossip = GossipMessageKind::gossip;
constexpr auto kLeft = GossipMessageKind::correction_left;
constexpr auto kRight = GossipMessageKind::correction_right;

GossipPlan plan_of(std::string_view text, std::uint32_t processes, std::uint32_t hop = 0) {
    GossipPlan plan;
    plan.processes = processes;
    plan.spec = *baselines::parse_gossip(text);
    plan.latency = 2;
    plan.overhead = 1;
    plan.hop = hop;
    return plan;
}

class Member {
  public:
    Member(std::string_view text, std::uint32_t processes, std::uint32_t self)
        : plan_(plan_of(text, processes)), machine_(plan_, Position{self}, 0, nobody_, self == 0, 1), self_(self) {}

    Gossip* operator->() { return &machine_; }
    bool receive(GossipMessageKind kind, std::uint32_t from, std::uint32_t round = 0) {
        return machine_.receive({kind, Position{from}, Position{self_}, round});
    }
    // Targets of what it sends at `now`, `now` + 1, … one message a step, for as long as it sends or waits; corrections
    // to the left as negative offsets, gossip as 1000 + its target.
    std::vector<int> sends(std::uint64_t now, std::uint64_t until) {
        std::vector<int> sent;
        for (; now < until; ++now) {
            const auto message = machine_.next_send(Nanoseconds{now});
            if (!message) {
                sent.push_back(0);
            } else if (message->kind == kGossip) {
                sent.push_back(1000 + static_cast<int>(message->to.value));
            } else {
                const int offset = static_cast<int>(message->to.value) - static_cast<int>(self_);
                const int ring = static_cast<int>(plan_.processes);
                sent.push_back(message->kind == kLeft ? -((ring - offset) % ring) : (ring + offset) % ring);
            }
        }
        return sent;
    }
    FailedSet& failed() { return nobody_; }

  private:
    FailedSet nobody_;
    GossipPlan plan_;
    Gossip machine_;
    std::uint32_t self_;
};

using Sends = std::vector<int>;

// ------------------------------------------------------------------------------------------------------ Algorithm 1

TEST(Algorithm1, GossipsUntilTAndCorrectsFromTPlusLPlusO) {
    Member root("ocg:4:3", 50, 0);
    Sends sent = root.sends(0, 13);
    for (int i = 0; i < 4; ++i)
        EXPECT_GT(sent[static_cast<std::size_t>(i)], 1000);
    sent.erase(sent.begin(), sent.begin() + 4);
    // L + O = 3 steps for what is under way, then right and left in turns.
    EXPECT_EQ(sent, (Sends{0, 0, 0, 1, -1, 2, 0, 0, 0}));
    EXPECT_TRUE(root->finished());
}

TEST(Algorithm1, SaysWhenItWantsToBeWoken) {
    Member root("ocg:1:1", 50, 0);
    EXPECT_EQ(root->next_timer(), kNever);
    EXPECT_TRUE(root->next_send(Nanoseconds{0}));
    EXPECT_FALSE(root->next_send(Nanoseconds{1}));
    EXPECT_EQ(root->next_timer(), Nanoseconds{4});
    EXPECT_FALSE(root->finished());
    EXPECT_TRUE(root->next_send(Nanoseconds{4}));
    EXPECT_FALSE(root->next_send(Nanoseconds{5}));
    EXPECT_EQ(root->next_timer(), kNever);
    EXPECT_TRUE(root->finished());
}

TEST(Algorithm1, AMemberReachedByGossipGossipsForWhatIsLeftOfT) {
    Member member("ocg:9:2", 50, 7);
    EXPECT_FALSE(member->colored());
    EXPECT_EQ(member.sends(0, 3), (Sends{0, 0, 0}));
    ASSERT_TRUE(member.receive(kGossip, 3));
    EXPECT_TRUE(member->colored());
    EXPECT_TRUE(member->gossiped());
    const Sends sent = member.sends(7, 16);
    EXPECT_GT(sent[0], 1000);
    EXPECT_GT(sent[1], 1000);
    EXPECT_EQ(Sends(sent.begin() + 2, sent.end()), (Sends{0, 0, 0, 1, -1, 0, 0}));
}

TEST(Algorithm1, AMemberReachedByACorrectionSendsNothing) {
    for (const char* spec : {"ocg:9:8", "ccg:9", "ocg:9:8:rounds", "ccg:9:rounds"}) {
        Member member(spec, 50, 7);
        ASSERT_TRUE(member.receive(kRight, 3));
        EXPECT_TRUE(member->colored());
        EXPECT_TRUE(member->finished());
        EXPECT_FALSE(member->gossiped());
        EXPECT_EQ(member.sends(12, 16), (Sends{0, 0, 0, 0}));
    }
}

TEST(Algorithm1, OnASmallRingNobodyIsSentToTwiceAndNobodyToItself) {
    Member root("ocg:1:100", 6, 0);
    EXPECT_EQ(root.sends(4, 11), (Sends{1, -1, 2, -2, 3, 0, 0}));
    Member alone("ocg:3:100", 1, 0);
    EXPECT_EQ(alone.sends(0, 9), Sends(9, 0));
    EXPECT_TRUE(alone->finished());
}

// -------------------------------------------------------------------------------------------------------------- GOS

TEST(Gos, StopsAtTAndKnowsNoCorrection) {
    Member root("gos:3", 50, 0);
    const Sends sent = root.sends(0, 6);
    EXPECT_EQ(Sends(sent.begin() + 3, sent.end()), (Sends{0, 0, 0}));
    EXPECT_TRUE(root->finished());
    EXPECT_FALSE(root.receive(kLeft, 4));
}

TEST(Gos, DrawsEverybodyElseEquallyOftenAndNeverItself) {
    for (const std::uint32_t self : {0U, 3U, 9U}) {
        Member member("gos:1000000", 10, self);
        ASSERT_TRUE(member.receive(kGossip, (self + 1) % 10));
        std::vector<int> hits(10, 0);
        for (const int one : member.sends(0, 90000))
            ++hits[static_cast<std::size_t>(one - 1000)];
        for (std::uint32_t other = 0; other < 10; ++other) {
            // 10,000 each, with a standard deviation of 94.
            EXPECT_NEAR(hits[other], other == self ? 0 : 10000, other == self ? 0 : 500) << self << " " << other;
        }
    }
}

TEST(Gos, MembersAndBroadcastsDrawFromStreamsOfTheirOwn) {
    std::set<std::vector<std::uint32_t>> seen;
    const GossipPlan plan = plan_of("gos:8", 1000);
    const FailedSet nobody;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        for (std::uint32_t self = 0; self < 20; ++self) {
            std::vector<std::uint32_t> targets;
            Gossip member(plan, Position{self}, 0, nobody, true, seed);
            for (std::uint64_t now = 0; now < 8; ++now)
                targets.push_back(member.next_send(Nanoseconds{now})->to.value);
            seen.insert(targets);
        }
    }
    EXPECT_EQ(seen.size(), 400U);
}

// ------------------------------------------------------------------------------------------------------ Algorithm 2

TEST(Algorithm2, ADirectionEndsWithTheNearestMemberHeardFromThere) {
    Member member("ccg:1", 100, 50);
    ASSERT_TRUE(member.receive(kGossip, 0));
    EXPECT_EQ(member.sends(4, 8), (Sends{1, -1, 2, -2}));
    ASSERT_TRUE(member.receive(kLeft, 54));   // from the right
    ASSERT_TRUE(member.receive(kRight, 44));  // from the left, six away
    ASSERT_TRUE(member.receive(kLeft, 57));   // farther: no matter
    EXPECT_FALSE(member->finished());
    // The closed direction's turns pass.
    EXPECT_EQ(member.sends(8, 18), (Sends{3, -3, 4, -4, 0, -5, 0, -6, 0, 0}));
    EXPECT_TRUE(member->finished());
}

TEST(Algorithm2, AClosedDirectionMayLeaveItsTurnsToTheOther) {
    const FailedSet nobody;
    GossipPlan plan = plan_of("ccg:1", 100);
    plan.gives_turns_away = true;
    Gossip member(plan, Position{50}, 0, nobody, true, 1);
    ASSERT_TRUE(member.receive({kLeft, Position{51}, Position{50}, 0}));
    ASSERT_TRUE(member.receive({kRight, Position{46}, Position{50}, 0}));
    std::vector<std::uint32_t> targets;
    for (std::uint64_t now = 4; const auto next = member.next_send(Nanoseconds{now}); ++now)
        targets.push_back(next->to.value);
    EXPECT_EQ(targets, (std::vector<std::uint32_t>{51, 49, 48, 47, 46}));
    EXPECT_TRUE(member.finished());
}

TEST(Algorithm2, WhatIsHeardBetweenTheTurnsCountsForTheNext) {
    Member member("ccg:1", 100, 50);
    ASSERT_TRUE(member.receive(kGossip, 0));
    EXPECT_EQ(member.sends(4, 5), (Sends{1}));
    ASSERT_TRUE(member.receive(kLeft, 51));
    ASSERT_TRUE(member.receive(kRight, 49));
    EXPECT_EQ(member.sends(5, 7), (Sends{-1, 0}));
    EXPECT_TRUE(member->finished());
}

// Alone among the dead it goes on until everybody has been sent to.
TEST(Algorithm2, EndsWhenEverybodyOnTheRingIsServed) {
    Member root("ccg:1", 8, 0);
    EXPECT_EQ(root.sends(4, 13), (Sends{1, -1, 2, -2, 3, -3, 4, 0, 0}));
    EXPECT_TRUE(root->finished());
}

TEST(Algorithm2, AMemberFarAwayIsRememberedToo) {
    Member member("ccg:1:rounds", 1000, 500);
    ASSERT_TRUE(member.receive(kGossip, 0, 1));
    ASSERT_TRUE(member.receive(kLeft, 600));
    ASSERT_TRUE(member.receive(kLeft, 560));
    ASSERT_TRUE(member.receive(kLeft, 580));
    ASSERT_TRUE(member.receive(kRight, 499));
    const Sends sent = member.sends(0, 100);
    EXPECT_EQ(std::count_if(sent.begin(), sent.end(), [](int to) { return to > 0; }), 60);
    EXPECT_EQ(std::count_if(sent.begin(), sent.end(), [](int to) { return to < 0; }), 1);
}

// ----------------------------------------------------------------------------------------------------------- deaths

TEST(Deaths, AMemberKnownToHaveFailedIsNotSentTo) {
    Member root("ccg:40:rounds", 6, 0);
    root.failed().insert(2);
    root.failed().insert(5);
    root->peer_failed(Position{2});
    root->peer_failed(Position{5});
    const Sends sent = root.sends(0, 44);
    for (int i = 0; i < 40; ++i) {
        EXPECT_NE(sent[static_cast<std::size_t>(i)], 1002);
        EXPECT_NE(sent[static_cast<std::size_t>(i)], 1005);
    }
    EXPECT_EQ(Sends(sent.begin() + 40, sent.end()), (Sends{1, -2, 3, 0}));
}

TEST(Deaths, ADirectionThatClosedAtTheDeadOpensAgain) {
    Member member("ccg:1:rounds", 100, 50);
    ASSERT_TRUE(member.receive(kGossip, 0, 1));
    ASSERT_TRUE(member.receive(kLeft, 52));
    ASSERT_TRUE(member.receive(kLeft, 54));
    ASSERT_TRUE(member.receive(kRight, 49));
    EXPECT_EQ(member.sends(0, 4), (Sends{1, -1, 2, 0}));
    EXPECT_TRUE(member->finished());
    member.failed().insert(52);
    member->peer_failed(Position{52});
    EXPECT_FALSE(member->finished());
    EXPECT_EQ(member.sends(0, 3), (Sends{3, 4, 0}));
    EXPECT_TRUE(member->finished());
}

TEST(Deaths, ADirectionThatClosedAtTheDeadFarAwayOpensAgain) {
    for (const bool right : {true, false}) {
        Member member("ccg:1:rounds", 1000, 500);
        ASSERT_TRUE(member.receive(kGossip, 0, 1));
        ASSERT_TRUE(member.receive(right ? kLeft : kRight, right ? 540 : 460));
        ASSERT_TRUE(member.receive(right ? kRight : kLeft, right ? 499 : 501));
        member.sends(0, 100);
        ASSERT_TRUE(member->finished());
        const std::uint32_t dead = right ? 540 : 460;
        member.failed().insert(dead);
        member->peer_failed(Position{dead});
        EXPECT_EQ(member.sends(0, 2), right ? (Sends{41, 42}) : (Sends{-41, -42}));
    }
}

TEST(Deaths, OnceTheRootIsDeadAMemberReachedByACorrectionTakesPart) {
    Member member("ccg:5:rounds", 20, 10);
    ASSERT_TRUE(member.receive(kRight, 8));
    EXPECT_TRUE(member->finished());
    member.failed().insert(0);
    member->peer_failed(Position{0});
    EXPECT_FALSE(member->finished());
    EXPECT_EQ(member.sends(0, 3), (Sends{1, -1, 2}));
}

// ----------------------------------------------------------------------------------------------------------- rounds

TEST(Rounds, GoUpByOneWithEveryMessageAndTheLastOneEndsTheGossip) {
    const GossipPlan plan = plan_of("ocg:5:2:rounds", 100);
    const FailedSet nobody;
    Gossip member(plan, Position{3}, 0, nobody, false, 9);
    ASSERT_TRUE(member.receive({kGossip, Position{0}, Position{3}, 2}));
    for (const std::uint32_t round : {3U, 4U, 5U})
        EXPECT_EQ(member.next_send(Nanoseconds{0})->round, round);
    // No waiting: clocks are not compared.
    EXPECT_EQ(member.next_send(Nanoseconds{0})->kind, kRight);
    EXPECT_EQ(member.next_send(Nanoseconds{0})->kind, kLeft);
    EXPECT_FALSE(member.next_send(Nanoseconds{0}));
    EXPECT_TRUE(member.finished());
    EXPECT_EQ(member.next_timer(), kNever);
}

TEST(Rounds, AMessageOfTheLastRoundLeadsStraightToTheCorrection) {
    for (const bool had_begun : {false, true}) {
        Member member("ocg:9:1:rounds", 100, 7);
        if (had_begun) {
            ASSERT_TRUE(member.receive(kGossip, 0, 3));
            EXPECT_GT(member.sends(0, 1)[0], 1000);
        }
        ASSERT_TRUE(member.receive(kGossip, 1, 9));
        EXPECT_EQ(member.sends(0, 2), (Sends{1, 0}));
    }
}

TEST(Rounds, AHopCostsRounds) {
    const GossipPlan plan = plan_of("gos:9:rounds", 100, 3);
    const FailedSet nobody;
    Gossip member(plan, Position{3}, 0, nobody, false, 9);
    ASSERT_TRUE(member.receive({kGossip, Position{0}, Position{3}, 2}));
    EXPECT_EQ(member.next_send(Nanoseconds{0})->round, 6U);
    Gossip late(plan, Position{3}, 0, nobody, false, 9);
    ASSERT_TRUE(late.receive({kGossip, Position{0}, Position{3}, 7}));
    EXPECT_FALSE(late.next_send(Nanoseconds{0}));
    EXPECT_TRUE(late.finished());
}

TEST(Rounds, GossipAfterACorrectionMakesItsReceiverTakePart) {
    Member member("ocg:5:2:rounds", 100, 7);
    ASSERT_TRUE(member.receive(kRight, 6));
    EXPECT_TRUE(member->finished());
    ASSERT_TRUE(member.receive(kGossip, 60, 4));
    EXPECT_FALSE(member->finished());
    const Sends sent = member.sends(0, 4);
    EXPECT_GT(sent[0], 1000);
    EXPECT_EQ(Sends(sent.begin() + 1, sent.end()), (Sends{1, -1, 0}));
}

// ---------------------------------------------------------------------------------------------------- what can't be

TEST(Garbage, IsRefused) {
    Member timed("ccg:5", 10, 3);
    EXPECT_FALSE(timed.receive(kGossip, 3));
    EXPECT_FALSE(timed.receive(kGossip, 10));
    EXPECT_FALSE(timed.receive(kGossip, 1, 1));
    EXPECT_FALSE(timed.receive(static_cast<GossipMessageKind>(3), 1));
    EXPECT_FALSE(timed->receive({kGossip, Position{1}, Position{4}, 0}));
    Member rounds("ccg:5:rounds", 10, 3);
    EXPECT_FALSE(rounds.receive(kGossip, 1, 0));
    EXPECT_FALSE(rounds.receive(kGossip, 1, 6));
    EXPECT_FALSE(rounds.receive(kLeft, 1, 1));
    EXPECT_FALSE(timed->colored());
    EXPECT_FALSE(rounds->colored());
}

// -------------------------------------------------------------------------------------------------------- any order

AnyOrder<Gossip> group(const GossipPlan& plan, std::uint64_t seed) {
    return AnyOrder<Gossip>(plan.processes, [&plan, seed](Position self, const FailedSet& failed) {
        return Gossip(plan, self, 0, failed, self.value == 0, seed);
    });
}

// Claim 3, with members dead before that nobody knows of, and phases that overlap in every way.
TEST(Claim3, CheckedReachesEveryLiveMemberIfNobodyDiesOnTheWay) {
    for (std::uint32_t seed = 1; seed <= 4000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        GossipPlan plan = plan_of("ccg:1:rounds", 2 + static_cast<std::uint32_t>(random() % 40));
        plan.spec.limit = 1 + static_cast<std::uint32_t>(random() % 8);
        plan.hop = static_cast<std::uint32_t>(random() % 3);
        AnyOrder<Gossip> world = group(plan, seed);
        const std::uint32_t one_in = 1 + static_cast<std::uint32_t>(random() % 8);
        for (std::uint32_t position = 1; position < plan.processes; ++position) {
            if (random() % one_in == 0) world.crash(position);
        }
        world.settle(random, false);
        ASSERT_EQ(world.violation(), "");
        ASSERT_TRUE(world.all_live_colored());
        ASSERT_TRUE(world.all_colored_finished());
    }
}

// What notices of deaths add to it, as for corrected trees.
TEST(LiveRoot, CheckedReachesEveryLiveMemberWhicheverOthersDieAndWhenever) {
    for (std::uint32_t seed = 1; seed <= 4000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        GossipPlan plan = plan_of("ccg:1:rounds", 2 + static_cast<std::uint32_t>(random() % 24));
        plan.spec.limit = 1 + static_cast<std::uint32_t>(random() % 6);
        AnyOrder<Gossip> world = group(plan, seed);
        const std::uint32_t one_in = 1 + static_cast<std::uint32_t>(random() % 60);
        do {
            const auto position = static_cast<std::uint32_t>(random() % plan.processes);
            if (position != 0 && random() % one_in == 0) world.crash(position);
        } while (world.step(random, true));
        ASSERT_EQ(world.violation(), "");
        ASSERT_TRUE(world.all_live_colored());
        ASSERT_TRUE(world.all_colored_finished());
    }
}

// Property IV with notices: with the root dead, too, either all live members have it in the end or none.
TEST(DeadRoot, CheckedWithNoticesIsAllOrNone) {
    std::uint32_t none = 0;
    std::uint32_t all = 0;
    for (std::uint32_t seed = 1; seed <= 4000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        GossipPlan plan = plan_of("ccg:2:rounds", 2 + static_cast<std::uint32_t>(random() % 16));
        AnyOrder<Gossip> world = group(plan, seed);
        const std::uint32_t root_lives_for = static_cast<std::uint32_t>(random() % 30);
        std::uint32_t steps = 0;
        do {
            if (steps++ == root_lives_for) world.crash(0);
            if (random() % 30 == 0) world.crash(static_cast<std::uint32_t>(random() % plan.processes));
        } while (world.step(random, true));
        world.crash(0);
        world.settle(random, true);
        ASSERT_EQ(world.violation(), "");
        std::uint32_t live = 0;
        for (std::uint32_t position = 0; position < plan.processes; ++position)
            live += world.is_dead(position) ? 0U : 1U;
        const std::uint32_t uncolored = world.live_uncolored();
        ASSERT_TRUE(uncolored == 0 || uncolored == live);
        (uncolored == 0 ? all : none) += 1;
    }
    EXPECT_GT(none, 100U);
    EXPECT_GT(all, 1000U);
}

// Claim 2 by rounds: the gap that is left, however the phases overlap, is what the corrections reach.
TEST(Claim2, OpportunisticReachesEverybodyWhereItSendsFarEnough) {
    for (std::uint32_t seed = 1; seed <= 1000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        GossipPlan plan = plan_of("ocg:1:1:rounds", 2 + static_cast<std::uint32_t>(random() % 40));
        plan.spec.limit = 1 + static_cast<std::uint32_t>(random() % 6);
        plan.spec.corrections = plan.processes - 1;
        AnyOrder<Gossip> world = group(plan, seed);
        world.settle(random, false);
        ASSERT_EQ(world.violation(), "");
        ASSERT_TRUE(world.all_live_colored());
        ASSERT_TRUE(world.all_colored_finished());
    }
}

// ------------------------------------------------------------------------------------------------------- allocation

template <class Machine>
void expect_no_allocation(Machine& machine, FailedSet& failed) {
    const std::uint64_t before = coppice::testing::allocations_so_far().objects;
    std::uint32_t sends = 0;
    for (std::uint64_t now = 0; now < 60; ++now) {
        if (machine.next_send(Nanoseconds{now})) ++sends;
    }
    machine.peer_failed(Position{7});
    for (std::uint64_t now = 60; now < 80; ++now) {
        if (machine.next_send(Nanoseconds{now})) ++sends;
    }
    EXPECT_EQ(coppice::testing::allocations_so_far().objects, before);
    EXPECT_GT(sends, 8U);
    EXPECT_TRUE(failed.contains(7));
}

TEST(Machines, AllocateNothingAfterConstruction) {
    { const auto counted = std::make_unique<int>(1); }
    EXPECT_GT(coppice::testing::allocations_so_far().objects, 0U);
    FailedSet failed;
    failed.insert(7);
    for (const char* spec : {"gos:20", "ocg:20:9", "ccg:20", "ccg:20:rounds"}) {
        SCOPED_TRACE(spec);
        const GossipPlan plan = plan_of(spec, 500);
        Gossip machine(plan, Position{3}, 0, failed, true, 1);
        expect_no_allocation(machine, failed);
    }
    const auto plan =
        make_failure_proof_gossip_plan(*baselines::parse_gossip("fcg:1:20"), {500, 500, 2, 1}, 0.1, 0, Nanoseconds{0});
    FailureProofGossip machine(*plan, Position{3}, 0, failed, true, 1);
    expect_no_allocation(machine, failed);
    BinomialGraph graph(1024, Position{3}, 0, failed, true);
    expect_no_allocation(graph, failed);
}

}  // namespace
}  // namespace coppice::protocol::testing
