#include "topology/nodes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace coppice::topology {
namespace {

std::vector<std::uint32_t> members(const Nodes& nodes, std::uint32_t node) {
    std::vector<std::uint32_t> ranks;
    for (const Rank rank : nodes.members(node))
        ranks.push_back(rank.value);
    return ranks;
}

using Ranks = std::vector<std::uint32_t>;

const std::vector<std::string> kHosts = {"b", "a", "b", "c", "a", "a"};

TEST(Nodes, are_the_hosts_in_the_order_of_their_lowest_ranks) {
    const Nodes nodes = Nodes::by_host(kHosts);
    ASSERT_EQ(nodes.ranks(), 6U);
    ASSERT_EQ(nodes.count(), 3U);
    EXPECT_EQ(members(nodes, 0), (Ranks{0, 2}));
    EXPECT_EQ(members(nodes, 1), (Ranks{1, 4, 5}));
    EXPECT_EQ(members(nodes, 2), (Ranks{3}));
    for (std::uint32_t node = 0; node < 3; ++node) {
        for (const Rank rank : nodes.members(node))
            EXPECT_EQ(nodes.node_of(rank), node);
    }
}

TEST(Nodes, can_be_told_apart_by_numbers) {
    const std::vector<std::uint64_t> keys = {UINT64_MAX, 0, UINT64_MAX, 1, 0, 0};
    const Nodes by_number = Nodes::by_host(keys);
    const Nodes by_name = Nodes::by_host(kHosts);
    ASSERT_EQ(by_number.count(), by_name.count());
    for (std::uint32_t node = 0; node < by_name.count(); ++node) {
        EXPECT_EQ(members(by_number, node), members(by_name, node));
    }
}

TEST(Nodes, flat_are_the_ranks_themselves) {
    const Nodes nodes = Nodes::flat(1000);
    ASSERT_EQ(nodes.count(), 1000U);
    for (std::uint32_t rank = 0; rank < 1000; ++rank) {
        ASSERT_EQ(nodes.node_of(Rank{rank}), rank);
        ASSERT_EQ(members(nodes, rank), Ranks{rank});
    }
}

TEST(Nodes, on_one_host_are_one) {
    const Nodes nodes = Nodes::by_host(std::vector<std::string>(8, "here"));
    ASSERT_EQ(nodes.count(), 1U);
    EXPECT_EQ(members(nodes, 0), (Ranks{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Nodes, of_many_ranks_hold_each_rank_once) {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t rank = 0; rank < 20000; ++rank)
        keys.push_back((rank * 2654435761U) % 977);
    const Nodes nodes = Nodes::by_host(keys);
    std::set<std::uint32_t> seen;
    std::uint32_t previous_lowest = 0;
    for (std::uint32_t node = 0; node < nodes.count(); ++node) {
        const Ranks ranks = members(nodes, node);
        ASSERT_FALSE(ranks.empty());
        EXPECT_TRUE(std::is_sorted(ranks.begin(), ranks.end()));
        EXPECT_TRUE(node == 0 || ranks.front() > previous_lowest);
        previous_lowest = ranks.front();
        for (const std::uint32_t rank : ranks) {
            EXPECT_EQ(keys[rank], keys[ranks.front()]);
            seen.insert(rank);
        }
    }
    EXPECT_EQ(nodes.count(), 977U);
    EXPECT_EQ(seen.size(), 20000U);
}

TEST(Nodes, are_acted_for_by_the_root_at_home_and_else_by_the_lowest_live_rank) {
    const Nodes nodes = Nodes::by_host(kHosts);
    std::set<std::uint32_t> dead;
    const auto alive = [&](Rank rank) { return !dead.contains(rank.value); };
    const Rank root{4};
    EXPECT_EQ(nodes.leader_for(1, root, alive), root);
    EXPECT_EQ(nodes.leader_for(0, root, alive), Rank{0});
    EXPECT_EQ(nodes.leader_for(2, root, alive), Rank{3});
    dead = {0, 4};
    EXPECT_EQ(nodes.leader_for(1, root, alive), Rank{1});
    EXPECT_EQ(nodes.leader_for(0, root, alive), Rank{2});
    dead = {1, 3, 4};
    EXPECT_EQ(nodes.leader_for(1, root, alive), Rank{5});
    EXPECT_EQ(nodes.leader_for(2, root, alive), std::nullopt);
}

}  // namespace
}  // namespace coppice::topology
