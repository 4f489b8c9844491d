// Every order of events in small groups, and that rules which are taken away are missed.
#include <gtest/gtest.h>

#include "protocol/every_order.hpp"
#include "simulation/explore/stability_explorer.hpp"

namespace coppice::simulation {
namespace {

using Case = OrdersOf<StabilityScenario>;

class Stability : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    EveryOrder, Stability,
    ::testing::Values(
        Case{"two", {.node_of = {0, 1}, .crashes = 1, .broadcasts = 4}},
        Case{"three", {.node_of = {0, 1, 2}, .crashes = 1, .flush = false}},
        Case{"three_leave", {.node_of = {0, 1, 2}}}, Case{"two_hosts", {.node_of = {0, 0, 1}, .crashes = 2}},
        Case{"a_leader_and_its_host", {.node_of = {0, 1, 1}, .crashes = 2}},
        Case{"one_host", {.node_of = {0, 0, 0}, .crashes = 2}},
        Case{"two_hosts_of_two", {.node_of = {0, 0, 1, 1}, .flush = false}},
        Case{"out_of_order_and_late", {.node_of = {0, 1}, .crashes = 1, .in_order = false, .in_rounds = false}},
        Case{"one_is_away", {.node_of = {0, 1, 2}, .away = 4}},
        Case{"one_of_a_host_is_away", {.node_of = {0, 0, 1, 1}, .away = 8, .flush = false}},
        Case{"one_is_away_between_steps",
             {.node_of = {0, 1}, .broadcasts = 7, .window = 4, .away = 2, .away_at = 3, .flush = false}},
        Case{"one_is_away_and_another_dies", {.node_of = {0, 1, 2}, .crashes = 1, .away = 2, .flush = false}}),
    name_of_case);

TEST_P(Stability, KeepsItsPromises) {
    expect_kept(GetParam());
}

using Missed = OrdersWithout<StabilityScenario, protocol::StabilityFault>;

class StabilityWithout : public ::testing::TestWithParam<Missed> {};
INSTANTIATE_TEST_SUITE_P(
    EveryRule, StabilityWithout,
    ::testing::Values(
        Missed{"telling_a_stand_in", protocol::kStandInIsNotTold, {.node_of = {0, 1, 1}, .crashes = 1}},
        Missed{"repeating_a_report", protocol::kReportIsNotRepeated, {.node_of = {0, 1, 2}, .crashes = 1}},
        Missed{"taking_a_dead_nodes_children",
               protocol::kChildrenOfTheDeadAreDropped,
               {.node_of = {0, 1, 2, 3}, .crashes = 1, .flush = false}},
        Missed{"waiting_for_children", protocol::kCountsOfChildrenAreTrusted, {.node_of = {0, 1, 2}}},
        Missed{"passing_asks_on",
               protocol::kAsksAreNotPassedOn,
               {.node_of = {0, 1}, .broadcasts = 7, .window = 4, .away = 2, .away_at = 3, .flush = false}},
        Missed{"passing_names_on", protocol::kNamesAreNotPassedOn, {.node_of = {0, 1, 2}, .away = 4}}),
    name_of_case);

TEST_P(StabilityWithout, APromiseIsBroken) {
    expect_broken(GetParam());
}

}  // namespace
}  // namespace coppice::simulation
