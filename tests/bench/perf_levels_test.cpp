// Which levels there are between ranks, by hosts and switches.
#include "perf/levels.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace perf {
namespace {

struct Found {
    std::string_view name;
    std::uint32_t first, second;
    bool operator==(const Found&) const = default;
};

std::vector<Found> levels(const std::vector<Place>& places) {
    std::vector<Found> found;
    for (const Level& one : levels_of(places))
        found.push_back({one.name, one.first, one.second});
    return found;
}

TEST(Levels, OneRankHasNone) {
    EXPECT_TRUE(levels({{"a", ""}}).empty());
}

TEST(Levels, HostsWithoutSwitches) {
    EXPECT_EQ(levels({{"a", ""}, {"b", ""}, {"a", ""}, {"b", ""}}),
              (std::vector<Found>{{"host", 0, 2}, {"network", 0, 1}}));
}

TEST(Levels, EachByTheFirstTwoRanksThatHaveIt) {
    EXPECT_EQ(levels({{"a", "p0/l0"}, {"b", "p1/l0"}, {"c", "p1/l1"}, {"d", "p1/l1"}, {"d", "p1/l1"}}),
              (std::vector<Found>{{"host", 3, 4}, {"leaf", 2, 3}, {"pod", 1, 2}, {"network", 0, 1}}));
}

TEST(Levels, LeavesAreToldApartByTheirWholePaths) {
    EXPECT_EQ(level_between({"a", "p0/l0"}, {"b", "p1/l0"}), "network");
    EXPECT_EQ(level_between({"a", "p0/l0"}, {"b", "p0/l0"}), "leaf");
    EXPECT_EQ(level_between({"a", "p0/l0"}, {"b", "p0/l1"}), "pod");
}

TEST(Levels, APodIsAllThatStandsAboveTheLeaf) {
    EXPECT_EQ(level_between({"a", "core0/p0/l0"}, {"b", "core0/p0/l1"}), "pod");
    EXPECT_EQ(level_between({"a", "core0/p0/l0"}, {"b", "core0/p1/l0"}), "network");
    EXPECT_EQ(level_between({"a", "core0/p0/l0"}, {"b", "core0/p0/l0"}), "leaf");
}

TEST(Levels, LeavesWithoutAPodShareNone) {
    EXPECT_EQ(level_between({"a", "l0"}, {"b", "l1"}), "network");
    EXPECT_EQ(level_between({"a", "l0"}, {"b", "l0"}), "leaf");
    EXPECT_EQ(level_between({"a", "l0"}, {"b", "l0/l1"}), "network");
}

TEST(Levels, CoresOfAHostThatShareACache) {
    EXPECT_EQ(
        levels(
            {{"a", "", "numa0/l3-0/core0"}, {"a", "", "numa0/l3-1/core8"}, {"a", "", "numa0/l3-1/core9"}, {"b", ""}}),
        (std::vector<Found>{{"cache", 1, 2}, {"host", 0, 1}, {"network", 0, 3}}));
    // Where it is not known, or nothing tells cores apart.
    EXPECT_EQ(level_between({"a", "", ""}, {"a", "", "l3-1/core8"}), "host");
    EXPECT_EQ(level_between({"a", "", ""}, {"a", "", ""}), "host");
    EXPECT_EQ(level_between({"a", "", "l3-1/core8"}, {"b", "", "l3-1/core8"}), "network");
}

TEST(Levels, AHostThatIsNotKnownIsBeyondAllSwitches) {
    EXPECT_EQ(level_between({"a", "p0/l0"}, {"b", ""}), "network");
    EXPECT_EQ(level_between({"a", ""}, {"a", ""}), "host");
}

}  // namespace
}  // namespace perf
