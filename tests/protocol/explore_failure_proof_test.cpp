// Failure-proof correction by exhaustive search (IPDPS'17, Claim 4): with no more than f deaths on the way, at any
// moment and without any detector, either all live members get the payload or none, in every order of messages and
// timeouts; and if anybody, dead by now or not, was ever through, it is all.
#include <gtest/gtest.h>

#include "explore_failure_proof.hpp"

namespace coppice::protocol::testing {
namespace {

enum class Timers { any_time, late };

struct Group {
    const char* tree;
    std::uint32_t processes;
    const char* correction;
    std::uint32_t crashes;
    Timers timers;
    std::uint32_t under_way;  // messages at a time
    std::uint8_t dead = 0;
    bool noticed = false;
    bool in_order = true;  // what is between the same two
};

std::ostream& operator<<(std::ostream& out, const Group& group) {
    return out << group.correction << " over " << group.tree << ", P=" << group.processes << ", dead "
               << static_cast<int>(group.dead) << ", " << group.crashes << " crashes"
               << (group.noticed ? ", noticed" : "") << (group.in_order ? "" : ", in any order")
               << (group.timers == Timers::late ? ", late timers" : "") << ", " << group.under_way << " under way";
}

Exploration explore(const Group& group) {
    const BroadcastPlan broadcast{*topology::Tree::make(*topology::parse_tree(group.tree), group.processes),
                                  *parse_correction(group.correction)};
    Conditions conditions;
    conditions.processes = group.processes;
    conditions.root_member = group.processes / 2;
    conditions.crashes = group.crashes;
    conditions.dead = group.dead;
    conditions.detection = group.noticed;
    conditions.in_order = group.in_order;
    conditions.late_timers = group.timers == Timers::late;
    conditions.under_way = group.under_way;
    FailureProofSubject subject(make_failure_proof_plan(broadcast, Nanoseconds{1}), conditions);
    return StateExplorer<FailureProofSubject>(subject, conditions).run();
}

class Claim4 : public ::testing::TestWithParam<Group> {};

TEST_P(Claim4, AllOrNoneWhicheverDieAndWhenever) {
    const Exploration result = explore(GetParam());
    EXPECT_TRUE(result.complete) << result.states;
    EXPECT_EQ(result.violation, "");
    EXPECT_GT(result.final_states, 0U);
    std::cout << GetParam() << ": " << result.states << " states, " << result.final_states << " final\n";
}

constexpr std::uint32_t kAny = 1000;

INSTANTIATE_TEST_SUITE_P(Small, Claim4,
                         ::testing::Values(Group{"binomial", 2, "failure-proof:1", 1, Timers::any_time, kAny},
                                           Group{"binomial", 3, "failure-proof:1", 1, Timers::any_time, 1},
                                           Group{"binomial", 3, "failure-proof:1", 1, Timers::late, 3},
                                           Group{"chain", 3, "failure-proof:1", 1, Timers::any_time, 1},
                                           Group{"chain", 3, "failure-proof:1", 1, Timers::late, 2},
                                           Group{"binomial", 4, "failure-proof:1", 1, Timers::any_time, 1, 0b0010},
                                           Group{"chain", 4, "failure-proof:1", 1, Timers::any_time, 1, 0b0100},
                                           Group{"chain", 4, "failure-proof:2", 2, Timers::any_time, 1, 0b0100},
                                           Group{"binomial", 5, "failure-proof:1", 1, Timers::late, 1, 0b00110},
                                           Group{"binomial", 3, "failure-proof:1", 2, Timers::late, 1, 0, true}));

// Channels that keep no order: two and more messages between the same two, under way at a time.
INSTANTIATE_TEST_SUITE_P(
    Unordered, Claim4,
    ::testing::Values(Group{"binomial", 2, "failure-proof:1", 1, Timers::any_time, kAny, 0, false, false},
                      Group{"binomial", 3, "failure-proof:1", 1, Timers::any_time, 2, 0, false, false},
                      Group{"binomial", 3, "failure-proof:1", 1, Timers::late, 3, 0, false, false},
                      Group{"chain", 3, "failure-proof:1", 1, Timers::late, 3, 0, false, false},
                      Group{"chain", 4, "failure-proof:1", 1, Timers::late, 2, 0b0100, false, false},
                      Group{"binomial", 4, "failure-proof:2", 2, Timers::late, 2, 0b0010, false, false}));

}  // namespace
}  // namespace coppice::protocol::testing
