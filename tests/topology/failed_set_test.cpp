#include "protocol/failed_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
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

// In runs, many of which touch.
std::set<std::uint32_t> drawn(std::mt19937& random, std::uint32_t members) {
    std::set<std::uint32_t> set;
    for (auto runs = random() % 5; runs > 0; --runs) {
        const auto first = static_cast<std::uint32_t>(random() % members);
        const auto end = std::min(members, first + 1 + static_cast<std::uint32_t>(random() % 6));
        for (std::uint32_t member = first; member < end; ++member)
            set.insert(member);
    }
    return set;
}

FailedSet set_of(const std::set<std::uint32_t>& members) {
    FailedSet set;
    for (const std::uint32_t member : members)
        set.insert(member);
    return set;
}

// Sets that are equal have the same intervals, however they came about.
void expect_same(const FailedSet& set, const std::set<std::uint32_t>& members) {
    EXPECT_EQ(set, set_of(members));
    EXPECT_EQ(set.count(), members.size());
    std::uint32_t lowest = 0;
    while (members.contains(lowest))
        ++lowest;
    EXPECT_EQ(set.lowest_absent(), lowest);
}

TEST(FailedSet, whole_sets_are_united_intersected_subtracted_and_compared) {
    for (std::uint32_t seed = 0; seed < 2000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        const auto a = drawn(random, 24);
        const auto b = drawn(random, 24);
        const FailedSet other = set_of(b);
        FailedSet set = set_of(a);
        EXPECT_EQ(set.includes(other), std::ranges::includes(a, b));
        EXPECT_EQ(set == other, a == b);
        std::set<std::uint32_t> expected;
        std::ranges::set_union(a, b, std::inserter(expected, expected.end()));
        EXPECT_EQ(set.unite(other), expected != a);
        expect_same(set, expected);
        set = set_of(a);
        expected.clear();
        std::ranges::set_intersection(a, b, std::inserter(expected, expected.end()));
        set.intersect(other);
        expect_same(set, expected);
        set = set_of(a);
        expected.clear();
        std::ranges::set_difference(a, b, std::inserter(expected, expected.end()));
        set.subtract(other);
        expect_same(set, expected);
        set.clear();
        expect_same(set, {});
    }
}

TEST(FailedSet, is_appended_to_only_beyond_its_end) {
    for (std::uint32_t seed = 0; seed < 500; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        const auto members = drawn(random, 24);
        const FailedSet all = set_of(members);
        FailedSet set;
        for (const Interval& interval : all.intervals())
            EXPECT_TRUE(set.append(interval));
        expect_same(set, members);
        EXPECT_FALSE(set.append({26, 25}));
        if (!members.empty()) {
            EXPECT_FALSE(set.append({*members.rbegin(), 30}));
        }
        expect_same(set, members);
        EXPECT_TRUE(set.append({24, 25})) << "adjacent, or beyond";
        EXPECT_TRUE(set.contains(25));
    }
}

}  // namespace
}  // namespace coppice::protocol
