// How a group begins and ends at this rank: whom it meets, whom it wakes, and leaving.
#include <algorithm>
#include <utility>

#include "engine/core/core.hpp"
#include "transport/boards.hpp"

namespace coppice::engine {
namespace {

// Room for the control messages of a time without deaths: those of stability, a few nodes at a time.
constexpr std::size_t kControls = 64;
// Ranks of a host of which each is connected with their leader from the start: some 8 KiB a pair.
constexpr std::size_t kMostToMeet = 64;
// Calls that begin something between two in which there is progress whether the caller has to wait or not; half the window if that
// is less (roots.cpp).
constexpr std::uint32_t kStartsPerProgress = 16;

}  // namespace

Core::Core(Parts parts)
    : context_(parts.context),
      settings_(std::move(parts.settings)),
      members_(std::move(parts.members)),
      router_(std::move(parts.router)),
      board_(parts.board),
      board_wrapper_(std::move(parts.board_wrapper)),
      id_(parts.id),
      panel_(parts.panel),
      cores_(parts.cores),
      sharing_cores_(parts.sharing_cores),
      publishing_(board_ != nullptr && members_.ranks_of(members_.own_node()).size() > 1),
      oversubscribed_(parts.sharing_cores > parts.cores),
      stage_(parts.is_successor ? Stage::unclaimed : Stage::in_use),
      detector_(
          {.nodes = &members_.nodes_table(), .period = settings_.heartbeat_period, .bound = settings_.most_silence()},
          members_.self()),
      starts_mask_(std::min(kStartsPerProgress, settings_.window / 2) - 1),
      on_failure_(std::move(parts.on_failure)) {
    controls_.reserve(kControls);
    logs_read_.resize(members_.ranks_of(members_.own_node()).size(), 0);
}

void Core::open() {
    router_.transport_set()->attach(id_.token, *this);
    if (stage_ == Stage::unclaimed) meet_leaders();
}

void Core::close() {
    router_.transport_set()->detach(*this);
    if (stage_ == Stage::left_early && board_ != nullptr) board_->depart();
}

Core::~Core() {
    const TransportSet& transport_set = *router_.transport_set();
    if (transport_set.users() == 0) return;  // the transports end too
    if (board_ == nullptr || transport_set.boards() == nullptr) return;
    transport_set.boards()->close_board(panel_);
    transport_set.boards()->make_panel_ready();  // for the next one that is shrunk, which is in more of a hurry
}

void Core::start_with_failed(std::span<const Rank> known_to_all, std::span<const Rank> others) {
    protocol::FailedSet known;
    for (const Rank rank : known_to_all)
        known.insert(rank.value);
    detector_.begin_without(known);
    learn_failures(known_to_all);
    learn_failures(others);
    if (settings_.detection_bound.value > 0) looked_ns_ = now_ns();
    progress_detector();
    meet_leaders();
}

// ----------------------------------------------------------------------------------------------- the own host ---

// Ranks of one host publish, until somebody dies: then agreement goes by messages between their leader, or who stands in for it,
// and the others. It should not have to connect them first. Nor should a shrink: a new group meets who stands in one by one,
// with each call.
void Core::meet_leaders() {
    if (!publishing_) return;
    std::vector<Rank> local_peers;
    for (const Rank rank : members_.ranks_of(members_.own_node()))
        if (!members_.failed(rank)) local_peers.push_back(rank);
    if (local_peers.size() < 2 || local_peers.size() > kMostToMeet) return;
    const Rank self = members_.self();
    const Rank leader = local_peers[0];
    const Rank next = local_peers[1];
    for (const Rank rank : local_peers) {
        if (rank == self) continue;
        if (self == leader || rank == leader) {
            meet(rank);
        } else if (self == next || rank == next) {
            to_meet_.push_back(rank);
        }
    }
    while (stage_ != Stage::unclaimed && !to_meet_.empty())
        meet_next();
}

void Core::meet(Rank rank) {
    if (const Link link = router_.to(rank)) link.watch();
}

void Core::meet_next() {
    meet(to_meet_.back());
    to_meet_.pop_back();
}

// On a host ranks write to boards, which wakes nobody. The leader has to hear of what concerns other hosts: counts of
// what has been consumed, deaths, revocations, departures. So a rank that writes one of these wakes it, if it sleeps; of
// counts, when it waits for them to be heard, and before it falls asleep itself.
void Core::wake_leader() {
    if (!publishing_ || single_node()) return;
    const auto leader = members_.leader(members_.own_node());
    if (leader && *leader != members_.self()) board_->wake(*leader);
}

void Core::wake_local_peers() {
    if (!publishing_) return;
    for (const Rank local_peer : members_.ranks_of(members_.own_node()))
        if (local_peer != members_.self() && !members_.failed(local_peer)) board_->wake(local_peer);
}

std::uint64_t Core::next_timer_ns() const {
    if (settings_.detection_bound.value == 0 || fenced()) return UINT64_MAX;
    return detector_.next_timer().value;
}

// ----------------------------------------------------------------------------------------------------- leaving ---

void Core::claim(FailureCallback on_failure) {
    on_failure_ = std::move(on_failure);
    if (stage_ == Stage::unclaimed) stage_ = Stage::in_use;
    if (!on_failure_) untold_.clear();
}

bool Core::drained() {
    if (stage_ <= Stage::in_use) stage_ = Stage::leaving;
    progress();
    if (fenced()) return true;
    if (!revoked()) ask_who_stays();
    bool all = true;
    for (Collective* const collective : collectives_) {
        if (revoked() && !collective->outlives_revocation()) continue;
        all = collective->drained() && all;
    }
    return all && (controls_.empty() || is_settled_by_departure());
}

bool Core::is_settled_by_departure() const {
    return std::ranges::any_of(departed_, [this](Rank rank) { return !members_.failed(rank); });
}

// Nobody is waited for, so nobody may wait for this rank: it is a failed one from here on. While others may still have to ask
// it who is in a group that was shrunk from this one, they must not take it for dead: until then it goes on leaving in peace.
void Core::abandon(bool may_be_asked) {
    if (stage_ >= Stage::left) return;
    const bool transports_stay = router_.transport_set()->users() > (retired_ ? 0U : 1U);
    abandons_later_ = transports_stay && may_be_asked;
    if (abandons_later_) return;
    stage_ = Stage::left;
    // Where the transports end with this group, the obituary of the segment says it on this host.
    if (board_ != nullptr && transports_stay) {
        board_->log_failure(members_.self());
        wake_local_peers();
    }
    if (!single_node()) {
        detector_.give_up();
        progress_detector();
        flush_controls();
        router_.poll();
    }
}

void Core::go_on_leaving(bool may_be_asked) {
    if (!abandons_later_) return;
    if (!may_be_asked) {
        abandon(false);
    } else if (drained()) {
        abandons_later_ = false;
        stage_ = Stage::left_early;
    }
}

bool Core::depart(bool may_be_asked) {
    const bool transports_stay = router_.transport_set()->users() > 1;
    if (transports_stay && may_be_asked) {
        stage_ = Stage::left_early;  // whoever is said to have left is not asked any more
        return true;
    }
    if (stage_ < Stage::left && board_ != nullptr) {
        board_->depart();
        wake_local_peers();
    }
    stage_ = Stage::left;
    if (transports_stay) {
        if (!std::exchange(farewell_said_, true) && !single_node()) {
            for_neighbours([this](Rank leader, std::uint32_t /*node*/) {
                send_control(leader, {Channel::members, MembersKind::left});
            });
        }
        flush_controls();
        return controls_.empty();
    }
    router_.poll();
    bool left = true;
    for (const auto& wire : router_.wires())
        left = wire->leave() && left;
    return left;
}

void Core::retire() {
    on_failure_ = nullptr;
    untold_.clear();
    retired_ = true;
    router_.transport_set()->retire();
}

bool Core::quiet() const {
    return std::ranges::all_of(collectives_, &Collective::quiet);
}

}  // namespace coppice::engine
