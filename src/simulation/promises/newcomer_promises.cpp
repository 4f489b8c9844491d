// Processes that come later: what they are told, and what others are told of them.
#include "simulation/promises/predicates.hpp"

namespace coppice::promises {
namespace {

bool is_newcomer(const History& history, const Call& call) {
    return call.action == Action::create && call.rank >= history.first_ranks;
}

}  // namespace

// What a group's member is given comes from one of its members, and goes to members alone.
void deliveries_stay_in_their_view(const History& history, const Groups& /*groups*/, Found& found) {
    for (const auto& [key, calls] : together(history, Action::broadcast)) {
        const std::vector<std::uint32_t> members = members_of(history, key.first);
        for (const Call* call : calls) {
            if (call->status != COPPICE_OK || (contains(members, call->rank) && contains(members, call->root)))
                continue;
            found.push_back(
                {"", fmt::format("{}: root {}, in a group of {}", where(*call), call->root, names(members))});
        }
    }
}

// "The same at all ranks that were told of that end."
void pending_alike(const History& history, const Groups& /*groups*/, Found& found) {
    for (const auto& [key, calls] : together(history, Action::agree)) {
        for (const Call* call : calls) {
            if (call->pending < 0 || !survives(history, key.first, call->rank)) continue;
            const Call* const other = *std::ranges::find_if(
                calls, [&](const Call* one) { return one->pending >= 0 && survives(history, key.first, one->rank); });
            if (other->pending != call->pending && !history.apart(other->rank, call->rank))
                found.push_back({"", fmt::format("{}: pending {}; {}: {}", where(*other), other->pending, where(*call),
                                                 call->pending)});
        }
    }
}

// A process that waits to join is taken in, or told why not. No member is told that. calls_end checks that nobody waits for ever.
void newcomers_are_told(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls) {
        if (!is_newcomer(history, call) || call.ended_ns == kNever || call.status == COPPICE_OK) continue;
        const bool is_in = std::ranges::any_of(history.calls, [&](const Call& other) {
            return is_view(other) && contains(other.members, call.rank) && history.lives(other.rank) &&
                   history.lives(call.rank);
        });
        if (call.status == COPPICE_ERR_BOOTSTRAP && !call.sentence.empty() && !is_in) continue;
        found.push_back(
            {"", fmt::format("{}: {}: {}", where(call), coppice_status_string(call.status), call.sentence)});
    }
}

// "*group is a group as theirs": the members of that epoch are those that the others see.
void newcomers_see_the_view(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls) {
        if (!is_newcomer(history, call) || !is_view(call) || !history.lives(call.rank)) continue;
        for (const Call& other : history.calls) {
            if (!is_view(other) || other.epoch != call.epoch || !history.lives(other.rank)) continue;
            if (other.members == call.members || history.apart(other.rank, call.rank)) continue;
            found.push_back({"", fmt::format("{}: epoch {} has {}; {}: {}", where(call), call.epoch,
                                             names(call.members), where(other), names(other.members))});
        }
        if (!contains(call.members, call.rank))
            found.push_back({"", fmt::format("{}: is not in its own group of {}", where(call), names(call.members))});
    }
}

// "how often the seat was taken before": in later views as often, or more often, and by one process at a time.
void incarnations_rise(const History& history, const Groups& /*groups*/, Found& found) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> last;  // by caller and seat
    for (const Call& call : history.calls) {
        if (!is_view(call)) continue;
        std::vector<std::uint32_t> seats;
        for (const std::uint32_t member : call.members) {
            if (member >= history.ranks) {
                found.push_back({"", fmt::format("{}: a member that no process is", where(call))});
                continue;
            }
            const std::uint32_t seat = history.seat_of[member];
            std::uint32_t& incarnation = last[{call.rank, seat}];
            if (contains(seats, seat) || history.incarnation_of[member] < incarnation)
                found.push_back(
                    {"", fmt::format("{}: seat {} has incarnation {} in a group of {}, after {}", where(call), seat,
                                     history.incarnation_of[member], names(call.members), incarnation)});
            incarnation = history.incarnation_of[member];
            seats.push_back(seat);
        }
    }
}

}  // namespace coppice::promises
