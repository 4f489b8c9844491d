// The repaired tree against its definition (SC'15, §2), by brute force.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "plans.hpp"

namespace coppice::protocol::testing {
namespace {

const char* const kShapes[] = {"binary",
                               "binomial",
                               "binomial:inorder",
                               "kary:3",
                               "kary:3:inorder",
                               "star",
                               "chain",
                               "lame:2",
                               "optimal",
                               "bin/bin",
                               "bin/star",
                               "star/binomial",
                               "chain/chain",
                               "heap",
                               "heap/heap",
                               "bin/bin/bin",
                               "star/chain/binomial",
                               "binomial/star/heap/bin",
                               "chain/kary:3/chain/star"};

topology::Nodes some_hosts(std::uint32_t ranks, std::uint32_t hosts) {
    std::vector<std::uint64_t> host_of;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
        host_of.push_back((rank * 7 + rank / 3) % hosts);
    return topology::Nodes::by_host(host_of);
}

// Three hosts on a leaf switch, two of those in a pod, and none in order.
std::vector<topology::Site> some_sites(const topology::Nodes& hosts) {
    std::vector<topology::Site> sites;
    for (std::uint32_t host = 0; host < hosts.count(); ++host) {
        const std::uint32_t leaf = (host * 5 + 1) % ((hosts.count() + 2) / 3);
        sites.push_back({.pod = leaf % ((leaf / 2) + 1), .leaf = leaf});
    }
    return sites;
}

// Parent(S, p) as written: the nearest live ancestor, else the lowest live elder, else nobody.
std::uint32_t parent_by_definition(const AgreementTree& tree, const FailedSet& failed, std::uint32_t rank) {
    for (std::uint32_t at = tree.parent(rank); at != AgreementTree::kNobody; at = tree.parent(at)) {
        if (!failed.contains(at)) return at;
    }
    for (std::uint32_t elder = 0; elder < rank; ++elder) {
        if (!failed.contains(elder)) return elder;
    }
    return AgreementTree::kNobody;
}

void expect_repaired(const AgreementTree& tree, const FailedSet& failed) {
    std::vector<std::set<std::uint32_t>> children(tree.ranks());
    for (std::uint32_t rank = 0; rank < tree.ranks(); ++rank) {
        if (failed.contains(rank)) continue;
        const std::uint32_t parent = parent_by_definition(tree, failed, rank);
        ASSERT_EQ(tree.repaired_parent(failed, rank), parent);
        if (parent != AgreementTree::kNobody) children[parent].insert(rank);
    }
    for (std::uint32_t rank = 0; rank < tree.ranks(); ++rank) {
        if (failed.contains(rank)) continue;
        std::set<std::uint32_t> found;
        for (std::uint32_t i = 0; i < tree.child_count(rank); ++i) {
            const std::uint32_t child = tree.child(rank, i);
            ASSERT_EQ(tree.child_index(rank, child), i);
            ASSERT_EQ(tree.parent(child), rank);
            if (!failed.contains(child)) found.insert(child);
        }
        std::vector<std::uint32_t> adopted;
        tree.adopted(failed, rank, adopted);
        ASSERT_TRUE(std::is_sorted(adopted.begin(), adopted.end()));
        for (const std::uint32_t child : adopted)
            ASSERT_TRUE(found.insert(child).second) << "adopted twice, or a child anyway";
        ASSERT_EQ(found, children[rank]) << "rank " << rank;
    }
}

TEST(RepairedTree, ParentAndChildrenAreThoseOfTheDefinitionForEverySetOfDead) {
    for (const char* shape : kShapes) {
        for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
            const topology::Nodes hosts = some_hosts(ranks, 3);
            const auto tree = AgreementTree::make(*parse_agreement_tree(shape), ranks, &hosts, {}, some_sites(hosts));
            ASSERT_TRUE(tree.has_value()) << shape << tree.error();
            for (std::uint32_t mask = 0; mask + 1 < 1U << ranks; ++mask) {
                FailedSet failed;
                for (std::uint32_t rank = 0; rank < ranks; ++rank) {
                    if ((mask >> rank & 1) != 0) failed.insert(rank);
                }
                expect_repaired(*tree, failed);
                ASSERT_FALSE(::testing::Test::HasFatalFailure()) << shape << " " << ranks << " dead " << mask;
            }
        }
    }
}

TEST(RepairedTree, AlsoOverTheRanksThatARebalancedTreeLeaves) {
    std::mt19937 random(3);
    for (const char* shape : kShapes) {
        for (int round = 0; round < 60; ++round) {
            const std::uint32_t ranks = 2 + below(random, 60);
            const topology::Nodes hosts = some_hosts(ranks, 1 + below(random, 9));
            FailedSet excluded;
            FailedSet failed;
            for (std::uint32_t rank = 0; rank < ranks - 1; ++rank) {
                if (below(random, 3) == 0) excluded.insert(rank);
                if (below(random, 4) == 0) failed.insert(rank);
            }
            failed.unite(excluded);
            const auto tree =
                AgreementTree::make(*parse_agreement_tree(shape), ranks, &hosts, excluded, some_sites(hosts));
            ASSERT_TRUE(tree.has_value());
            EXPECT_EQ(tree->standing(), ranks - excluded.count());
            expect_repaired(*tree, failed);
            ASSERT_FALSE(::testing::Test::HasFatalFailure()) << shape << " round " << round;
        }
    }
}

TEST(AgreementTree, ParentsHaveLowerRanks) {
    for (const char* shape : kShapes) {
        const topology::Nodes hosts = some_hosts(50, 7);
        const auto tree = AgreementTree::make(*parse_agreement_tree(shape), 50, &hosts, {}, some_sites(hosts));
        EXPECT_EQ(tree->parent(0), AgreementTree::kNobody);
        for (std::uint32_t rank = 1; rank < 50; ++rank)
            EXPECT_LT(tree->parent(rank), rank) << shape;
    }
}

TEST(AgreementTree, AcrossHostsOnlyTheLowestRankOfAHostTalksToOthers) {
    const topology::Nodes hosts = some_hosts(48, 6);
    const auto tree = AgreementTree::make(*parse_agreement_tree("bin/star"), 48, &hosts, {});
    std::uint32_t crossing = 0;
    for (std::uint32_t rank = 1; rank < 48; ++rank) {
        const std::uint32_t parent = tree->parent(rank);
        if (hosts.node_of(Rank{rank}) == hosts.node_of(Rank{parent})) continue;
        ++crossing;
        EXPECT_EQ(hosts.members(hosts.node_of(Rank{rank})).front(), Rank{rank});
        EXPECT_EQ(hosts.members(hosts.node_of(Rank{parent})).front(), Rank{parent});
    }
    EXPECT_EQ(crossing, 5U) << "one edge for each host but one";
}

// SC'15, §4: "each level can have its own tree and root, and … the roots of one level are the participants of the next".
TEST(AgreementTree, OneEdgeLeadsToEachGroupOfEachLevelAndTheLowestRanksHaveIt) {
    constexpr std::uint32_t kRanks = 96;
    std::vector<std::uint64_t> host_of;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
        host_of.push_back(rank * 11 % 24);
    const topology::Nodes hosts = topology::Nodes::by_host(host_of);
    std::vector<topology::Site> sites;
    for (std::uint32_t host = 0; host < 24; ++host)
        sites.push_back({.pod = host % 8 % 2, .leaf = host % 8});
    FailedSet excluded;
    for (const std::uint32_t rank : {0U, 5U, 6U, 7U, 40U})
        excluded.insert(rank);
    for (const FailedSet& without : {FailedSet{}, excluded}) {
        const auto tree =
            AgreementTree::make(*parse_agreement_tree("bin/star/chain/bin"), kRanks, &hosts, without, sites);
        ASSERT_TRUE(tree.has_value()) << tree.error();
        const auto key = [&](std::uint32_t rank, int level) {
            const std::uint32_t host = hosts.node_of(Rank{rank});
            return level == 0 ? host : level == 1 ? sites[host].leaf : sites[host].pod;
        };
        const std::array<std::uint32_t, 3> groups{24, 8, 2};
        for (int level = 0; level < 3; ++level) {
            SCOPED_TRACE(level);
            std::uint32_t crossing = 0;
            const auto is_lowest = [&](std::uint32_t rank) {
                for (std::uint32_t other = 0; other < rank; ++other) {
                    if (!without.contains(other) && key(other, level) == key(rank, level)) return false;
                }
                return true;
            };
            for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
                if (without.contains(rank)) continue;
                const std::uint32_t parent = tree->parent(rank);
                if (parent == AgreementTree::kNobody || key(rank, level) == key(parent, level)) continue;
                ++crossing;
                EXPECT_TRUE(is_lowest(rank) && is_lowest(parent)) << rank << " below " << parent;
            }
            EXPECT_EQ(crossing, groups[static_cast<std::size_t>(level)] - 1);
        }
    }
}

TEST(AgreementTree, LevelsThatAreNotKnownAreOneGroup) {
    const topology::Nodes hosts = some_hosts(48, 6);
    const auto two = AgreementTree::make(*parse_agreement_tree("bin/star"), 48, &hosts, {});
    const auto four = AgreementTree::make(*parse_agreement_tree("chain/heap/bin/star"), 48, &hosts, {});
    for (std::uint32_t rank = 0; rank < 48; ++rank)
        EXPECT_EQ(four->parent(rank), two->parent(rank));
    const std::vector<topology::Site> too_few(5);
    EXPECT_FALSE(AgreementTree::make(*parse_agreement_tree("bin/bin/bin"), 48, &hosts, {}, too_few).has_value());
}

TEST(AgreementTree, Figure1StarAndBinaryTreeWithNode1Dead) {
    // The paper numbers its binary tree by levels; ours by subtrees.
    const auto star = AgreementTree::make(*parse_agreement_tree("star"), 4, nullptr, {});
    EXPECT_EQ(star->repaired_parent(set_of({1}), 2), 0U);
    EXPECT_EQ(star->repaired_parent(set_of({1}), 3), 0U);
    const auto binary = AgreementTree::make(*parse_agreement_tree("binary"), 7, nullptr, {});
    ASSERT_EQ(binary->parent(1), 0U);
    ASSERT_EQ(binary->parent(2), 1U);
    ASSERT_EQ(binary->parent(3), 1U);
    EXPECT_EQ(binary->repaired_parent(set_of({1}), 2), 0U);
    EXPECT_EQ(binary->repaired_parent(set_of({1}), 3), 0U);
    EXPECT_EQ(binary->repaired_parent(set_of({1}), 5), 4U);
}

TEST(Degeneration, ManyDeathsDegenerateATreeAndFewDoNot) {
    const auto tree = AgreementTree::make(*parse_agreement_tree("binary"), 64, nullptr, {});
    EXPECT_FALSE(tree->is_degenerated({}));
    for (std::uint32_t rank = 0; rank < 64; ++rank)
        EXPECT_FALSE(tree->is_degenerated(set_of({rank}))) << "one death is not worth a new tree";
    // The root's children and grandchildren: the root has eight children now.
    FailedSet upper;
    for (std::uint32_t i = 0; i < 2; ++i) {
        upper.insert(tree->child(0, i));
        for (std::uint32_t j = 0; j < 2; ++j)
            upper.insert(tree->child(tree->child(0, i), j));
    }
    std::vector<std::uint32_t> adopted;
    tree->adopted(upper, 0, adopted);
    ASSERT_EQ(adopted.size(), 8U);
    EXPECT_TRUE(tree->is_degenerated(upper));
    FailedSet half;
    half.append({32, 63});
    EXPECT_TRUE(tree->is_degenerated(half));
    const auto fresh = AgreementTree::make(tree->spec(), 64, nullptr, half);
    EXPECT_FALSE(fresh->is_degenerated(half)) << "a new tree does not have them";
    EXPECT_EQ(fresh->max_degree(), 2U);
}

TEST(AgreementTreeNames, AreReadAndWritten) {
    for (const char* name : {"binary", "binomial", "kary:4", "star", "chain", "binary/binary", "binary/star",
                             "lame:2/chain", "heap", "heap/star", "star/heap/binary", "chain/star/kary:3/binary"}) {
        const auto spec = parse_agreement_tree(name);
        ASSERT_TRUE(spec.has_value()) << name;
        EXPECT_EQ(to_string(*spec), name);
    }
    EXPECT_EQ(parse_agreement_tree("heap"), parse_agreement_tree("kary:2:heap"));
    EXPECT_EQ(parse_agreement_tree("bin/bin"), parse_agreement_tree("binary/binary"));
    for (const char* name : {"", "bi", "bin/", "/bin", "bin//bin", "bin/bin/", "bin/bin/bin/bin/bin", "bin/oak/bin",
                             "kary", "kary:0", "star:2"})
        EXPECT_FALSE(parse_agreement_tree(name).has_value()) << name;
}

TEST(AgreementTree, RefusesWhatCannotBe) {
    const auto spec = *parse_agreement_tree("binary");
    EXPECT_FALSE(AgreementTree::make(spec, 0, nullptr, {}).has_value());
    EXPECT_FALSE(AgreementTree::make(spec, 3, nullptr, set_of({0, 1, 2})).has_value()) << "nobody left";
    EXPECT_FALSE(AgreementTree::make(spec, 3, nullptr, set_of({3})).has_value());
    EXPECT_FALSE(AgreementTree::make(*parse_agreement_tree("bin/bin"), 3, nullptr, {}).has_value()) << "no hosts";
}

}  // namespace
}  // namespace coppice::protocol::testing
