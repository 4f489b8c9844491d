#include "protocol/failed_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace coppice::protocol {
namespace {

using Interval = FailedSet::Interval;

std::vector<Interval> intervals(const FailedSet& set) {
    return {set.intervals().begin(), set.intervals().end()};
}

TEST(FailedSet, starts_empty) {
    const FailedSet set;
    EXPECT_TRUE(set.empty());
    EXPECT_EQ(set.count(), 0U);
    EXPECT_FALSE(set.contains(0));
    EXPECT_TRUE(set.intervals().empty());
}

TEST(FailedSet, holds_what_was_inserted_once) {
    FailedSet set;
    EXPECT_TRUE(set.insert(7));
    EXPECT_FALSE(set.insert(7));
    EXPECT_EQ(set.count(), 1U);
    EXPECT_TRUE(set.contains(7));
    EXPECT_FALSE(set.contains(6));
    EXPECT_FALSE(set.contains(8));
}

TEST(FailedSet, joins_neighbours_into_one_interval) {
    FailedSet set;
    for (const std::uint32_t member : {4U, 8U, 5U, 7U})
        EXPECT_TRUE(set.insert(member));
    EXPECT_EQ(intervals(set), (std::vector<Interval>{{4, 5}, {7, 8}}));
    EXPECT_TRUE(set.insert(6));
    EXPECT_EQ(intervals(set), (std::vector<Interval>{{4, 8}}));
    EXPECT_FALSE(set.insert(4));
    EXPECT_FALSE(set.insert(6));
    EXPECT_FALSE(set.insert(8));
    EXPECT_EQ(set.count(), 5U);
}

TEST(FailedSet, works_at_both_ends_of_the_numbers) {
    FailedSet set;
    for (const std::uint32_t member : {UINT32_MAX, 0U, UINT32_MAX - 1, 1U})
        EXPECT_TRUE(set.insert(member));
    EXPECT_EQ(intervals(set), (std::vector<Interval>{{0, 1}, {UINT32_MAX - 1, UINT32_MAX}}));
    EXPECT_FALSE(set.insert(UINT32_MAX));
    EXPECT_FALSE(set.insert(0));
    EXPECT_TRUE(set.contains(UINT32_MAX));
    EXPECT_FALSE(set.contains(2));
}

TEST(FailedSet, is_a_set_whatever_the_order_of_insertions) {
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
        std::mt19937 random(seed);
        const auto members = static_cast<std::uint32_t>(1 + random() % 80);
        FailedSet set;
        std::set<std::uint32_t> model;
        for (int i = 0; i < 120; ++i) {
            const auto member = static_cast<std::uint32_t>(random() % members);
            ASSERT_EQ(set.insert(member), model.insert(member).second);
            ASSERT_EQ(set.count(), model.size());
            const auto all = intervals(set);
            std::vector<std::uint32_t> listed;
            for (std::size_t k = 0; k < all.size(); ++k) {
                ASSERT_TRUE(k == 0 || all[k].first > all[k - 1].last + 1);  // never adjacent
                for (std::uint32_t m = all[k].first; m <= all[k].last; ++m)
                    listed.push_back(m);
            }
            ASSERT_TRUE(std::equal(listed.begin(), listed.end(), model.begin(), model.end()));
            for (std::uint32_t m = 0; m < members; ++m)
                ASSERT_EQ(set.contains(m), model.contains(m));
        }
    }
}

}  // namespace
}  // namespace coppice::protocol
