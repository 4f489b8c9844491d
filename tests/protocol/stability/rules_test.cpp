// The counting of what is consumed: its rules, and chance in larger groups.
#include <gtest/gtest.h>

#include "cluster.hpp"

namespace coppice::protocol {
namespace {

std::vector<std::uint32_t> flat(std::uint32_t nodes) {
    return std::vector<std::uint32_t>(nodes, 1);
}

TEST(Stability, EverybodyLearnsHowFarAllAre) {
    for (const std::uint32_t nodes : {2U, 3U, 8U, 33U}) {
        for (const std::uint32_t ranks : {1U, 3U}) {
            Cluster cluster(std::vector<std::uint32_t>(nodes, ranks), 16, nodes);
            for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank)
                cluster.consume(rank, 8 + rank % 5);
            cluster.run_to_rest();
            for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank)
                EXPECT_EQ(cluster.stable(rank), 8U) << nodes << " nodes of " << ranks << ", rank " << rank;
        }
    }
}

TEST(Stability, AGroupOnOneNodeReadsItsMemoryAndSendsNothing) {
    const topology::Nodes nodes = hosts_of({3});
    Stability machine({.nodes = &nodes, .window = 8}, Rank(1));
    machine.node_consumed(3, Rank(2));
    machine.want(4, Nanoseconds(0));
    EXPECT_EQ(machine.stable(), 3U);
    EXPECT_EQ(machine.next_send(), std::nullopt);
    EXPECT_FALSE(machine.receive({.kind = StabilityKind::up, .from = Rank(0), .to = Rank(1), .slowest = Rank(0)}));
}

// The stand-in of a leader that died may know less than was reported.
TEST(Stability, AReportOfLessTakesNothingBack) {
    const topology::Nodes nodes = hosts_of({1, 2, 1});
    Stability top({.nodes = &nodes, .window = 16}, Rank(0));
    top.node_consumed(8, Rank(0));
    const auto report = [&top](std::uint32_t from, std::uint64_t count) {
        const Rank rank(from);
        EXPECT_TRUE(
            top.receive({.kind = StabilityKind::up, .from = rank, .to = Rank(0), .count = count, .slowest = rank}));
    };
    report(1, 8);
    top.peer_failed(Rank(1));
    report(2, 3);
    EXPECT_EQ(top.stable(), 0U);
    report(3, 8);
    EXPECT_EQ(top.stable(), 8U);
}

// They know of a death in between of which this node is never told: it has heard there that the dead one had left.
TEST(Stability, ThoseThatReportAreToldThoughTheyAreNoChildren) {
    const topology::Nodes nodes = hosts_of({1, 1, 1, 1});
    Stability machine({.nodes = &nodes, .window = 16}, Rank(0));
    EXPECT_TRUE(
        machine.receive({.kind = StabilityKind::up, .from = Rank(3), .to = Rank(0), .count = 8, .slowest = Rank(3)}));
    machine.learn_stable(8);
    std::vector<std::uint32_t> told;
    while (const auto sent = machine.next_send()) {
        EXPECT_EQ(sent->kind, StabilityKind::down);
        EXPECT_EQ(sent->stable, 8U);
        told.push_back(sent->to.value);
    }
    EXPECT_EQ(std::ranges::count(told, 3U), 1);
    EXPECT_EQ(std::ranges::count(told, 1U) + std::ranges::count(told, 2U), 2) << "its children";
    EXPECT_EQ(told.size(), 3U);
}

TEST(Stability, AdvancesBelowTheStepAreNotReportedUntilAFlush) {
    Cluster cluster(flat(4), 16, 1);
    for (std::uint32_t rank = 0; rank < 4; ++rank)
        cluster.consume(rank, 7);
    cluster.run_to_rest();
    EXPECT_EQ(cluster.stable(3), 0U);
    cluster.flush();
    cluster.run_to_rest();
    EXPECT_EQ(cluster.stable(3), 7U);
}

TEST(Stability, NothingIsStableThatALiveRankHasNotConsumedWhicheverDieAndWhen) {
    for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
        std::mt19937 random(seed);
        std::vector<std::uint32_t> hosts;
        for (auto left = static_cast<std::uint32_t>(2 + random() % 12); left > 0;) {
            hosts.push_back(1 + static_cast<std::uint32_t>(random() % std::min(left, seed % 3 == 0 ? 3U : 1U)));
            left -= hosts.back();
        }
        if (hosts.size() < 2) hosts.push_back(1);
        const std::uint64_t window = std::uint64_t{2} << random() % 3;
        Cluster cluster(hosts, window, seed);
        std::vector<std::uint64_t> count(cluster.ranks(), 0);
        std::uint32_t alive = cluster.ranks();
        for (int round = 0; round < 200; ++round) {
            const auto rank = static_cast<std::uint32_t>(random() % cluster.ranks());
            if (!cluster.alive(rank)) continue;
            if (random() % 40 == 0 && alive > 1) {
                cluster.kill(rank);
                --alive;
            } else {
                count[rank] = std::min(count[rank] + random() % 5, cluster.stable(rank) + window);
                cluster.consume(rank, count[rank]);
            }
            if (seed % 2 == 0 && random() % 8 == 0) cluster.hold_up(rank);
            for (int i = 0; i < 4; ++i)
                cluster.step();
            for (std::uint32_t other = 0; other < cluster.ranks(); ++other) {
                if (!cluster.alive(other)) continue;
                ASSERT_LE(cluster.stable(other), cluster.least_consumed()) << "seed " << seed;
            }
        }
        cluster.flush();
        cluster.run_to_rest();
        const std::uint64_t all = *std::ranges::max_element(count);
        while (cluster.least_consumed() < all) {
            const std::uint64_t before = cluster.least_consumed();
            for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
                if (!cluster.alive(rank)) continue;
                count[rank] = std::max(count[rank], std::min(all, cluster.stable(rank) + window));
                cluster.consume(rank, count[rank]);
            }
            cluster.run_to_rest();
            ASSERT_GT(cluster.least_consumed(), before) << "seed " << seed << ": nobody can go on";
        }
        cluster.run_to_rest();
        for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
            if (!cluster.alive(rank)) continue;
            ASSERT_EQ(cluster.stable(rank), all) << "seed " << seed << ", rank " << rank;
        }
    }
}

// A root stops a window ahead of what is stable; once all have consumed that, it must be told of more.
TEST(Stability, AWindowOpensAgainThoughLeadersDieAtAnyPoint) {
    constexpr std::uint64_t kWindow = 32;
    constexpr std::uint32_t kRanks = 6;  // of a node
    for (std::uint32_t seed = 1; seed <= 300; ++seed) {
        std::mt19937 random(seed);
        const std::uint32_t nodes = 4 + static_cast<std::uint32_t>(random() % 9);
        Cluster cluster(std::vector<std::uint32_t>(nodes, kRanks), kWindow, seed);
        std::vector<std::uint32_t> dead(nodes, 0);
        std::uint64_t front = kWindow;
        for (int window = 0; window < 8; ++window) {
            for (std::uint64_t count = front - kWindow; count <= front; ++count) {
                for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
                    if (cluster.alive(rank)) cluster.consume(rank, count);
                }
                const auto node = static_cast<std::uint32_t>(random() % nodes);
                if (random() % 8 == 0 && dead[node] + 1 < kRanks) cluster.kill(node * kRanks + dead[node]++);
                for (std::uint64_t i = random() % 6; i > 0; --i)
                    cluster.step();
            }
            cluster.run_to_rest();
            const std::uint64_t stable = cluster.stable(dead[0]);
            ASSERT_GT(stable + kWindow, front) << "seed " << seed << ": nobody may start anything any more";
            front = stable + kWindow;
        }
    }
}

// coppice.h: a view that is held for W further broadcasts holds them up, and not before.
TEST(Stability, ARankThatIsHeldUpGetsAWholeWindowBeyondTheSlowestAndItsName) {
    for (const std::uint64_t window : {2U, 4U, 32U, 64U}) {
        for (std::uint64_t held = 0; held <= 2 * window; ++held) {
            for (const auto& hosts : {flat(2), flat(3), flat(8), flat(13), std::vector{2U, 2U}, {1U, 3U, 2U}}) {
                Cluster cluster(hosts, window, static_cast<std::uint32_t>(held + hosts.size()));
                const std::uint32_t ranks = cluster.ranks();
                const auto slow = static_cast<std::uint32_t>(held * 7 + ranks / 2) % ranks;
                for (std::uint64_t count = 1; count < held + window; ++count) {
                    // Nobody goes on unless there is room, and a rank that finds none asks.
                    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
                        if (count > cluster.stable(rank) + window) cluster.hold_up(rank);
                    }
                    cluster.run_to_rest();
                    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
                        ASSERT_LE(count, cluster.stable(rank) + window) << held << " of " << window << ", " << ranks;
                        cluster.consume(rank, rank == slow ? std::min(count, held) : count);
                    }
                }
                for (int i = 0; i < 2; ++i) {  // the first ask may have been for what is stable by now
                    cluster.run_to_rest();
                    for (std::uint32_t rank = 0; rank < ranks; ++rank)
                        cluster.hold_up(rank);
                }
                cluster.run_to_rest();
                for (std::uint32_t rank = 0; rank < ranks; ++rank) {
                    ASSERT_EQ(cluster.stable(rank), held) << held << " of " << window << ", " << ranks;
                    ASSERT_EQ(cluster.holder(rank), Rank(slow)) << held << " of " << window << ", rank " << rank;
                }
                cluster.consume(slow, held + window - 1);  // the view is released
                cluster.run_to_rest();
                for (std::uint32_t rank = 0; rank < ranks; ++rank)
                    ASSERT_GT(cluster.stable(rank), held);
            }
        }
    }
}

TEST(Stability, ASteadyRunCostsOneReportAndOneAnswerANodeForEachHalfWindow) {
    constexpr std::uint64_t kWindow = 32;
    constexpr std::uint64_t kSteps = 100;
    for (const std::uint32_t nodes : {2U, 3U, 8U, 13U}) {
        Cluster cluster(flat(nodes), kWindow, nodes);
        for (std::uint64_t count = 1; count <= kWindow / 2 * kSteps; ++count) {
            for (std::uint32_t rank = 0; rank < nodes; ++rank)
                cluster.consume(rank, count);
            cluster.run_to_rest();
        }
        EXPECT_EQ(cluster.messages(), 2 * (nodes - 1) * kSteps) << nodes << " nodes";
    }
}

TEST(Stability, TheSlowestIsNamed) {
    const topology::Nodes nodes = hosts_of({1, 2});
    Stability top({.nodes = &nodes, .window = 4}, Rank(0));
    top.node_consumed(4, Rank(0));
    EXPECT_TRUE(
        top.receive({.kind = StabilityKind::up, .from = Rank(1), .to = Rank(0), .count = 3, .slowest = Rank(2)}));
    EXPECT_EQ(top.holder(), Rank(2));
    EXPECT_EQ(top.stable(), 3U);
    top.peer_failed(Rank(2));
    EXPECT_EQ(top.holder(), Rank(1)) << "a rank that is known to be dead is nobody to wait for";
}

// A rank that has just become leader has heard no reports, but what its predecessor has told it.
TEST(Stability, ANewLeaderNamesTheRankThatTheOneBeforeNamed) {
    const topology::Nodes nodes = hosts_of({2, 2, 2});
    Stability top({.nodes = &nodes, .window = 4}, Rank(1));
    top.peer_failed(Rank(0));
    const auto say = [&top](StabilityKind kind, std::uint32_t from, std::uint64_t count, std::uint32_t slowest) {
        EXPECT_TRUE(
            top.receive({.kind = kind, .from = Rank(from), .to = Rank(1), .count = count, .slowest = Rank(slowest)}));
    };
    say(StabilityKind::down, 0, 0, 5);
    top.node_consumed(4, Rank(1));
    EXPECT_EQ(top.holder(), Rank(5));
    say(StabilityKind::up, 2, 4, 2);
    EXPECT_EQ(top.holder(), Rank(5));
    say(StabilityKind::up, 4, 1, 4);
    EXPECT_EQ(top.holder(), Rank(4));
}

TEST(Stability, ARankAsksOnlyAfterItsPatienceAndEachLeaderOnce) {
    const topology::Nodes nodes = hosts_of({3, 1});
    Stability rank({.nodes = &nodes, .window = 4, .patience = Nanoseconds(100)}, Rank(2));
    rank.want(1, Nanoseconds(1000));
    EXPECT_EQ(rank.next_send(), std::nullopt);
    rank.want(1, Nanoseconds(1100));
    const auto ask = rank.next_send();
    ASSERT_TRUE(ask);
    EXPECT_EQ(ask->kind, StabilityKind::ask);
    EXPECT_EQ(ask->to, Rank(0));
    EXPECT_EQ(ask->count, 1U);
    rank.want(1, Nanoseconds(2000));
    EXPECT_EQ(rank.next_send(), std::nullopt);
    rank.peer_failed(Rank(0));
    rank.want(1, Nanoseconds(2100));
    const auto again = rank.next_send();
    ASSERT_TRUE(again);
    EXPECT_EQ(again->to, Rank(1));
}

TEST(Stability, WhatCannotBeIsRefused) {
    const topology::Nodes nodes = hosts_of({1, 1});
    Stability machine({.nodes = &nodes, .window = 4}, Rank(0));
    const StabilityMessage good{
        .kind = StabilityKind::up, .from = Rank(1), .to = Rank(0), .count = 4, .slowest = Rank(1)};
    StabilityMessage beyond = good, stranger = good, self = good, unknown = good;
    beyond.count = 5;
    stranger.from = Rank(2);
    self.from = Rank(0);
    unknown.slowest = Rank(2);
    EXPECT_TRUE(machine.receive(good));
    for (const StabilityMessage& bad : {beyond, stranger, self, unknown})
        EXPECT_FALSE(machine.receive(bad));
}

}  // namespace
}  // namespace coppice::protocol
