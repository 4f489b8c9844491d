// Gossip by rounds as the dissemination of a Broadcast: what is promised with a tree is promised with gossip.
#include <gtest/gtest.h>

#include "promises.hpp"
#include "protocol/baselines/names.hpp"
#include "protocol/gossip_broadcast.hpp"

namespace coppice::protocol::testing {
namespace {

constexpr std::array<const char*, 9> kCorrections{"checked",
                                                  "checked:synchronized",
                                                  "delayed:3",
                                                  "opportunistic:2:synchronized",
                                                  "opportunistic:1",
                                                  "opportunistic:3",
                                                  "optimized:3",
                                                  "opportunistic:1:one-directional",
                                                  "optimized:3:one-directional"};

BroadcastPlan plan_of(std::string_view correction, std::uint32_t processes, std::uint32_t rounds,
                      std::uint32_t hop = 0) {
    return {*topology::Tree::make(*topology::parse_tree("binomial"), processes), *parse_correction(correction),
            Nanoseconds{5}, GossipRounds{rounds, hop}};
}

Drawn draw(std::mt19937& random, std::uint32_t largest) {
    const std::uint32_t processes = 2 + static_cast<std::uint32_t>(random() % (largest - 1));
    const char* correction = kCorrections[random() % kCorrections.size()];
    const auto rounds = 1 + static_cast<std::uint32_t>(random() % 6);
    return {plan_of(correction, processes, rounds, static_cast<std::uint32_t>(random() % 3)),
            static_cast<std::uint32_t>(random() % processes),
            std::to_string(rounds) + " rounds, " + correction + " P=" + std::to_string(processes)};
}

// ---------------------------------------------------------------------------------------------------------- one member

TEST(GossipDissemination, SendsOneMessageARoundThenCorrects) {
    const BroadcastPlan plan = plan_of("checked", 50, 4);
    const FailedSet nobody;
    Broadcast root(plan, Position{0}, 0, nobody, true, 7);
    for (std::uint32_t round = 1; round <= 4; ++round) {
        const auto next = root.next_send(Nanoseconds{0});
        ASSERT_TRUE(next);
        EXPECT_EQ(next->kind, MessageKind::gossip);
        EXPECT_EQ(next->detail, round);
        EXPECT_NE(next->to, Position{0});
    }
    EXPECT_EQ(root.next_send(Nanoseconds{0})->kind, MessageKind::correction_left);
}

TEST(GossipDissemination, GoesOnFromTheRoundThatColored) {
    const BroadcastPlan plan = plan_of("checked", 50, 6, 1);
    const FailedSet nobody;
    Broadcast member(plan, Position{9}, 0, nobody, false, 7);
    ASSERT_TRUE(member.receive({MessageKind::gossip, Position{3}, Position{9}, 2}));
    EXPECT_TRUE(member.colored());
    EXPECT_EQ(member.next_send(Nanoseconds{0})->detail, 4U);
    // The last round's message ends it.
    ASSERT_TRUE(member.receive({MessageKind::gossip, Position{4}, Position{9}, 6}));
    EXPECT_TRUE(is_correction(member.next_send(Nanoseconds{0})->kind));
}

TEST(GossipDissemination, AMemberColoredByACorrectionDoesNotGossipUntilItIsReachedByGossip) {
    const BroadcastPlan plan = plan_of("checked", 50, 3);
    const FailedSet nobody;
    Broadcast member(plan, Position{9}, 0, nobody, false, 7);
    ASSERT_TRUE(member.receive({MessageKind::correction_right, Position{8}, Position{9}, 0}));
    EXPECT_FALSE(member.next_send(Nanoseconds{0}));
    EXPECT_TRUE(member.finished());
    ASSERT_TRUE(member.receive({MessageKind::gossip, Position{3}, Position{9}, 1}));
    EXPECT_FALSE(member.finished());
    EXPECT_EQ(member.next_send(Nanoseconds{0})->kind, MessageKind::gossip);
    EXPECT_EQ(member.next_send(Nanoseconds{0})->kind, MessageKind::gossip);
    EXPECT_TRUE(is_correction(member.next_send(Nanoseconds{0})->kind));
}

TEST(GossipDissemination, SeedsAndMembersDrawDifferently) {
    const BroadcastPlan plan = plan_of("checked", 1000, 8);
    const FailedSet nobody;
    const auto targets = [&](std::uint32_t self, std::uint64_t seed) {
        Broadcast member(plan, Position{self}, 0, nobody, true, seed);
        std::vector<std::uint32_t> to;
        for (int i = 0; i < 8; ++i)
            to.push_back(member.next_send(Nanoseconds{0})->to.value);
        return to;
    };
    EXPECT_EQ(targets(3, 1), targets(3, 1));
    EXPECT_NE(targets(3, 1), targets(3, 2));
    EXPECT_NE(targets(3, 1), targets(4, 1));
}

TEST(GossipDissemination, RefusesWhatBelongsToATreeAndATreeWhatBelongsToGossip) {
    const BroadcastPlan plan = plan_of("checked", 50, 3);
    const FailedSet nobody;
    Broadcast member(plan, Position{8}, 0, nobody, false, 7);
    EXPECT_FALSE(member.receive({MessageKind::tree, Position{0}, Position{8}, 0}));
    EXPECT_FALSE(member.receive({MessageKind::gossip, Position{0}, Position{8}, 0}));
    EXPECT_FALSE(member.receive({MessageKind::gossip, Position{0}, Position{8}, 4}));
    EXPECT_FALSE(member.receive({MessageKind::gossip, Position{50}, Position{8}, 1}));
    BroadcastPlan tree = plan;
    tree.gossip = {};
    Broadcast other(tree, Position{8}, 0, nobody, false, 7);
    EXPECT_FALSE(other.receive({MessageKind::gossip, Position{0}, Position{8}, 1}));
    EXPECT_TRUE(other.receive({MessageKind::tree, Position{0}, Position{8}, 0}));
}

// -------------------------------------------------------------------------------------------------------- any order

TEST(GossipLiveRoot, EveryLiveMemberIsReachedWhicheverOthersDieAndWhenever) {
    expect_every_live_member_is_reached_whoever_else_dies_and_whenever(draw);
}

TEST(GossipDeadRoot, AllLiveMembersAreColoredOrAllAreTold) {
    expect_all_are_colored_or_all_are_told_when_the_root_dies(draw);
}

TEST(GossipRestart, WhatMayBeLostIsSentAgain) {
    expect_what_may_be_lost_to_be_sent_again(draw);
}

// No detector, nobody dies on the way. Everybody colored takes part in opportunistic correction: what gossip left out
// is closed however long it is, and of the dead runs of up to d are passed from both sides.
TEST(GossipUndetected, RunsOfDeadMembersWithinTheRangeAreCovered) {
    std::uint32_t tried = 0;
    for (std::uint32_t seed = 1; seed <= 6000; ++seed) {
        std::mt19937 random(seed);
        const Drawn drawn = draw(random, 24);
        SCOPED_TRACE(drawn.name + ", seed " + std::to_string(seed));
        const CorrectionSpec& correction = drawn.plan.correction;
        World world(drawn.plan, drawn.root_member, seed);
        std::uint32_t longest = 0;
        std::uint32_t run = 0;
        for (std::uint32_t position = 1; position < world.processes(); ++position) {
            if (random() % 4 == 0) world.crash(position);
            run = world.is_dead(position) ? run + 1 : 0;
            longest = std::max(longest, run);
        }
        const bool goes_round =
            correction.kind == CorrectionKind::checked || correction.kind == CorrectionKind::delayed;
        if (!goes_round && (correction.synchronized || longest >= correction.distance)) continue;
        ++tried;
        world.settle(random, false);
        ASSERT_EQ(world.violation(), "");
        ASSERT_TRUE(world.all_live_colored());
        ASSERT_TRUE(world.all_live_ended());
    }
    EXPECT_GT(tried, 2000U);
}

TEST(GossipFailureProof, AllOrNoneWithUpToFDeathsAndNobodyTold) {
    std::uint32_t none = 0;
    for (std::uint32_t seed = 1; seed <= 20000; ++seed) {
        std::mt19937 random(seed);
        const std::uint32_t processes = 3 + static_cast<std::uint32_t>(random() % 12);
        const std::uint32_t failures = 1 + static_cast<std::uint32_t>(random() % 3);
        const FailureProofPlan plan =
            make_failure_proof_plan(plan_of("failure-proof:" + std::to_string(failures), processes,
                                            1 + static_cast<std::uint32_t>(random() % 5)),
                                    Nanoseconds{100});
        SCOPED_TRACE("P=" + std::to_string(processes) + ", seed " + std::to_string(seed));
        FailureProofWorld world(plan, static_cast<std::uint32_t>(random() % processes), seed);
        std::uint32_t may_die = std::min(failures, processes - 2);
        const std::uint32_t one_in = 1 + static_cast<std::uint32_t>(random() % 100);
        bool anybody_through = false;
        do {
            for (std::uint32_t position = 0; position < processes; ++position)
                anybody_through |= world.machine(position).colored() && world.machine(position).finished();
            const auto position = static_cast<std::uint32_t>(random() % processes);
            if (may_die == 0 || world.is_dead(position) || random() % one_in != 0) continue;
            world.crash(position);
            --may_die;
        } while (world.step(random, false));
        ASSERT_EQ(world.violation(), "");
        bool any = anybody_through;
        bool all = true;
        for (std::uint32_t position = 0; position < processes; ++position) {
            if (world.is_dead(position)) continue;
            (world.machine(position).colored() ? any : all) = world.machine(position).colored();
            ASSERT_TRUE(!world.machine(position).colored() || world.machine(position).finished());
        }
        ASSERT_TRUE(all || !any);
        none += all ? 0U : 1U;
    }
    EXPECT_GT(none, 20U);
}

// ------------------------------------------------------------------------------------------------------------ plans

TEST(GossipBroadcastPlan, StandsForACorrectionAndChoosesRounds) {
    const auto ocg = make_gossip_broadcast_plan(*parse_gossip("ocg"), 1024, 1, 1e-6);
    ASSERT_TRUE(ocg.has_value()) << ocg.error();
    EXPECT_EQ(ocg->correction.kind, CorrectionKind::opportunistic);
    EXPECT_GE(ocg->correction.distance, 1U);
    EXPECT_GE(ocg->gossip.rounds, 10U);
    EXPECT_EQ(ocg->gossip.hop, 1U);
    const auto given = make_gossip_broadcast_plan(*parse_gossip("ocg:9:5:rounds"), 1024, 0, 1e-6);
    EXPECT_EQ(given->gossip.rounds, 9U);
    EXPECT_EQ(given->correction.distance, 3U);
    EXPECT_EQ(make_gossip_broadcast_plan(*parse_gossip("ccg"), 64, 0, 1e-6)->correction.kind, CorrectionKind::checked);
    const auto fcg = make_gossip_broadcast_plan(*parse_gossip("fcg:2:7:rounds"), 64, 0, 1e-6);
    EXPECT_EQ(fcg->correction.kind, CorrectionKind::failure_proof);
    EXPECT_EQ(fcg->correction.failures, 2U);
    EXPECT_EQ(make_gossip_broadcast_plan(*parse_gossip("ccg"), 1, 0, 1e-6)->gossip.rounds, 1U);
}

TEST(GossipBroadcastPlan, IsRefusedWhereThereIsNone) {
    EXPECT_FALSE(make_gossip_broadcast_plan(*parse_gossip("ccg"), 64, 0, 0).has_value());
    EXPECT_FALSE(make_gossip_broadcast_plan(*parse_gossip("ccg"), 0, 0, 1e-6).has_value());
    const auto timed = make_gossip_broadcast_plan(*parse_gossip("fcg:2:30"), 64, 0, 1e-6);
    ASSERT_FALSE(timed.has_value());
    EXPECT_NE(timed.error().find("\"fcg:2:30:rounds\""), std::string::npos) << timed.error();
    // Nothing would reach a member that gossip left out.
    const auto plain = make_gossip_broadcast_plan(*baselines::parse_gossip("gos:4:rounds"), 64, 0, 1e-6);
    ASSERT_FALSE(plain.has_value());
    EXPECT_NE(plain.error().find("gos"), std::string::npos) << plain.error();
}

}  // namespace
}  // namespace coppice::protocol::testing
