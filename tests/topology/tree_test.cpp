// What every tree must be, for every small P and at the largest.
#include "topology/tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <random>
#include <set>
#include <vector>

#include "trees.hpp"

namespace coppice::topology {
namespace {

constexpr std::uint32_t kAll = 300;

// A tree by its parents alone, as an independent walk sees it.
std::vector<std::uint32_t> parents_of(const Tree& of) {
    std::vector<std::uint32_t> parents(of.processes(), 0);
    for (std::uint32_t p = 1; p < of.processes(); ++p)
        parents[p] = of.parent(Position{p}).value().value;
    return parents;
}

bool is_ancestor(const std::vector<std::uint32_t>& parents, std::uint32_t above, std::uint32_t below) {
    while (below > above)
        below = parents[below];
    return below == above;
}

// Definition 1 of PPoPP'19 §3.2, word for word.
bool is_interleaved(const Tree& of) {
    struct Node {
        std::uint32_t position;
        std::uint32_t branch;  // the child of the subtree's root that it descends from
    };
    const auto parents = parents_of(of);
    std::vector<std::vector<Node>> rings(of.processes());
    for (std::uint32_t p = 0; p < of.processes(); ++p) {
        rings[p].push_back({p, p});
        for (std::uint32_t at = p; at != 0; at = parents[at])
            rings[parents[at]].push_back({p, at});
    }
    for (const auto& ring : rings) {
        for (std::size_t i = 0; i < ring.size(); ++i) {
            const Node a = ring[i];
            const Node b = ring[(i + 1) % ring.size()];
            if (a.branch != b.branch) continue;  // their only common ancestor is the subtree's root, or one is it
            if (!is_ancestor(parents, std::min(a.position, b.position), std::max(a.position, b.position))) return false;
        }
    }
    return true;
}

TEST(Tree, is_interleaved_as_definition_1_says_for_every_shape_and_every_p_up_to_300) {
    for (const auto& name : interleaved_trees()) {
        for (std::uint32_t processes = 1; processes <= kAll; ++processes) {
            ASSERT_TRUE(is_interleaved(tree(name, processes))) << name << " over " << processes;
        }
    }
}

// Lemma 1 of PPoPP'19. That Lamé trees are those of Equation 2 is a test of tree_paper_test.cpp.
TEST(Lemma1, a_tree_constructed_by_equation_2_is_interleaved) {
    for (const char* name : {"binomial", "lame:1", "lame:2", "lame:3", "lame:4", "lame:7"}) {
        for (std::uint32_t processes = 1; processes <= kAll; ++processes) {
            ASSERT_TRUE(is_interleaved(tree(name, processes))) << name << " over " << processes;
        }
    }
}

TEST(Tree, is_not_interleaved_in_order_nor_where_o_does_not_divide_l) {
    for (const auto* names : {&in_order_trees(), &log_p_trees()}) {
        for (const auto& name : *names)
            EXPECT_FALSE(is_interleaved(tree(name, 64))) << name;
    }
}

TEST(Tree, gives_every_position_but_the_root_exactly_one_parent) {
    for (const auto& name : all_trees()) {
        for (std::uint32_t processes = 1; processes <= kAll; ++processes) {
            const Tree t = tree(name, processes);
            std::vector<int> seen(processes, 0);
            for (std::uint32_t p = 0; p < processes; ++p) {
                for (const std::uint32_t child : children(t, p)) {
                    ASSERT_LT(child, processes) << name;
                    ++seen[child];
                    ASSERT_EQ(t.parent(Position{child}), Position{p})
                        << name << " over " << processes << " at " << child;
                }
            }
            ASSERT_EQ(t.parent(Position{0}), std::nullopt);
            ASSERT_EQ(seen[0], 0) << name;
            ASSERT_TRUE(std::all_of(seen.begin() + 1, seen.end(), [](int n) { return n == 1; }))
                << name << " over " << processes;
        }
    }
}

TEST(Tree, counts_the_edges_to_the_root_as_depth) {
    for (const auto& name : all_trees()) {
        for (const std::uint32_t processes : {1U, 2U, 17U, 100U, kAll}) {
            const Tree t = tree(name, processes);
            ASSERT_EQ(t.depth(Position{0}), 0U);
            for (std::uint32_t p = 1; p < processes; ++p) {
                ASSERT_EQ(t.depth(Position{p}), t.depth(*t.parent(Position{p})) + 1) << name << " at " << p;
            }
        }
    }
}

// Herault et al., SC'15, §5.1, whose ranks begin at 1.
TEST(Tree, the_parent_in_a_binary_heap_is_half) {
    const Tree t = tree("kary:2:heap", kAll);
    for (std::uint32_t number = 2; number <= kAll; ++number)
        ASSERT_EQ(t.parent(Position{number - 1}), Position{number / 2 - 1}) << number;
    EXPECT_EQ(children(t, 0), (std::vector<std::uint32_t>{1, 2}));
    EXPECT_EQ(children(tree("kary:3:heap", 12), 3), (std::vector<std::uint32_t>{10, 11}));
}

TEST(Tree, sends_to_children_in_ascending_order_except_cut_off_in_order_trees) {
    for (const auto& name : all_trees()) {
        const bool descends = name.ends_with(":inorder") && !name.starts_with("kary");
        for (std::uint32_t processes = 1; processes <= kAll; ++processes) {
            const Tree t = tree(name, processes);
            for (std::uint32_t p = 0; p < processes; ++p) {
                auto order = children(t, p);
                if (descends) std::reverse(order.begin(), order.end());
                ASSERT_TRUE(std::is_sorted(order.begin(), order.end())) << name << " over " << processes << " at " << p;
            }
        }
    }
}

TEST(Tree, numbers_in_order_subtrees_with_consecutive_positions) {
    for (const auto& name : in_order_trees()) {
        for (std::uint32_t processes = 1; processes <= kAll; ++processes) {
            const auto parents = parents_of(tree(name, processes));
            std::vector<std::uint32_t> size(processes, 1);
            std::vector<std::uint32_t> last(processes);
            for (std::uint32_t p = processes; p-- > 0;) {
                last[p] = std::max(last[p], p);
                if (p == 0) break;
                size[parents[p]] += size[p];
                last[parents[p]] = std::max(last[parents[p]], last[p]);
            }
            for (std::uint32_t p = 0; p < processes; ++p)
                ASSERT_EQ(last[p] - p + 1, size[p]) << name << " at " << p;
        }
    }
}

// Karp et al. 1993: the process that can send next takes the next position; the lower position first among equals.
std::vector<std::uint32_t> greedy_parents(std::uint32_t processes, std::uint32_t overhead, std::uint32_t latency) {
    using Sender = std::pair<std::uint64_t, std::uint32_t>;
    std::priority_queue<Sender, std::vector<Sender>, std::greater<>> senders;
    senders.emplace(0, 0);
    std::vector<std::uint32_t> parents(processes, 0);
    for (std::uint32_t next = 1; next < processes; ++next) {
        const auto [time, sender] = senders.top();
        senders.pop();
        parents[next] = sender;
        senders.emplace(time + overhead, sender);
        senders.emplace(time + 2ULL * overhead + latency, next);
    }
    return parents;
}

TEST(Tree, optimal_is_built_in_log_p_order_whether_o_divides_l_or_not) {
    for (std::uint32_t overhead = 1; overhead <= 6; ++overhead) {
        for (std::uint32_t latency = 0; latency <= 13; ++latency) {
            const TreeSpec spec{TreeShape::optimal, Numbering::interleaved, 2, latency, overhead};
            const auto expected = greedy_parents(3000, overhead, latency);
            EXPECT_EQ(parents_of(tree(spec, 3000)), expected) << to_string(spec);
            for (std::uint32_t processes = 1; processes <= 120; ++processes) {
                const auto parents = parents_of(tree(spec, processes));
                ASSERT_TRUE(std::equal(parents.begin(), parents.end(), expected.begin())) << to_string(spec);
            }
        }
    }
}

TEST(Tree, position_5_of_optimal_2_3_has_one_parent_where_the_closed_form_has_two) {
    // R(t) of §3.2.3 for o = 2, L = 3, and the children that it would give.
    const auto ready = [](auto&& self, int t) -> int {
        return t < 0 ? 0 : t < 7 ? 1 : self(self, t - 2) + self(self, t - 7);
    };
    std::set<int> closed_form;
    for (int sender = 0; sender < 5; ++sender) {
        int i = 0;
        while (ready(ready, i) <= sender)
            ++i;
        for (; i < 40; ++i) {
            if (sender + ready(ready, i + 5) == 5) closed_form.insert(sender);
        }
    }
    EXPECT_EQ(closed_form.size(), 2U);

    const Tree t = tree("optimal:2,3", 6);
    int parents = 0;
    for (std::uint32_t p = 0; p < 6; ++p) {
        const auto of = children(t, p);
        parents += static_cast<int>(std::count(of.begin(), of.end(), 5U));
    }
    EXPECT_EQ(parents, 1);
}

TEST(Tree, depends_on_the_ratio_of_o_and_l_only) {
    const Tree coarse = tree("optimal:2,3", 1000);
    const Tree fine = tree("optimal:2000000000,3000000000", 1000);
    EXPECT_EQ(parents_of(coarse), parents_of(fine));
}

TEST(Tree, parent_undoes_child_everywhere_at_2_to_the_20) {
    for (const auto& name : all_trees()) {
        if (name == "star" || name == "chain" || name.starts_with("kary:1")) continue;  // nothing to find out
        const std::uint32_t processes = 1U << 20;
        const Tree t = tree(name, processes);
        std::uint64_t edges = 0;
        for (std::uint32_t p = 0; p < processes; ++p) {
            const std::uint32_t count = t.child_count(Position{p});
            for (std::uint32_t i = 0; i < count; ++i) {
                ASSERT_EQ(t.parent(t.child(Position{p}, i)), Position{p}) << name << " at " << p;
            }
            edges += count;
        }
        ASSERT_EQ(edges, processes - 1) << name;
    }
}

TEST(Tree, parent_undoes_child_at_the_largest_group) {
    for (const auto& name : all_trees()) {
        for (const std::uint32_t processes : {kMaxProcesses, kMaxProcesses - 1, (1U << 30) + 12345}) {
            const Tree t = tree(name, processes);
            std::mt19937 random(7);
            for (int i = 0; i < 3000; ++i) {
                auto p = static_cast<std::uint32_t>(random() % processes);
                if (i < 40) p = processes - 1 - static_cast<std::uint32_t>(i);
                if (i >= 40 && i < 80) p = static_cast<std::uint32_t>(i) - 40;
                const std::uint32_t count = t.child_count(Position{p});
                for (const std::uint32_t index : {0U, 1U, count / 2, count - 1}) {
                    if (index >= count) continue;
                    const Position child = t.child(Position{p}, index);
                    ASSERT_GT(child.value, p) << name;
                    ASSERT_LT(child.value, processes) << name;
                    ASSERT_EQ(t.parent(child), Position{p}) << name << " at " << p;
                }
                if (p == 0) continue;
                const Position parent = t.parent(Position{p}).value();
                ASSERT_LT(parent.value, p) << name;
                // Binary search works on positions in either order of the children.
                std::uint32_t low = 0;
                std::uint32_t high = t.child_count(parent);
                const bool descends = high > 1 && t.child(parent, 0) > t.child(parent, 1);
                while (low < high) {
                    const std::uint32_t middle = low + (high - low) / 2;
                    const bool before =
                        descends ? t.child(parent, middle).value > p : t.child(parent, middle).value < p;
                    (before ? low : high) = before ? middle + 1 : middle;
                }
                ASSERT_EQ(t.child(parent, low), Position{p}) << name;
            }
        }
    }
}

TEST(Tree, refuses_groups_and_shapes_that_cannot_be) {
    EXPECT_FALSE(Tree::make({}, 0));
    EXPECT_FALSE(Tree::make({}, kMaxProcesses + 1));
    EXPECT_TRUE(Tree::make({}, kMaxProcesses));
    EXPECT_FALSE(Tree::make({.shape = TreeShape::kary, .order = 0}, 8));
    EXPECT_FALSE(Tree::make({.shape = TreeShape::lame, .order = 0}, 8));
    EXPECT_TRUE(Tree::make({.shape = TreeShape::lame, .order = kMaxLameOrder}, kMaxProcesses));
    EXPECT_FALSE(Tree::make({.shape = TreeShape::lame, .order = kMaxLameOrder + 1}, 8));
    EXPECT_FALSE(Tree::make({.shape = TreeShape::optimal, .overhead = 0}, 8));
    EXPECT_FALSE(Tree::make({.shape = TreeShape::optimal, .latency = UINT32_MAX, .overhead = 2}, 8));
    EXPECT_FALSE(Tree::make({.shape = TreeShape::chain, .numbering = Numbering::in_order}, 8));
    EXPECT_FALSE(Tree::make({.shape = TreeShape::star, .numbering = Numbering::in_order}, 8));
    const auto refused =
        Tree::make({.shape = TreeShape::optimal, .numbering = Numbering::in_order, .latency = 3, .overhead = 2}, 8);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().find("in-order"), std::string::npos);
}

TEST(Tree, takes_a_k_larger_than_the_group) {
    const Tree wide = tree(TreeSpec{.shape = TreeShape::kary, .order = UINT32_MAX}, 5);
    EXPECT_EQ(children(wide, 0), (std::vector<std::uint32_t>{1, 2, 3, 4}));
    EXPECT_EQ(children(wide, 1), std::vector<std::uint32_t>{});
    EXPECT_EQ(children(tree("lame:1000", 5), 0), (std::vector<std::uint32_t>{1, 2, 3, 4}));
}

TEST(Tree, of_the_coarsest_steps_allowed_stays_a_tree) {
    for (const char* name : {"optimal:2,1019", "optimal:511,1", "optimal:341,342"}) {
        const Tree t = tree(name, 200000);
        const auto spec = parse_tree(name).value();
        EXPECT_EQ(parents_of(t), greedy_parents(200000, spec.overhead, spec.latency)) << name;
        EXPECT_TRUE(Tree::make(spec, kMaxProcesses)) << name;
    }
}

}  // namespace
}  // namespace coppice::topology
