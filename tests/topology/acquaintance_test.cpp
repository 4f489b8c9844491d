// Whose addresses a rank has from the start, and that what lies beyond is few steps away.
#include "topology/acquaintance.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

namespace coppice::topology {
namespace {

// Blocks of ranks on hosts, the last ones shorter by one.
Nodes blocks(std::uint32_t ranks, std::uint32_t of_host) {
    std::vector<std::uint64_t> hosts;
    for (std::uint32_t r = 0; r < ranks; ++r)
        hosts.push_back(r / of_host);
    return Nodes::by_host(hosts);
}

// In nodes, the shorter way round; 0 on one node.
std::uint32_t distance(const Nodes& nodes, Rank from, Rank to) {
    const std::uint32_t a = nodes.node_of(from);
    const std::uint32_t b = nodes.node_of(to);
    const std::uint32_t apart = a < b ? b - a : a - b;
    return std::min(apart, nodes.count() - apart);
}

std::uint32_t log2_up(std::uint32_t number) {
    return static_cast<std::uint32_t>(std::bit_width(number - 1));
}
std::uint32_t log2_down(std::uint32_t number) {
    return static_cast<std::uint32_t>(std::bit_width(number) - 1);
}

class Jobs : public ::testing::TestWithParam<std::pair<std::uint32_t, std::uint32_t>> {
  public:
    static constexpr std::uint32_t kRing = 2;
    Acquaintance acquaintance() const { return {blocks(GetParam().first, GetParam().second), kRing}; }
};
INSTANTIATE_TEST_SUITE_P(sizes, Jobs,
                         ::testing::Values(std::pair(1U, 1U), std::pair(2U, 1U), std::pair(3U, 1U), std::pair(16U, 1U),
                                           std::pair(33U, 1U), std::pair(100U, 1U), std::pair(1000U, 1U),
                                           std::pair(1024U, 1U), std::pair(7U, 3U), std::pair(50U, 4U),
                                           std::pair(1000U, 8U), std::pair(1021U, 16U)));

TEST_P(Jobs, a_rank_knows_few_of_other_hosts) {
    const Acquaintance all = acquaintance();
    const std::uint32_t ranks = all.nodes().ranks();
    for (std::uint32_t r = 0; r < ranks; ++r) {
        const auto known = all.of(Rank(r));
        const auto far =
            std::ranges::count_if(known, [&](Rank one) { return distance(all.nodes(), one, Rank(r)) > 0; });
        const auto rows = all.nodes().members(all.nodes().node_of(Rank(r))).size();
        EXPECT_LE(far, 2 * (log2_up(all.nodes().count()) + std::bit_width(rows) - 1) + 2 * kRing + 2);
        EXPECT_LE(far, 2 * log2_down(ranks) + 2 * kRing + 4);
    }
}

// But where a host has fewer ranks.
TEST_P(Jobs, two_ranks_know_each_other_or_neither) {
    const Acquaintance all = acquaintance();
    const Nodes& nodes = all.nodes();
    const auto size_at = [&nodes](Rank rank) { return nodes.members(nodes.node_of(rank)).size(); };
    for (std::uint32_t r = 0; r<all.nodes().ranks(); r += all.nodes().ranks()> 200 ? 37 : 1) {
        const auto known = all.of(Rank(r));
        EXPECT_FALSE(std::ranges::binary_search(known, Rank(r)));
        std::vector<Rank> mutual;
        for (const Rank other : known) {
            const bool knows_it = std::ranges::binary_search(all.of(other), Rank(r));
            EXPECT_TRUE(knows_it || size_at(other) < size_at(Rank(r))) << r << " and " << other.value;
            if (knows_it) mutual.push_back(other);
        }
        EXPECT_EQ(all.mutual(Rank(r)), mutual);
    }
}

// Its leader may be dead.
TEST(acquaintance, a_rank_of_the_only_large_host_knows_others) {
    const std::vector<std::uint64_t> hosts{0, 1, 2, 3, 4, 5, 0, 0, 0};
    const Acquaintance all(Nodes::by_host(hosts), 1);
    for (const Rank rank : {Rank(6), Rank(7), Rank(8)}) {
        const auto known = all.of(rank);
        for (const Rank far : {Rank(1), Rank(2), Rank(4), Rank(5)})
            EXPECT_TRUE(std::ranges::binary_search(known, far)) << rank.value << " and " << far.value;
        EXPECT_FALSE(std::ranges::binary_search(all.mutual(rank), Rank(2)));
    }
}

TEST_P(Jobs, leaders_and_a_whole_host_are_known) {
    const Acquaintance all = acquaintance();
    const Nodes& nodes = all.nodes();
    for (std::uint32_t node = 0; node<nodes.count(); node += nodes.count()> 200 ? 37 : 1) {
        const Rank leader = nodes.members(node).front();
        const auto known = all.of(leader);
        for (const Rank local : nodes.members(node))
            EXPECT_TRUE(local == leader || std::ranges::binary_search(known, local));
        for (std::uint32_t places = 1; places < nodes.count(); places *= 2) {
            const Rank other = nodes.members((node + places) % nodes.count()).front();
            EXPECT_TRUE(std::ranges::binary_search(known, other));
        }
    }
}

// Greedily, from leader to leader, each step halves the way.
TEST_P(Jobs, every_host_is_few_steps_away) {
    const Acquaintance all = acquaintance();
    const Nodes& nodes = all.nodes();
    const Rank from = nodes.members(0).front();
    for (std::uint32_t node = 0; node < nodes.count(); ++node) {
        const Rank to = nodes.members(node).back();
        Rank at = from;
        std::uint32_t steps = 0;
        for (; distance(nodes, at, to) > 0; ++steps) {
            ASSERT_LE(steps, all.steps());
            Rank next = at;
            for (const Rank one : all.of(at))
                if (distance(nodes, one, to) < distance(nodes, next, to)) next = one;
            ASSERT_LE(2 * distance(nodes, next, to), distance(nodes, at, to));
            at = next;
        }
        EXPECT_LE(steps, all.steps());
    }
}

}  // namespace
}  // namespace coppice::topology
