// Starting broadcasts, and moving everything that can be moved.
#include "engine/group.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/context.hpp"

namespace coppice::engine {
namespace {

// How often a polling rank looks at what changes rarely: failure logs, others' counters.
constexpr std::uint32_t kHousekeepingRounds = 32;
// How often it looks whether its own call may be the wrong one.
constexpr std::uint32_t kDoubtRounds = 256;

}  // namespace

// ---------------------------------------------------------------------------------------------------- starting ---

bool Group::may_start(Rank root) {
    if (single_node() && root != members_.self()) return next_.value < consumed_.value + settings_.window;
    if (next_.value < stable_ + settings_.window) return true;
    update_stability();
    if (next_.value < stable_ + settings_.window) return true;
    ask_for_room(stable_ + 1);
    return false;
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
    if ((++starts_ & starts_mask_) == 0) {
        progress();
        read_failure_logs();
        read_revocations();
        if (publishing_ && !revoked_ && next_.value - roots_published_.value >= roots_least_) compare_own_roots();
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
        note_root(request.sequence);
        take_root_payload(*slot, call);
    } else if (!single_node() && (members_.is_leader_for(call.root) || slot->machine)) {
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
        return fail(COPPICE_ERR_BUSY, "all {} requests are in use: free those that have ended", settings_.requests());
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
    if (&request >= pool_.get() && &request < pool_.get() + settings_.requests()) {
        request.use = static_cast<std::uint8_t>((request.use + 1) % Request::kUses);
        free_requests_.push_back(&request);
        --requests_in_use_;
    }
}

// The slot of a sequence in the window; none while its memory is still in use by the broadcast W before.
Slot* Group::engage(Sequence sequence, Rank root) {
    Slot& slot = slot_of(sequence);
    if (slot.engaged) {
        if (slot.sequence == sequence) return &slot;
        const bool over = single_node() ? slot.consumed : slot.sequence.value < stable_ && slot.consumed;
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
    if (!single_node()) {
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

std::size_t Group::progress(Care care) {
    agreements_.allow_callbacks(context_->may_call_back());
    const std::size_t events = poll_wires();
    const bool thorough = care == Care::thorough || flushing_;
    if (established_ && !*established_) note_established();
    if (revoked_) {
        progress_revoked(thorough || events > 0 || detector_is_due() || ++rounds_ % kHousekeepingRounds == 0);
        return events;
    }
    if (publishing_) look_for_lines();
    if (!single_node()) {
        if (!pending_.empty()) take_pending();
        if (!active_.empty()) pump_active();
    }
    if (!lost_roots_.empty()) learn_failures(std::exchange(lost_roots_, {}));
    if (std::exchange(told_of_a_death_, false)) read_failure_logs();
    const bool housekeeping = thorough || events > 0 || detector_is_due() || ++rounds_ % kHousekeepingRounds == 0;
    progress_agreements(housekeeping);
    if (succession_) progress_succession(housekeeping);
    if (housekeeping) {
        read_failure_logs();
        read_departures();
        read_revocations();
        progress_detector();
        if (publishing_ && rounds_ % kDoubtRounds == 0) {
            look_for_other_roots();
            look_for_several_roots(roots_looked_at_);
            if (revoked_) return events;
        }
        if (!departed_peers_.empty()) do_without_the_departed();
        update_stability();
        if (!controls_.empty()) flush_controls();
    }
    if (!untold_.empty()) tell_failures();
    return events;
}

// Outside of everything that learns of failures, because the callback is the caller's: it may ask, take long, or throw.
void Group::tell_failures() {
    if (!context_->may_call_back()) return;
    while (claimed_ && !untold_.empty()) {
        const Rank rank = untold_.front();
        untold_.erase(untold_.begin());
        if (on_failure_ && !flushing_) on_failure_(rank);
    }
}

std::string Group::waiting_for(const Request& request) const {
    if (request.kind == RequestKind::agreement) return agreements_.waiting_for(request);
    if (request.kind == RequestKind::shrink) return succession_->waiting_for();
    const Slot& slot = slot_of(request.sequence);
    const auto leader = members_.leader_for(members_.own_node(), request.root);
    std::string text =
        fmt::format("broadcast {}: waiting for the payload of rank {}", request.sequence.value, request.root.value);
    if (request.root == members_.self()) {
        text = fmt::format("broadcast {}: waiting until its messages have left", request.sequence.value);
        if (slot.unsent) {
            const auto to = members_.leader_for(members_.node_at(slot.unsent->to, slot.root), slot.root);
            if (to && router_.to(*to)) {
                text += fmt::format("; rank {} takes none over {}", to->value, router_.to(*to).name());
            }
        }
    } else if (leader && *leader != members_.self() && *leader != request.root) {
        text += fmt::format(" from rank {}, which speaks for this host (shm)", leader->value);
    } else if (const Link link = router_.to(request.root)) {
        text += fmt::format(" ({})", link.name());
        if (slot.machine && slot.machine.colored()) text += "; it is here, its correction is still under way";
    }
    const bool waits = request.root != members_.self() && !slot.has_payload && !single_node();
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
    const auto not_consumed = [](Rank rank, std::uint64_t sequence) {
        return fmt::format("rank {} has not consumed broadcast {} yet", rank.value, sequence);
    };
    if (single_node() || least <= stable_) return not_consumed(slowest, least);
    const auto rank = stability_.holder();
    if (!rank || *rank == members_.self())
        return fmt::format(
            "some rank of another host has not consumed broadcast {} yet; the ranks have been asked which", stable_);
    return not_consumed(*rank, stable_);
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
    return static_cast<std::uint32_t>(counters().connections);
}

std::string Group::transports() const {
    std::string within, between;
    const auto add = [](std::string& to, const std::string& what) {
        if (to.find(what) != std::string::npos) return;
        if (!to.empty()) to.append(" and ");
        to.append(what);
    };
    for (std::uint32_t peer = 0; peer < members_.ranks(); ++peer) {
        const Link link = router_.to(Rank(peer));
        if (!link || Rank(peer) == members_.self()) continue;
        const bool same_host = link.within_host() || members_.node_of(Rank(peer)) == members_.own_node();
        add(same_host ? within : between, link.description());
    }
    if (within.empty() && between.empty()) return "none";
    if (within.empty()) return between;
    if (between.empty()) return within.append(" within hosts");
    if (within == between) return within;
    return fmt::format("{} within hosts, {} between them", within, between);
}

transport::Counters Group::counters() const {
    transport::Counters sum;
    for (const auto& wire : router_.wires())
        sum += wire->counters();
    return sum;
}

}  // namespace coppice::engine
