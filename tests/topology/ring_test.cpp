#include "topology/ring.hpp"

#include <gtest/gtest.h>

#include <cstdint>

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
}

TEST(Ring, rotation_puts_the_root_at_position_0_and_the_others_behind_it) {
    for (std::uint32_t processes = 1; processes <= 20; ++processes) {
        for (std::uint32_t root = 0; root < processes; ++root) {
            for (std::uint32_t position = 0; position < processes; ++position)
                ASSERT_EQ(to_member(Position{position}, root, processes), (root + position) % processes);
        }
    }
    EXPECT_EQ(to_member(Position{kMaxProcesses - 1}, kMaxProcesses - 1, kMaxProcesses), kMaxProcesses - 2);
}

}  // namespace
}  // namespace coppice::topology
