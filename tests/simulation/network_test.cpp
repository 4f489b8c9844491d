// Networks under the clock: what a message waits for, and the broadcast of a placement on them.
#include "simulation/network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "simulation/broadcast_simulation.hpp"
#include "simulation/faults.hpp"
#include "simulation/placed_simulation.hpp"
#include "topology/fat_tree.hpp"

namespace coppice::simulation {
namespace {

using topology::FatTree;
using topology::Site;

std::vector<std::uint32_t> in_order(std::size_t count) {
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    return order;
}

std::shared_ptr<const Network> network_of(std::span<const Site> sites, const NetworkTimes& times = {},
                                          std::uint32_t taper = 1) {
    return std::make_shared<Network>(sites, in_order(sites.size()), times, taper);
}

std::shared_ptr<const Network> network_of(const FatTree& tree, const NetworkTimes& times = {}) {
    return network_of(tree.sites(tree.hosts()), times, tree.taper);
}

Step arrival(NetworkWire& wire, Step sent, std::uint32_t from, std::uint32_t to) {
    return wire.arrival(sent, Position{from}, Position{to});
}

// ------------------------------------------------------------------------------------------------------------ the wire

TEST(NetworkWire, LatencyIsThatOfTheHighestSwitch) {
    // Four ports: leaves of two hosts, pods of two leaves.
    NetworkWire wire(network_of(FatTree{.ports = 4}, {.latency = {1, 20, 300}, .gap = {0, 0}}));
    wire.start();
    EXPECT_EQ(arrival(wire, 5, 0, 1), 6U);
    EXPECT_EQ(arrival(wire, 5, 0, 2), 25U);
    EXPECT_EQ(arrival(wire, 5, 0, 4), 305U);
    EXPECT_EQ(arrival(wire, 5, 15, 0), 305U);
    EXPECT_EQ(wire.messages(), (std::array<std::uint64_t, 3>{1, 1, 2}));
}

TEST(NetworkWire, ALinkCarriesOneMessageAtATime) {
    NetworkWire wire(network_of(FatTree{.ports = 4}, {.latency = {1, 2, 3}, .gap = {10, 0}}));
    wire.start();
    // Hosts 0 and 1 send to host 2: one link up, as it follows from the destination.
    EXPECT_EQ(arrival(wire, 0, 0, 2), 2U);
    EXPECT_EQ(arrival(wire, 0, 1, 2), 12U);
    // Host 3 is reached by the other link, and a message within the leaf needs none.
    EXPECT_EQ(arrival(wire, 0, 0, 3), 2U);
    EXPECT_EQ(arrival(wire, 0, 0, 1), 1U);
    wire.start();
    EXPECT_EQ(arrival(wire, 0, 1, 2), 2U) << "a run begins with free links";
}

TEST(NetworkWire, ATaperedLeafHasFewerLinks) {
    NetworkWire wire(network_of(FatTree{.ports = 4, .taper = 2}, {.latency = {1, 2, 3}, .gap = {10, 0}}));
    wire.start();
    EXPECT_EQ(arrival(wire, 0, 0, 2), 2U);
    EXPECT_EQ(arrival(wire, 0, 1, 3), 12U);
}

// A shift of all hosts by a multiple of a leaf's size meets nothing on its way: that is what such networks are built for.
TEST(NetworkWire, AShiftMeetsNothing) {
    const FatTree tree{.ports = 8};
    NetworkWire wire(network_of(tree, {.latency = {1, 2, 3}, .gap = {7, 7}}));
    for (std::uint32_t shift = 4; shift < tree.hosts(); shift *= 2) {
        wire.start();
        for (std::uint32_t host = 0; host < tree.hosts(); ++host)
            EXPECT_LE(arrival(wire, 0, host, (host + shift) % tree.hosts()), 3U) << shift;
    }
}

TEST(NetworkWire, TimesThatMakeNoSenseAreRefused) {
    EXPECT_FALSE(reason_against(NetworkTimes{}));
    EXPECT_TRUE(reason_against(NetworkTimes{.latency = {3, 2, 1}}));
    EXPECT_TRUE(reason_against(NetworkTimes{.gap = {1U << 30, 1}}));
}

// Every latency L and links of no gap: the same runs as without a network.
TEST(NetworkSimulation, AnEvenNetworkIsNone) {
    for (const char* correction : {"opportunistic:2", "optimized:4", "checked", "checked:synchronized",
                                   "failure-proof:1", "delayed:9", "ack", "none"}) {
        for (const bool overlap : {true, false}) {
            const FatTree tree{.ports = 8};
            BroadcastSetup setup{.processes = tree.hosts(),
                                 .tree = *topology::parse_tree("lame:2"),
                                 .correction = *protocol::parse_correction(correction),
                                 .model = {.latency = 3, .overhead = 1, .gap = 2, .overlap = overlap}};
            const auto plain = make_simulator(setup).value();
            setup.network = network_of(tree, {.latency = {3, 3, 3}, .gap = {0, 0}});
            const auto even = make_simulator(setup).value();
            const FaultPlan plan{.dead_rate = 0.05, .dying_count = 2, .dying_until = 30, .notice_after = 20};
            for (std::uint64_t seed = 1; seed <= 20; ++seed) {
                const Faults faults = plan.draw(tree.hosts(), seed);
                const Outcome expected = plain->run(faults, seed).value();
                Outcome found = even->run(faults, seed).value();
                EXPECT_EQ(std::accumulate(found.by_level.begin(), found.by_level.end(), std::uint64_t{0}),
                          found.messages);
                found.by_level = {};
                ASSERT_EQ(found, expected) << correction << ", seed " << seed;
            }
        }
    }
}

// ------------------------------------------------------------------------------------------- the broadcast of a placement

struct Placed {
    std::shared_ptr<const protocol::PlacedPlan> plan;
    std::unique_ptr<Simulator> simulator;
};

Placed placed(std::span<const Site> sites, std::uint32_t root, std::uint32_t distance, const char* tree = "binomial") {
    std::vector<Site> from_root(sites.begin(), sites.end());
    std::ranges::rotate(from_root, from_root.begin() + root);
    auto placement = topology::Placement::make(from_root, *topology::parse_tree(tree));
    const auto positions = in_order(static_cast<std::uint32_t>(sites.size()));
    Placed made;
    made.plan = std::make_shared<protocol::PlacedPlan>(protocol::make_placed_plan(std::move(*placement), distance));
    made.simulator =
        make_simulator(PlacedSetup{made.plan, std::make_shared<Network>(from_root, positions, NetworkTimes{})}).value();
    return made;
}

std::vector<Site> ragged(std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto up_to = [&random](std::uint32_t most) { return 1 + static_cast<std::uint32_t>(random() % most); };
    std::vector<Site> sites;
    std::uint32_t leaf = 0;
    for (std::uint32_t pod = 0, pods = up_to(5); pod < pods; ++pod) {
        for (std::uint32_t i = 0, leaves = up_to(5); i < leaves; ++i, ++leaf)
            sites.insert(sites.end(), up_to(7), Site{pod, leaf});
    }
    std::ranges::shuffle(sites, random);
    return sites;
}

std::vector<Position> positions_of_leaf(const protocol::PlacedPlan& plan, std::uint32_t leaf) {
    std::vector<Position> positions;
    for (const std::uint32_t host : plan.placement.hosts_of(leaf))
        positions.push_back(Position{host});
    return positions;
}

TEST(PlacedBroadcast, EachSwitchIsEnteredOnceByTheTree) {
    for (std::uint32_t seed = 1; seed <= 50; ++seed) {
        const auto sites = ragged(seed);
        const auto hosts = static_cast<std::uint32_t>(sites.size());
        const auto made = placed(sites, seed % hosts, 0, seed % 2 == 0 ? "lame:3" : "binomial");
        const Outcome outcome = made.simulator->run({}, 1).value();
        const topology::Placement& placement = made.plan->placement;
        EXPECT_EQ(outcome.messages, hosts - 1);
        EXPECT_EQ(outcome.by_level[1] + outcome.by_level[2], placement.leaves() - 1);
        EXPECT_EQ(outcome.by_level[2], placement.pods() - 1);
        EXPECT_EQ(outcome.reached, hosts);
    }
}

TEST(PlacedBroadcast, CorrectionTakesTwoMessagesALeafAndSideAtMost) {
    for (std::uint32_t seed = 1; seed <= 50; ++seed) {
        const std::uint32_t distance = 1 + seed % 3;
        const auto made = placed(ragged(seed), 0, distance);
        const Outcome outcome = made.simulator->run({}, 1).value();
        const std::uint32_t leaves = made.plan->placement.leaves();
        EXPECT_LE(outcome.by_level[1] + outcome.by_level[2], leaves - 1 + 2 * distance * leaves);
    }
}

// The checker holds each run against left_out(): exactly these are not reached, in whatever order messages come.
TEST(PlacedBroadcast, ReachesWhomThePredicateSays) {
    std::uint64_t left = 0;
    for (std::uint32_t seed = 1; seed <= 400; ++seed) {
        const auto sites = ragged(seed);
        const auto hosts = static_cast<std::uint32_t>(sites.size());
        const auto made = placed(sites, seed % hosts, seed % 3);
        const FaultPlan plan{.dead_rate = 0.05 * (1 + seed % 8)};
        const Faults faults = plan.draw(hosts, seed);
        const auto outcome = made.simulator->run(faults, seed);
        ASSERT_TRUE(outcome) << to_string(outcome.error(), 40);
        const auto shuffled = made.simulator->run_shuffled(faults, seed);
        ASSERT_TRUE(shuffled) << to_string(shuffled.error(), 40);
        left += outcome->unreached.size();
    }
    EXPECT_GT(left, 0U) << "nothing was put to the test";
}

TEST(PlacedBroadcast, EverybodyIsReachedOnceDeathsAreKnown) {
    for (std::uint32_t seed = 1; seed <= 400; ++seed) {
        const auto sites = ragged(seed);
        const auto hosts = static_cast<std::uint32_t>(sites.size());
        if (hosts < 8) continue;
        const auto made = placed(sites, seed % hosts, 1 + seed % 2);
        const FaultPlan plan{
            .dead_rate = 0.3, .dying_count = 3, .dying_until = 25, .notice_after = static_cast<Step>(seed % 30)};
        const Faults faults = plan.draw(hosts, seed);
        const auto outcome = made.simulator->run(faults, seed);
        ASSERT_TRUE(outcome) << to_string(outcome.error(), 40);
        const auto shuffled = made.simulator->run_shuffled(faults, seed);
        ASSERT_TRUE(shuffled) << to_string(shuffled.error(), 40);
        if (!root_dies(faults)) {
            EXPECT_TRUE(outcome->unreached.empty());
        }
    }
}

// One dead leaf, whichever, and one dead leader, whichever: opportunistic:1 reaches everybody else, without a notice.
TEST(PlacedBroadcast, ADeadLeafOrLeaderLeavesNobodyOut) {
    for (const std::uint32_t levels : {2U, 3U}) {
        const FatTree tree{.ports = 8, .levels = levels};
        const auto sites = tree.sites(tree.hosts());
        const auto made = placed(sites, 0, 1);
        const std::uint32_t own = made.plan->placement.leaf_of(0);
        for (std::uint32_t leaf = 0; leaf < made.plan->placement.leaves(); ++leaf) {
            if (leaf == own) continue;
            const Outcome dead_leaf = made.simulator->run({.dead = positions_of_leaf(*made.plan, leaf)}, 1).value();
            EXPECT_TRUE(dead_leaf.unreached.empty()) << leaf;
            EXPECT_LE(dead_leaf.gaps.largest, 1U);
            const Position leader = Position{made.plan->placement.leader(0, leaf)};
            const Outcome dead_leader = made.simulator->run({.dead = {leader}}, 1).value();
            EXPECT_TRUE(dead_leader.unreached.empty()) << leaf;
        }
    }
}

}  // namespace
}  // namespace coppice::simulation
