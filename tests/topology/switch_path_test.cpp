#include "topology/switch_path.hpp"

#include <gtest/gtest.h>

#include <array>

namespace coppice::topology {
namespace {

TEST(SwitchPath, IsNamesWithSlashesBetweenThem) {
    for (const char* path : {"", "leaf3", "pod1/leaf3", "a/b/c/d/e/f/g/h", "leaf.with-odd_chars:7"})
        EXPECT_TRUE(check_switch_path(path)) << path;
    for (const std::string& path :
         {std::string("/"), std::string("pod1/"), std::string("/leaf"), std::string("a//b"), std::string("two words"),
          std::string("line\nbreak"), std::string("a/b/c/d/e/f/g/h/i"), std::string(256, 'x'), std::string("nul\0", 4),
          std::string("quo\"te")}) {
        const auto checked = check_switch_path(path);
        ASSERT_FALSE(checked) << path;
        EXPECT_EQ(checked.error().find('\n'), std::string::npos);
    }
}

TEST(SwitchPath, IsMadeOfAnyNames) {
    EXPECT_EQ(make_switch_path(std::array<std::string, 2>{"pod 1", "a/b"}), "pod_1/a_b");
    EXPECT_EQ(make_switch_path(std::array<std::string, 2>{"", "leaf"}), "leaf");
    EXPECT_EQ(make_switch_path({}), "");
}

TEST(SwitchPath, TellsLeavesApartByAllOfItAndPodsByWhatStandsAbove) {
    const std::array<std::string, 5> paths{"p0/l0", "p0/l1", "p1/l0", "p0/l0", "p1/l0"};
    const std::vector<Site> expected{{0, 0}, {0, 1}, {1, 2}, {0, 0}, {1, 2}};
    EXPECT_EQ(sites_of(paths), expected);
}

TEST(SwitchPath, OfDifferentDepthsCountsAsFarAsAllAgree) {
    const std::array<std::string, 3> paths{"p0/l0", "l1", "p1/l0"};
    const std::vector<Site> expected{{0, 0}, {0, 1}, {0, 2}};
    EXPECT_EQ(sites_of(paths), expected) << "one has no pod, so nobody has";
    const std::array<std::string, 3> silent{"p0/l0", "", "p1/l0"};
    EXPECT_TRUE(sites_of(silent).empty());
    EXPECT_TRUE(sites_of({}).empty());
}

TEST(SwitchPath, IsOfUseWhereTwoLevelsAtLeastHaveSeveral) {
    EXPECT_FALSE(is_worth_placing({}));
    EXPECT_FALSE(is_worth_placing(std::array<Site, 2>{Site{0, 0}, Site{0, 0}})) << "one leaf";
    EXPECT_FALSE(is_worth_placing(std::array<Site, 2>{Site{0, 0}, Site{1, 1}})) << "a leaf each";
    EXPECT_FALSE(is_worth_placing(std::array<Site, 2>{Site{0, 0}, Site{0, 1}})) << "the same, in one pod";
    EXPECT_TRUE(is_worth_placing(std::array<Site, 3>{Site{0, 0}, Site{1, 1}, Site{0, 2}})) << "a leaf each, in pods";
    EXPECT_TRUE(is_worth_placing(std::array<Site, 3>{Site{0, 0}, Site{0, 1}, Site{0, 0}}));
    EXPECT_TRUE(is_worth_placing(std::array<Site, 3>{Site{0, 0}, Site{1, 1}, Site{0, 0}}));
    const LevelSizes sizes =
        level_sizes(std::array<Site, 5>{Site{0, 0}, Site{0, 1}, Site{1, 2}, Site{1, 2}, Site{1, 2}});
    EXPECT_EQ(sizes.pods, 2U);
    EXPECT_EQ(sizes.leaves, 2U);
    EXPECT_EQ(sizes.hosts, 3U);
}

}  // namespace
}  // namespace coppice::topology
