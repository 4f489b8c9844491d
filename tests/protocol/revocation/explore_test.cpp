// Every order of events in small groups, and that rules which are taken away are missed.
#include <gtest/gtest.h>

#include "protocol/every_order.hpp"
#include "simulation/explore/revocation_explorer.hpp"

namespace coppice::simulation {
namespace {

using Case = OrdersOf<RevocationScenario>;

class Revocation : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    EveryOrder, Revocation,
    ::testing::Values(Case{"three_stay", {.node_of = {0, 1, 2}, .crashes = 2, .revokers = 7, .leave = false}},
                      Case{"four_stay_and_tell_next_ones_only", {.crashes = 1, .leave = false, .farthest = 1}},
                      Case{"two_leave", {.node_of = {0, 1}, .crashes = 1, .revokers = 3}},
                      Case{"three_leave", {.node_of = {0, 1, 2}}},
                      Case{"one_host", {.node_of = {0, 0, 0}, .crashes = 2, .revokers = 7}},
                      Case{"two_hosts", {.node_of = {0, 0, 1}, .crashes = 2, .revokers = 2}},
                      Case{"two_hosts_of_two_stay",
                           {.node_of = {0, 0, 1, 1}, .crashes = 2, .revokers = 2, .leave = false}},
                      Case{"two_hosts_of_two_leave", {.node_of = {0, 0, 1, 1}, .crashes = 1, .revokers = 2}}),
    name_of_case);

TEST_P(Revocation, KeepsItsPromises) {
    expect_kept(GetParam());
}

using Missed = OrdersWithout<RevocationScenario, protocol::RevocationFault>;

class RevocationWithout : public ::testing::TestWithParam<Missed> {};
INSTANTIATE_TEST_SUITE_P(
    EveryRule, RevocationWithout,
    ::testing::Values(
        Missed{"telling_again_after_deaths",
               protocol::kDeathsAreNotFollowed,
               {.crashes = 2, .leave = false, .farthest = 1}},
        Missed{"waiting_for_answers", protocol::kLeavesWithoutAnswers, {.node_of = {0, 1, 2}}},
        Missed{"passing_on", protocol::kHeardIsNotPassedOn, {.leave = false, .farthest = 1}},
        Missed{"reading_what_the_dead_said",
               protocol::kPagesOfTheDeadAreUnread,
               {.node_of = {0, 0, 1}, .crashes = 1, .revokers = 2, .leave = false}},
        Missed{"forgetting_those_that_have_left", protocol::kTheDepartedAreTold, {.node_of = {0, 1, 2}, .crashes = 1}}),
    name_of_case);

TEST_P(RevocationWithout, APromiseIsBroken) {
    expect_broken(GetParam());
}

}  // namespace
}  // namespace coppice::simulation
