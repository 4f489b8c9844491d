// Figures and figures of merit: the trees that PPoPP'19 draws, and the latencies of its simulator.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "topology/tree.hpp"
#include "trees.hpp"

namespace coppice::topology {
namespace {

using Edges = std::vector<std::vector<std::uint32_t>>;

Edges edges(const Tree& of) {
    Edges all;
    for (std::uint32_t p = 0; p < of.processes(); ++p)
        all.push_back(children(of, p));
    return all;
}

// "For the in-order tree, the resulting gap of unreachable nodes is large and inefficient for correction to cover,
// whereas an interleaved tree creates smaller gaps": whichever fails, its whole subtree is one gap, and here no two of
// it are neighbours.
TEST(TreePaper, figure_1a_a_failure_leaves_one_long_gap_in_order_and_gaps_of_one_interleaved) {
    const auto longest_gap = [](const Tree& of, std::uint32_t failed) {
        std::uint32_t longest = 0;
        std::uint32_t gap = 0;
        for (std::uint32_t p = 0; p < of.processes(); ++p) {
            auto above = std::optional(Position{p});
            while (above && above->value != failed)
                above = of.parent(*above);
            gap = above ? gap + 1 : 0;
            longest = std::max(longest, gap);
        }
        return longest;
    };
    for (const std::uint32_t processes : {16U, 64U, 512U}) {
        const Tree in_order = tree("binomial:inorder", processes);
        const Tree interleaved = tree("binomial", processes);
        for (std::uint32_t failed = 1; failed < processes; ++failed) {
            // The subtree below a position of an in-order binomial tree is as large as its lowest bit.
            EXPECT_EQ(longest_gap(in_order, failed), failed & (~failed + 1)) << failed;
            EXPECT_EQ(longest_gap(interleaved, failed), 1U) << failed;
        }
    }
}

TEST(TreePaper, figure_3_left_is_the_binary_tree_in_order) {
    EXPECT_EQ(edges(tree("kary:2:inorder", 7)), (Edges{{1, 4}, {2, 3}, {}, {}, {5, 6}, {}, {}}));
}

TEST(TreePaper, figure_3_right_is_the_binary_tree_interleaved) {
    EXPECT_EQ(edges(tree("kary:2", 7)), (Edges{{1, 2}, {3, 5}, {4, 6}, {}, {}, {}, {}}));
}

TEST(TreePaper, figure_4_left_is_the_binomial_tree_in_order) {
    EXPECT_EQ(edges(tree("binomial:inorder", 8)), (Edges{{4, 2, 1}, {}, {3}, {}, {6, 5}, {}, {7}, {}}));
}

TEST(TreePaper, figure_4_right_is_the_binomial_tree_interleaved) {
    EXPECT_EQ(edges(tree("binomial", 8)), (Edges{{1, 2, 4}, {3, 5}, {6}, {7}, {}, {}, {}, {}}));
}

TEST(TreePaper, figure_5_is_the_lame_tree_of_order_3_over_9) {
    EXPECT_EQ(edges(tree("lame:3", 9)), (Edges{{1, 2, 3, 4, 6}, {5, 7}, {8}, {}, {}, {}, {}, {}, {}}));
}

TEST(TreePaper, figure_5_is_also_the_optimal_tree_for_l_and_o_of_1) {
    EXPECT_EQ(edges(tree("optimal:1,1", 9)), edges(tree("lame:3", 9)));
}

TEST(TreePaper, a_lame_tree_of_order_1_is_binomial) {
    for (const std::string suffix : {"", ":inorder"}) {
        for (std::uint32_t processes = 1; processes <= 300; ++processes) {
            ASSERT_EQ(edges(tree("lame:1" + suffix, processes)), edges(tree("binomial" + suffix, processes)));
        }
    }
}

TEST(TreePaper, the_failure_of_process_2_of_figure_3_leaves_gaps_of_one) {
    // "In order": process 4's failure leaves two neighbours uncolored.
    EXPECT_EQ(children(tree("kary:2:inorder", 7), 4), (std::vector<std::uint32_t>{5, 6}));
    EXPECT_EQ(children(tree("kary:2", 7), 2), (std::vector<std::uint32_t>{4, 6}));
}

TEST(TreePaper, k_ary_children_are_i_times_k_to_the_level_away) {
    for (const std::uint32_t k : {2U, 3U, 4U, 7U}) {
        const Tree t = tree("kary:" + std::to_string(k), 5000);
        for (std::uint32_t p = 0; p < 5000; ++p) {
            std::uint32_t power = 1;
            for (std::uint32_t level = t.depth(Position{p}); level > 0; --level)
                power *= k;
            std::vector<std::uint32_t> expected;
            for (std::uint32_t i = 1; i <= k && p + i * power < 5000; ++i)
                expected.push_back(p + i * power);
            ASSERT_EQ(children(t, p), expected) << "k = " << k << " at " << p;
        }
    }
}

// Equation 1: R(t), how many are ready to send at iteration t of a Lamé tree, is how many it colors then.
TEST(TreePaper, equation_1_counts_who_sends_at_each_iteration) {
    for (const std::uint32_t k : {1U, 2U, 3U, 5U}) {
        std::vector<std::uint64_t> ready;
        for (std::uint32_t t = 0; t < 20; ++t)
            ready.push_back(t < k ? 1 : ready[t - 1] + ready[t - k]);
        const Tree t = tree("lame:" + std::to_string(k), 300);
        // Created at an iteration (the root before them all), a process sends its i-th message k + i iterations later.
        std::vector<std::uint32_t> first_send{0};
        std::vector<std::uint64_t> colored(1000, 0);
        for (std::uint32_t r = 1; r < t.processes(); ++r) {
            const std::uint32_t parent = t.parent(Position{r})->value;
            const std::vector<std::uint32_t> siblings = children(t, parent);
            const auto index = std::find(siblings.begin(), siblings.end(), r) - siblings.begin();
            const std::uint32_t iteration = first_send[parent] + static_cast<std::uint32_t>(index);
            ++colored[iteration];
            first_send.push_back(iteration + k);
        }
        std::uint64_t sum = 1;
        for (std::uint32_t i = 0; sum + ready[i] <= t.processes(); ++i) {
            EXPECT_EQ(colored[i], ready[i]) << "k = " << k << " at iteration " << i;
            sum += ready[i];
        }
    }
}

// Equation 2, as printed.
TEST(TreePaper, lame_children_are_those_of_equation_2) {
    for (const std::uint32_t k : {1U, 2U, 3U, 5U}) {
        std::vector<std::uint64_t> ready;  // R of Equation 1
        for (std::uint32_t t = 0; t < 200; ++t)
            ready.push_back(t < k ? 1 : ready[t - 1] + ready[t - k]);
        const std::uint32_t processes = 2000;
        const Tree t = tree("lame:" + std::to_string(k), processes);
        for (std::uint32_t r = 0; r < processes; ++r) {
            std::size_t i = 0;
            while (ready[i] <= r)
                ++i;
            std::vector<std::uint32_t> expected;
            for (; r + ready[i + k - 1] < processes; ++i) {
                expected.push_back(static_cast<std::uint32_t>(r + ready[i + k - 1]));
            }
            ASSERT_EQ(children(t, r), expected) << "k = " << k << " at " << r;
        }
    }
}

// A broadcast down the tree alone in LogP time, g = o, sends and receptions overlapping: a send that starts at t keeps
// the sender until t + o and colors the receiver at t + 2o + L. A dead process costs its parent as much.
struct Outcome {
    std::uint64_t last_colored = 0;
    std::uint64_t messages = 0;
    std::uint32_t colored = 0;
};

Outcome broadcast(const Tree& down, std::uint32_t latency, std::uint32_t overhead,
                  const std::set<std::uint32_t>& dead) {
    constexpr std::uint64_t kNot = UINT64_MAX;
    std::vector<std::uint64_t> colored(down.processes(), kNot);
    colored[0] = 0;
    Outcome outcome;
    for (std::uint32_t p = 0; p < down.processes(); ++p) {  // parents come before children
        if (colored[p] == kNot) continue;
        ++outcome.colored;
        outcome.last_colored = std::max(outcome.last_colored, colored[p]);
        std::uint64_t start = colored[p];
        for (const std::uint32_t child : children(down, p)) {
            if (!dead.contains(child)) colored[child] = start + 2ULL * overhead + latency;
            start += overhead;
            ++outcome.messages;
        }
    }
    return outcome;
}

struct Latency {
    std::uint32_t latency;
    std::uint32_t overhead;
    std::uint32_t processes;
    std::string_view tree;
    std::uint64_t last_colored;
};

// Coloring times that the papers' own simulator prints for fault-free tree broadcasts.
constexpr Latency kLatencies[] = {
    {2, 1, 16, "binomial", 16},
    {2, 1, 16, "lame:2", 12},
    {2, 1, 16, "kary:4", 12},
    {2, 1, 16, "optimal:1,2", 11},
    {2, 1, 64, "binomial", 24},
    {2, 1, 64, "lame:2", 17},
    {2, 1, 64, "kary:4", 19},
    {2, 1, 64, "optimal:1,2", 15},
    {2, 1, 64, "lame:3", 16},
    {2, 1, 64, "kary:2", 25},
    {2, 1, 100, "binomial:inorder", 25},
    {2, 1, 17, "binomial:inorder", 17},
    {2, 1, 1024, "binomial", 40},
    {2, 1, 1024, "lame:2", 29},
    {2, 1, 1024, "kary:4", 33},
    {2, 1, 1024, "optimal:1,2", 24},
    {2, 1, 8192, "binomial", 52},
    {2, 1, 8192, "lame:2", 37},
    {2, 1, 8192, "kary:4", 44},
    {2, 1, 8192, "optimal:1,2", 30},
    {2, 1, 65536, "binomial", 64},
    {2, 1, 65536, "lame:2", 46},
    {2, 1, 65536, "kary:4", 54},
    {2, 1, 65536, "optimal:1,2", 37},
    {2, 1, 131072, "binomial", 68},
    {2, 1, 131072, "lame:2", 49},
    {2, 1, 131072, "kary:4", 58},
    {2, 1, 131072, "optimal:1,2", 39},
    {1, 1, 100, "binomial", 19},
    {1, 1, 100, "lame:2", 15},
    {1, 1, 100, "lame:3", 14},
    {1, 1, 100, "kary:2", 23},
    {1, 1, 100, "kary:4", 18},
    {1, 1, 100, "optimal:1,1", 14},
    {1, 1, 1024, "lame:3", 20},
    {1, 1, 1024, "optimal:1,1", 20},
    {4, 2, 100, "binomial", 50},
    {4, 2, 100, "lame:2", 40},
    {4, 2, 100, "kary:4", 42},
    {4, 2, 100, "optimal:2,4", 34},
    {4, 2, 1024, "lame:3", 50},
    {4, 2, 1024, "kary:2", 90},
    {4, 2, 1024, "optimal:2,4", 48},
};

TEST(TreePaper, colors_everybody_as_fast_as_the_papers_simulator) {
    for (const Latency& row : kLatencies) {
        const Outcome outcome = broadcast(tree(row.tree, row.processes), row.latency, row.overhead, {});
        EXPECT_EQ(outcome.last_colored, row.last_colored) << row.tree << " over " << row.processes;
        EXPECT_EQ(outcome.colored, row.processes);
        EXPECT_EQ(outcome.messages, row.processes - 1);
    }
}

struct Faulty {
    std::uint32_t processes;
    std::string_view tree;
    std::set<std::uint32_t> dead;
    std::uint64_t messages;
    std::uint64_t last_colored;
    std::uint32_t colored;
};

// The same simulator (L = 2, o = 1) with dead processes: the ones that are cut off tell the edges.
TEST(TreePaper, loses_the_same_processes_to_the_dead_as_the_papers_simulator) {
    const std::vector<Faulty> rows = {
        {64, "binomial", {4, 33, 37, 41, 52, 53}, 56, 24, 52},
        {64, "binomial", {7, 14, 16, 19, 21, 27, 29, 39, 41, 47, 48, 49, 52, 57, 59, 62}, 48, 18, 38},
        {100,
         "binomial",
         {5, 11, 12, 19, 20, 26, 27, 33, 47, 49, 54, 57, 60, 61, 66, 71, 73, 74, 75, 77, 80, 88, 89, 92, 96},
         71,
         25,
         53},
        {64, "lame:2", {2, 5, 8, 24, 53, 55}, 41, 17, 36},
        {64, "lame:2", {3, 5, 7, 9, 12, 19, 28, 39, 43, 44, 47, 49, 55, 56, 61, 63}, 40, 17, 28},
        {100,
         "lame:2",
         {2, 3, 4, 13, 17, 19, 20, 21, 26, 29, 34, 40, 43, 51, 54, 60, 63, 64, 68, 70, 73, 80, 94, 96, 97},
         43,
         18,
         27},
        {64, "lame:3", {3, 7, 19, 20, 22, 24, 28, 35, 36, 38, 40, 41, 50, 58, 59, 63}, 51, 15, 40},
        {100, "lame:3", {7, 26, 39, 42, 57, 58, 76, 84, 94, 98}, 93, 17, 85},
        {64, "kary:2", {1, 4, 5, 12, 14, 19, 23, 28, 30, 34, 39, 43, 49, 53, 60, 63}, 12, 24, 9},
        {100, "kary:2", {7, 10, 18, 41, 42, 43, 55, 56, 88, 93}, 74, 29, 69},
        {100, "kary:4", {1, 4, 5, 13, 15, 16, 30, 58, 66, 67}, 46, 21, 40},
        {1024,
         "kary:4",
         {14, 71, 73, 149, 174, 221, 315, 316, 370, 504, 621, 622, 683, 731, 753, 796, 833, 869, 898, 939},
         922,
         33,
         905},
        {1024,
         "lame:2",
         {25, 32, 155, 166, 170, 264, 304, 391, 482, 497, 661, 686, 711, 744, 754, 764, 884, 926, 941, 991},
         973,
         29,
         954},
        {1024,
         "binomial",
         {19, 31, 32, 247, 259, 455, 558, 614, 626, 637, 650, 661, 665, 699, 738, 763, 868, 872, 873, 968},
         941,
         37,
         922},
    };
    for (const Faulty& row : rows) {
        const Outcome outcome = broadcast(tree(row.tree, row.processes), 2, 1, row.dead);
        EXPECT_EQ(outcome.messages, row.messages) << row.tree << " over " << row.processes;
        EXPECT_EQ(outcome.last_colored, row.last_colored) << row.tree << " over " << row.processes;
        EXPECT_EQ(outcome.colored, row.colored) << row.tree << " over " << row.processes;
    }
}

// How many the tree phase colors, by the same simulator's count of the processes that take part in synchronized
// correction.
TEST(TreePaper, loses_the_same_processes_in_order_as_the_papers_simulator) {
    const auto colored = [](std::uint32_t processes, const std::set<std::uint32_t>& dead) {
        return broadcast(tree("binomial:inorder", processes), 2, 1, dead).colored;
    };
    EXPECT_EQ(colored(17, {5, 8, 9, 15}), 8U);
    EXPECT_EQ(colored(64, {4, 33, 37, 41, 52, 53}), 53U);
    EXPECT_EQ(colored(64, {7, 14, 16, 19, 21, 27, 29, 39, 41, 47, 48, 49, 52, 57, 59, 62}), 26U);
    EXPECT_EQ(colored(100, {26, 38, 39, 41, 66, 70, 76, 84, 85, 90}), 81U);
}

// "Optimal" is meant: no tree colors as many by then, whether o divides L or not.
TEST(TreePaper, the_optimal_tree_colors_as_many_as_can_be_colored_by_any_time) {
    for (std::uint32_t overhead = 1; overhead <= 5; ++overhead) {
        for (std::uint32_t latency = 0; latency <= 9; ++latency) {
            const TreeSpec spec{TreeShape::optimal, Numbering::interleaved, 2, latency, overhead};
            // most[t]: how many one colored process colors within t steps, itself included.
            std::vector<std::uint64_t> most;
            for (std::size_t t = 0; most.empty() || most.back() < 2000; ++t) {
                const std::size_t arrival = 2ULL * overhead + latency;
                most.push_back(t < arrival ? 1 : most[t - overhead] + most[t - arrival]);
            }
            for (const std::uint32_t processes : {2U, 3U, 10U, 97U, 500U, 2000U}) {
                const std::uint64_t reached = broadcast(tree(spec, processes), latency, overhead, {}).last_colored;
                EXPECT_GE(most[reached], processes) << to_string(spec);
                EXPECT_LT(most[reached - 1], processes) << to_string(spec) << " over " << processes;
            }
        }
    }
}

}  // namespace
}  // namespace coppice::topology
