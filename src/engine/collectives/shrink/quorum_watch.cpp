#include "engine/collectives/shrink/quorum_watch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/collectives/agreement/agreements.hpp"

namespace coppice::engine {

std::string describe_no_quorum(protocol::Quorum quorum, std::uint32_t members, std::uint32_t left,
                               const protocol::FailedSet& unreachable, bool are_enough) {
    const char* const why = are_enough
                                ? "enough, but some of the dead have voted for what others may have made already, under"
                                : "too few for";
    return fmt::format(
        "{} of {} members are left, {} COPPICE_QUORUM={}: {} can't be reached, and may go on without them; "
        "where it is sure that these have ended, COPPICE_QUORUM=any lets all that are left go on",
        left, members, why, quorum == protocol::Quorum::majority ? "majority" : "certain", rank_names(unreachable));
}

bool QuorumWatch::is_certain(Rank rank, const protocol::FailedSet& suspected) const {
    const Node node = members_.node_of(rank);
    if (membership_.voteless().contains(rank.value)) return true;
    const bool has_left = std::ranges::find(life_.departed(), rank) != life_.departed().end();
    if (votes_ != nullptr && votes_->of_gone(rank, has_left)) return true;
    if (node == members_.own_node()) return local_peers_.publishing() && !local_peers_.board()->alive(rank);
    const Settings& settings = around_.settings();
    const bool is_seen = settings.hierarchy == Hierarchy::host && settings.allows_within_host() &&
                         !membership_.still_alive().contains(rank.value);
    return is_seen && std::ranges::any_of(members_.ranks_of(node),
                                          [&suspected](Rank other) { return !suspected.contains(other.value); });
}

protocol::Failures QuorumWatch::failures(const protocol::FailedSet& more) const {
    protocol::Failures failures{.suspected = more, .certain = {}};
    for (const Rank rank : members_.failed_ranks())
        failures.suspected.insert(rank.value);
    for (const protocol::FailedSet::Interval& run : failures.suspected.intervals()) {
        for (std::uint32_t rank = run.first; rank <= run.last; ++rank)
            if (is_certain(Rank(rank), failures.suspected)) failures.certain.insert(rank);
    }
    return failures;
}

bool QuorumWatch::has_quorum(const protocol::FailedSet& more) const {
    return protocol::is_quorum(around_.settings().quorum, members_.ranks(), failures(more));
}

std::string QuorumWatch::why_not(const protocol::FailedSet& more) const {
    const protocol::FailedSet unreachable = failures(more).suspected;
    const std::uint32_t members = members_.ranks();
    return describe_no_quorum(around_.settings().quorum, members, members - unreachable.count(), unreachable);
}

}  // namespace coppice::engine
