// The binomial graph: which members are neighbours, what it withstands, and what it costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <type_traits>
#include <vector>

#include "any_order.hpp"
#include "protocol/baselines/binomial_graph.hpp"

namespace coppice::protocol::testing {
namespace {

static_assert(Machine<BinomialGraph>);
static_assert(std::is_trivially_copyable_v<BinomialGraph> && std::has_unique_object_representations_v<BinomialGraph>);

TEST(BinomialGraphNeighbours, AreAtThePowersOfTwoEachOnce) {
    for (std::uint32_t processes = 2; processes <= 70; ++processes) {
        const std::uint32_t degree = BinomialGraph::degree(processes);
        EXPECT_GE(1U << degree, processes);
        EXPECT_LT(1U << (degree - 1), processes);
        for (std::uint32_t self = 0; self < processes; ++self) {
            std::set<std::uint32_t> distances;
            for (std::uint32_t index = 0; index < degree; ++index) {
                const std::uint32_t to = BinomialGraph::neighbour(processes, Position{self}, index).value;
                ASSERT_LT(to, processes);
                distances.insert((to + processes - self) % processes);
            }
            ASSERT_EQ(distances.size(), degree);
            for (const std::uint32_t distance : distances)
                EXPECT_TRUE(std::has_single_bit(distance));
        }
    }
    EXPECT_EQ(BinomialGraph::degree(1), 0U);
}

// The children in the binomial tree come first, the largest subtree before the others.
TEST(BinomialGraphNeighbours, AreServedInTheOrderOfTheTree) {
    std::vector<std::uint32_t> order;
    for (std::uint32_t index = 0; index < 5; ++index)
        order.push_back(BinomialGraph::neighbour(32, Position{5}, index).value);
    EXPECT_EQ(order, (std::vector<std::uint32_t>{13, 21, 6, 7, 9}));
}

// All ways from the root that avoid the dead.
std::uint32_t reachable(std::uint32_t processes, std::uint32_t dead) {
    std::uint32_t seen = 1;
    for (std::uint32_t border = 1; border != 0;) {
        const auto from = static_cast<std::uint32_t>(std::countr_zero(border));
        border &= border - 1;
        for (std::uint32_t index = 0; index < BinomialGraph::degree(processes); ++index) {
            const std::uint32_t bit = 1U << BinomialGraph::neighbour(processes, Position{from}, index).value;
            if ((seen & bit) != 0 || (dead & bit) != 0) continue;
            seen |= bit;
            border |= bit;
        }
    }
    return seen;
}

// IPDPS'17 §IV.B.3: "can tolerate up to log2 P − 1 failures", every set of them.
TEST(BinomialGraphFailures, AnyLog2PMinusOneOfThemCutNobodyOff) {
    for (const std::uint32_t processes : {2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 11U, 12U, 15U, 16U, 17U, 20U, 21U, 24U}) {
        const std::uint32_t withstood = BinomialGraph::degree(processes) - 1;
        const std::uint32_t all = (1U << processes) - 1;
        // All sets of so many, without the root: each the next larger number with as many bits.
        for (std::uint32_t dead = (1U << withstood) - 1; dead << 1 <= all && withstood != 0;) {
            ASSERT_EQ(reachable(processes, dead << 1), all & ~(dead << 1)) << processes << " " << dead;
            const std::uint32_t low = dead & -dead;
            const std::uint32_t ripple = dead + low;
            dead = ripple | ((dead ^ ripple) / low) >> 2;
        }
    }
}

// Used both ways, p has the neighbours p ± 2^x, one less where ±2^x are the same; each is served once, and takes from those alone.
TEST(BinomialGraphBothWays, ServesEachNeighbourOfEitherSideOnce) {
    for (std::uint32_t processes = 2; processes <= 70; ++processes) {
        SCOPED_TRACE(processes);
        const FailedSet nobody;
        for (std::uint32_t self = 0; self < processes; ++self) {
            std::set<std::uint32_t> expected;
            for (std::uint32_t distance = 1; distance < processes; distance *= 2) {
                expected.insert((self + distance) % processes);
                expected.insert((self + processes - distance) % processes);
            }
            BinomialGraph member(processes, Position{self}, 0, nobody, true, BinomialGraph::Directions::both);
            std::set<std::uint32_t> served;
            while (const auto message = member.next_send(Nanoseconds{0}))
                EXPECT_TRUE(served.insert(message->to.value).second) << "served twice";
            EXPECT_EQ(served, expected);
            EXPECT_TRUE(member.finished());
            for (std::uint32_t from = 0; from < processes; ++from) {
                BinomialGraph empty(processes, Position{self}, 0, nobody, false, BinomialGraph::Directions::both);
                EXPECT_EQ(empty.receive({BinomialGraphMessageKind::forward, Position{from}, Position{self}}),
                          expected.contains(from));
            }
        }
    }
}

TEST(BinomialGraphBothWays, ServesAllAgainForANeighbourThatWasReplaced) {
    const FailedSet nobody;
    BinomialGraph member(16, Position{5}, 0, nobody, true, BinomialGraph::Directions::both);
    while (member.next_send(Nanoseconds{0})) {
    }
    for (const std::uint32_t replaced : {1U, 6U, 13U}) {
        member.peer_restarted(Position{replaced});
        EXPECT_FALSE(member.finished());
        std::set<std::uint32_t> again;
        while (const auto message = member.next_send(Nanoseconds{0}))
            again.insert(message->to.value);
        EXPECT_TRUE(again.contains(replaced));
        EXPECT_TRUE(member.finished());
    }
    member.peer_restarted(Position{8});
    EXPECT_TRUE(member.finished()) << "no neighbour";
}

TEST(BinomialGraphBothWays, AMemberGivesUpOnlyWhenBothSidesAreDead) {
    FailedSet failed;
    for (const std::uint32_t left : {3U, 4U, 1U, 13U})
        failed.insert(left);
    EXPECT_EQ(BinomialGraph(16, Position{5}, 0, failed, false).result(), BroadcastResult::orphaned);
    EXPECT_EQ(BinomialGraph(16, Position{5}, 0, failed, false, BinomialGraph::Directions::both).result(),
              BroadcastResult::pending);
    for (const std::uint32_t right : {6U, 7U, 9U})
        failed.insert(right);
    EXPECT_EQ(BinomialGraph(16, Position{5}, 0, failed, false, BinomialGraph::Directions::both).result(),
              BroadcastResult::orphaned);
}

TEST(BinomialGraphFailures, OneMoreCanCutAMemberOff) {
    // All in-neighbours of 5 among 16.
    EXPECT_NE(reachable(16, 1U << 4 | 1U << 3 | 1U << 1 | 1U << 13),
              0xffffU & ~(1U << 4 | 1U << 3 | 1U << 1 | 1U << 13));
}

AnyOrder<BinomialGraph> group(std::uint32_t processes) {
    return AnyOrder<BinomialGraph>(processes, [processes](Position self, const FailedSet& failed) {
        return BinomialGraph(processes, self, 0, failed, self.value == 0);
    });
}

TEST(BinomialGraphFailures, BeforeOrOnTheWayWithNobodyToldEverybodyLiveIsReached) {
    for (std::uint32_t seed = 1; seed <= 1000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        const std::uint32_t processes = 2 + static_cast<std::uint32_t>(random() % 80);
        std::uint32_t may_die = BinomialGraph::degree(processes) - 1;
        AnyOrder<BinomialGraph> world = group(processes);
        do {
            const auto position = static_cast<std::uint32_t>(random() % processes);
            if (may_die == 0 || position == 0 || world.is_dead(position) || random() % 40 != 0) continue;
            world.crash(position);
            --may_die;
        } while (world.step(random, seed % 2 == 0));
        ASSERT_EQ(world.violation(), "");
        ASSERT_TRUE(world.all_live_colored());
        ASSERT_TRUE(world.all_colored_finished());
    }
}

TEST(BinomialGraphCost, IsLog2PMessagesAMember) {
    std::mt19937 random(1);
    for (const std::uint32_t processes : {1U, 2U, 16U, 100U, 4096U}) {
        AnyOrder<BinomialGraph> world = group(processes);
        world.settle(random, false);
        EXPECT_TRUE(world.all_live_colored());
        EXPECT_EQ(world.sent(), std::uint64_t{processes} * BinomialGraph::degree(processes));
    }
}

TEST(BinomialGraphMember, SendsToNobodyKnownToHaveFailedAndTakesFromNeighboursOnly) {
    FailedSet failed;
    BinomialGraph member(16, Position{5}, 0, failed, false);
    EXPECT_FALSE(member.next_send(Nanoseconds{0}));
    EXPECT_FALSE(member.receive({BinomialGraphMessageKind::forward, Position{2}, Position{5}}));
    EXPECT_FALSE(member.receive({BinomialGraphMessageKind::forward, Position{5}, Position{5}}));
    EXPECT_FALSE(member.receive({BinomialGraphMessageKind::forward, Position{20}, Position{5}}));
    EXPECT_FALSE(member.receive({BinomialGraphMessageKind::forward, Position{4}, Position{6}}));
    EXPECT_FALSE(member.receive({static_cast<BinomialGraphMessageKind>(9), Position{4}, Position{5}}));
    EXPECT_FALSE(member.colored());
    EXPECT_TRUE(member.receive({BinomialGraphMessageKind::forward, Position{4}, Position{5}}));
    failed.insert(6);
    member.peer_failed(Position{6});
    std::vector<std::uint32_t> to;
    while (const auto message = member.next_send(Nanoseconds{0}))
        to.push_back(message->to.value);
    EXPECT_EQ(to, (std::vector<std::uint32_t>{13, 7, 9}));
    EXPECT_TRUE(member.finished());
}

// ------------------------------------------------------------------------------- beyond what the graph withstands ---

TEST(BinomialGraphMember, GivesUpWhenItHasNothingAndTheRootHasFailed) {
    FailedSet failed;
    BinomialGraph member(16, Position{5}, 0, failed, false);
    BinomialGraph reached(16, Position{4}, 0, failed, false);
    EXPECT_TRUE(reached.receive({BinomialGraphMessageKind::forward, Position{0}, Position{4}}));
    failed.insert(0);
    member.peer_failed(Position{0});
    reached.peer_failed(Position{0});
    EXPECT_EQ(member.result(), BroadcastResult::root_failed);
    EXPECT_TRUE(member.finished());
    EXPECT_TRUE(member.receive({BinomialGraphMessageKind::forward, Position{4}, Position{5}})) << "too late";
    EXPECT_EQ(member.result(), BroadcastResult::root_failed);
    EXPECT_FALSE(member.next_send(Nanoseconds{0}));
    EXPECT_EQ(reached.result(), BroadcastResult::colored);
    EXPECT_EQ(BinomialGraph(16, Position{7}, 0, failed, false).result(), BroadcastResult::root_failed);
}

TEST(BinomialGraphMember, GivesUpWhenAllThatCouldSendToItHaveFailed) {
    FailedSet failed;
    BinomialGraph member(16, Position{5}, 0, failed, false);
    for (const std::uint32_t neighbour : {4U, 3U, 1U, 13U}) {
        EXPECT_EQ(member.result(), BroadcastResult::pending);
        failed.insert(neighbour);
        member.peer_failed(Position{neighbour});
    }
    EXPECT_EQ(member.result(), BroadcastResult::orphaned);
    EXPECT_TRUE(member.finished());
}

TEST(BinomialGraphMember, ServesTheProcessThatTakesAFailedOnesPlace) {
    const FailedSet nobody;
    BinomialGraph member(16, Position{5}, 0, nobody, true);
    EXPECT_EQ(member.next_send(Nanoseconds{0})->to, Position{13});
    member.peer_restarted(Position{13});
    member.peer_restarted(Position{7});  // not served yet: once is enough
    member.peer_restarted(Position{8});  // no neighbour
    std::vector<std::uint32_t> to;
    while (const auto message = member.next_send(Nanoseconds{0}))
        to.push_back(message->to.value);
    EXPECT_EQ(to, (std::vector<std::uint32_t>{13, 6, 7, 9}));
    EXPECT_TRUE(member.finished());
    member.peer_restarted(Position{9});
    EXPECT_FALSE(member.finished());
    EXPECT_EQ(member.next_send(Nanoseconds{0})->to, Position{9});
    EXPECT_TRUE(member.finished());
}

TEST(BinomialGraphMember, ThatStandsInForTheRootWithoutItsPayloadTellsEverybody) {
    const FailedSet nobody;
    BinomialGraph stand_in(5, Position{0}, 0, nobody, false);
    EXPECT_FALSE(stand_in.next_send(Nanoseconds{0}));
    stand_in.origin_lost();
    for (std::uint32_t position = 1; position < 5; ++position) {
        EXPECT_FALSE(stand_in.finished());
        const auto message = stand_in.next_send(Nanoseconds{0});
        ASSERT_TRUE(message);
        EXPECT_EQ(*message, (BinomialGraphMessage{BinomialGraphMessageKind::verdict, Position{0}, Position{position}}));
        BinomialGraph other(5, Position{position}, 0, nobody, false);
        EXPECT_FALSE(
            other.receive({BinomialGraphMessageKind::verdict, Position{position % 4 + 1}, Position{position}}));
        EXPECT_TRUE(other.receive(*message));
        EXPECT_EQ(other.result(), BroadcastResult::root_failed);
    }
    EXPECT_FALSE(stand_in.next_send(Nanoseconds{0}));
    EXPECT_TRUE(stand_in.finished());
    BinomialGraph has_it(5, Position{1}, 0, nobody, true);
    EXPECT_FALSE(has_it.receive({BinomialGraphMessageKind::verdict, Position{0}, Position{1}}));
}

}  // namespace
}  // namespace coppice::protocol::testing
