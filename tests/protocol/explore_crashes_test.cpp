// Deaths between any two events of small groups: every order of messages, every crash point, every order of notices.
#include <gtest/gtest.h>

#include "explore_broadcast.hpp"

namespace coppice::protocol::testing {
namespace {

struct Group {
    const char* tree;
    std::uint32_t processes;
    const char* correction;
    std::uint32_t crashes;
    bool root_may_die;
};

std::ostream& operator<<(std::ostream& out, const Group& group) {
    return out << group.correction << " over " << group.tree << ", P=" << group.processes << ", " << group.crashes
               << (group.root_may_die ? " crashes, the root's too" : " crashes, the root lives");
}

class Crashes : public ::testing::TestWithParam<Group> {};

TEST_P(Crashes, WhicheverDieAndWhenAllLiveMembersEndAndAgree) {
    const Group group = GetParam();
    const auto tree = topology::Tree::make(*topology::parse_tree(group.tree), group.processes);
    const auto correction = parse_correction(group.correction);
    ASSERT_TRUE(tree && correction);
    Scenario scenario(BroadcastPlan{*tree, *correction, Nanoseconds{1}});
    scenario.root_member = group.processes / 2;
    scenario.crashes = group.crashes;
    scenario.may_crash = group.root_may_die ? 0xff : 0xfe;
    const bool corrects = correction->kind != CorrectionKind::none && correction->kind != CorrectionKind::acknowledged;
    scenario.must_color_all = corrects && !group.root_may_die;
    const Exploration result = Explorer(scenario).run();
    EXPECT_TRUE(result.complete) << result.states;
    EXPECT_EQ(result.violation, "");
    EXPECT_GT(result.final_states, 0U);
    std::cout << group << ": " << result.states << " states, " << result.final_states << " final, " << result.verdicts
              << " with a verdict\n";
}

INSTANTIATE_TEST_SUITE_P(
    Small, Crashes,
    ::testing::Values(
        Group{"binomial", 3, "opportunistic:1", 2, true}, Group{"chain", 3, "opportunistic:1", 2, true},
        Group{"binomial", 4, "opportunistic:1", 1, true}, Group{"chain", 4, "opportunistic:1", 1, true},
        Group{"binomial", 3, "opportunistic:2", 2, true}, Group{"chain", 3, "opportunistic:2", 2, true},
        Group{"binomial", 4, "opportunistic:2", 1, true}, Group{"chain", 4, "opportunistic:2", 1, true},
        Group{"binomial", 3, "opportunistic:1:one-directional", 2, true},
        Group{"chain", 3, "opportunistic:1:one-directional", 2, true},
        Group{"binomial", 4, "opportunistic:1:one-directional", 1, true},
        Group{"chain", 4, "opportunistic:1:one-directional", 1, true}, Group{"binomial", 3, "optimized:1", 2, true},
        Group{"chain", 3, "optimized:1", 2, true}, Group{"binomial", 4, "optimized:1", 1, true},
        Group{"chain", 4, "optimized:1", 1, true}, Group{"binomial", 3, "optimized:2", 2, true},
        Group{"chain", 3, "optimized:2", 2, true}, Group{"binomial", 4, "optimized:2", 1, true},
        Group{"chain", 4, "optimized:2", 1, true}, Group{"binomial", 3, "optimized:2:one-directional", 2, true},
        Group{"chain", 3, "optimized:2:one-directional", 2, true},
        Group{"binomial", 4, "optimized:2:one-directional", 1, true},
        Group{"chain", 4, "optimized:2:one-directional", 1, true}, Group{"binomial", 3, "checked", 2, true},
        Group{"chain", 3, "checked", 2, true}, Group{"binomial", 4, "checked", 2, true},
        Group{"star", 4, "checked", 2, true}, Group{"binomial", 3, "none", 2, true}, Group{"chain", 3, "none", 2, true},
        Group{"binomial", 4, "none", 1, true}, Group{"chain", 4, "none", 1, true}, Group{"binomial", 3, "ack", 2, true},
        Group{"chain", 3, "ack", 2, true}, Group{"binomial", 4, "ack", 1, true}, Group{"chain", 4, "ack", 1, true},
        Group{"chain", 4, "opportunistic:1:one-directional", 2, true},
        Group{"chain", 4, "opportunistic:1:one-directional", 3, true}, Group{"chain", 4, "opportunistic:1", 2, true},
        Group{"chain", 4, "optimized:1", 2, true}, Group{"binomial", 4, "opportunistic:1", 2, true},
        Group{"star", 4, "opportunistic:1", 2, true}, Group{"star", 4, "optimized:1", 2, true},
        Group{"binomial", 4, "optimized:1", 2, true}, Group{"binomial", 4, "opportunistic:2", 2, true},
        Group{"binomial", 4, "optimized:2", 2, true}, Group{"star", 4, "opportunistic:2", 2, true},
        Group{"star", 4, "optimized:2", 2, true}, Group{"binomial", 4, "none", 2, true},
        Group{"star", 4, "none", 2, true}, Group{"binomial", 4, "ack", 2, true}, Group{"star", 4, "ack", 2, true},
        Group{"binomial", 4, "opportunistic:1:one-directional", 2, true},
        Group{"star", 4, "opportunistic:1:one-directional", 2, true},
        Group{"binomial", 4, "opportunistic:2:one-directional", 2, true},
        Group{"star", 4, "opportunistic:2:one-directional", 2, true},
        Group{"binomial", 4, "optimized:1:one-directional", 2, true},
        Group{"star", 4, "optimized:1:one-directional", 2, true},
        Group{"binomial", 4, "optimized:2:one-directional", 2, true},
        Group{"star", 4, "optimized:2:one-directional", 2, true},
        Group{"binomial", 4, "opportunistic:1:synchronized", 2, true},
        Group{"star", 4, "opportunistic:1:synchronized", 2, true},
        Group{"binomial", 4, "optimized:1:synchronized", 2, true},
        Group{"star", 4, "optimized:1:synchronized", 2, true},
        Group{"chain", 5, "opportunistic:1:one-directional", 2, true},
        Group{"binomial", 5, "opportunistic:1:one-directional", 1, true}, Group{"binomial", 5, "none", 2, true},
        Group{"binomial", 5, "ack", 2, true}, Group{"binomial", 3, "checked:synchronized", 2, true},
        Group{"chain", 4, "checked:synchronized", 1, true},
        Group{"binomial", 3, "opportunistic:1:synchronized", 2, true},
        Group{"chain", 4, "opportunistic:1:synchronized", 1, true},
        Group{"chain", 3, "optimized:2:synchronized", 2, true}, Group{"binomial", 3, "delayed:1", 2, true},
        Group{"chain", 3, "delayed:1", 2, true}, Group{"chain", 3, "delayed:1:synchronized", 2, true}));

}  // namespace
}  // namespace coppice::protocol::testing
