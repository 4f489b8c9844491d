#include "topology/ring.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace coppice::topology {
namespace {

TEST(Ring, wraps_around_at_both_ends) {
    EXPECT_EQ(right_neighbour(Position{6}, 3, 7), Position{2});
    EXPECT_EQ(left_neighbour(Position{1}, 3, 7), Position{5});
    EXPECT_EQ(right_neighbour(Position{3}, 0, 7), Position{3});
    EXPECT_EQ(left_neighbour(Position{3}, 0, 7), Position{3});
    EXPECT_EQ(right_neighbour(Position{0}, 5, 1), Position{0});
}

TEST(Ring, left_undoes_right_for_any_offset) {
    for (std::uint32_t processes = 1; processes <= 20; ++processes) {
        for (std::uint32_t p = 0; p < processes; ++p) {
            for (std::uint32_t offset = 0; offset < 50; ++offset) {
                const Position right = right_neighbour(Position{p}, offset, processes);
                ASSERT_EQ(right.value, (p + offset) % processes);
                ASSERT_EQ(left_neighbour(right, offset, processes), Position{p});
                ASSERT_EQ(distance_right(Position{p}, right, processes), offset % processes);
                ASSERT_EQ(distance_left(right, Position{p}, processes), offset % processes);
            }
        }
    }
}

TEST(Ring, distance_is_the_shorter_way) {
    EXPECT_EQ(ring_distance(Position{1}, Position{6}, 7), 2U);
    EXPECT_EQ(ring_distance(Position{6}, Position{1}, 7), 2U);
    EXPECT_EQ(ring_distance(Position{2}, Position{4}, 7), 2U);
    EXPECT_EQ(ring_distance(Position{4}, Position{4}, 7), 0U);
}

TEST(Ring, does_not_overflow_in_the_largest_group) {
    const Position last{kMaxProcesses - 1};
    EXPECT_EQ(right_neighbour(last, kMaxProcesses - 1, kMaxProcesses), Position{kMaxProcesses - 2});
    EXPECT_EQ(right_neighbour(last, UINT32_MAX, kMaxProcesses), Position{kMaxProcesses - 2});
    EXPECT_EQ(left_neighbour(Position{0}, kMaxProcesses - 1, kMaxProcesses), Position{1});
    EXPECT_EQ(distance_right(last, Position{0}, kMaxProcesses), 1U);
    EXPECT_EQ(distance_right(Position{0}, last, kMaxProcesses), kMaxProcesses - 1);
    EXPECT_EQ(ring_reach(kMaxProcesses, UINT32_MAX, false), (RingReach{kMaxProcesses / 2 - 1, kMaxProcesses / 2}));
}

TEST(Ring, rotation_puts_any_root_at_position_0_and_comes_back) {
    for (std::uint32_t processes = 1; processes <= 20; ++processes) {
        for (std::uint32_t root = 0; root < processes; ++root) {
            EXPECT_EQ(to_position(root, root, processes), Position{0});
            for (std::uint32_t member = 0; member < processes; ++member) {
                const Position position = to_position(member, root, processes);
                ASSERT_LT(position.value, processes);
                ASSERT_EQ(to_member(position, root, processes), member);
            }
        }
    }
    EXPECT_EQ(to_member(Position{kMaxProcesses - 1}, kMaxProcesses - 1, kMaxProcesses), kMaxProcesses - 2);
}

TEST(RingReach, sends_to_nobody_twice_and_never_to_itself) {
    for (std::uint32_t processes = 1; processes <= 40; ++processes) {
        for (std::uint32_t distance = 0; distance <= 45; ++distance) {
            for (const bool one_directional : {false, true}) {
                const RingReach reach = ring_reach(processes, distance, one_directional);
                std::multiset<std::uint32_t> targets;
                for (std::uint32_t i = 1; i <= reach.right; ++i) {
                    targets.insert(right_neighbour(Position{0}, i, processes).value);
                }
                for (std::uint32_t i = 1; i <= reach.left; ++i) {
                    targets.insert(left_neighbour(Position{0}, i, processes).value);
                }
                // Exactly those at a distance of at most d, each once.
                std::multiset<std::uint32_t> expected;
                for (std::uint32_t p = 1; p < processes; ++p) {
                    if (p <= distance || (!one_directional && processes - p <= distance)) expected.insert(p);
                }
                ASSERT_EQ(targets, expected) << processes << ", " << distance << ", " << one_directional;
            }
        }
    }
}

TEST(RingReach, is_d_on_each_side_of_a_large_ring) {
    EXPECT_EQ(ring_reach(100, 4, false), (RingReach{4, 4}));
    EXPECT_EQ(ring_reach(100, 4, true), (RingReach{0, 4}));
    EXPECT_EQ(ring_reach(9, 4, false), (RingReach{4, 4}));
    EXPECT_EQ(ring_reach(8, 4, false), (RingReach{3, 4}));
    EXPECT_EQ(ring_reach(2, 4, false), (RingReach{0, 1}));
    EXPECT_EQ(ring_reach(1, 4, false), (RingReach{0, 0}));
}

}  // namespace
}  // namespace coppice::topology
