#include "simulation/promises/promises.hpp"

#include <array>

#include "simulation/promises/predicates.hpp"

namespace coppice::promises {
namespace {

constexpr std::array kPromises{
    Promise{"payloads-are-the-roots", payloads_are_the_roots},
    Promise{"live-roots-reach-all", live_roots_reach_all},
    Promise{"root-failed-when-it-died", root_failed_when_it_died},
    Promise{"root-failed-when-nobody-has-it", root_failed_when_nobody_has_it},
    Promise{"views-stay", views_stay},
    Promise{"one-outcome", one_outcome},
    Promise{"value-of-contributions", value_of_contributions},
    Promise{"nobody-is-through-early", nobody_is_through_early},
    Promise{"agreed-failed-have-failed", agreed_failed_have_failed},
    Promise{"status-by-acknowledgement", status_by_acknowledgement},
    Promise{"calls-end", calls_end},
    Promise{"waits-are-short", waits_are_short},
    Promise{"deadlines-are-kept", deadlines_are_kept},
    Promise{"timeouts-are-not-early", timeouts_are_not_early},
    Promise{"statuses-mean-something", statuses_mean_something},
    Promise{"fenced-were-silent", fenced_were_silent},
    Promise{"revoked-by-a-member", revoked_by_a_member},
    Promise{"revocation-ends-all", revocation_ends_all},
    Promise{"shrunk-alike", shrunk_alike},
    Promise{"survivors-are-in", survivors_are_in},
    Promise{"leavers-are-out", leavers_are_out},
    Promise{"deliveries-stay-in-their-view", deliveries_stay_in_their_view},
    Promise{"pending-alike", pending_alike},
    Promise{"newcomers-are-told", newcomers_are_told},
    Promise{"newcomers-see-the-view", newcomers_see_the_view},
    Promise{"incarnations-rise", incarnations_rise},
    Promise{"one-view-of-an-epoch", one_view_of_an_epoch},
    Promise{"views-have-one-order", views_have_one_order},
    Promise{"views-have-a-quorum", views_have_a_quorum},
    Promise{"outcomes-have-a-quorum", outcomes_have_a_quorum},
    Promise{"quorums-are-not-denied", quorums_are_not_denied},
    Promise{"seen-deaths-cost-no-quorum", seen_deaths_cost_no_quorum},
    Promise{"each-death-is-told", each_death_is_told},
    Promise{"callbacks-once", callbacks_once},
    Promise{"failed-have-failed", failed_have_failed},
    Promise{"nothing-leaks", nothing_leaks},
    Promise{"messages-make-sense", messages_make_sense},
};

}  // namespace

std::string_view name_of(Action action) {
    static constexpr std::array<std::string_view, 10> kNames{
        "create", "broadcast", "agree", "shrink", "revoke", "destroy", "learn of deaths", "callback", "view", "end"};
    return kNames[static_cast<std::size_t>(action)];
}

std::string where(const Call& call) {
    std::string text = fmt::format("rank {}", call.rank);
    if (call.step != 0) text += fmt::format(", step {}", call.step);
    if (call.group != kNone) text += fmt::format(", group {}", call.group);
    return text;
}

std::string describe(const Call& call) {
    if (call.action == Action::callback)
        return fmt::format("{}: is told that rank {} failed", where(call), names(call.failed));
    std::string text = fmt::format("{}: {}: {}", where(call), name_of(call.action), coppice_status_string(call.status));
    if (call.action == Action::agree || call.action == Action::learn)
        text += fmt::format("; failed: {}", names(call.failed));
    if (!call.members.empty() && call.action == Action::shrink)
        text += fmt::format("; group {}: {}", call.made, names(call.members));
    if (!call.sentence.empty()) text += fmt::format(": {}", call.sentence);
    return text;
}

std::span<const Promise> promises() {
    return kPromises;
}

std::vector<Violation> check(const History& history, const std::vector<Group>& groups) {
    std::vector<Violation> found;
    for (const Promise& promise : kPromises) {
        const std::size_t before = found.size();
        promise.check(history, groups, found);
        for (std::size_t at = before; at < found.size(); ++at)
            found[at].promise = promise.name;
    }
    return found;
}

}  // namespace coppice::promises
