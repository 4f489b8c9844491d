// Starting broadcasts, moving them, and handing payloads to their callers.
#include "engine/group.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/clock.hpp"

namespace coppice::engine {
namespace {

// How often a polling rank looks at what changes rarely: failure logs, others' counters.
constexpr std::uint32_t kHousekeepingRounds = 32;
// How often it looks whether its own call may be the wrong one.
constexpr std::uint32_t kDoubtRounds = 256;
// Room for the control messages of a time without deaths: those of stability, a few sites at a time.
constexpr std::size_t kControls = 64;

}  // namespace

Group::Group(Parts parts)
    : context_(parts.context),
      settings_(std::move(parts.settings)),
      members_(std::move(parts.members)),
      router_(std::move(parts.router)),
      board_(parts.board),
      board_wrapper_(std::move(parts.board_wrapper)),
      plan_(std::move(parts.plan)),
      token_(parts.token),
      publishing_(board_ != nullptr && members_.ranks_of(members_.own_site()).size() > 1),
      oversubscribed_(parts.local_ranks > parts.cores),
      on_failure_(std::move(parts.on_failure)),
      slots_(settings_.window),
      pool_(std::make_unique<Request[]>(std::size_t{2} * settings_.window)),
      stability_(members_.own_site(), members_.sites(), settings_.window / 2, members_.failed_sites()) {
    active_.reserve(settings_.window);
    controls_.reserve(kControls);
    logs_read_.resize(members_.ranks_of(members_.own_site()).size(), 0);
    if (!publishing_) private_lines_.resize(settings_.window * transport::kMaxPayload);
    free_requests_.reserve(std::size_t{2} * settings_.window);
    for (std::size_t i = std::size_t{2} * settings_.window; i > 0; --i)
        free_requests_.push_back(&pool_[i - 1]);
}

void Group::start_with_failed(std::span<const Rank> dead) {
    for (const Rank rank : dead)
        learn_failure(rank);
    watch_next_site();
}

Group::~Group() {
    for (Slot& slot : slots_)
        recycle(slot);
}

// ---------------------------------------------------------------------------------------------------- starting ---

bool Group::may_start(Rank root) {
    if (single_site() && root != members_.self()) return next_.value < consumed_.value + settings_.window;
    if (next_.value < stable_ + settings_.window) return true;
    update_stability();
    return next_.value < stable_ + settings_.window;
}

bool Group::has_room(Rank root) {
    if (fenced_ || root.value >= members_.ranks()) return true;  // that is for start() to say
    if (!may_start(root)) return false;
    const Slot& slot = slot_of(next_);
    return !slot.engaged || slot.sequence == next_ || slot.in_flight == 0;
}

Result<void> Group::start(const Call& call, Request& request) {
    if (fenced_) return fail(COPPICE_ERR_FENCED, "rank {} was taken for dead by the others", members_.self().value);
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
    const bool in_slot = slot.engaged && slot.sequence == request.sequence;
    if (request.state == RequestState::waiting && in_slot) {
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
        if (transport::Transport* wire = router_.to(slot.kept_from)) wire->release(slot.kept);
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

// ---------------------------------------------------------------------------------------------------- delivery ---

void Group::deliver(Slot& slot) {
    Request& request = *slot.request;
    const bool is_root = slot.root == members_.self();
    stage_what_is_in_place(slot);
    if (slot.in_place) return;  // it is still leaving
    request.received = slot.length;
    if (request.view) {
        request.payload = slot.payload;
        complete(slot, COPPICE_OK);
    } else if (is_root) {
        complete(slot, COPPICE_OK);
    } else if (slot.length > request.capacity) {
        complete(slot, COPPICE_ERR_TRUNCATED,
                 fmt::format("broadcast {}: rank {} sent {} bytes, the buffer has room for {}", slot.sequence.value,
                             slot.root.value, slot.length, request.capacity));
    } else {
        if (slot.length > 0) std::memcpy(request.buffer, slot.payload, slot.length);
        complete(slot, COPPICE_OK);
    }
}

void Group::complete(Slot& slot, coppice_status_t status, std::string message) {
    Request& request = *slot.request;
    slot.request = nullptr;
    request.status = status;
    request.state = RequestState::done;
    if (status != COPPICE_OK) request.message = std::move(message);
    if (!request.view || status != COPPICE_OK) mark_consumed(slot);
}

void Group::mark_consumed(Slot& slot) {
    slot.consumed = true;
    const std::uint64_t before = consumed_.value;
    while (true) {
        const Slot& oldest = slot_of(consumed_);
        if (consumed_ >= next_ || !oldest.engaged || oldest.sequence != consumed_ || !oldest.consumed) break;
        consumed_.value += 1;
    }
    if (consumed_.value != before && board_ != nullptr) board_->set_consumed(consumed_);
}

// ------------------------------------------------------------------------------------------ published on a board ---

// Looks for the line of a waiting broadcast where this rank does not speak for its host: at the root, if it lives here,
// and at whoever speaks for the host. True when the request has ended.
bool Group::look_for_line(Slot& slot) {
    if (!publishing_ || slot.request == nullptr) return slot.request == nullptr;
    transport::PublishedLine line;
    const bool root_is_here = members_.site_of(slot.root) == members_.own_site();
    const bool root_is_dead = root_is_here && members_.failed(slot.root);
    bool found = root_is_here && board_->look(slot.root, slot.sequence, line);
    if (!found && !(root_is_here && !root_is_dead)) {
        const auto leader = members_.leader(members_.own_site());
        found = leader && *leader != members_.self() && board_->look(*leader, slot.sequence, line);
    }
    // What is published outlives its writer, and the writer may have been the one that spoke for this host until now.
    if (!found && !members_.failed_ranks().empty()) found = look_at_failed_mates(slot, line);
    if (!found) {
        // One host, and the root's line is not there although the root is dead: nobody has it.
        if (root_is_dead && single_site()) complete_without_payload(slot, LineKind::root_failed);
        return slot.request == nullptr;
    }
    if (line.root != slot.root.value) {
        complete_for_other_root(slot, line.root);
        return true;
    }
    if (line.detail != static_cast<std::uint32_t>(LineKind::payload)) {
        complete_without_payload(slot, static_cast<LineKind>(line.detail));
    } else {
        slot.payload = line.payload;
        slot.length = line.length;
        slot.has_payload = true;
        deliver(slot);
    }
    return true;
}

bool Group::look_at_failed_mates(Slot& slot, transport::PublishedLine& line) const {
    for (const Rank mate : members_.ranks_of(members_.own_site())) {
        if (members_.failed(mate) && board_->look(mate, slot.sequence, line)) return true;
    }
    return false;
}

void Group::complete_without_payload(Slot& slot, LineKind why) {
    if (why == LineKind::root_failed) {
        complete(slot, COPPICE_ERR_ROOT_FAILED,
                 fmt::format("broadcast {}: its root, rank {}, died and no survivor has the payload",
                             slot.sequence.value, slot.root.value));
    } else {
        complete(slot, COPPICE_ERR_PEER_FAILED,
                 fmt::format("broadcast {}: an ancestor in the tree died and correction {} reaches nobody behind it; "
                             "choose another correction",
                             slot.sequence.value, protocol::to_string(plan_.correction)));
    }
}

void Group::look_for_lines() {
    for (Sequence sequence = consumed_; sequence < next_; sequence.value += 1) {
        Slot& slot = slot_of(sequence);
        if (slot.request != nullptr && slot.sequence == sequence && !slot.machine) look_for_line(slot);
    }
}

// A rank that names another root than the others may wait for somebody who will never publish this broadcast, and who
// speaks for this host may be somebody else in the others' eyes. Any line of the host shows who is right.
void Group::look_for_other_roots() {
    for (Sequence sequence = consumed_; sequence < next_; sequence.value += 1) {
        Slot& slot = slot_of(sequence);
        if (slot.sequence != sequence) continue;
        for (const Rank mate : members_.ranks_of(members_.own_site())) {
            transport::PublishedLine line;
            if (slot.request == nullptr || !board_->look(mate, sequence, line) || line.root == slot.root.value)
                continue;
            complete_for_other_root(slot, line.root);
        }
    }
}

void Group::complete_for_other_root(Slot& slot, std::uint32_t root) {
    complete(slot, COPPICE_ERR_MISMATCH,
             fmt::format("broadcast {}: this rank names root {}, others name root {}", slot.sequence.value,
                         slot.root.value, root));
}

bool Group::peek(Request& request) {
    if (request.state == RequestState::waiting && publishing_) {
        Slot& slot = slot_of(request.sequence);
        if (slot.request == &request && !slot.machine) look_for_line(slot);
    }
    return request.state == RequestState::done;
}

// ---------------------------------------------------------------------------------------------------- progress ---

std::size_t Group::progress() {
    const std::size_t events = router_.poll(*this);
    if (publishing_) look_for_lines();
    if (!single_site()) {
        if (!stash_.empty()) take_stash();
        if (!active_.empty()) pump_active();
    }
    if (events > 0 || ++rounds_ % kHousekeepingRounds == 0 || flushing_) {
        read_failure_logs();
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
    while (!untold_.empty()) {
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
    if (consumed_ != next_) return false;
    // A rank that has left in peace knew that all have everything, so that is settled although its message may be lost.
    const bool settled = std::ranges::any_of(departed_peers_, [this](Rank peer) { return !members_.failed(peer); });
    return settled || (stable_ >= next_.value && controls_.empty());
}

void Group::abandon() {
    // Nobody is waited for, so nobody may wait for this rank: it is a failed one from here on.
    if (departed_) return;
    departed_ = true;
    if (!single_site()) {  // on one host the obituary of the segment says it
        spread_failure(members_.self(), members_.sites());
        flush_controls();
        router_.poll(*this);
    }
}

bool Group::depart() {
    if (!departed_ && board_ != nullptr) board_->depart();
    departed_ = true;
    router_.poll(*this);
    bool left = true;
    for (const auto& wire : router_.wires())
        left = wire->leave() && left;
    return left;
}

std::string Group::waiting_for(const Request& request) const {
    const Slot& slot = slot_of(request.sequence);
    const auto acting = members_.acting(members_.own_site(), request.root);
    std::string text =
        fmt::format("broadcast {}: waiting for the payload of rank {}", request.sequence.value, request.root.value);
    if (request.root == members_.self()) {
        text = fmt::format("broadcast {}: waiting until its messages have left", request.sequence.value);
        if (slot.unsent) {
            const auto to = members_.acting(members_.site_at(slot.unsent->to, slot.root), slot.root);
            if (to && router_.to(*to) != nullptr) {
                text += fmt::format("; rank {} takes none over {}", to->value, router_.to(*to)->capabilities().name);
            }
        }
    } else if (acting && *acting != members_.self() && *acting != request.root) {
        text += fmt::format(" from rank {}, which speaks for this host (shm)", acting->value);
    } else if (const transport::Transport* wire = router_.to(request.root)) {
        text += fmt::format(" ({})", wire->capabilities().name);
        if (slot.machine && slot.machine->colored()) text += "; it is here, its correction is still under way";
    }
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

std::uint32_t Group::connections() const {
    std::uint64_t sum = 0;
    for (const auto& wire : router_.wires())
        sum += wire->counters().connections;
    return static_cast<std::uint32_t>(sum);
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
    registered_.erase(range);
    return {};
}

}  // namespace coppice::engine
