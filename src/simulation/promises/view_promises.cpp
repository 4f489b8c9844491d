// Views: who may make the next one where ranks can't be reached, and that there is one of each.
#include "simulation/promises/predicates.hpp"

namespace coppice::promises {
namespace {

// More than half of all, or half with the first: `all` are in the order of their numbers in the group, where a newcomer may have the number of
// one that is gone.
bool are_most(const std::vector<std::uint32_t>& some, const std::vector<std::uint32_t>& all) {
    return 2 * some.size() > all.size() ||
           (2 * some.size() == all.size() && !all.empty() && contains(some, all.front()));
}

// Those of the group that had no reason by then to take that rank, and its side, for dead, nor the other way round.
std::vector<std::uint32_t> left_with(const History& history, const Call& call,
                                     const std::vector<std::uint32_t>& members) {
    std::vector<std::uint32_t> left;
    for (const std::uint32_t member : members)
        if (!is_gone_for(history, call.rank, call.group, member, call.ended_ns)) left.push_back(member);
    return left;
}

// Whether a rank of its host in that group has seen that it died, and is on the side of `call`, which it can tell of that.
bool is_seen_dead(const History& history, const Call& call, const std::vector<std::uint32_t>& left,
                  std::uint32_t rank) {
    return history.local_peers_see_deaths && history.killed_ns[rank] <= call.ended_ns &&
           !(left_ns(history, call.group, rank) <= call.ended_ns) &&
           std::ranges::any_of(left, [&](std::uint32_t one) { return history.host_of[one] == history.host_of[rank]; });
}

}  // namespace

// "of the sides of a cut one at most goes on", also where a rank of it has died since.
void one_view_of_an_epoch(const History& history, const Groups& /*groups*/, Found& found) {
    if (history.quorum == Quorum::any) return;
    for (const auto& [key, calls] : together(history, Action::shrink)) {
        const Call* first = nullptr;
        for (const Call* call : calls) {
            if (call->status != COPPICE_OK || call->left || call->members.empty()) continue;
            if (first == nullptr) first = call;
            if (call->members != first->members)
                found.push_back({"", fmt::format("{}: members {}; {}: members {}", where(*first), names(first->members),
                                                 where(*call), names(call->members))});
        }
    }
}

// "Epochs are in one order along a line of groups": programs renew each group once, so all ranks see the same members in an epoch, and each
// rank's epochs rise. Checked in worlds with newcomers, where all groups come from one.
void views_have_one_order(const History& history, const Groups& /*groups*/, Found& found) {
    if (history.ranks == history.first_ranks) return;
    std::map<std::uint32_t, const Call*> first;  // by epoch
    std::map<std::uint32_t, const Call*> last;   // by rank
    for (const Call& call : history.calls) {
        if (!is_view(call)) continue;
        const auto [view, is_new] = first.try_emplace(call.epoch, &call);
        if (!is_new && history.quorum != Quorum::any && view->second->members != call.members)
            found.push_back(
                {"", fmt::format("epoch {}: {}: members {}; {}: members {}", call.epoch, where(*view->second),
                                 names(view->second->members), where(call), names(call.members))});
        const auto [before, is_first] = last.try_emplace(call.rank, &call);
        if (!is_first && before->second->epoch >= call.epoch)
            found.push_back({"", fmt::format("{}: epoch {} after {}", where(call), call.epoch, before->second->epoch)});
        before->second = &call;
    }
}

// The members that make a view are more than half of the old one, or more than half of those of it that are not dead for certain.
void views_have_a_quorum(const History& history, const Groups& /*groups*/, Found& found) {
    if (history.quorum == Quorum::any) return;
    for (const auto& [key, calls] : together(history, Action::shrink)) {
        for (const Call* call : calls) {
            if (call->status != COPPICE_OK || call->left || call->members.empty()) continue;
            std::vector<std::uint32_t> votes;  // newcomers have none
            std::vector<std::uint32_t> counted;
            for (const std::uint32_t member : members_of(history, key.first)) {
                const bool is_in = contains(call->members, member);
                if (is_in) votes.push_back(member);
                const bool leaves = std::ranges::any_of(
                    calls, [member](const Call* other) { return other->rank == member && other->left; });
                if (leaves && !is_in) votes.push_back(member);
                const bool may_be_certain = history.quorum == Quorum::certain &&
                                            is_gone(history, key.first, member, call->ended_ns) && !is_in && !leaves;
                if (!may_be_certain) counted.push_back(member);
            }
            if (!are_most(votes, counted))
                found.push_back({"", fmt::format("{}: members {}, of {} that have not ended", where(*call),
                                                 names(call->members), names(counted))});
        }
    }
}

// "end with that error as soon as a rank has learned of a death by which its side loses the quorum, and before it makes anything else of
// that death": what ranks agree on has the votes of most. Which deaths are certain is not known before a renewal, so not with `certain`.
void outcomes_have_a_quorum(const History& history, const Groups& /*groups*/, Found& found) {
    if (history.quorum != Quorum::majority) return;
    for (const Call& call : history.calls) {
        if (call.action != Action::agree || (call.status != COPPICE_OK && call.status != COPPICE_ERR_PEER_FAILED))
            continue;
        const std::vector<std::uint32_t> members = members_of(history, call.group);
        std::vector<std::uint32_t> votes;
        for (const std::uint32_t member : members)
            if (!contains(call.failed, member)) votes.push_back(member);
        if (!are_most(votes, members))
            found.push_back({"", fmt::format("{}: {} of {} agree", where(call), names(votes), names(members))});
    }
}

// "more than half of the group as it was; half with rank 0": these are never told that they have no quorum.
void quorums_are_not_denied(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls) {
        if (call.status != COPPICE_ERR_NO_QUORUM) continue;
        const std::vector<std::uint32_t> members = members_of(history, call.group);
        if (history.quorum != Quorum::any && !are_most(left_with(history, call, members), members)) continue;
        found.push_back({"", fmt::format("{}: {}", where(call), call.sentence)});
    }
}

// "ranks that died on a host where another lives do not count, however many"
void seen_deaths_cost_no_quorum(const History& history, const Groups& /*groups*/, Found& found) {
    if (history.quorum != Quorum::certain) return;
    for (const Call& call : history.calls) {
        if (call.status != COPPICE_ERR_NO_QUORUM) continue;
        const std::vector<std::uint32_t> members = members_of(history, call.group);
        const std::vector<std::uint32_t> left = left_with(history, call, members);
        std::vector<std::uint32_t> counted;
        for (const std::uint32_t member : members)
            if (!is_seen_dead(history, call, left, member)) counted.push_back(member);
        if (are_most(left, counted))
            found.push_back({"", fmt::format("{}: {} are left of {}, all others have died before the eyes of a rank "
                                             "that lives: {}",
                                             where(call), names(left), names(counted), call.sentence)});
    }
}

}  // namespace coppice::promises
