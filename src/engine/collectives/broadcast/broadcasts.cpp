// Starting broadcasts, the slots of the window, and the memory that payloads leave from.
#include "engine/collectives/broadcast/broadcasts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/copy.hpp"
#include "base/memory_access.hpp"
#include "engine/collectives/broadcast/pump_in_stream.hpp"

namespace coppice::engine {
namespace {

// How often a polling rank looks whether its own call may be the wrong one, in times that it keeps house.
constexpr std::uint32_t kHousesPerDoubt = 8;

Channel channel_of(const Plan& plan) {
    if (plan.placed) return Channel::placed;
    return plan.failure_proof ? Channel::failure_proof : Channel::broadcast;
}

}  // namespace

Broadcasts::Broadcasts(Core& core, Window& window, Revocation& revocation, Payloads& payloads, Plan plan)
    : core_(core),
      around_(core.around()),
      controls_(core.controls()),
      life_(core.life()),
      membership_(core.membership()),
      news_(core.news()),
      window_(window),
      revocation_(revocation),
      payloads_(payloads),
      settings_(core.around().settings()),
      members_(core.members()),
      router_(core.around().router()),
      board_(core.local_peers().board()),
      publishing_(core.local_peers().publishing()),
      single_node_(core.members().single_node()),
      plan_(std::move(plan)),
      channel_(channel_of(plan_)),
      trace_(core.around().context().trace()),
      send_plans_(plan_, members_, router_),
      goes_at_once_(trace_ == nullptr && (publishing_ ? single_node_ : send_plans_.exist())),
      streams_(router_.keeps_batches() && around_.context().is_attended()),
      slots_(window.size()),
      roots_(core, window) {
    active_.reserve(window_.size());
    if (!publishing_) private_lines_.resize(window_.size() * transport::kMaxPayload);
    // Payloads leave from this rank's lines. A device that cannot register them copies what leaves from there.
    for (const auto& wire : router_.wires())
        (void)wire->register_memory(own_lines());
}

void Broadcasts::transports_end() {
    for (Slot& slot : slots_)
        recycle(slot);
}

Broadcasts::~Broadcasts() {
    for (Slot& slot : slots_)
        recycle(slot);
    if (router_.transport_set()->users() == 0) return;  // the transports have ended
    for (const auto& wire : router_.wires()) {
        wire->deregister_memory(own_lines().data());
        for (const Range& range : registered_)
            wire->deregister_memory(range.address);
    }
}

// ---------------------------------------------------------------------------------------------------- starting ---

bool Broadcasts::has_room(Rank root, std::size_t bytes) {
    if (!life_.is_member() || root.value >= members_.ranks()) return true;  // start() says it
    if (!window_.may_start(root)) return false;
    if (root == members_.self() && !payloads_.has_room(bytes)) return false;
    if (publishing_ && root == members_.self()) board_->will_publish(window_.next());
    const Slot& slot = slot_of(window_.next());
    return !slot.engaged || slot.sequence == window_.next() || slot.in_flight == 0;
}

Result<void> Broadcasts::start(const BroadcastCall& call, Request& request) {
    if (publishing_ && roots_.is_due()) compare_own_roots();
    if (auto takes_part = core_.look_before_start(); !takes_part) return takes_part;
    if (call.root.value >= members_.ranks()) {
        return fail(COPPICE_ERR_OUT_OF_RANGE, "root {} is outside of 0…{}", call.root.value, members_.ranks() - 1);
    }
    const bool is_root = call.root == members_.self();
    if (is_root && call.bytes > kMaxBroadcast) {
        return fail(COPPICE_ERR_TOO_LARGE, "{} bytes are more than the {} that one broadcast carries", call.bytes,
                    kMaxBroadcast);
    }
    if (call.buffer == nullptr && call.bytes > 0 && (is_root || !call.view)) {
        return fail(COPPICE_ERR_INVALID_ARGUMENT, "the buffer is NULL but {} bytes long", call.bytes);
    }
    if (!window_.may_start(call.root)) {
        return fail(COPPICE_ERR_BUSY, "all {} broadcasts of the window are under way: {}", window_.size(),
                    window_.holder_name());
    }
    if (is_root && !payloads_.has_room(call.bytes)) {
        return fail(COPPICE_ERR_BUSY, "{} bytes are more than there is room for beside the broadcasts under way: {}",
                    call.bytes, payloads_.holder_name());
    }
    const Slot& place = slot_of(window_.next());
    const bool is_known = place.engaged && place.sequence == window_.next();
    Slot* slot = engage(window_.next(), call.root);
    if (slot == nullptr) {
        return fail(COPPICE_ERR_BUSY, "the memory of broadcast {} is still on its way out",
                    window_.next().value - window_.size());
    }
    if (is_root && slot->root == call.root) {
        if (auto held = hold_root_payload(*slot, call); !held) {
            if (!is_known) recycle(*slot);  // nothing has been started
            return held;
        }
    }
    request.begin(this, window_.next());
    request.root = call.root;
    request.buffer = call.buffer;
    request.capacity = call.bytes;
    request.view = call.view;
    slot->request = &request;
    window_.note_started();

    if (slot->root != call.root) {
        complete(*slot, COPPICE_ERR_MISMATCH,
                 fmt::format("broadcast {}: this rank names root {}, others name root {}", request.sequence.value,
                             call.root.value, slot->root.value));
        return {};
    }
    if (is_root) {
        roots_.note(request.sequence);
        note_payload(*slot, call.bytes);  // before anybody has it
        take_root_payload(*slot, call);
    } else if (!members_.single_node() && (members_.is_leader_for(call.root) || slot->machine)) {
        ensure_machine(*slot);
        pump(*slot);
        settle(*slot);
    } else {
        look_for_line(*slot);
    }
    return {};
}

void Broadcasts::finish(Request& request) {
    Slot& slot = slot_of(request.sequence);
    if (!slot.engaged || slot.sequence != request.sequence) return;
    if (request.state == RequestState::waiting) {
        slot.request = nullptr;
        stage_what_is_in_place(slot);
        mark_consumed(slot);
    } else if (request.state == RequestState::done && request.view && request.status == COPPICE_OK) {
        mark_consumed(slot);
    }
}

// The slot of a sequence in the window; none while its memory is still in use by the broadcast W before.
Slot* Broadcasts::engage_anew(Slot& slot, Sequence sequence, Rank root) {
    if (slot.engaged) {
        if (!is_over(slot, sequence)) return nullptr;
        recycle(slot);
    }
    slot.engaged = true;
    slot.sequence = sequence;
    slot.root = root;
    return &slot;
}

void Broadcasts::recycle(Slot& slot) {
    if (slot.kept != 0) slot.kept_from.release(slot.kept);
    slot.engaged = slot.consumed = slot.confirmed = slot.has_payload = false;
    slot.verdict_shown = slot.in_place = slot.notices_sent = false;
    slot.length = slot.described = 0;
    slot.payload = nullptr;
    slot.kept = 0;
    slot.request = nullptr;
    slot.machine.reset();
    slot.unsent.reset();
    slot.corrections = 0;
    slot.next_correction_ns = 0;
}

std::byte* Broadcasts::line_of(Sequence sequence) {
    if (publishing_) return board_->line_memory(sequence);
    return private_lines_.data() + (sequence.value & (window_.size() - 1)) * transport::kMaxPayload;
}

// Copies a payload to this rank's own line and, where ranks share the host, publishes it. Most are short and for messages: that calls
// nothing, so it needs no frame.
void Broadcasts::stage(Slot& slot, const std::byte* from, std::size_t bytes) {
    if (publishing_ || slot.described != 0 || !is_few(bytes)) return stage_any(slot, from, bytes);
    std::byte* const line = line_of(slot.sequence);
    copy_few(line, from, bytes);
    note_staged(slot, line, bytes);
}

[[gnu::noinline]] void Broadcasts::stage_any(Slot& slot, const std::byte* from, std::size_t bytes) {
    std::byte* const line = line_of(slot.sequence);
    note_staged(slot, line, bytes);
    if (publishing_) {
        board_->publish_copy(
            slot.sequence, std::span(from, bytes), slot.root.value,
            static_cast<std::uint32_t>(slot.described != 0 ? LineKind::descriptor : LineKind::payload));
    } else {
        copy_few(line, from, bytes);
    }
    if (slot.described != 0) payloads_.learn(slot.sequence, slot.root, {slot.payload, slot.length});
}

// Of a payload that goes in chunks: what is broadcast is its descriptor.
Result<void> Broadcasts::hold_root_payload(Slot& slot, const BroadcastCall& call) {
    if (!payloads_.goes_in_chunks(call.bytes)) return {};
    if (call.bytes >= kLeastLookedAt && !may_read({call.buffer, call.bytes}))
        return fail(COPPICE_ERR_INVALID_ARGUMENT, "the {} bytes at {} can't be read: is all of the buffer mapped?",
                    call.bytes, fmt::ptr(call.buffer));
    const auto held = payloads_.hold(slot.sequence, {call.buffer, call.bytes});
    if (!held) return tl::unexpected(held.error());
    slot.described = kDescribed;
    stage(slot, held->as_bytes().data(), sizeof *held);
    return {};
}

void Broadcasts::take_root_payload(Slot& slot, const BroadcastCall& call) {
    // Registered memory goes out as it is, and is copied for later service behind its back; where ranks of the host
    // read a published line, that line is the transfer itself.
    const bool is_staged = slot.described != 0;
    const std::byte* in_place = publishing_ || call.view || is_staged ? nullptr : registered(call.buffer, call.bytes);
    if (in_place != nullptr) {
        slot.payload = in_place;
        slot.in_place = true;
        slot.length = static_cast<std::uint32_t>(call.bytes);
        slot.has_payload = true;
    } else if (!is_staged) {
        stage(slot, call.buffer, call.bytes);
    }
    if (!members_.single_node()) {
        ensure_machine(slot);
        if (call.blocking && !is_staged) {
            pump_in_stream([&] {
                pump(slot);
                return !slot.unsent;
            });
        } else {
            pump(slot);
        }
        if (is_staged) fill(slot, call);
        settle(slot);
    } else {
        if (is_staged) fill(slot, call);
        deliver(slot);
    }
}

// All ranks of the host know of the payload, and other hosts may: they take what is there while the rest is copied.
void Broadcasts::fill(const Slot& slot, const BroadcastCall& call) {
    const Sequence sequence = slot.sequence;
    while (!payloads_.fill(sequence, {call.buffer, call.bytes})) {
        if (!members_.single_node()) core_.progress();
    }
}

// What went out from the caller's registered memory is copied before the caller gets it back, to serve others from; where a
// transport still refers to it, as soon as it does not.
void Broadcasts::stage_what_is_in_place(Slot& slot) {
    if (!slot.in_place || slot.in_flight > 0) return;
    slot.in_place = false;
    stage(slot, slot.payload, slot.length);
}

// --------------------------------------------------------------------------------------------- as a component ---

void Broadcasts::progress(bool /*thorough*/) {
    has_more_to_copy_ = false;
    if (life_.revoked()) {
        for (Slot& slot : slots_)
            if (slot.in_flight == 0) slot.in_place = false;  // the caller's memory has been let go of
        return;
    }
    if (publishing_) look_for_lines();
    if (!members_.single_node()) {
        if (!pending_.empty()) take_pending();
        if (!active_.empty()) pump_active();
    }
    if (!lost_roots_.empty()) membership_.learn_failures(std::exchange(lost_roots_, {}));
    if (std::exchange(told_of_a_death_, false)) membership_.read_failure_logs();
    if (roots_.found() != nullptr) revocation_.begin();
}

void Broadcasts::keep_house() {
    if (life_.revoked()) return;
    if (publishing_ && ++houses_ % kHousesPerDoubt == 0) {
        look_for_other_roots();
        compare_roots();
    }
    do_without_the_departed();
}

void Broadcasts::compare_own_roots() {
    if (!life_.revoked() && roots_.own_differ()) revocation_.begin();
}

void Broadcasts::compare_roots() {
    if (!life_.revoked() && roots_.differ()) revocation_.begin();
}

std::optional<Error> Broadcasts::reason_to_revoke() {
    if (publishing_) roots_.hear();
    return roots_.error();
}

// Messages that a transport did not take, and machines that wait for nothing but time.
bool Broadcasts::waits_for_room() const {
    if (has_more_to_copy_) return true;
    return std::ranges::any_of(active_, [this](const Slot* slot) {
        if (!slot->engaged || !slot->machine) return false;
        const bool timed = (plan_.is_paced || plan_.is_timed) && !slot->machine.finished();
        return slot->unsent.has_value() || timed;
    });
}

void Broadcasts::end_all(coppice_status_t status, const std::string& why) {
    next_look_ = Sequence(0);
    pending_.clear();
    for_leader_.clear();
    for (Slot& slot : slots_) {
        if (slot.request != nullptr) complete(slot, status, fmt::format("broadcast {}: {}", slot.sequence.value, why));
    }
}

bool Broadcasts::drained() {
    if (!window_.all_consumed() || !window_.is_settled()) return false;
    if (publishing_ && roots_.differ_at_the_end()) revocation_.begin();
    return !life_.revoked();  // else the others are to be told of it first
}

bool Broadcasts::quiet() const {
    return std::ranges::all_of(slots_, [](const Slot& slot) { return slot.in_flight == 0; });
}

std::string Broadcasts::waiting_for(const Request& request) const {
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
    if (slot.engaged && slot.sequence == request.sequence && slot.described != 0) {
        if (const std::string pull = payloads_.waiting_for(slot.sequence); !pull.empty()) text += "; " + pull;
    }
    for (const auto& wire : router_.wires()) {
        if (wire->last_error().empty()) continue;
        text += fmt::format("; last trouble of {}: {}", wire->capabilities().name, wire->last_error());
    }
    return text;
}

void Broadcasts::show_waits(const Request& request, status::Waits& waits) const {
    const Slot& slot = slot_of(request.sequence);
    const std::uint64_t number = request.sequence.value;
    const bool is_here = slot.engaged && slot.sequence == request.sequence;
    if (is_here && slot.unsent) {
        const auto to = members_.leader_for(members_.node_at(slot.unsent->to, slot.root), slot.root);
        if (to) waits.add(to->value, status::Why::transport, number);
    }
    if (is_here && slot.described != 0) {
        if (const auto source = payloads_.source(slot.sequence)) waits.add(source->value, status::Why::chunks, number);
    }
    if (request.root == members_.self() || (is_here && slot.has_payload)) return;
    const auto leader = members_.leader_for(members_.own_node(), request.root);
    if (publishing_ && leader && *leader != members_.self()) {
        waits.add(leader->value, *leader == request.root ? status::Why::payload : status::Why::leader, number);
    } else {
        waits.add(parent_for(request.root).value, status::Why::payload, number);
    }
}

// The rank from which this one, which speaks for its node, gets the payload while nobody fails: where that is not known, the
// root, from which it comes in the end.
Rank Broadcasts::parent_for(Rank root) const {
    if (!plan_.is_tree() || plan_.broadcast.gossip.rounds != 0) return root;
    const auto parent = plan_.tree().parent(members_.position_of(members_.own_node(), root));
    if (!parent) return root;
    return members_.leader_for(members_.node_at(*parent, root), root).value_or(root);
}

// ------------------------------------------------------------------------------------------------------ memory ---

std::span<const std::byte> Broadcasts::own_lines() const {
    if (!publishing_) return private_lines_;
    const std::byte* const begin = board_->line_memory(Sequence(0));
    const std::byte* const last = board_->line_memory(Sequence(window_.size() - 1));
    return {begin, static_cast<std::size_t>(last - begin) + transport::kMaxPayload};
}

const std::byte* Broadcasts::registered(const std::byte* buffer, std::size_t bytes) const {
    for (const Range& range : registered_) {
        if (buffer >= range.address && buffer + bytes <= range.address + range.bytes) return buffer;
    }
    return nullptr;
}

Result<void> Broadcasts::register_memory(const std::byte* address, std::size_t bytes) {
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

Result<void> Broadcasts::deregister_memory(const std::byte* address) {
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
