// Broadcasts: what is delivered, to which ranks, and when none gets it.
#include "simulation/promises/predicates.hpp"

namespace coppice::promises {
namespace {

const Call* root_of(const std::vector<const Call*>& calls) {
    const auto root = std::ranges::find_if(calls, [](const Call* call) { return call->rank == call->root; });
    return root == calls.end() ? nullptr : *root;
}

}  // namespace

// "Broadcast of `bytes` bytes from `root` to all … the n-th broadcast of one rank is the n-th of all": nothing lost on
// the way, corrupt, or delivered twice, which would be another one's payload.
void payloads_are_the_roots(const History& history, const Groups& /*groups*/, Found& found) {
    for (const auto& [key, calls] : together(history, Action::broadcast)) {
        const Call* const root = root_of(calls);
        for (const Call* call : calls) {
            if (call->status != COPPICE_OK || call == root) continue;
            if (root == nullptr) {
                found.push_back(
                    {"", fmt::format("{}: delivered what root {} has not given", where(*call), call->root)});
            } else if (call->payload != root->payload || call->bytes != root->bytes) {
                found.push_back({"", fmt::format("{}: {} bytes were delivered that are not the {} of root {}",
                                                 where(*call), call->bytes, root->bytes, root->rank)});
            }
        }
    }
}

// "every live host, at the latest when the deaths are noticed"
void live_roots_reach_all(const History& history, const Groups& /*groups*/, Found& found) {
    for (const auto& [key, calls] : together(history, Action::broadcast)) {
        const Call* const root = root_of(calls);
        if (root == nullptr || !survives(history, key.first, root->rank) || is_revoked(history, key.first)) continue;
        if (root->status != COPPICE_OK && root->status != COPPICE_ERR_TIMEOUT) continue;
        for (const Call* call : calls) {
            if (!survives(history, key.first, call->rank) || call->ended_ns == kNever) continue;
            if (call->status == COPPICE_OK || call->status == COPPICE_ERR_TIMEOUT) continue;
            // quorums_are_not_denied
            if (call->status == COPPICE_ERR_NO_QUORUM || history.apart(root->rank, call->rank)) continue;
            found.push_back({"", fmt::format("{}: root {} lives, but: {}", where(*call), root->rank,
                                             coppice_status_string(call->status))});
        }
    }
}

void root_failed_when_it_died(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls) {
        if (call.action != Action::broadcast || call.status != COPPICE_ERR_ROOT_FAILED) continue;
        if (!is_gone_for(history, call.rank, call.group, call.root, call.ended_ns))
            found.push_back({"", fmt::format("{}: root {} was alive", where(call), call.root)});
    }
}

// "the root died and no survivor has the payload"
void root_failed_when_nobody_has_it(const History& history, const Groups& /*groups*/, Found& found) {
    for (const auto& [key, calls] : together(history, Action::broadcast)) {
        for (const Call* without : calls) {
            if (without->status != COPPICE_ERR_ROOT_FAILED || history.taken_for_dead[without->rank]) continue;
            for (const Call* with : calls) {
                if (with->status != COPPICE_OK || !survives(history, key.first, with->rank)) continue;
                if (history.apart(without->rank, with->rank)) continue;
                // Ranks leave a revoked group without the others.
                if (is_revoked(history, key.first) && is_gone(history, key.first, with->rank, without->ended_ns))
                    continue;
                found.push_back({"", fmt::format("{}: told that root {} failed, but rank {} has the payload and lives",
                                                 where(*without), without->root, with->rank)});
            }
        }
    }
}

// "frees the request soon, which ends the view"
void views_stay(const History& history, const Groups& /*groups*/, Found& found) {
    for (const Call& call : history.calls)
        if (call.action == Action::view)
            found.push_back({"", fmt::format("{}: a view changed before it was freed", where(call))});
}

}  // namespace coppice::promises
