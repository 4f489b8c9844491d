// The radix tree of Varma et al., ICS'06: §3.1, §3.2 and the recalculation of §3.4.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/words.hpp"
#include "protocol/membership/radix_tree.hpp"
#include "simulation/random.hpp"

namespace coppice::protocol {
namespace {

constexpr std::uint32_t kNobody = RadixTree::kNobody;

std::vector<std::uint32_t> children_of(const RadixTree& tree, std::uint32_t position, const FailedSet& dead = {}) {
    std::vector<std::uint32_t> children;
    tree.for_children(position, dead, [&children](std::uint32_t child) { children.push_back(child); });
    return children;
}

FailedSet set_of(const std::vector<std::uint32_t>& members) {
    FailedSet set;
    for (const std::uint32_t member : members)
        set.insert(member);
    return set;
}

// "Two bits indicate which link to follow to determine the location of a child in the tree."
TEST(RadixTree, M1TheDigitsOfAPositionAreTheWayFromTheRoot) {
    for (const std::uint32_t bits : {1U, 2U, 3U, 5U}) {
        const RadixTree tree(bits, 5000);
        for (std::uint32_t position = 0; position < tree.size(); ++position) {
            std::uint32_t at = 0;
            for (std::uint32_t level = 1; level <= tree.level(position); ++level) {
                at = tree.child(at, tree.digit(position, level));
                ASSERT_EQ(at, tree.ancestor(position, level));
            }
            ASSERT_EQ(at, position);
        }
    }
}

TEST(RadixTree, M1TheNextHopLeadsToEveryMemberFromEveryOther) {
    const RadixTree tree(2, 100);
    for (std::uint32_t from = 0; from < tree.size(); ++from) {
        for (std::uint32_t to = 0; to < tree.size(); ++to) {
            std::uint32_t at = from;
            std::uint32_t hops = 0;
            while (at != to) {
                ASSERT_LE(++hops, 2 * tree.height());
                at = tree.next_hop(at, to);
                ASSERT_LT(at, tree.size());
            }
        }
    }
}

// "Provides access to arbitrary nodes at constant time": no walk is longer in a larger tree.
TEST(RadixTree, M2EveryMemberIsFoundWithoutATable) {
    const RadixTree tree(1, kMaxProcesses);
    EXPECT_EQ(tree.parent(kMaxProcesses - 1), kMaxProcesses / 2 - 1);
    EXPECT_EQ(tree.level(kMaxProcesses - 2), 30U);
    EXPECT_EQ(tree.level(kMaxProcesses - 1), 31U);
    EXPECT_EQ(tree.child_count(kMaxProcesses - 1), 0U);
    EXPECT_EQ(tree.next_hop(0, kMaxProcesses - 1), 1U);
}

// "The knowledge of the number of children and the total number of nodes is sufficient."
TEST(RadixTree, M3EveryMemberFormsTheSameTreeWithTheLowestAsItsRoot) {
    for (const std::uint32_t bits : {1U, 2U, 4U}) {
        for (const std::uint32_t size : {1U, 2U, 5U, 6U, 21U, 22U, 341U, 1024U}) {
            const RadixTree tree(bits, size);
            std::vector<std::uint32_t> found;
            for (std::uint32_t position = 0; position < size; ++position) {
                const auto children = children_of(tree, position);
                EXPECT_LE(children.size(), tree.radix());
                EXPECT_EQ(children.size(), tree.child_count(position));
                for (const std::uint32_t child : children) {
                    EXPECT_EQ(tree.parent(child), position);
                    found.push_back(child);
                }
            }
            EXPECT_EQ(tree.parent(0), kNobody);
            std::ranges::sort(found);
            ASSERT_EQ(found.size(), size - 1);
            for (std::uint32_t i = 0; i < found.size(); ++i)
                ASSERT_EQ(found[i], i + 1);
        }
    }
}

// The heights behind equation 2's values, and "above 5 and 21 nodes" for a = 4 (§7.2).
TEST(RadixTree, TheHeightsAreThoseOfThePaper) {
    const auto height = [](std::uint32_t bits, std::uint32_t size) { return RadixTree(bits, size).height(); };
    EXPECT_EQ(height(1, 1023), 10U);
    EXPECT_EQ(height(1, 1024), 11U);
    EXPECT_EQ(height(2, 1024), 6U);
    EXPECT_EQ(height(2, 5), 2U);
    EXPECT_EQ(height(2, 6), 3U);
    EXPECT_EQ(height(2, 21), 3U);
    EXPECT_EQ(height(2, 22), 4U);
    EXPECT_EQ(height(1, 47), 6U);
    EXPECT_EQ(height(2, 47), 4U);
    EXPECT_EQ(height(1, 1), 1U);
    EXPECT_EQ(height(1, 0), 0U);
}

// "(1) assigning the parent of C(D) as P(D), (2) removing D from the list of children of P(D), (3) merging the list of
// children of D with the list of children of P(D) and (4) removing the list of children from D."
TEST(RadixTree, M5TheChildrenOfTheDeadGoToItsParent) {
    const RadixTree tree(1, 15);
    const FailedSet dead = set_of({4});
    EXPECT_EQ(children_of(tree, 1, dead), (std::vector<std::uint32_t>{3, 9, 10}));
    EXPECT_EQ(tree.parent(9, dead), 1U);
    EXPECT_EQ(tree.parent(10, dead), 1U);
    EXPECT_EQ(children_of(tree, 3, dead), (std::vector<std::uint32_t>{7, 8}));
    // §3.5: 5 dies, too; then the parent of both.
    EXPECT_EQ(children_of(tree, 2, set_of({4, 5})), (std::vector<std::uint32_t>{11, 12, 6}));
    EXPECT_EQ(children_of(tree, 0, set_of({1, 4})), (std::vector<std::uint32_t>{3, 9, 10, 2}));
}

// §3.6: "a sequential scan suffices to designate a new root".
TEST(RadixTree, M9TheNextLivingMemberTakesTheDeadRootsPlace) {
    const RadixTree tree(1, 7);
    const FailedSet dead = set_of({0});
    EXPECT_EQ(tree.root(dead), 1U);
    EXPECT_EQ(tree.parent(1, dead), kNobody);
    EXPECT_EQ(tree.parent(2, dead), 1U);
    EXPECT_EQ(children_of(tree, 1, dead), (std::vector<std::uint32_t>{2, 3, 4}));
    EXPECT_EQ(children_of(tree, 2, set_of({0, 1})), (std::vector<std::uint32_t>{3, 4, 5, 6}));
    EXPECT_EQ(tree.root(set_of({0, 1, 2, 3, 4, 5, 6})), kNobody);
}

TEST(RadixTree, M5WhoeverDiesTheLivingAreOneTree) {
    simulation::Random random(7);
    for (int round = 0; round < 2000; ++round) {
        const RadixTree tree(1 + random.below(4), 1 + random.below(200));
        FailedSet dead;
        const std::uint32_t deaths = random.below(tree.size());
        for (std::uint32_t i = 0; i < deaths; ++i)
            dead.insert(random.below(tree.size()));
        std::uint32_t reached = 1;
        for (std::uint32_t position = 0; position < tree.size(); ++position) {
            if (dead.contains(position)) continue;
            for (const std::uint32_t child : children_of(tree, position, dead)) {
                ASSERT_FALSE(dead.contains(child));
                ASSERT_EQ(tree.parent(child, dead), position);
                ASSERT_LT(position, child);
                ++reached;
            }
        }
        ASSERT_EQ(reached, tree.size() - dead.count());
        ASSERT_EQ(tree.parent(tree.root(dead), dead), kNobody);
    }
}

// Of every living position but the root, which is the lowest: its parent has it for a child, and no other has.
void expect_a_tree(const RadixTree& tree, const FailedSet& dead) {
    std::vector<std::uint32_t> parents(tree.size(), kNobody);
    for (std::uint32_t position = 0; position < tree.size(); ++position) {
        if (dead.contains(position)) continue;
        for (const std::uint32_t child : children_of(tree, position, dead)) {
            ASSERT_EQ(parents[child], kNobody);
            parents[child] = position;
        }
    }
    for (std::uint32_t position = 0; position < tree.size(); ++position) {
        if (dead.contains(position)) continue;
        ASSERT_EQ(tree.parent(position, dead), parents[position]) << position;
        ASSERT_EQ(parents[position] == kNobody, position == tree.root(dead)) << position;
    }
}

TEST(RadixTree, AWaveReachesEachHostByOneMessage) {
    const std::vector<std::uint64_t> in_blocks{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
    const std::vector<std::uint64_t> in_turns{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2};
    for (const auto& keys : {in_blocks, in_turns}) {
        const topology::Nodes hosts = topology::Nodes::by_host(keys);
        const RadixTree tree(4, 12, &hosts);
        std::uint32_t crossing = 0;
        for (std::uint32_t position = 1; position < 12; ++position)
            crossing += keys[tree.parent(position)] != keys[position];
        EXPECT_EQ(crossing, 2U);
    }
}

TEST(RadixTree, ATreeOfHostsIsOneWhicheverAreDead) {
    const std::vector<std::uint64_t> keys{0, 1, 1, 0, 2, 1, 0, 3, 2, 0};
    const topology::Nodes hosts = topology::Nodes::by_host(keys);
    for (const std::uint32_t bits : {1U, 2U, 4U}) {
        const RadixTree tree(bits, 10, &hosts);
        for (std::uint32_t set = 0; set < 1U << 10; ++set) {
            FailedSet dead;
            for (std::uint32_t position = 0; position < 10; ++position)
                if ((set >> position & 1) != 0) dead.insert(position);
            expect_a_tree(tree, dead);
        }
    }
}

}  // namespace
}  // namespace coppice::protocol
