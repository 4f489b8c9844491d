#include "topology/sites.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace coppice::topology {
namespace {

std::vector<std::uint32_t> members(const Sites& sites, std::uint32_t site) {
    std::vector<std::uint32_t> ranks;
    for (const Rank rank : sites.members(site))
        ranks.push_back(rank.value);
    return ranks;
}

using Ranks = std::vector<std::uint32_t>;

const std::vector<std::string> kHosts = {"b", "a", "b", "c", "a", "a"};

TEST(Sites, are_the_hosts_in_the_order_of_their_lowest_ranks) {
    const Sites sites = Sites::by_host(kHosts);
    ASSERT_EQ(sites.ranks(), 6U);
    ASSERT_EQ(sites.count(), 3U);
    EXPECT_EQ(members(sites, 0), (Ranks{0, 2}));
    EXPECT_EQ(members(sites, 1), (Ranks{1, 4, 5}));
    EXPECT_EQ(members(sites, 2), (Ranks{3}));
    for (std::uint32_t site = 0; site < 3; ++site) {
        for (const Rank rank : sites.members(site))
            EXPECT_EQ(sites.site_of(rank), site);
    }
}

TEST(Sites, can_be_told_apart_by_numbers) {
    const std::vector<std::uint64_t> keys = {UINT64_MAX, 0, UINT64_MAX, 1, 0, 0};
    const Sites by_number = Sites::by_host(keys);
    const Sites by_name = Sites::by_host(kHosts);
    ASSERT_EQ(by_number.count(), by_name.count());
    for (std::uint32_t site = 0; site < by_name.count(); ++site) {
        EXPECT_EQ(members(by_number, site), members(by_name, site));
    }
}

TEST(Sites, flat_are_the_ranks_themselves) {
    const Sites sites = Sites::flat(1000);
    ASSERT_EQ(sites.count(), 1000U);
    for (std::uint32_t rank = 0; rank < 1000; ++rank) {
        ASSERT_EQ(sites.site_of(Rank{rank}), rank);
        ASSERT_EQ(members(sites, rank), Ranks{rank});
    }
}

TEST(Sites, on_one_host_are_one) {
    const Sites sites = Sites::by_host(std::vector<std::string>(8, "here"));
    ASSERT_EQ(sites.count(), 1U);
    EXPECT_EQ(members(sites, 0), (Ranks{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Sites, of_many_ranks_hold_each_rank_once) {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t rank = 0; rank < 20000; ++rank)
        keys.push_back((rank * 2654435761U) % 977);
    const Sites sites = Sites::by_host(keys);
    std::set<std::uint32_t> seen;
    std::uint32_t previous_lowest = 0;
    for (std::uint32_t site = 0; site < sites.count(); ++site) {
        const Ranks ranks = members(sites, site);
        ASSERT_FALSE(ranks.empty());
        EXPECT_TRUE(std::is_sorted(ranks.begin(), ranks.end()));
        EXPECT_TRUE(site == 0 || ranks.front() > previous_lowest);
        previous_lowest = ranks.front();
        for (const std::uint32_t rank : ranks) {
            EXPECT_EQ(keys[rank], keys[ranks.front()]);
            seen.insert(rank);
        }
    }
    EXPECT_EQ(sites.count(), 977U);
    EXPECT_EQ(seen.size(), 20000U);
}

TEST(Sites, are_acted_for_by_the_root_at_home_and_else_by_the_lowest_live_rank) {
    const Sites sites = Sites::by_host(kHosts);
    std::set<std::uint32_t> dead;
    const auto alive = [&](Rank rank) { return !dead.contains(rank.value); };
    const Rank root{4};
    EXPECT_EQ(sites.acting(1, root, alive), root);
    EXPECT_EQ(sites.acting(0, root, alive), Rank{0});
    EXPECT_EQ(sites.acting(2, root, alive), Rank{3});
    dead = {0, 4};
    EXPECT_EQ(sites.acting(1, root, alive), Rank{1});
    EXPECT_EQ(sites.acting(0, root, alive), Rank{2});
    dead = {1, 3, 4};
    EXPECT_EQ(sites.acting(1, root, alive), Rank{5});
    EXPECT_EQ(sites.acting(2, root, alive), std::nullopt);
}

}  // namespace
}  // namespace coppice::topology
