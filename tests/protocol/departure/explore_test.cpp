// Every order of events in small groups, and that rules which are taken away are missed.
#include <gtest/gtest.h>

#include "protocol/every_order.hpp"
#include "simulation/explore/departure_explorer.hpp"

namespace coppice::simulation {
namespace {

using Case = OrdersOf<DepartureScenario>;

class Departure : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    EveryOrder, Departure,
    ::testing::Values(Case{"two", {.node_of = {0, 1}, .crashes = 1, .slow = true}}, Case{"three", {.crashes = 2}},
                      Case{"three_all_leave", {.crashes = 1, .all_leave = true}}, Case{"three_slow", {.slow = true}},
                      Case{"three_that_are_not_told", {.crashes = 2, .farthest = 0}},
                      Case{"two_are_taken_for_dead", {.node_of = {0, 1}, .crashes = 1, .fences = true}},
                      Case{"two_that_are_told_everything_before_the_other_leaves",
                           {.node_of = {0, 1}, .slow = true, .farthest = 0, .faults = protocol::kTheDepartedAreSilent}},
                      Case{"three_of_which_one_falls_silent", {.all_leave = true, .silent = 2}},
                      Case{"three_lose_patience", {.patience = 7}}, Case{"three_ask", {.crashes = 1, .asks = 4}},
                      Case{"two_ask_and_lose_patience", {.node_of = {0, 1}, .crashes = 1, .patience = 3, .asks = 2}},
                      Case{"two_hosts", {.node_of = {0, 0, 1}, .crashes = 2}},
                      Case{"one_host", {.node_of = {0, 0, 0}, .crashes = 2, .all_leave = true}},
                      Case{"three_unclaimed", {.crashes = 2, .unclaimed = 7}},
                      Case{"three_unclaimed_all_leave", {.crashes = 1, .all_leave = true, .unclaimed = 7}},
                      Case{"three_unclaimed_give_up", {.crashes = 1, .patience = 7, .unclaimed = 7}},
                      Case{"three_unclaimed_ask", {.patience = 7, .unclaimed = 7, .asks = 4}},
                      Case{"three_unclaimed_of_which_one_falls_silent",
                           {.all_leave = true, .silent = 2, .unclaimed = 7}},
                      Case{"four_unclaimed_all_leave",
                           {.node_of = {0, 1, 2, 3}, .crashes = 1, .all_leave = true, .unclaimed = 15, .farthest = 0}}),
    name_of_case);

TEST_P(Departure, KeepsItsPromises) {
    expect_kept(GetParam());
}

using Missed = OrdersWithout<DepartureScenario, std::uint16_t>;

class DepartureWithout : public ::testing::TestWithParam<Missed> {};
INSTANTIATE_TEST_SUITE_P(
    EveryRule, DepartureWithout,
    ::testing::Values(
        Missed{"asking_the_collectives", protocol::kCollectivesAreNotAsked, {.node_of = {0, 1}}},
        // Answers after leaving make up for it; a process that ends with its group gives none.
        Missed{"waiting_until_all_is_sent",
               protocol::kUnsentIsLost | protocol::kTheDepartedAreSilent,
               {.node_of = {0, 1}, .slow = true, .farthest = 0}},
        Missed{"believing_farewells", protocol::kFarewellsEndNoWait, {.crashes = 1}},
        Missed{"answering_after_leaving", protocol::kTheDepartedAreSilent, {.node_of = {0, 1, 1}, .crashes = 1}},
        Missed{"silence_without_peace", protocol::kFarewellWithoutPeace, {.patience = 7}},
        Missed{"silence_of_those_taken_for_dead", protocol::kFarewellWithoutPeace, {.crashes = 1, .fences = true}},
        Missed{"staying_for_the_last_answer", protocol::kFarewellBeforeTheLastAnswer, {.asks = 4}},
        Missed{"forgetting_names", protocol::kNamesOfHoldersStay, {.all_leave = true, .silent = 2}},
        Missed{"keeping_names_from_their_source", protocol::kNamesGoBack, {.crashes = 1}},
        Missed{"passing_names_on",
               protocol::kHoldersAreNotPassedOn,
               {.node_of = {0, 1, 2, 3}, .all_leave = true, .wanting = 7, .farthest = 0}}),
    name_of_case);

TEST_P(DepartureWithout, APromiseIsBroken) {
    expect_broken(GetParam());
}

}  // namespace
}  // namespace coppice::simulation
