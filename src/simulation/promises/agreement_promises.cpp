// Agreements: "one value and one set of failed ranks, the same at every survivor, whichever ranks die, and whenever".
#include "simulation/promises/predicates.hpp"

namespace coppice::promises {
namespace {

bool has_outcome(const Call& call) {
    return call.status == COPPICE_OK || call.status == COPPICE_ERR_PEER_FAILED;
}

// Of survivors. One that dies may have been alone in having it: "the survivors get one value and one set". One for each side of a cut, on
// which the last operations may have ended otherwise.
std::vector<const Call*> outcomes_of(const History& history, const std::vector<const Call*>& calls) {
    std::vector<const Call*> outcomes;
    for (const Call* call : calls) {
        if (!has_outcome(*call) || !survives(history, call->group, call->rank)) continue;
        const bool is_new =
            std::ranges::all_of(outcomes, [&](const Call* one) { return history.apart(one->rank, call->rank); });
        if (is_new) outcomes.push_back(call);
    }
    return outcomes;
}

// With contributions of which each is another bit: whether the result has that of `call`.
bool has_contribution(std::uint64_t result, const Call& call) {
    if (call.operation == COPPICE_AND) return (result | call.value) == call.value;
    if (call.operation == COPPICE_MAX) return result >= call.value;
    return (result & call.value) == call.value;
}

// The most that the result may be: that of all ranks that have begun.
std::uint64_t with_all(const std::vector<const Call*>& calls) {
    std::uint64_t all = calls.front()->value;
    for (const Call* call : calls) {
        if (call->operation == COPPICE_AND) {
            all &= call->value;
        } else if (call->operation == COPPICE_MAX) {
            all = std::max(all, call->value);
        } else {
            all |= call->value;
        }
    }
    return all;
}

}  // namespace

void one_outcome(const History& history, const Groups& /*groups*/, Found& found) {
    for (const auto& [key, calls] : together(history, Action::agree)) {
        const std::vector<const Call*> outcomes = outcomes_of(history, calls);
        for (const Call* other : calls) {
            if (!has_outcome(*other) || !survives(history, other->group, other->rank)) continue;
            const Call* const one = *std::ranges::find_if(
                outcomes, [&](const Call* known) { return !history.apart(known->rank, other->rank); });
            if (other->result == one->result && other->status == one->status && other->failed == one->failed) continue;
            found.push_back(
                {"", fmt::format("{} has {:#x}, {} without {}; {} has {:#x}, {} without {}", where(*one), one->result,
                                 coppice_status_string(one->status), names(one->failed), where(*other), other->result,
                                 coppice_status_string(other->status), names(other->failed))});
        }
    }
}

// "It combines the contributions of all ranks but (some of) those in the agreed set of failed ranks"
void value_of_contributions(const History& history, const Groups& /*groups*/, Found& found) {
    for (const auto& [key, calls] : together(history, Action::agree)) {
        for (const Call* const one : outcomes_of(history, calls)) {
            for (const std::uint32_t member : members_of(history, key.first)) {
                if (contains(one->failed, member)) continue;
                const auto call = std::ranges::find(calls, member, &Call::rank);
                if (call != calls.end() && has_contribution(one->result, **call)) continue;
                found.push_back({"", fmt::format("{}: {:#x} lacks the contribution of rank {}, which is not agreed to "
                                                 "have failed ({})",
                                                 where(*one), one->result, member, names(one->failed))});
            }
            // Something that nobody has contributed is in it where leaving nobody out gives less.
            const std::uint64_t all = with_all(calls);
            if (all == one->result) continue;
            const bool invented = one->operation == COPPICE_AND ? (one->result & all) != all
                                  : one->operation == COPPICE_MAX
                                      ? std::ranges::find(calls, one->result, &Call::value) == calls.end()
                                      : (one->result & ~all) != 0;
            if (invented)
                found.push_back({"", fmt::format("{}: {:#x} is of no contributions", where(*one), one->result)});
        }
    }
}

// "no rank is through before every live rank has entered": of barriers, which are agreements on nothing, and of all
// others.
void nobody_is_through_early(const History& history, const Groups& /*groups*/, Found& found) {
    for (const auto& [key, calls] : together(history, Action::agree)) {
        const std::vector<std::uint32_t> members = members_of(history, key.first);
        for (const Call* call : calls) {
            if (!has_outcome(*call)) continue;
            for (const std::uint32_t member : members) {
                const auto other = std::ranges::find(calls, member, &Call::rank);
                const bool has_entered = other != calls.end() && (*other)->began_ns <= call->ended_ns;
                if (has_entered || contains(call->failed, member)) continue;
                found.push_back({"", fmt::format("{} is through before rank {} has entered", where(*call), member)});
            }
        }
    }
}

void agreed_failed_have_failed(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls) {
        if (call.action != Action::agree || !has_outcome(call)) continue;
        for (const std::uint32_t rank : call.failed)
            if (!is_gone_for(history, call.rank, call.group, rank, call.ended_ns))
                found.push_back(
                    {"", fmt::format("{}: rank {} is agreed to have failed, and lives", where(call), rank)});
    }
}

// "COPPICE_ERR_PEER_FAILED when ranks have failed and not every rank that contributed had acknowledged all these
// failures"
void status_by_acknowledgement(const History& history, const Groups& /*groups*/, Found& found) {
    for (const auto& [key, calls] : together(history, Action::agree)) {
        for (const Call* const one : outcomes_of(history, calls)) {
            const auto lacks = [one](const Call* call) {
                return std::ranges::any_of(one->failed,
                                           [call](std::uint32_t rank) { return !contains(call->acknowledged, rank); });
            };
            const auto counts = [one](const Call* call) { return !contains(one->failed, call->rank); };
            const bool told = one->status == COPPICE_ERR_PEER_FAILED;
            const bool must = std::ranges::any_of(calls, [&](const Call* call) { return counts(call) && lacks(call); });
            const bool may = std::ranges::any_of(calls, lacks);
            if (told ? may : !must) continue;
            found.push_back({"", fmt::format("{}: {}, while {} are agreed to have failed", where(*one),
                                             coppice_status_string(one->status), names(one->failed))});
        }
    }
}

}  // namespace coppice::promises
