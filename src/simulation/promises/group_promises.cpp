// Groups: their start and end, deadlines, revocation, shrinking, and what is told of failures.
#include <set>
#include <tuple>

#include "simulation/promises/predicates.hpp"

namespace coppice::promises {
namespace {

std::string name_of(const Call& call) {
    return fmt::format("{} ({})", name_of(call.action), where(call));
}

bool belongs_to_collective(Action action) {
    return action == Action::broadcast || action == Action::agree;
}

// By then, from anybody.
bool was_cut_off(const History& history, const Call& call) {
    for (std::uint32_t other = 0; other < history.ranks; ++other)
        if (history.apart(call.rank, other, call.ended_ns)) return true;
    return false;
}

}  // namespace

// Nobody waits for the dead, and nothing hangs.
void calls_end(const History& history, const Groups& /*groups*/, Found& found) {
    if (history.over) return;
    std::set<std::uint32_t> waiting;
    for (const Call& call : history.calls) {
        if (!(history.lives(call.rank) || history.taken_for_dead[call.rank]) || call.ended_ns != kNever) continue;
        waiting.insert(call.rank);
        found.push_back({"", fmt::format("{}, begun at {} ns, has not ended at {} ns", name_of(call), call.began_ns,
                                         history.ended_ns)});
    }
    if (waiting.empty()) found.push_back({"", "the program has not ended, though no call is open"});
}

// A rank that others wait for is awake when it is needed: no wait lasts until a rank happens to look again.
void waits_are_short(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls) {
        if (!history.lives(call.rank) || call.ended_ns == kNever) continue;
        // A newcomer waits for as long as the others do not renew.
        if (call.action == Action::create && call.rank >= history.first_ranks) continue;
        const std::uint64_t took = call.ended_ns - call.began_ns;
        if (took <= history.accounted_ns) continue;
        found.push_back({"", fmt::format("{} took {} ns, of which all that there was to wait for explains {} ns",
                                         name_of(call), took, history.accounted_ns)});
    }
}

void deadlines_are_kept(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls) {
        if (call.timeout_ns == COPPICE_NO_TIMEOUT || !history.lives(call.rank) || call.ended_ns == kNever) continue;
        const std::uint64_t took = call.ended_ns - call.began_ns;
        if (took <= call.timeout_ns + history.slack_ns + call.kept_ns) continue;
        found.push_back({"", fmt::format("{} took {} ns, with {} ns to go", name_of(call), took, call.timeout_ns)});
    }
}

void timeouts_are_not_early(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls) {
        if (call.status != COPPICE_ERR_TIMEOUT || call.ended_ns - call.began_ns >= call.timeout_ns) continue;
        found.push_back({"", fmt::format("{}: timed out after {} ns of {}", name_of(call),
                                         call.ended_ns - call.began_ns, call.timeout_ns)});
    }
}

// With correct calls these are the possible answers.
void statuses_mean_something(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls) {
        if (call.ended_ns == kNever || call.status == COPPICE_OK || call.action == Action::view ||
            call.action == Action::leak)
            continue;
        bool possible = call.status == COPPICE_ERR_TIMEOUT && call.timeout_ns != COPPICE_NO_TIMEOUT;
        if (belongs_to_collective(call.action)) possible = possible || call.status == COPPICE_ERR_REVOKED;
        if (call.action == Action::broadcast) possible = possible || call.status == COPPICE_ERR_ROOT_FAILED;
        if (call.action == Action::agree) possible = possible || call.status == COPPICE_ERR_PEER_FAILED;
        if (call.action == Action::shrink) possible = possible || call.status == COPPICE_ERR_NO_RESOURCES;
        if (call.action == Action::create)
            possible = possible || call.rank >= history.first_ranks;  // newcomers_are_told
        if (belongs_to_collective(call.action) || call.action == Action::shrink)
            possible = possible || call.status == COPPICE_ERR_NO_QUORUM;  // quorums_are_not_denied
        possible = possible || call.status == COPPICE_ERR_FENCED;         // fenced_were_silent
        if (!possible) found.push_back({"", fmt::format("{}: {}", name_of(call), call.sentence)});
    }
}

// "A rank that is merely slow, or stopped, is waited for, unless COPPICE_DETECTION_BOUND says for how long."
void fenced_were_silent(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls)
        if (call.status == COPPICE_ERR_FENCED && !history.taken_for_dead[call.rank] && !was_cut_off(history, call))
            found.push_back({"", fmt::format("{}: it was never silent for so long", name_of(call))});
}

void revoked_by_a_member(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls) {
        if (call.status != COPPICE_ERR_REVOKED) continue;
        const bool revoked = std::ranges::any_of(history.calls, [&call](const Call& other) {
            return other.action == Action::revoke && other.group == call.group && other.began_ns <= call.ended_ns;
        });
        if (!revoked) found.push_back({"", fmt::format("{}: nobody has revoked the group", name_of(call))});
    }
}

// "every broadcast and agreement of it that is pending, and every later one, ends with COPPICE_ERR_REVOKED": at the
// revoker when its call has returned.
void revocation_ends_all(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& revoke : history.calls) {
        if (revoke.action != Action::revoke || revoke.status != COPPICE_OK) continue;
        for (const Call& call : history.calls) {
            if (call.rank != revoke.rank || call.group != revoke.group || !belongs_to_collective(call.action)) continue;
            if (call.began_ns < revoke.ended_ns || &call < &revoke || call.ended_ns == kNever) continue;
            if (call.status == COPPICE_ERR_REVOKED || call.status == COPPICE_ERR_FENCED) continue;
            if (call.status == COPPICE_ERR_NO_QUORUM) continue;  // which ends all, too
            found.push_back({"", fmt::format("{}: {} after this rank has revoked the group", name_of(call),
                                             coppice_status_string(call.status))});
        }
    }
}

// "all ranks but those that all agree to have failed, numbered 0 … in their old order": all of one side of a cut.
void shrunk_alike(const History& history, const Groups& /*groups*/, Found& found) {
    for (const auto& [key, calls] : together(history, Action::shrink)) {
        std::vector<const Call*> made;  // by side
        const auto first_for = [&](const Call* call) -> const Call* {
            // Where every side goes on, one may fall apart once more when the cut is mended.
            const auto is_with = [&](const Call* known) {
                if (known == call) return true;
                return history.quorum == Quorum::any
                           ? !history.may_seem_dead(known->rank, call->rank, std::max(known->ended_ns, call->ended_ns))
                           : !history.apart(known->rank, call->rank);
            };
            const auto one = std::ranges::find_if(made, is_with);
            return one == made.end() ? nullptr : *one;
        };
        for (const Call* call : calls) {
            if (call->status != COPPICE_OK || !history.lives(call->rank) || call->left) continue;
            if (first_for(call) == nullptr) made.push_back(call);
            const Call* const first = first_for(call);
            if (call->members != first->members)
                found.push_back({"", fmt::format("{}: members {}; {}: members {}", where(*first), names(first->members),
                                                 where(*call), names(call->members))});
            const auto self = std::ranges::find(call->members, call->rank) - call->members.begin();
            if (call->bytes != call->members.size() || call->root != static_cast<std::uint32_t>(self))
                found.push_back({"", fmt::format("{}: rank {} of {} in a group of {}", where(*call), call->root,
                                                 call->bytes, names(call->members))});
        }
        for (const Call* call : calls) {
            const Call* const first = first_for(call);
            if (first == nullptr || call->ended_ns == kNever || call->status == COPPICE_OK) continue;
            // It is left behind: those on its side that have the group may be gone, and those beyond the cut can't tell it.
            const bool is_left_behind =
                call->status == COPPICE_ERR_FENCED || call->status == COPPICE_ERR_NO_QUORUM;  // quorums_are_not_denied
            if (is_left_behind && was_cut_off(history, *call)) continue;
            if (history.lives(call->rank))
                found.push_back({"", fmt::format("{}: {}, while {} has a new group", where(*call),
                                                 coppice_status_string(call->status), where(*first))});
        }
    }
}

// "No rank that contributes is left out, and no rank that was known to be dead is in."
void survivors_are_in(const History& history, const Groups& /*groups*/, Found& found) {
    for (const auto& [key, calls] : together(history, Action::shrink)) {
        for (const Call* call : calls) {
            if (call->status != COPPICE_OK) continue;
            for (const std::uint32_t rank : call->failed) {
                const bool left = std::ranges::any_of(
                    calls, [rank](const Call* other) { return other->rank == rank && other->left; });
                if (!left && !is_gone_for(history, call->rank, key.first, rank, call->ended_ns))
                    found.push_back({"", fmt::format("{}: rank {} lives, and is left out", where(*call), rank)});
            }
            for (const Call& told : history.calls) {
                const bool known = told.action == Action::callback && told.rank == call->rank &&
                                   told.group == key.first && told.ended_ns < call->began_ns;
                if (known && contains(call->members, told.failed.front()))
                    found.push_back({"", fmt::format("{}: rank {} was known to be dead, and is in", where(*call),
                                                     told.failed.front())});
            }
        }
    }
}

// "A rank that has called coppice_group_leave gets COPPICE_OK and no group", and it is in nobody's.
void leavers_are_out(const History& history, const Groups& /*groups*/, Found& found) {
    for (const auto& [key, calls] : together(history, Action::shrink)) {
        for (const Call* leaver : calls) {
            if (!leaver->left || !history.lives(leaver->rank)) continue;
            if (leaver->status == COPPICE_OK && leaver->made != kNone)
                found.push_back({"", fmt::format("{}: a group, though it has left", where(*leaver))});
            for (const Call* call : calls)
                // Beyond a cut its word may not have arrived.
                if (call->status == COPPICE_OK && contains(call->members, leaver->rank) &&
                    !history.apart(leaver->rank, call->rank))
                    found.push_back({"", fmt::format("{}: rank {} has left, and is in", where(*call), leaver->rank)});
        }
    }
}

// "at every survivor": a rank that asks for deaths is told of each.
void each_death_is_told(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls) {
        if (call.action != Action::learn || call.ended_ns != kNever || !history.lives(call.rank)) continue;
        for (const std::uint32_t dead : call.members) {
            const bool told = std::ranges::any_of(history.calls, [&](const Call& other) {
                return other.action == Action::callback && other.rank == call.rank && other.group == call.group &&
                       contains(other.failed, dead);
            });
            if (told && contains(call.failed, dead)) continue;
            found.push_back(
                {"", fmt::format("{}: since {} ns nobody {} that rank {} failed, which died at {} ns", where(call),
                                 call.began_ns, told ? "answers" : "says", dead, history.died_ns[dead])});
        }
    }
}

// "It is called once per failed rank"
void callbacks_once(const History& history, const Groups& /*groups*/, Found& found) {
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> seen;
    for (const Call& call : history.calls) {
        if (call.action != Action::callback || call.failed.empty()) continue;
        if (!seen.insert({call.rank, call.group, call.failed.front()}).second)
            found.push_back({"", fmt::format("{}: told twice that rank {} failed", where(call), call.failed.front())});
    }
}

void failed_have_failed(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls) {
        if (call.action != Action::callback && call.action != Action::learn) continue;
        for (const std::uint32_t rank : call.failed)
            if (!is_gone_for(history, call.rank, call.group, rank, call.ended_ns))
                found.push_back({"", fmt::format("{}: told that rank {} failed, which lives", where(call), rank)});
    }
}

void nothing_leaks(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls) {
        if (call.action != Action::leak || call.ended_ns == kNever || call.status == COPPICE_OK) continue;
        found.push_back({"", fmt::format("rank {}: {}", call.rank,
                                         call.bytes > 0 ? fmt::format("{} blocks of memory are left", call.bytes)
                                                        : call.sentence)});
    }
}

// Ranks that make the same calls send each other nothing that makes no sense.
void messages_make_sense(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls)
        if (call.action == Action::destroy && call.bytes > 0)
            found.push_back({"", fmt::format("{}: {} messages made no sense", where(call), call.bytes)});
}

}  // namespace coppice::promises
