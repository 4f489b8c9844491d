// Starting broadcasts, moving everything that can be moved, and leaving.
#include "engine/group.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.hpp"

namespace coppice::engine {
namespace {

// How often a polling rank looks at what changes rarely: failure logs, others' counters.
constexpr std::uint32_t kHousekeepingRounds = 32;
// Calls that begin a broadcast between two in which things move whether the caller has to wait or not.
constexpr std::uint32_t kStartsPerProgress = 16;
// How often it looks whether its own call may be the wrong one.
constexpr std::uint32_t kDoubtRounds = 256;
// Room for the control messages of a time without deaths: those of stability, a few sites at a time.
constexpr std::size_t kControls = 64;
// Ranks of a host of which each is connected with their leader from the start: some 8 KiB a pair.
constexpr std::size_t kMostToMeet = 64;

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
      publishing_(board_ != nullptr && members_.ranks_of(members_.own_site()).size() > 1),
      oversubscribed_(parts.sharing_cores > parts.cores),
      on_failure_(std::move(parts.on_failure)),
      agreements_(members_, router_, single_site() && publishing_ ? board_ : nullptr, id_,
                  {.tree = settings_.agreement_tree}),
      established_(std::move(parts.established)),
      claimed_(established_ == nullptr),
      panel_(parts.panel),
      cores_(parts.cores),
      sharing_cores_(parts.sharing_cores),
      slots_(settings_.window),
      pool_(std::make_unique<Request[]>(std::size_t{2} * settings_.window)),
      stability_(members_.own_site(), members_.sites(), settings_.window / 2, members_.failed_sites()),
      detector_({.sites = &members_.sites_table(),
                 .period = std::min(settings_.heartbeat_period, Nanoseconds(settings_.most_silence().value / 2)),
                 .bound = settings_.most_silence()},
                members_.self()) {
    active_.reserve(settings_.window);
    controls_.reserve(kControls);
    logs_read_.resize(members_.ranks_of(members_.own_site()).size(), 0);
    if (!publishing_) private_lines_.resize(settings_.window * transport::kMaxPayload);
    free_requests_.reserve(std::size_t{2} * settings_.window);
    for (std::size_t i = std::size_t{2} * settings_.window; i > 0; --i)
        free_requests_.push_back(&pool_[i - 1]);
    register_lines();
    router_.fabric()->attach(id_.token, *this);
    if (established_) meet_leaders();
}

// Ranks of one host publish, until somebody dies: then agreement goes by messages between their leader, or who stands in for it,
// and the others. It should not have to connect them first. Nor should a shrink: a new group meets who stands in one by one,
// with each call.
void Group::meet_leaders() {
    if (!publishing_) return;
    std::vector<Rank> mates;
    for (const Rank rank : members_.ranks_of(members_.own_site()))
        if (!members_.failed(rank)) mates.push_back(rank);
    if (mates.size() < 2 || mates.size() > kMostToMeet) return;
    const Rank self = members_.self();
    const Rank leader = mates[0];
    const Rank next = mates[1];
    for (const Rank rank : mates) {
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

void Group::start_with_failed(std::span<const Rank> known_to_all, std::span<const Rank> others) {
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

Group::~Group() {
    for (Slot& slot : slots_)
        recycle(slot);
    Fabric& fabric = *router_.fabric();
    fabric.detach(*this);
    if (established_) *established_ = true;
    if (departs_later_ && board_ != nullptr) board_->depart();
    if (fabric.users() == 0) return;  // the transports end too
    for (const auto& wire : router_.wires()) {
        wire->deregister_memory(own_lines().data());
        for (const Range& range : registered_)
            wire->deregister_memory(range.address);
    }
    if (board_ == nullptr || fabric.boards() == nullptr) return;
    fabric.boards()->close_board(panel_);
    fabric.boards()->make_panel_ready();  // for the next one that is shrunk, which is in more of a hurry
}

// ---------------------------------------------------------------------------------------------------- starting ---

bool Group::may_start(Rank root) {
    if (single_site() && root != members_.self()) return next_.value < consumed_.value + settings_.window;
    if (next_.value < stable_ + settings_.window) return true;
    update_stability();
    return next_.value < stable_ + settings_.window;
}

bool Group::has_room(Rank root) {
    if (fenced_ || revoked_ || root.value >= members_.ranks()) return true;  // that is for start() to say
    if (!may_start(root)) return false;
    if (publishing_ && root == members_.self()) board_->will_publish(next_);
    const Slot& slot = slot_of(next_);
    return !slot.engaged || slot.sequence == next_ || slot.in_flight == 0;
}

// Before a broadcast or an agreement: an error where this rank takes part in nothing any more.
Result<void> Group::look_before_start() {
    if (!to_meet_.empty()) meet_next();
    // Whoever finds everything there already never waits, and would not learn of anything.
    if (++starts_ % kStartsPerProgress == 0) {
        progress();
        read_failure_logs();
        read_revocations();
    }
    if (revoked_) return tl::unexpected(revocation());
    look_whether_fenced();
    if (fenced_) return fail(COPPICE_ERR_FENCED, "rank {} was taken for dead by the others", members_.self().value);
    return {};
}

Result<void> Group::start(const Call& call, Request& request) {
    if (auto takes_part = look_before_start(); !takes_part) return takes_part;
    if (call.root.value >= members_.ranks()) {
        return fail(COPPICE_ERR_OUT_OF_RANGE, "root {} is outside of 0…{}", call.root.value, members_.ranks() - 1);
    }
    const bool is_root = call.root == members_.self();
    if (is_root && call.bytes > transport::kMaxPayload) {
        return fail(COPPICE_ERR_TOO_LARGE, "{} bytes are more than the {} that one broadcast carries", call.bytes,
                    transport::kMaxPayload);
    }
    if (call.buffer == nullptr && call.bytes > 0 && (is_root || !call.view)) {
        return fail(COPPICE_ERR_INVALID_ARGUMENT, "the buffer is NULL but {} bytes long", call.bytes);
    }
    if (!may_start(call.root)) {
        return fail(COPPICE_ERR_BUSY, "all {} broadcasts of the window are under way: {}", settings_.window,
                    window_holder());
    }
    Slot* slot = engage(next_, call.root);
    if (slot == nullptr) {
        return fail(COPPICE_ERR_BUSY, "the memory of broadcast {} is still on its way out",
                    next_.value - settings_.window);
    }
    request.group = this;
    request.kind = RequestKind::broadcast;
    request.sequence = next_;
    request.root = call.root;
    request.buffer = call.buffer;
    request.capacity = call.bytes;
    request.view = call.view;
    request.state = RequestState::waiting;
    request.status = COPPICE_IN_PROGRESS;
    request.payload = nullptr;
    request.received = 0;
    slot->request = &request;
    next_.value += 1;
    highest_.value = std::max(highest_.value, next_.value);

    if (slot->root != call.root) {
        complete(*slot, COPPICE_ERR_MISMATCH,
                 fmt::format("broadcast {}: this rank names root {}, others name root {}", request.sequence.value,
                             call.root.value, slot->root.value));
        return {};
    }
    if (is_root) {
        take_root_payload(*slot, call);
    } else if (!single_site() && (members_.is_acting(call.root) || slot->machine)) {
        ensure_machine(*slot);
        pump(*slot);
        settle(*slot);
    } else {
        look_for_line(*slot);
    }
    return {};
}

Result<Request*> Group::start_pooled(const Call& call) {
    if (free_requests_.empty()) {
        return fail(COPPICE_ERR_BUSY, "all {} requests are in use: free those that have ended", 2 * settings_.window);
    }
    Request* request = free_requests_.back();
    if (auto started = start(call, *request); !started) return tl::unexpected(std::move(started.error()));
    free_requests_.pop_back();
    ++requests_in_use_;
    return request;
}

void Group::finish(Request& request) {
    Slot& slot = slot_of(request.sequence);
    const bool is_broadcast = request.kind == RequestKind::broadcast;
    const bool in_slot = is_broadcast && slot.engaged && slot.sequence == request.sequence;
    if (request.kind == RequestKind::shrink) {
        if (shrinking_ == &request) shrinking_ = nullptr;
        request.agreed.reset();
    } else if (!is_broadcast) {
        agreements_.forget(request);
        request.agreed.reset();
    } else if (request.state == RequestState::waiting && in_slot) {
        slot.request = nullptr;
        stage_what_is_in_place(slot);
        mark_consumed(slot);
    } else if (request.state == RequestState::done && request.view && request.status == COPPICE_OK && in_slot) {
        mark_consumed(slot);
    }
    request.state = RequestState::free;
    request.message.clear();
    if (&request >= pool_.get() && &request < pool_.get() + std::size_t{2} * settings_.window) {
        free_requests_.push_back(&request);
        --requests_in_use_;
    }
}

// The slot of a sequence in the window; none while its memory is still in use by the broadcast W before.
Slot* Group::engage(Sequence sequence, Rank root) {
    Slot& slot = slot_of(sequence);
    if (slot.engaged) {
        if (slot.sequence == sequence) return &slot;
        const bool over = single_site() ? slot.consumed : slot.sequence.value < stable_ && slot.consumed;
        if (slot.sequence > sequence || !over || slot.in_flight > 0) return nullptr;
        recycle(slot);
    }
    slot.engaged = true;
    slot.sequence = sequence;
    slot.root = root;
    highest_.value = std::max(highest_.value, sequence.value + 1);
    return &slot;
}

void Group::recycle(Slot& slot) {
    if (slot.kept != 0) {
        if (const Link link = router_.to(slot.kept_from)) link.release(slot.kept);
    }
    slot.engaged = slot.consumed = slot.confirmed = slot.has_payload = false;
    slot.verdict_shown = slot.in_place = slot.notices_sent = false;
    slot.length = 0;
    slot.payload = nullptr;
    slot.kept = 0;
    slot.request = nullptr;
    slot.machine.reset();
    slot.unsent.reset();
    slot.corrections = 0;
    slot.next_correction_ns = 0;
}

std::byte* Group::line_of(Sequence sequence) {
    if (publishing_) return board_->line_memory(sequence);
    return private_lines_.data() + (sequence.value & (settings_.window - 1)) * transport::kMaxPayload;
}

// Copies a payload to this rank's own line and, where ranks share the host, publishes it.
void Group::stage(Slot& slot, const std::byte* from, std::size_t bytes) {
    std::byte* line = line_of(slot.sequence);
    slot.payload = line;
    slot.length = static_cast<std::uint32_t>(bytes);
    slot.has_payload = true;
    if (publishing_) {
        board_->publish_copy(slot.sequence, std::span(from, bytes), slot.root.value,
                             static_cast<std::uint32_t>(LineKind::payload));
    } else if (bytes > 0) {
        std::memcpy(line, from, bytes);
    }
}

void Group::take_root_payload(Slot& slot, const Call& call) {
    // Registered memory goes out as it is, and is copied for later service behind its back; where ranks of the host
    // read a published line, that line is the transfer itself.
    const std::byte* in_place = publishing_ || call.view ? nullptr : registered(call.buffer, call.bytes);
    if (in_place != nullptr) {
        slot.payload = in_place;
        slot.in_place = true;
        slot.length = static_cast<std::uint32_t>(call.bytes);
        slot.has_payload = true;
    } else {
        stage(slot, call.buffer, call.bytes);
    }
    if (!single_site()) {
        ensure_machine(slot);
        pump(slot);
        settle(slot);
    } else {
        deliver(slot);
    }
}

// What went out from the caller's registered memory is copied before the caller gets it back, to serve others from; where a
// transport still refers to it, as soon as it does not.
void Group::stage_what_is_in_place(Slot& slot) {
    if (!slot.in_place || slot.in_flight > 0) return;
    slot.in_place = false;
    stage(slot, slot.payload, slot.length);
}

// ---------------------------------------------------------------------------------------------------- progress ---

std::size_t Group::progress() {
    const std::size_t events = poll_wires();
    if (established_ && !*established_) note_established();
    if (revoked_) {
        progress_revoked(events > 0 || detector_is_due() || ++rounds_ % kHousekeepingRounds == 0 || flushing_);
        return events;
    }
    if (publishing_) look_for_lines();
    if (!single_site()) {
        if (!stash_.empty()) take_stash();
        if (!active_.empty()) pump_active();
    }
    const bool housekeeping = events > 0 || detector_is_due() || ++rounds_ % kHousekeepingRounds == 0 || flushing_;
    progress_agreements(housekeeping);
    if (succession_) progress_succession(housekeeping);
    if (housekeeping) {
        read_failure_logs();
        read_departures();
        read_revocations();
        progress_detector();
        if (publishing_ && rounds_ % kDoubtRounds == 0) look_for_other_roots();
        if (!departed_peers_.empty()) do_without_the_departed();
        update_stability();
        if (!controls_.empty()) flush_controls();
    }
    if (!untold_.empty()) tell_failures();
    return events;
}

// Outside of everything that learns of failures, because the callback is the caller's: it may ask, take long, or throw.
void Group::tell_failures() {
    while (claimed_ && !untold_.empty()) {
        const Rank rank = untold_.front();
        untold_.erase(untold_.begin());
        if (on_failure_ && !flushing_) on_failure_(rank);
    }
}

bool Group::drained() {
    flushing_ = true;
    stability_.flush();
    progress();
    if (fenced_) return true;
    if (succession_ && succession_->under_way()) return false;  // this rank is counted on
    if (revoked_) return revocation_is_known();                 // nobody waits for anything else of it
    // Who leaves a group that not all have made yet could not tell them any more who is in it.
    const bool agreed = agreements_.drained(established_ && !*established_);
    if (consumed_ != next_) return false;
    // A rank that has left in peace knew that all have everything, so that is settled although its message may be lost.
    const bool settled = std::ranges::any_of(departed_peers_, [this](Rank peer) { return !members_.failed(peer); });
    return settled || (agreed && stable_ >= next_.value && controls_.empty());
}

void Group::abandon() {
    // Nobody is waited for, so nobody may wait for this rank: it is a failed one from here on.
    if (departed_) return;
    departed_ = true;
    // Where the transports end with this group, the obituary of the segment says it on this host.
    if (board_ != nullptr && router_.fabric()->users() > 1) board_->log_failure(members_.self());
    if (!single_site()) {
        detector_.give_up();
        progress_detector();
        flush_controls();
        router_.poll();
    }
}

bool Group::depart() {
    if (router_.fabric()->users() > 1 && !is_settled()) {
        departs_later_ = true;  // whoever is said to have left is not asked any more
        return true;
    }
    if (!departed_ && board_ != nullptr) board_->depart();
    departed_ = true;
    if (router_.fabric()->users() > 1) {  // the transports stay
        if (!std::exchange(farewell_said_, true) && !single_site()) {
            for_neighbours(
                [this](Rank speaker, std::uint32_t /*site*/) { send_control(speaker, WireKind::left, 0, 0); });
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

std::string Group::waiting_for(const Request& request) const {
    if (request.kind == RequestKind::agreement) return agreements_.waiting_for(request);
    if (request.kind == RequestKind::shrink) return succession_->waiting_for();
    const Slot& slot = slot_of(request.sequence);
    const auto acting = members_.acting(members_.own_site(), request.root);
    std::string text =
        fmt::format("broadcast {}: waiting for the payload of rank {}", request.sequence.value, request.root.value);
    if (request.root == members_.self()) {
        text = fmt::format("broadcast {}: waiting until its messages have left", request.sequence.value);
        if (slot.unsent) {
            const auto to = members_.acting(members_.site_at(slot.unsent->to, slot.root), slot.root);
            if (to && router_.to(*to)) {
                text += fmt::format("; rank {} takes none over {}", to->value, router_.to(*to).name());
            }
        }
    } else if (acting && *acting != members_.self() && *acting != request.root) {
        text += fmt::format(" from rank {}, which speaks for this host (shm)", acting->value);
    } else if (const Link link = router_.to(request.root)) {
        text += fmt::format(" ({})", link.name());
        if (slot.machine && slot.machine.colored()) text += "; it is here, its correction is still under way";
    }
    const bool waits = request.root != members_.self() && !slot.has_payload && !single_site();
    if (const std::string doubt = plan_.doubt(); waits && !doubt.empty()) text += "; " + doubt;
    for (const auto& wire : router_.wires()) {
        if (wire->last_error().empty()) continue;
        text += fmt::format("; last trouble of {}: {}", wire->capabilities().name, wire->last_error());
    }
    return text;
}

std::string Group::window_holder() const {
    Rank slowest;
    const std::uint64_t least = local_consumed(slowest);
    const auto leader = members_.leader(members_.own_site());
    if (!single_site() && leader == members_.self()) slowest = stability_.slowest();
    if (!single_site() && leader && leader != members_.self() && least > stable_) {
        return fmt::format("some rank behind rank {}, which speaks for this host, has not consumed broadcast {} yet",
                           leader->value, stable_);
    }
    return fmt::format("rank {} has not consumed broadcast {} yet", slowest.value, single_site() ? least : stable_);
}

std::uint64_t Group::garbage() const {
    std::uint64_t sum = garbage_;
    for (const auto& wire : router_.wires())
        sum += wire->counters().garbage;
    return sum;
}

std::uint64_t Group::refused() const {
    std::uint64_t sum = refused_;
    for (const auto& wire : router_.wires())
        sum += wire->counters().refused;
    return sum;
}

int Group::arm() {
    int descriptor = -1;
    for (const auto& wire : router_.wires()) {
        const int armed = wire->arm();
        if (descriptor < 0) descriptor = armed;
    }
    return descriptor;
}

std::uint32_t Group::connections() const {
    return static_cast<std::uint32_t>(counters().connections);
}

transport::Counters Group::counters() const {
    transport::Counters sum;
    for (const auto& wire : router_.wires())
        sum += wire->counters();
    return sum;
}

// --------------------------------------------------------------------------------------------- registered memory ---

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
