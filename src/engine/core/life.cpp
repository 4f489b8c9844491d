// How a group begins at this rank: which ranks it meets, and which it wakes.
#include <algorithm>
#include <utility>

#include "engine/addresses/copying.hpp"
#include "engine/core/core.hpp"
#include "transport/faults.hpp"
#include "transport/host_memory.hpp"

namespace coppice::engine {
namespace {

// Room for the control messages of a time without deaths: those of stability, a few nodes at a time.
constexpr std::size_t kControls = 64;
// Ranks of a host of which each is connected with their leader from the start: some 8 KiB a pair.
constexpr std::size_t kMostToMeet = 64;
// Calls that begin something between two in which there is progress whether the caller has to wait or not; half the window if that
// is less (roots.cpp).
constexpr std::uint32_t kStartsPerProgress = 16;
// Of a rank that leaves (protocol/departure/).
constexpr Nanoseconds kAskAfter{20'000'000};
constexpr Nanoseconds kAskAgain{50'000'000};
constexpr Nanoseconds kLongestPause{400'000'000};
constexpr Nanoseconds kAnswerAfter{1'000'000'000};

}  // namespace

// A member that is dead may have no seat any more, and still memory.
void Core::Parts::open_board() {
    const std::shared_ptr<TransportSet>& transport_set = router.transport_set();
    transport::HostMemory* const host_memory = transport_set->host_memory();
    if (host_memory == nullptr) return;
    std::vector<transport::HostMemory::BoardMember> local_peers;
    std::vector<Seat> known_as;
    for (const Rank local_peer : members.ranks_of(members.own_node())) {
        const Origin& origin = lineage.of(local_peer);
        known_as.push_back(router.seat_of(local_peer));
        local_peers.push_back({.rank = local_peer, .seat = origin.seat, .incarnation = origin.incarnation});
    }
    host_memory->look_at_cores();  // they may have been moved since they were made known
    sharing_cores = host_memory->sharing_cores(known_as);
    board = &host_memory->open_board(panel, local_peers);
    if (!transport_set->faults()) return;
    board_wrapper = std::make_unique<transport::FaultyBoard>(*board, transport_set->faults());
    board = board_wrapper.get();
}

Core::Core(Parts parts)
    : context_(parts.context),
      settings_(std::move(parts.settings)),
      members_(std::move(parts.members)),
      router_(std::move(parts.router)),
      board_(parts.board),
      board_wrapper_(std::move(parts.board_wrapper)),
      id_(parts.id),
      lineage_(std::move(parts.lineage)),
      panel_(parts.panel),
      cores_(parts.cores),
      sharing_cores_(parts.sharing_cores),
      publishing_(board_ != nullptr && members_.ranks_of(members_.own_node()).size() > 1),
      ranks_per_core_(ranks_for_each(parts.cores, parts.sharing_cores)),
      unclaimed_(parts.is_successor),
      departure_({.nodes = &members_.nodes_table(),
                  .ask_after = kAskAfter,
                  .ask_again = kAskAgain,
                  .longest_pause = kLongestPause,
                  .answer_after = kAnswerAfter},
                 members_.self()),
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
    if (unclaimed_) meet_leaders();
}

void Core::close() {
    const bool in_peace = stage() == Stage::left || stage() == Stage::lingering;
    router_.transport_set()->detach(*this, in_peace ? std::nullopt : std::optional(members_.self()));
    if (stage() == Stage::lingering && board_ != nullptr) board_->depart();
}

// The board does, too.
void Core::transports_end() {
    if (stage() == Stage::lingering && board_ != nullptr) board_->depart();
    for (Collective* const collective : collectives_)
        collective->transports_end();
    board_ = nullptr;
}

Core::~Core() {
    TransportSet& transport_set = *router_.transport_set();
    if (transport_set.users() == 0) return;  // the transports have ended
    if (board_ == nullptr || transport_set.host_memory() == nullptr) return;
    std::vector<Rank> others;
    for (const Rank rank : members_.ranks_of(members_.own_node()))
        if (rank != members_.self() && !members_.failed(rank)) others.push_back(rank);
    transport_set.close_board(panel_, std::move(others));
    transport_set.host_memory()->make_panel_ready();  // for the next one that is shrunk, which is in more of a hurry
}

void Core::note_voteless(std::span<const Rank> ranks) {
    for (const Rank rank : ranks)
        voteless_.insert(rank.value);
}

void Core::start_with_failed(std::span<const Rank> known_to_all, std::span<const Rank> others) {
    protocol::FailedSet known;
    for (const Rank rank : known_to_all)
        known.insert(rank.value);
    detector_.begin_without(known);
    learn_failures(known_to_all);
    learn_failures(others);
    for (const Rank rank : others)
        ended_early_.insert(rank.value);
    if (settings_.detection_bound.value > 0) looked_ns_ = now_ns();
    // They may have taken this rank for dead while it was away: then it is told before anything is concluded from their end.
    if (settings_.detection_bound.value > 0 && !others.empty()) router_.poll();
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
    while (!unclaimed_ && !to_meet_.empty())
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
    std::uint64_t next = held_back_.empty() ? UINT64_MAX : now_ns() + kWitnessLookNs;
    for (const Collective* const collective : collectives_)
        next = std::min(next, collective->next_timer_ns());
    if (const Copying* const copying = router_.transport_set()->copying())
        next = std::min(next, copying->next_timer_ns());
    if (settings_.detection_bound.value == 0 || fenced()) return next;
    return std::min(next, detector_.next_timer().value);
}

void Core::claim(FailureCallback on_failure) {
    on_failure_ = std::move(on_failure);
    unclaimed_ = false;
    if (!on_failure_) untold_.clear();
}

}  // namespace coppice::engine
