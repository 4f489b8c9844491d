// The predicates themselves, and what they share. One file for each kind of call.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "simulation/promises/promises.hpp"

namespace coppice::promises {

using Found = std::vector<Violation>;
using Groups = std::vector<Group>;

// broadcast_promises.cpp
void payloads_are_the_roots(const History& history, const Groups& groups, Found& found);
void live_roots_reach_all(const History& history, const Groups& groups, Found& found);
void root_failed_when_it_died(const History& history, const Groups& groups, Found& found);
void root_failed_when_nobody_has_it(const History& history, const Groups& groups, Found& found);
void views_stay(const History& history, const Groups& groups, Found& found);

// agreement_promises.cpp
void one_outcome(const History& history, const Groups& groups, Found& found);
void value_of_contributions(const History& history, const Groups& groups, Found& found);
void nobody_is_through_early(const History& history, const Groups& groups, Found& found);
void agreed_failed_have_failed(const History& history, const Groups& groups, Found& found);
void status_by_acknowledgement(const History& history, const Groups& groups, Found& found);

// view_promises.cpp
void one_view_of_an_epoch(const History& history, const Groups& groups, Found& found);
void views_have_one_order(const History& history, const Groups& groups, Found& found);
void views_have_a_quorum(const History& history, const Groups& groups, Found& found);
void outcomes_have_a_quorum(const History& history, const Groups& groups, Found& found);
void quorums_are_not_denied(const History& history, const Groups& groups, Found& found);
void seen_deaths_cost_no_quorum(const History& history, const Groups& groups, Found& found);

// newcomer_promises.cpp
void deliveries_stay_in_their_view(const History& history, const Groups& groups, Found& found);
void pending_alike(const History& history, const Groups& groups, Found& found);
void newcomers_are_told(const History& history, const Groups& groups, Found& found);
void newcomers_see_the_view(const History& history, const Groups& groups, Found& found);
void incarnations_rise(const History& history, const Groups& groups, Found& found);

// group_promises.cpp
void calls_end(const History& history, const Groups& groups, Found& found);
void waits_are_short(const History& history, const Groups& groups, Found& found);
void deadlines_are_kept(const History& history, const Groups& groups, Found& found);
void timeouts_are_not_early(const History& history, const Groups& groups, Found& found);
void statuses_mean_something(const History& history, const Groups& groups, Found& found);
void fenced_were_silent(const History& history, const Groups& groups, Found& found);
void revoked_by_a_member(const History& history, const Groups& groups, Found& found);
void revocation_ends_all(const History& history, const Groups& groups, Found& found);
void shrunk_alike(const History& history, const Groups& groups, Found& found);
void survivors_are_in(const History& history, const Groups& groups, Found& found);
void leavers_are_out(const History& history, const Groups& groups, Found& found);
void each_death_is_told(const History& history, const Groups& groups, Found& found);
void callbacks_once(const History& history, const Groups& groups, Found& found);
void failed_have_failed(const History& history, const Groups& groups, Found& found);
void nothing_leaks(const History& history, const Groups& groups, Found& found);
void messages_make_sense(const History& history, const Groups& groups, Found& found);

// Calls of one kind that belong together, by group and step.
using Key = std::pair<std::uint32_t, std::uint32_t>;
inline std::map<Key, std::vector<const Call*>> together(const History& history, Action action) {
    std::map<Key, std::vector<const Call*>> calls;
    for (const Call& call : history.calls)
        if (call.action == action) calls[{call.group, call.step}].push_back(&call);
    return calls;
}

// A call that returned a group, and whose caller has read its members.
inline bool is_view(const Call& call) {
    return (call.action == Action::create || call.action == Action::shrink) && call.status == COPPICE_OK &&
           !call.members.empty();
}

inline std::string names(const std::vector<std::uint32_t>& ranks) {
    std::string text;
    for (const std::uint32_t rank : ranks)
        text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
    return text.empty() ? "nobody" : text;
}

inline bool is_revoked(const History& history, std::uint32_t group) {
    return std::ranges::any_of(
        history.calls, [group](const Call& call) { return call.action == Action::revoke && call.group == group; });
}

// It was told so. Nothing can be done in the group then, and it leaves without the others.
inline bool has_no_quorum(const History& history, std::uint32_t group, std::uint32_t rank) {
    return std::ranges::any_of(history.calls, [&](const Call& call) {
        return call.status == COPPICE_ERR_NO_QUORUM && call.group == group && call.rank == rank;
    });
}

// The earliest time at which that rank may have left the group; kNever: it has not. One that leaves in peace stays until the others
// need it no more, and its call returns soon after it has gone.
inline std::uint64_t left_ns(const History& history, std::uint32_t group, std::uint32_t rank) {
    for (const Call& call : history.calls) {
        if (call.action != Action::destroy || call.group != group || call.rank != rank) continue;
        // A revoked group's end waits for nobody's calls either.
        const bool waits_for_nobody = has_no_quorum(history, group, rank) || is_revoked(history, group);
        if (call.status != COPPICE_OK || call.timeout_ns == 0 || waits_for_nobody) return call.began_ns;
        const std::uint64_t soon = history.slack_ns + call.kept_ns;
        return std::max(call.began_ns, call.ended_ns - std::min(call.ended_ns, soon));
    }
    // Others may have made it a member while it was beyond a cut: it never has that group, and says so once it has ended.
    const auto has_it = [&](const Call& call) { return call.rank == rank && call.made == group; };
    if (history.cuts.empty() || std::ranges::any_of(history.calls, has_it)) return kNever;
    const auto end = std::ranges::find_if(
        history.calls, [rank](const Call& call) { return call.action == Action::leak && call.rank == rank; });
    return end == history.calls.end() ? kNever : end->began_ns;
}

// Whether it was dead, or may have left that group, by then.
inline bool is_gone(const History& history, std::uint32_t group, std::uint32_t rank, std::uint64_t time_ns) {
    return history.died_ns[rank] <= time_ns || left_ns(history, group, rank) <= time_ns;
}

// The same as that observer sees it, for which a rank beyond a cut is as good as dead.
inline bool is_gone_for(const History& history, std::uint32_t observer, std::uint32_t group, std::uint32_t rank,
                        std::uint64_t time_ns) {
    return is_gone(history, group, rank, time_ns) || history.may_seem_dead(observer, rank, time_ns);
}

// It lives, and has not left the group without the others, which counts as a failure there.
inline bool survives(const History& history, std::uint32_t group, std::uint32_t rank) {
    if (!history.lives(rank)) return false;
    return std::ranges::none_of(history.calls, [&](const Call& call) {
        return call.action == Action::destroy && call.group == group && call.rank == rank &&
               (call.status == COPPICE_ERR_TIMEOUT || call.timeout_ns == 0);
    });
}

// Of that group, as it was made.
inline std::vector<std::uint32_t> members_of(const History& history, std::uint32_t group) {
    for (const Call& call : history.calls)
        if (call.made == group && !call.members.empty()) return call.members;
    return {};
}

// Its action, rank, step and group, as far as it has them.
std::string_view name_of(Action action);
std::string where(const Call& call);

}  // namespace coppice::promises
