// Placement on the ring of leaves and in the tree of trees; the sentences of docs/topology.md, one by one.
#include "topology/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "topology/fat_tree.hpp"
#include "topology/placement_gaps.hpp"

namespace coppice::topology {
namespace {

Placement place(std::span<const Site> sites, const TreeSpec& spec = {}) {
    auto made = Placement::make(sites, spec);
    EXPECT_TRUE(made.has_value()) << made.error();
    return std::move(*made);
}

Placement place(const FatTree& tree, const TreeSpec& spec = {}) {
    return place(tree.sites(tree.hosts()), spec);
}

// Pods of any sizes, of leaves of any sizes; hosts in an order of their own.
std::vector<Site> ragged(std::uint32_t pods, std::uint32_t most_leaves, std::uint32_t most_hosts, std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto up_to = [&random](std::uint32_t most) { return 1 + static_cast<std::uint32_t>(random() % most); };
    std::vector<Site> sites;
    std::uint32_t leaf = 0;
    for (std::uint32_t pod = 0; pod < pods; ++pod) {
        const std::uint32_t leaves = up_to(most_leaves);
        for (std::uint32_t i = 0; i < leaves; ++i, ++leaf) {
            const std::uint32_t hosts = up_to(most_hosts);
            for (std::uint32_t h = 0; h < hosts; ++h)
                sites.push_back({pod * 7 + 3, leaf * 5 + 1});
        }
    }
    std::shuffle(sites.begin(), sites.end(), random);
    return sites;
}

const std::vector<TreeSpec> kSpecs = {{.shape = TreeShape::binomial},
                                      {.shape = TreeShape::lame, .order = 3},
                                      {.shape = TreeShape::kary, .order = 4},
                                      {.shape = TreeShape::optimal, .latency = 3, .overhead = 2},
                                      {.shape = TreeShape::star},
                                      {.shape = TreeShape::chain}};

constexpr TreeSpec kInterleavedOptimal{.shape = TreeShape::optimal, .latency = 4, .overhead = 1};

// Every host but the root has one parent, whose child it is; all are below the root; every switch is entered once.
void expect_tree(const Placement& placement, std::uint32_t root) {
    std::vector<std::uint32_t> parents(placement.hosts(), UINT32_MAX);
    std::map<std::uint32_t, int> into_leaf;
    std::map<std::uint32_t, int> into_pod;
    std::vector<std::uint32_t> open{root};
    std::uint32_t reached = 1;
    while (!open.empty()) {
        const std::uint32_t host = open.back();
        open.pop_back();
        for (std::uint32_t index = 0; index < placement.child_count(root, host); ++index) {
            const std::uint32_t child = placement.child(root, host, index);
            ASSERT_NE(child, root);
            ASSERT_EQ(parents[child], UINT32_MAX) << child << " has two parents";
            parents[child] = host;
            ASSERT_EQ(placement.parent(root, child), host);
            const std::uint32_t from = placement.leaf_of(host);
            const std::uint32_t to = placement.leaf_of(child);
            if (from != to) ++into_leaf[to];
            if (placement.pod_of(from) != placement.pod_of(to)) ++into_pod[placement.pod_of(to)];
            open.push_back(child);
            ++reached;
        }
    }
    ASSERT_EQ(reached, placement.hosts());
    ASSERT_EQ(placement.parent(root, root), std::nullopt);
    ASSERT_EQ(into_leaf.size(), placement.leaves() - 1);
    ASSERT_EQ(into_pod.size(), placement.pods() - 1);
    for (const auto& [leaf, times] : into_leaf)
        ASSERT_EQ(times, 1) << "leaf " << leaf;
    for (const auto& [pod, times] : into_pod)
        ASSERT_EQ(times, 1) << "pod " << pod;
}

TEST(Placement, EntersEverySwitchOnceFromEveryRootOfAFatTree) {
    for (const std::uint32_t ports : {2U, 4U, 6U, 8U}) {
        for (const std::uint32_t levels : {2U, 3U}) {
            for (const TreeSpec& spec : kSpecs) {
                const Placement placement = place(FatTree{ports, levels}, spec);
                for (std::uint32_t root = 0; root < placement.hosts(); ++root)
                    ASSERT_NO_FATAL_FAILURE(expect_tree(placement, root)) << to_string(spec) << " " << ports;
            }
        }
    }
}

TEST(Placement, EntersEverySwitchOnceInRaggedTreesToo) {
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
        const Placement placement =
            place(ragged(1 + seed % 7, 1 + seed % 5, 1 + seed % 6, seed), kSpecs[seed % kSpecs.size()]);
        for (std::uint32_t root = 0; root < placement.hosts(); ++root)
            ASSERT_NO_FATAL_FAILURE(expect_tree(placement, root)) << "seed " << seed;
    }
}

TEST(Placement, NumbersLeavesByTheirPlacesOnTheRingAndHostsWithin) {
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
        const std::vector<Site> sites = ragged(1 + seed % 9, 6, 5, seed);
        const Placement placement = place(sites);
        std::set<std::uint32_t> seen;
        for (std::uint32_t leaf = 0; leaf < placement.leaves(); ++leaf) {
            std::uint32_t index = 0;
            for (const std::uint32_t host : placement.hosts_of(leaf)) {
                EXPECT_TRUE(seen.insert(host).second);
                EXPECT_EQ(placement.leaf_of(host), leaf);
                EXPECT_EQ(placement.index_in_leaf(host), index++);
                EXPECT_EQ(sites[host], sites[placement.hosts_of(leaf).front()]);
            }
        }
        EXPECT_EQ(seen.size(), sites.size());
        for (std::uint32_t a = 0; a < placement.leaves(); ++a) {
            for (std::uint32_t b = 0; b < placement.leaves(); ++b) {
                const bool together =
                    sites[placement.hosts_of(a).front()].pod == sites[placement.hosts_of(b).front()].pod;
                EXPECT_EQ(placement.pod_of(a) == placement.pod_of(b), together);
            }
        }
    }
}

std::uint32_t nearest_by_hand(const Placement& placement) {
    std::uint32_t nearest = placement.leaves();
    for (std::uint32_t a = 0; a < placement.leaves(); ++a) {
        for (std::uint32_t b = 0; b < placement.leaves(); ++b) {
            if (a != b && placement.pod_of(a) == placement.pod_of(b))
                nearest = std::min(nearest, ring_distance(Position{a}, Position{b}, placement.leaves()));
        }
    }
    return nearest;
}

std::uint64_t close_pairs_by_hand(const Placement& placement, std::uint32_t reach) {
    std::uint64_t pairs = 0;
    for (std::uint32_t a = 0; a < placement.leaves(); ++a) {
        for (std::uint32_t b = a + 1; b < placement.leaves(); ++b) {
            pairs += placement.pod_of(a) == placement.pod_of(b) &&
                     ring_distance(Position{a}, Position{b}, placement.leaves()) <= reach;
        }
    }
    return pairs;
}

// No arrangement can have the largest pod's n leaves farther apart than the ring's length over n.
TEST(Spread, KeepsLeavesOfOnePodAsFarApartAsTheLargestPodAllows) {
    for (std::uint32_t seed = 0; seed < 400; ++seed) {
        const Placement placement = place(ragged(2 + seed % 30, 1 + seed % 12, 1, seed));
        const std::uint32_t largest = placement.leaves_of(0);
        const auto spread = placement.spread(3);
        ASSERT_EQ(spread.nearest, nearest_by_hand(placement)) << seed;
        ASSERT_GE(spread.nearest, placement.leaves() / largest) << seed;
        for (std::uint32_t reach = 1; reach < 8; ++reach)
            ASSERT_EQ(placement.spread(reach).close_pairs, close_pairs_by_hand(placement, reach))
                << seed << " " << reach;
        for (std::uint32_t distance = 1; distance < 4; ++distance) {
            if (largest > placement.leaves() / (2 * distance + 2)) continue;
            ASSERT_EQ(placement.spread(2 * distance + 1).close_pairs, 0U) << seed << " " << distance;
        }
    }
}

// A pod of a leaves among b others has at least a - b pairs of neighbours, wherever they stand.
TEST(Spread, HasNoMoreNeighboursOfOnePodThanMustBe) {
    for (std::uint32_t a = 1; a < 12; ++a) {
        for (std::uint32_t b = 0; b < 12; ++b) {
            std::vector<Site> sites;
            for (std::uint32_t i = 0; i < a; ++i)
                sites.push_back({0, i});
            for (std::uint32_t i = 0; i < b; ++i)
                sites.push_back({1 + i, a + i});
            if (a + b < 3) continue;
            EXPECT_EQ(place(sites).spread(1).close_pairs, a > b ? a - b : 0) << a << " " << b;
        }
    }
}

// All rings of pods of these sizes, as the pod of each place; the first leaf stands at the first place.
void try_rings(std::vector<std::uint32_t>& left, std::vector<std::uint32_t>& ring, std::uint32_t leaves,
               const std::function<void(const std::vector<std::uint32_t>&)>& see) {
    if (ring.size() == leaves) return see(ring);
    for (std::uint32_t pod = 0; pod < left.size(); ++pod) {
        if (left[pod] == 0) continue;
        --left[pod];
        ring.push_back(pod);
        try_rings(left, ring, leaves, see);
        ring.pop_back();
        ++left[pod];
    }
}

TEST(Spread, NoOtherRingHasTheNearestFartherApartOrFewerNeighboursOfOnePod) {
    const std::vector<std::vector<std::uint32_t>> kPods{
        {2, 1},       {3},       {2, 2}, {3, 1},    {2, 2, 1}, {3, 2},       {4, 2},    {3, 3},       {2, 2, 2},
        {3, 2, 1, 1}, {3, 3, 1}, {5, 2}, {4, 2, 2}, {3, 3, 2}, {3, 2, 2, 1}, {5, 2, 1}, {2, 2, 2, 2}, {4, 1, 1, 1, 1}};
    for (const auto& sizes : kPods) {
        std::vector<Site> sites;
        for (std::uint32_t pod = 0; pod < sizes.size(); ++pod) {
            for (std::uint32_t i = 0; i < sizes[pod]; ++i)
                sites.push_back({pod, static_cast<std::uint32_t>(sites.size())});
        }
        const auto leaves = static_cast<std::uint32_t>(sites.size());
        std::uint32_t farthest = 0;
        std::uint64_t fewest = UINT64_MAX;
        std::vector<std::uint32_t> left = sizes, ring{0};
        --left[0];
        try_rings(left, ring, leaves, [&](const std::vector<std::uint32_t>& pods) {
            std::uint32_t nearest = leaves;
            std::uint64_t neighbours = 0;
            for (std::uint32_t one = 0; one < leaves; ++one) {
                for (std::uint32_t other = one + 1; other < leaves; ++other) {
                    if (pods[one] != pods[other]) continue;
                    const std::uint32_t apart = std::min(other - one, leaves - (other - one));
                    nearest = std::min(nearest, apart);
                    neighbours += apart == 1;
                }
            }
            farthest = std::max(farthest, nearest);
            fewest = std::min(fewest, neighbours);
        });
        EXPECT_EQ(place(sites).spread(1).nearest, farthest) << ::testing::PrintToString(sizes);
        EXPECT_EQ(place(sites).spread(1).close_pairs, fewest) << ::testing::PrintToString(sizes);
    }
}

// docs/topology.md, Theorem 2.
TEST(Gaps, AreOfOneLeafWhicheverLeafOrPodOfAFatTreeIsDead) {
    for (std::uint32_t ports = 2; ports <= 64; ports += ports < 16 ? 2 : 8) {
        for (const std::uint32_t levels : {2U, 3U}) {
            for (const TreeSpec& spec : {kSpecs[0], kSpecs[1], kSpecs[2], kSpecs[4], kInterleavedOptimal}) {
                const Placement placement = place(FatTree{ports, levels}, spec);
                PlacementGaps gaps(placement);
                // All roots of small trees; of large ones the first and one in the midst.
                const std::uint32_t step = ports <= 8 ? 1 : placement.hosts() / 2 + 1;
                for (std::uint32_t root = 0; root < placement.hosts(); root += step) {
                    const std::uint32_t own = placement.leaf_of(root);
                    for (std::uint32_t leaf = 0; leaf < placement.leaves(); ++leaf) {
                        if (leaf == own) continue;
                        ASSERT_EQ(gaps.longest(root, std::array{leaf}), 1U) << ports << " " << root << " " << leaf;
                    }
                    for (std::uint32_t pod = 0; pod < placement.pods(); ++pod) {
                        if (pod == placement.pod_of(own)) continue;
                        ASSERT_EQ(gaps.longest(root, leaves_of_pod(placement, pod)), 1U) << ports << " " << pod;
                    }
                }
            }
        }
    }
}

// In ragged trees a dead leaf within a pod leaves gaps of one all the same: the tree below it stays in its pod.
TEST(Gaps, OfALeafThatIsNotItsPodsFirstAreOfOneInRaggedTreesToo) {
    for (std::uint32_t seed = 0; seed < 100; ++seed) {
        const Placement placement = place(ragged(3 + seed % 9, 4, 2, seed));
        if (placement.spread(1).close_pairs > 0) continue;
        PlacementGaps gaps(placement);
        for (std::uint32_t root = 0; root < placement.hosts(); ++root) {
            for (std::uint32_t leaf = 0; leaf < placement.leaves(); ++leaf) {
                const auto parent = placement.parent_leaf(root, leaf);
                if (!parent || placement.pod_of(*parent) != placement.pod_of(leaf)) continue;
                ASSERT_EQ(gaps.longest(root, std::array{leaf}), 1U) << seed;
            }
        }
    }
}

TEST(Placement, IsTheSameForTheSameSitesHoweverSwitchesAreNumbered) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        std::vector<Site> sites = ragged(5, 4, 3, seed);
        const Placement one = place(sites);
        for (Site& site : sites)
            site = {9000 - site.pod, 7000 - site.leaf};
        const Placement other = place(sites);
        for (std::uint32_t host = 0; host < one.hosts(); ++host) {
            EXPECT_EQ(one.leaf_of(host), other.leaf_of(host));
            EXPECT_EQ(one.index_in_leaf(host), other.index_in_leaf(host));
        }
    }
}

// So connections can be made, and landing slots prepared, when the group is made: whichever the root, a host only ever hears from
// as many others as one in a tree of one level.
TEST(Placement, HasFewSendersToAHostOverAllRoots) {
    for (const std::uint32_t ports : {4U, 6U, 8U, 12U}) {
        const Placement placement = place(FatTree{ports, 3});
        const auto most = [](std::uint32_t size) { return static_cast<std::size_t>(std::bit_width(size - 1)); };
        std::vector<std::set<std::uint32_t>> senders(placement.hosts());
        for (std::uint32_t root = 0; root < placement.hosts(); ++root) {
            for (std::uint32_t host = 0; host < placement.hosts(); ++host) {
                if (const auto parent = placement.parent(root, host)) senders[host].insert(*parent);
            }
        }
        for (const auto& of_host : senders)
            EXPECT_LE(of_host.size(), most(ports) + 2 * most(ports / 2));
    }
}

TEST(Placement, RefusesALeafInTwoPodsAndNoHostAtAll) {
    const std::vector<Site> sites{{0, 1}, {0, 2}, {1, 2}};
    const auto made = Placement::make(sites, TreeSpec{});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error(), "hosts 1 and 2 are on one leaf switch, number 2, but in two pods, 0 and 1");
    EXPECT_FALSE(Placement::make({}, TreeSpec{}));
    EXPECT_FALSE(Placement::make(sites, {.shape = TreeShape::lame, .order = 0}));
}

TEST(Placement, OfTheLargestFatTreeTakesNoMoreThanFourMebibytes) {
    const Placement placement = place(FatTree{64, 3});
    EXPECT_EQ(placement.hosts(), 65536U);
    EXPECT_EQ(placement.leaves(), 2048U);
    EXPECT_LE(placement.memory(), std::size_t{4} << 20);
    // Each host a leaf of its own, in a pod of its own: the most that a group of so many can ask for.
    std::vector<Site> alone(65536);
    for (std::uint32_t host = 0; host < alone.size(); ++host)
        alone[host] = {host, host};
    EXPECT_LE(place(alone).memory(), std::size_t{4} << 20);
}

TEST(FatTree, ReadsWhatItWrites) {
    for (const char* text : {"fattree:4:3", "fattree:64:3", "fattree:8:2", "fattree:8:3:2"}) {
        const auto tree = parse_fat_tree(text);
        ASSERT_TRUE(tree) << text;
        EXPECT_EQ(to_string(*tree), text);
    }
    EXPECT_EQ(*parse_fat_tree("fattree:16"), (FatTree{16, 3, 1}));
    EXPECT_EQ(*parse_fat_tree("fattree:16::4"), (FatTree{16, 3, 4}));
    EXPECT_EQ(parse_fat_tree("fattree:64")->hosts(), 65536U);
    EXPECT_EQ(parse_fat_tree("fattree:8:2")->hosts(), 32U);
    for (const char* text :
         {"", "fattree", "fattree:", "fattree:3", "fattree:0", "fattree:4:1", "fattree:4:4", "fattree:8:3:3",
          "fattree:8:3:8", "fattree:8:3:2:1", "fattree:258", "torus:4", "fattree:-4", "fattree: 4"})
        EXPECT_FALSE(parse_fat_tree(text)) << text;
}

}  // namespace
}  // namespace coppice::topology
