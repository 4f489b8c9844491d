// Every order of events in small groups, and that rules which are taken away are missed.
#include <gtest/gtest.h>

#include "simulation/explore/membership_explorer.hpp"

namespace coppice::simulation {
namespace {

using protocol::Quorum;

constexpr MembershipScenario kOneOfFourLeaves{
    .ranks = 4, .leaves = 1, .crashes = 1, .views = 2, .quorum = Quorum::any, .called = true, .unwitnessed = true};

struct Case {
    const char* name;
    MembershipScenario scenario;
};

class ExploreMembership : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    EveryOrder, ExploreMembership,
    ::testing::Values(
        Case{"three", {.crashes = 2}}, Case{"three_of_radix_four", {.crashes = 2, .radix_bits = 2}},
        Case{"three_and_one_that_joins", {.joins = 1, .crashes = 1}},
        Case{"four_and_one_that_joins", {.ranks = 4, .joins = 1, .crashes = 2}},
        Case{"three_and_two_that_join", {.joins = 2, .crashes = 1}},
        Case{"two_and_two_that_join_two_views", {.ranks = 2, .joins = 2, .crashes = 1, .views = 2}},
        Case{"two_views_in_a_row", {.joins = 1, .crashes = 2, .views = 2}},
        Case{"one_is_started_again_before_all_know", {.rejoins = 1, .crashes = 1}},
        Case{"one_is_started_again_two_views", {.rejoins = 1, .crashes = 2, .views = 2}},
        Case{"one_leaves", {.joins = 1, .leaves = 1, .crashes = 1}},
        Case{"all_may_leave", {.leaves = 3, .crashes = 1, .views = 2}},
        Case{"full", {.joins = 2, .crashes = 1, .capacity = 3}}, Case{"a_cut", {.joins = 1, .cuts = 1}},
        Case{"a_cut_majority", {.joins = 1, .cuts = 1, .quorum = Quorum::majority}},
        Case{"a_cut_any", {.joins = 1, .cuts = 1, .quorum = Quorum::any}},
        Case{"a_cut_and_two_crashes", {.crashes = 2, .cuts = 1}},
        Case{"a_cut_and_two_crashes_majority", {.crashes = 2, .cuts = 1, .quorum = Quorum::majority}},
        Case{"a_cut_and_two_crashes_any", {.crashes = 2, .cuts = 1, .quorum = Quorum::any}},
        Case{"a_cut_of_four", {.ranks = 4, .cuts = 1}},
        Case{"a_cut_and_a_leave", {.leaves = 1, .crashes = 1, .cuts = 1}},
        Case{"a_cut_two_views", {.crashes = 2, .cuts = 1, .views = 2, .late_witness = true}},
        Case{"deaths_become_certain_later", {.crashes = 2, .cuts = 1, .late_witness = true}},
        Case{"deaths_never_certain", {.ranks = 4, .crashes = 2, .quorum = Quorum::majority, .unwitnessed = true}},
        Case{"no_witness", {.ranks = 4, .crashes = 2, .unwitnessed = true}},
        Case{"only_those_on_its_host_see_a_death", {.ranks = 4, .crashes = 2, .hosts = 3}},
        Case{"only_those_on_its_host_see_a_death_and_late",
             {.ranks = 4, .crashes = 2, .hosts = 3, .late_witness = true}},
        Case{"consents_only_those_on_its_host_see_a_death",
             {.ranks = 4, .crashes = 2, .hosts = 3, .late_witness = true, .consents = true}},
        Case{"consents_only_those_on_its_host_see_a_death_and_a_cut",
             {.crashes = 2, .cuts = 1, .hosts = 2, .consents = true}},
        Case{"reports", {.joins = 1, .crashes = 2, .reports = true}},
        Case{"talk", {.joins = 1, .crashes = 1, .talk = true}},
        Case{"talk_across_a_cut", {.crashes = 1, .cuts = 1, .talk = true}},
        Case{"one_of_four_leaves_and_nobody_sees_deaths_for_certain", kOneOfFourLeaves},
        Case{"consents", {.crashes = 2, .views = 2, .consents = true}},
        Case{"consents_of_four", {.ranks = 4, .crashes = 2, .consents = true}},
        Case{"consents_of_four_deaths_never_certain",
             {.ranks = 4, .crashes = 2, .quorum = Quorum::any, .unwitnessed = true, .consents = true}},
        Case{"consents_deaths_never_certain_three_views",
             {.crashes = 2, .views = 3, .quorum = Quorum::any, .unwitnessed = true, .consents = true}},
        Case{"consents_to_different_offers", {.crashes = 2, .views = 2, .consents = true, .differing = true}},
        Case{"consents_a_cut", {.crashes = 2, .cuts = 1, .consents = true}},
        Case{"consents_a_cut_majority", {.crashes = 2, .cuts = 1, .quorum = Quorum::majority, .consents = true}},
        Case{"consents_a_cut_any", {.crashes = 2, .cuts = 1, .quorum = Quorum::any, .consents = true}},
        Case{"consents_a_cut_different_offers", {.crashes = 2, .cuts = 1, .consents = true, .differing = true}},
        Case{"consents_a_cut_two_views", {.crashes = 2, .cuts = 1, .views = 2, .late_witness = true, .consents = true}},
        Case{"consents_one_joins", {.joins = 1, .crashes = 2, .consents = true}},
        Case{"introduced", {.joins = 1, .crashes = 2, .consents = true, .introduced = true}},
        Case{"two_introduced", {.ranks = 2, .joins = 2, .crashes = 1, .consents = true, .introduced = true}},
        Case{"introduced_deaths_never_certain",
             {.joins = 1,
              .crashes = 2,
              .quorum = Quorum::any,
              .unwitnessed = true,
              .consents = true,
              .introduced = true}},
        Case{"introduced_and_a_cut", {.joins = 1, .cuts = 1, .consents = true, .introduced = true}},
        Case{"introduced_one_leaves", {.joins = 1, .leaves = 1, .crashes = 1, .consents = true, .introduced = true}},
        Case{"consents_one_leaves", {.joins = 1, .leaves = 1, .crashes = 1, .consents = true}},
        Case{"consents_two_leave", {.leaves = 2, .crashes = 1, .views = 2, .consents = true}},
        Case{"consents_one_leaves_deaths_never_certain",
             {.leaves = 1, .crashes = 2, .views = 2, .quorum = Quorum::any, .unwitnessed = true, .consents = true}},
        Case{"consents_one_of_four_leaves_deaths_never_certain",
             {.ranks = 4, .leaves = 1, .crashes = 1, .quorum = Quorum::any, .unwitnessed = true, .consents = true}},
        Case{"consents_one_leaves_and_a_cut", {.leaves = 1, .crashes = 1, .cuts = 1, .consents = true}},
        Case{"farewells_nobody_sees_deaths_for_certain", {.farewells = 2, .unwitnessed = true, .consents = true}},
        Case{"a_farewell_and_a_cut", {.farewells = 1, .cuts = 1, .unwitnessed = true, .consents = true}},
        Case{"a_farewell_of_four_and_a_cut",
             {.ranks = 4, .farewells = 1, .cuts = 1, .called = true, .unwitnessed = true}},
        Case{"a_farewell_and_a_death",
             {.ranks = 4, .farewells = 1, .crashes = 1, .unwitnessed = true, .consents = true}},
        Case{"a_farewell_a_death_and_a_cut", {.farewells = 1, .crashes = 1, .cuts = 1, .consents = true}},
        Case{"a_farewell_and_one_that_joins", {.joins = 1, .farewells = 1, .unwitnessed = true, .consents = true}},
        Case{"engine_one_is_started_again",
             {.rejoins = 1,
              .crashes = 1,
              .radix_bits = 4,
              .host_tree = 2,
              .consents = true,
              .introduced = true,
              .newcomers_go = true}},
        Case{"engine_one_joins_and_one_leaves",
             {.joins = 1,
              .leaves = 1,
              .crashes = 1,
              .radix_bits = 4,
              .host_tree = 2,
              .consents = true,
              .introduced = true,
              .newcomers_go = true}},
        Case{"engine_two_join",
             {.joins = 2,
              .crashes = 1,
              .radix_bits = 4,
              .host_tree = 2,
              .consents = true,
              .introduced = true,
              .newcomers_go = true}},
        Case{"engine_two_views",
             {.joins = 1,
              .crashes = 2,
              .views = 2,
              .radix_bits = 4,
              .host_tree = 2,
              .consents = true,
              .introduced = true,
              .newcomers_go = true}},
        Case{"engine_a_cut",
             {.joins = 1,
              .cuts = 1,
              .radix_bits = 4,
              .host_tree = 2,
              .consents = true,
              .introduced = true,
              .newcomers_go = true}},
        Case{"engine_a_cut_majority",
             {.joins = 1,
              .cuts = 1,
              .radix_bits = 4,
              .quorum = Quorum::majority,
              .host_tree = 2,
              .consents = true,
              .introduced = true,
              .newcomers_go = true}},
        Case{"engine_a_cut_any",
             {.joins = 1,
              .cuts = 1,
              .radix_bits = 4,
              .quorum = Quorum::any,
              .host_tree = 2,
              .consents = true,
              .introduced = true,
              .newcomers_go = true}},
        Case{"talk_two_views", {.ranks = 2, .joins = 1, .leaves = 1, .views = 2, .talk = true}}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_P(ExploreMembership, KeepsItsPromises) {
    const MembershipExploration result = explore(GetParam().scenario);
    EXPECT_EQ(text_of(result.walk), "");
    EXPECT_TRUE(result.walk.complete);
    EXPECT_GT(result.walk.ends, 0U);
    std::printf("%s: %llu states, %llu of them ends\n", GetParam().name,
                static_cast<unsigned long long>(result.walk.states), static_cast<unsigned long long>(result.walk.ends));
}

struct Missed {
    const char* name;
    std::uint32_t rules;
    MembershipScenario scenario;
    std::size_t steps;  // of a shortest way to what goes wrong; 0: not the same with every search
    const char* what;
};

class MembershipWithout : public ::testing::TestWithParam<Missed> {};
constexpr const char* kTwo = ", another had view 1 ";
constexpr const char* kWaits = " for ever";
INSTANTIATE_TEST_SUITE_P(
    EveryRule, MembershipWithout,
    ::testing::Values(
        Missed{"bound_votes", protocol::kVotesAreForgotten, {.cuts = 1}, 12, kTwo},
        Missed{"bound_votes_and_a_newcomer", protocol::kVotesAreForgotten, {.joins = 1, .cuts = 1}, 0, kTwo},
        Missed{"ask_first", protocol::kNewRootsDoNotAsk, {.cuts = 1}, 10, kTwo},
        Missed{"carry_on", protocol::kFoundVotesAreIgnored, {.cuts = 1}, 12, kTwo},
        Missed{"dead_votes", protocol::kTheDeadDoNotVote, {.crashes = 1, .cuts = 1}, 10, kTwo},
        Missed{"dead_promises", protocol::kTheDeadPromiseNothing, {.crashes = 1, .cuts = 1}, 12, kTwo},
        Missed{"follow_one_root", protocol::kEveryRootIsFollowed, {.crashes = 1}, 10, kWaits},
        Missed{"follow_one_root_of_two_sides", protocol::kEveryRootIsFollowed, {.cuts = 1}, 12, "view 1"},
        Missed{"quorum", protocol::kQuorumIsNotAsked, {.ranks = 2, .cuts = 1}, 5, kTwo},
        Missed{"half_with_the_lowest", protocol::kHalvesAreEnough, {.ranks = 2, .cuts = 1}, 5, kTwo},
        Missed{"install_when_stable", protocol::kInstallsOnHearing, {.cuts = 1}, 6, kTwo},
        Missed{"tell_orphans", protocol::kOrphansAreNotTold, {.ranks = 4, .crashes = 2}, 8, kWaits},
        Missed{"tell_late_orphans", protocol::kLateOrphansAreNotTold, {.cuts = 1}, 13, kWaits},
        Missed{"answer_the_late", protocol::kTheLateAreNotAnswered, {.cuts = 1}, 14, kWaits},
        Missed{"number_views", protocol::kViewsHaveNoNumbers, {.cuts = 1}, 16, kWaits},
        Missed{"number_views_and_a_newcomer",
               protocol::kViewsHaveNoNumbers,
               {.ranks = 2, .joins = 1, .crashes = 1, .views = 2},
               0,
               "view"},
        Missed{"views_without_numbers",
               protocol::kViewsHaveNoNumbers | protocol::kInstallsOnHearing,
               {.cuts = 1},
               6,
               kTwo},
        Missed{"number_views_of_users_messages",
               protocol::kViewsHaveNoNumbers,
               {.ranks = 2, .talk = true},
               0,
               "a user's message was delivered in another view"},
        Missed{"welcome_when_stable", protocol::kWelcomeFirst, {.ranks = 2, .joins = 1, .crashes = 1}, 5, kTwo},
        Missed{"incarnations", protocol::kSeatsHaveNoIncarnations, {.rejoins = 1, .crashes = 1, .views = 2}, 21, ""},
        Missed{"scan_on",
               protocol::kJoinersDoNotScan,
               {.ranks = 2, .joins = 1, .crashes = 1},
               4,
               "waits for one that has gone"},
        Missed{"pass_requests_on",
               protocol::kRequestsAreNotPassedOn,
               {.ranks = 2, .joins = 2, .crashes = 1, .views = 2},
               9,
               "the root does not know it"},
        Missed{"send_views_along", protocol::kViewsAreNotSentAlong, {.crashes = 2, .views = 2}, 11, kWaits},
        Missed{"tell_new_roots",
               protocol::kNewRootsAreNotTold,
               {.leaves = 1, .crashes = 1},
               11,
               "the root does not know it"},
        Missed{"mind_consents", protocol::kConsentsAreForgotten, {.cuts = 1, .consents = true}, 11, kTwo},
        Missed{"consent_alike",
               protocol::kConsentsNeedNotBeAlike,
               {.consents = true, .differing = true},
               6,
               "has not offered what its view has"},
        Missed{"wait_for_callers",
               protocol::kCallersAreNotWaitedFor,
               {.crashes = 1, .consents = true},
               7,
               "knew to be gone"},
        Missed{"dead_consents",
               protocol::kTheDeadDoNotConsent,
               {.ranks = 4, .crashes = 1, .cuts = 1, .called = true, .consents = true},
               12,
               kTwo},
        Missed{"tell_certainty",
               protocol::kCertaintyIsKept,
               {.ranks = 4, .crashes = 2, .hosts = 3, .late_witness = true, .consents = true},
               13,
               "certain to those that live"},
        Missed{"tell_leaves", protocol::kConsentsBringNoLeaves, {.leaves = 1, .consents = true}, 11, "knew to be gone"},
        Missed{"tell_leavers", protocol::kLeaversAreNotTold, kOneOfFourLeaves, 20, kWaits}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_P(MembershipWithout, IsMissed) {
    MembershipScenario scenario = GetParam().scenario;
    EXPECT_EQ(explore(scenario).walk.violation, "");
    scenario.faults = GetParam().rules;
    const WalkResult result = explore(scenario).walk;
    EXPECT_NE(result.violation, "");
    EXPECT_NE(result.violation.find(GetParam().what), std::string::npos) << result.violation;
    EXPECT_FALSE(result.way.empty());
    if (GetParam().steps != 0) {
        EXPECT_TRUE(result.shortest);
        EXPECT_EQ(result.way.size(), GetParam().steps) << text_of(result);
    }
}

// What it voted may be what the others have to carry on with.
TEST(MembershipFarewell, OfOneThatHasVotedIsMissed) {
    MembershipScenario scenario{.farewells = 1, .cuts = 1, .unwitnessed = true, .consents = true};
    EXPECT_EQ(explore(scenario).walk.violation, "");
    scenario.false_farewells = true;
    const WalkResult result = explore(scenario).walk;
    EXPECT_EQ(result.way.size(), 7U) << text_of(result);
    EXPECT_NE(result.violation.find(kTwo), std::string::npos) << result.violation;
}

TEST(MembershipTalk, ThatArrivesTwiceIsNoticed) {
    MembershipScenario scenario{.ranks = 2, .talk = true};
    EXPECT_EQ(explore(scenario).walk.violation, "");
    scenario.talk_twice = true;
    EXPECT_EQ(explore(scenario).walk.violation, "a user's message was delivered twice");
}

// ------------------------------------------------------------------------------------- what keeps the searches small ---

// With and without each of the two reductions of docs/membership.md a search ends in the same: those that live are in the same views, and
// were told the same. Where a rule is taken away, a promise is broken with and without.
struct Reduced {
    const char* name;
    MembershipScenario scenario;
};

class MembershipReductions : public ::testing::TestWithParam<Reduced> {};
INSTANTIATE_TEST_SUITE_P(
    Small, MembershipReductions,
    ::testing::Values(
        Reduced{"two", {.ranks = 2, .crashes = 1, .views = 2}}, Reduced{"three", {.crashes = 1}},
        Reduced{"two_and_one_that_joins", {.ranks = 2, .joins = 1, .crashes = 1}},
        Reduced{"two_and_a_cut", {.ranks = 2, .crashes = 1, .cuts = 1}},
        Reduced{"two_and_a_leave", {.ranks = 2, .leaves = 1, .crashes = 1, .views = 2}},
        Reduced{"consents_of_three", {.crashes = 1, .consents = true}},
        Reduced{"consents_of_two_and_a_cut", {.ranks = 2, .crashes = 1, .cuts = 1, .consents = true}},
        Reduced{"consents_of_two_and_one_that_joins",
                {.ranks = 2, .joins = 1, .crashes = 1, .consents = true, .introduced = true}},
        Reduced{"engine",
                {.ranks = 2,
                 .joins = 1,
                 .crashes = 1,
                 .radix_bits = 4,
                 .host_tree = 2,
                 .consents = true,
                 .introduced = true,
                 .newcomers_go = true}},
        Reduced{"three_views", {.crashes = 2, .views = 3}},
        Reduced{"started_again", {.ranks = 2, .rejoins = 1, .crashes = 2, .views = 3}},
        Reduced{"three_and_a_cut", {.crashes = 1, .cuts = 1, .consents = true}},
        Reduced{"dead_votes", {.crashes = 1, .cuts = 1, .called = true, .faults = protocol::kTheDeadDoNotVote}},
        Reduced{"mind_consents", {.cuts = 1, .consents = true, .faults = protocol::kConsentsAreForgotten}},
        Reduced{"half_with_the_lowest", {.ranks = 2, .cuts = 1, .faults = protocol::kHalvesAreEnough}}),
    [](const auto& one) { return std::string(one.param.name); });

MembershipExploration all_ends(MembershipScenario scenario, bool sends_apart, bool all_notices) {
    scenario.sends_apart = sends_apart;
    scenario.all_notices = all_notices;
    scenario.keep_outcomes = true;
    return explore(scenario);
}

TEST_P(MembershipReductions, LoseNoEnd) {
    const MembershipScenario& scenario = GetParam().scenario;
    const MembershipExploration reduced = all_ends(scenario, false, false);
    for (const auto& [sends_apart, all_notices] : {std::pair{true, false}, std::pair{false, true}}) {
        const MembershipExploration whole = all_ends(scenario, sends_apart, all_notices);
        EXPECT_EQ(reduced.walk.violation.empty(), scenario.faults == 0) << text_of(reduced.walk);
        EXPECT_EQ(whole.walk.violation.empty(), scenario.faults == 0) << text_of(whole.walk);
        EXPECT_TRUE(whole.walk.complete || scenario.faults != 0);
        std::printf("%s: %llu states, %llu without a reduction, %zu ends\n", GetParam().name,
                    static_cast<unsigned long long>(reduced.walk.states),
                    static_cast<unsigned long long>(whole.walk.states), whole.outcomes.size());
        if (scenario.faults == 0) {
            EXPECT_EQ(reduced.outcomes, whole.outcomes);
        }
    }
}

}  // namespace
}  // namespace coppice::simulation
