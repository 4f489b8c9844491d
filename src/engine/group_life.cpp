// How a group begins and ends: its parts, whom it meets, its memory, and leaving.
#include <algorithm>
#include <utility>

#include "engine/context.hpp"
#include "engine/group.hpp"

namespace coppice::engine {
namespace {

// Room for the control messages of a time without deaths: those of stability, a few nodes at a time.
constexpr std::size_t kControls = 64;
// Ranks of a host of which each is connected with their leader from the start: some 8 KiB a pair.
constexpr std::size_t kMostToMeet = 64;
// Calls that begin a broadcast between two in which things move whether the caller has to wait or not; half the window if that is
// less (group_roots.cpp).
constexpr std::uint32_t kStartsPerProgress = 16;
// So long a rank finds no room before it asks for it.
constexpr Nanoseconds kHeldUp{1'000'000};

}  // namespace

Group::Group(Parts parts)
    : context_(parts.context),
      settings_(std::move(parts.settings)),
      members_(std::move(parts.members)),
      router_(std::move(parts.router)),
      board_(parts.board),
      board_wrapper_(std::move(parts.board_wrapper)),
      plan_(std::move(parts.plan)),
      id_(parts.id),
      publishing_(board_ != nullptr && members_.ranks_of(members_.own_node()).size() > 1),
      oversubscribed_(parts.sharing_cores > parts.cores),
      on_failure_(std::move(parts.on_failure)),
      agreements_(members_, router_, single_node() && publishing_ ? board_ : nullptr, id_,
                  {.window = settings_.agreement_window, .tree = settings_.agreement_tree}),
      established_(std::move(parts.established)),
      claimed_(established_ == nullptr),
      panel_(parts.panel),
      cores_(parts.cores),
      sharing_cores_(parts.sharing_cores),
      slots_(settings_.window),
      pool_(std::make_unique<Request[]>(settings_.requests())),
      stability_({.nodes = &members_.nodes_table(), .window = settings_.window, .patience = kHeldUp}, members_.self()),
      detector_(
          {.nodes = &members_.nodes_table(), .period = settings_.heartbeat_period, .bound = settings_.most_silence()},
          members_.self()) {
    active_.reserve(settings_.window);
    controls_.reserve(kControls);
    logs_read_.resize(members_.ranks_of(members_.own_node()).size(), 0);
    if (!publishing_) private_lines_.resize(settings_.window * transport::kMaxPayload);
    free_requests_.reserve(settings_.requests());
    for (std::size_t i = settings_.requests(); i > 0; --i)
        free_requests_.push_back(&pool_[i - 1]);
    starts_mask_ = std::min(kStartsPerProgress, settings_.window / 2) - 1;
    if (publishing_) find_root_words();
    register_lines();
    router_.transport_set()->attach(id_.token, *this);
    if (established_) meet_leaders();
}

// Ranks of one host publish, until somebody dies: then agreement goes by messages between their leader, or who stands in for it,
// and the others. It should not have to connect them first. Nor should a shrink: a new group meets who stands in one by one,
// with each call.
void Group::meet_leaders() {
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
    while (!established_ && !to_meet_.empty())
        meet_next();
}

void Group::meet(Rank rank) {
    if (const Link link = router_.to(rank)) link.watch();
}

void Group::meet_next() {
    meet(to_meet_.back());
    to_meet_.pop_back();
}

void Group::start_with_failed(std::span<const Rank> known_to_all, std::span<const Rank> others) {
    protocol::FailedSet known;
    for (const Rank rank : known_to_all)
        known.insert(rank.value);
    detector_.begin_without(known);
    learn_failures(known_to_all);
    learn_failures(others);
    if (settings_.detection_bound.value > 0) looked_ns_ = context_->clock().now_ns();
    progress_detector();
    meet_leaders();
}

Group::~Group() {
    for (Slot& slot : slots_)
        recycle(slot);
    TransportSet& transport_set = *router_.transport_set();
    transport_set.detach(*this);
    if (established_) *established_ = true;
    if (departs_later_ && board_ != nullptr) board_->depart();
    if (transport_set.users() == 0) return;  // the transports end too
    for (const auto& wire : router_.wires()) {
        wire->deregister_memory(own_lines().data());
        for (const Range& range : registered_)
            wire->deregister_memory(range.address);
    }
    if (board_ == nullptr || transport_set.boards() == nullptr) return;
    transport_set.boards()->close_board(panel_);
    transport_set.boards()->make_panel_ready();  // for the next one that is shrunk, which is in more of a hurry
}

// ----------------------------------------------------------------------------------------------------- leaving ---

bool Group::drained() {
    flushing_ = true;
    stability_.flush();
    progress();
    if (fenced_) return true;
    if (succession_ && succession_->under_way()) return false;  // this rank is counted on
    if (revoked_) return revocation_is_known();                 // nobody waits for anything else of it
    ask_who_stays();
    // Who leaves a group that not all have made yet could not tell them any more who is in it.
    const bool agreed = agreements_.drained(established_ && !*established_);
    if (consumed_ != next_) return false;
    // A rank that has left in peace knew that all have everything, so that is settled although its message may be lost.
    const bool settled = std::ranges::any_of(departed_peers_, [this](Rank peer) { return !members_.failed(peer); });
    if (!settled && stable_ < next_.value) ask_for_room(next_.value);
    if (!settled && !(agreed && stable_ >= next_.value && controls_.empty())) return false;
    if (publishing_) look_for_last_roots();
    return !revoked_;  // else the others are to be told of it first
}

void Group::abandon() {
    // Nobody is waited for, so nobody may wait for this rank: it is a failed one from here on.
    if (departed_) return;
    departed_ = true;
    // Where the transports end with this group, the obituary of the segment says it on this host.
    if (board_ != nullptr && router_.transport_set()->users() > 1) {
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

bool Group::depart() {
    if (router_.transport_set()->users() > 1 && !is_settled()) {
        departs_later_ = true;  // whoever is said to have left is not asked any more
        return true;
    }
    if (!departed_ && board_ != nullptr) {
        board_->depart();
        wake_local_peers();
    }
    departed_ = true;
    if (router_.transport_set()->users() > 1) {  // the transports stay
        if (!std::exchange(farewell_said_, true) && !single_node()) {
            for_neighbours([this](Rank leader, std::uint32_t /*node*/) { send_control(leader, WireKind::left, 0, 0); });
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

// ------------------------------------------------------------------------------------------------------ memory ---

// Payloads leave from this rank's lines. A device that cannot register them copies what leaves from there.
void Group::register_lines() {
    for (const auto& wire : router_.wires())
        (void)wire->register_memory(own_lines());
}

std::span<const std::byte> Group::own_lines() const {
    if (!publishing_) return private_lines_;
    const std::byte* const begin = board_->line_memory(Sequence(0));
    const std::byte* const last = board_->line_memory(Sequence(settings_.window - 1));
    return {begin, static_cast<std::size_t>(last - begin) + transport::kMaxPayload};
}

const std::byte* Group::registered(const std::byte* buffer, std::size_t bytes) const {
    for (const Range& range : registered_) {
        if (buffer >= range.address && buffer + bytes <= range.address + range.bytes) return buffer;
    }
    return nullptr;
}

Result<void> Group::register_memory(const std::byte* address, std::size_t bytes) {
    for (const Range& range : registered_) {
        if (address < range.address + range.bytes && range.address < address + bytes) {
            return fail(COPPICE_ERR_BUSY, "{} bytes at {} overlap a registered range of {} bytes at {}", bytes,
                        static_cast<const void*>(address), range.bytes, static_cast<const void*>(range.address));
        }
    }
    for (const auto& wire : router_.wires()) {
        auto known = wire->register_memory({address, bytes});
        if (known) continue;
        for (const auto& other : router_.wires())
            other->deregister_memory(address);
        return known;
    }
    registered_.push_back({address, bytes});
    return {};
}

Result<void> Group::deregister_memory(const std::byte* address) {
    const auto range = std::ranges::find(registered_, address, &Range::address);
    if (range == registered_.end()) {
        return fail(COPPICE_ERR_INVALID_ARGUMENT, "no range that starts at {} is registered",
                    static_cast<const void*>(address));
    }
    for (const Slot& slot : slots_) {
        if (slot.in_place && slot.payload >= range->address && slot.payload < range->address + range->bytes) {
            return fail(COPPICE_ERR_BUSY, "broadcast {} is still leaving from this memory", slot.sequence.value);
        }
    }
    for (const auto& wire : router_.wires())
        wire->deregister_memory(address);
    registered_.erase(range);
    return {};
}

}  // namespace coppice::engine
