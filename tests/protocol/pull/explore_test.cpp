// Every order of events in small groups, and that rules which are taken away are missed.
#include <gtest/gtest.h>

#include "protocol/every_order.hpp"
#include "simulation/explore/pull_explorer.hpp"

namespace coppice::simulation {
namespace {

using Case = OrdersOf<PullScenario>;

class Pull : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    EveryOrder, Pull,
    ::testing::Values(
        Case{"two", {.node_of = {0, 1}, .chunks = 3, .credit = 2, .crashes = 1, .one_by_one = true}},
        Case{"more_chunks_than_may_be_asked_for", {.node_of = {0, 1}, .chunks = 7, .credit = 4, .one_by_one = true}},
        Case{"three", {.crashes = 2}}, Case{"three_between_messages", {.crashes = 2, .one_by_one = true}},
        Case{"three_chunks", {.chunks = 3, .credit = 2, .crashes = 1, .one_by_one = true}},
        Case{"another_root", {.root = 1, .crashes = 2, .one_by_one = true}},
        Case{"a_chain_of_four", {.node_of = {0, 1, 2, 3}, .chunks = 1, .crashes = 2}},
        Case{"four_and_two_chunks", {.node_of = {0, 1, 2, 3}, .crashes = 1}},
        Case{"two_hosts", {.node_of = {0, 0, 1, 1}, .chunks = 1, .crashes = 2}},
        Case{"no_chunk_comes_again", {.node_of = {0, 1, 2, 3}, .crashes = 1, .may_crash = 0xe, .most_again = 0}},
        Case{"one_is_silent", {.node_of = {0, 1, 2}, .silent = 2}},
        Case{"one_of_four_is_silent", {.node_of = {0, 1, 2, 3}, .root = 2, .chunks = 1, .silent = 8}},
        Case{"some_do_not_know_of_it", {.node_of = {0, 1, 2, 3}, .root = 1, .crashes = 2, .unaware = 5}},
        Case{"two_wait_for_each_other",
             {.node_of = {0, 1, 2, 3}, .root = 1, .chunks = 1, .crashes = 1, .may_crash = 2, .patience_is_lost = 2}},
        Case{"one_host_shows", {.node_of = {0, 0, 0}, .crashes = 2, .one_by_one = true, .shows = true}},
        Case{"one_host_of_four_shows", {.node_of = {0, 0, 0, 0}, .root = 2, .crashes = 3, .shows = true}},
        Case{"the_root_that_is_watched_may_be_slow",
             {.node_of = {0, 0, 0}, .root = 1, .crashes = 2, .patience_is_lost = 2, .one_by_one = true, .shows = true}},
        Case{"two_hosts_show", {.node_of = {0, 0, 1, 1}, .chunks = 1, .crashes = 2, .shows = true}},
        Case{"a_leader_shows_what_comes", {.node_of = {0, 1, 1}, .crashes = 2, .one_by_one = true, .shows = true}},
        Case{"a_leader_has_nothing_to_show_in", {.node_of = {0, 1, 1}, .crashes = 2, .shows = true, .unshown = 2}},
        Case{"the_root_has_nothing_to_show_in", {.node_of = {0, 0, 0}, .crashes = 2, .shows = true, .unshown = 1}},
        Case{"a_leader_is_silent", {.node_of = {0, 1, 1}, .silent = 2, .shows = true}},
        Case{"the_leader_that_is_watched_may_be_slow",
             {.node_of = {0, 1, 1}, .chunks = 1, .crashes = 1, .patience_is_lost = 2, .shows = true}},
        Case{"the_root_fills", {.crashes = 2, .fills = true}},
        Case{"the_root_fills_what_it_shows", {.node_of = {0, 0, 0}, .crashes = 2, .fills = true, .shows = true}},
        Case{"the_root_fills_and_two_hosts_show",
             {.node_of = {0, 0, 1, 1}, .crashes = 1, .fills = true, .shows = true}},
        Case{"patience_is_lost_for_nothing", {.crashes = 1, .patience_is_lost = 2}}),
    name_of_case);

TEST_P(Pull, KeepsItsPromises) {
    expect_kept(GetParam());
}

using Missed = OrdersWithout<PullScenario, protocol::PullFault>;

class PullWithout : public ::testing::TestWithParam<Missed> {};
INSTANTIATE_TEST_SUITE_P(
    EveryRule, PullWithout,
    ::testing::Values(
        Missed{"replacing_the_dead", protocol::kSourcesAreNotReplaced, {.crashes = 1}},
        Missed{"leaving_the_silent", protocol::kSilenceIsNotHeard, {.silent = 2}},
        Missed{"going_on_from_what_is_here",
               protocol::kEverythingAnew,
               {.node_of = {0, 1, 2, 3}, .crashes = 1, .may_crash = 0xe, .most_again = 0}},
        Missed{"asking_everybody", protocol::kNobodyIsAsked, {.root = 1, .crashes = 1}},
        Missed{"rounds", protocol::kOldDenialsCount, {.node_of = {0, 1, 2, 3}, .root = 1, .chunks = 1, .crashes = 2}},
        Missed{"telling_the_next_coordinator",
               protocol::kNeedIsSaidOnce,
               {.node_of = {0, 1, 2, 3}, .root = 1, .crashes = 2, .unaware = 5}},
        Missed{"telling_the_verdict", protocol::kVerdictIsNotTold, {.crashes = 1}},
        Missed{"having_what_is_sent", protocol::kAnythingIsServed, {}},
        Missed{"looking_at_the_living_only",
               protocol::kTheDeadAreLookedAt,
               {.node_of = {0, 0, 0}, .root = 1, .chunks = 1, .crashes = 1, .patience_is_lost = 1, .shows = true}},
        Missed{"naming_the_holder",
               protocol::kTheNeedyAreNotTold,
               {.node_of = {0, 1, 2, 3}, .root = 1, .chunks = 1, .crashes = 1, .may_crash = 2, .patience_is_lost = 2}}),
    name_of_case);

TEST_P(PullWithout, APromiseIsBroken) {
    expect_broken(GetParam());
}

}  // namespace
}  // namespace coppice::simulation
