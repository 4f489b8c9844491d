// Between the wire and the protocol machines.
#include <algorithm>
#include <cstring>
#include <new>

#include "base/mix.hpp"
#include "engine/collectives/broadcast/broadcasts.hpp"

namespace coppice::engine {
namespace {

// Below this a copy is cheaper than holding on to the buffer in which a payload landed.
constexpr std::size_t kKeepFrom = 512;

// Messages that wait for their slot's memory; more than W per peer can't come from ranks that keep to the window.
constexpr std::size_t kMostPending = 65536;

// For each broadcast of each group.
constexpr std::uint64_t seed_of(std::uint64_t token, std::uint64_t sequence) {
    return mix(token << 32 ^ sequence);
}

}  // namespace

// ---------------------------------------------------------------------------------------------------- receiving ---

// All of these are called last, with what came in: so this one needs no frame of its own.
bool Broadcasts::message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                         transport::Buffer buffer) {
    Slot& slot = slot_of(Sequence(header.sequence));
    if (!slot.engaged || slot.sequence.value != header.sequence) return first_message(from, header, payload, buffer);
    const bool is_for_machine_alone = slot.has_payload && slot.machine && slot.machine.tree() != nullptr;
    if (is_for_machine_alone) return late_message(slot, from, header);
    return any_message(from, header, payload, buffer);
}

// Of a broadcast whose payload is here.
bool Broadcasts::late_message(Slot& slot, Rank from, const WireHeader& header) {
    protocol::Broadcast& tree = *slot.machine.tree();
    const bool is_heard = header.tag.channel == Channel::broadcast && slot.root.value == header.root &&
                          header.sequence - window_.stable() < window_.size() &&
                          tree.receive({static_cast<protocol::MessageKind>(header.tag.kind),
                                        members_.position_of(members_.node_of(from), slot.root),
                                        members_.position_of(members_.own_node(), slot.root), header.detail});
    if (!is_heard) [[unlikely]]
        return any_message(from, header, {}, 0);  // which says why
    slot.confirmed = true;
    // A late correction changes nothing where this rank's part is over.
    if (slot.request != nullptr || !tree.finished()) wake(slot);
    return false;
}

// Of a broadcast that has no slot here. It begins mostly with the same message as the last one of its root: so its machine stands where
// that one's stood.
bool Broadcasts::first_message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                               transport::Buffer buffer) {
    const Sequence sequence(header.sequence);
    Slot& slot = slot_of(sequence);
    const bool has_place = header.sequence - window_.stable() < window_.size() && !publishing_ &&
                           (!slot.engaged || is_over(slot, sequence));
    const SendPlan* const plan = has_place ? send_plans_.begun_by(from, header) : nullptr;
    if (plan == nullptr) return any_message(from, header, payload, buffer);
    if (slot.engaged) recycle(slot);
    slot.engaged = slot.confirmed = true;
    slot.sequence = sequence;
    slot.root = plan->root;
    slot.machine.copy_tree(plan->begun);
    wake(slot);
    if (!carries_payload(header.tag) || !slot.machine.colored()) return false;
    slot.described = header.length & kDescribed;
    if (slot.described != 0 || payload.size() >= kKeepFrom) return take_payload(slot, from, payload, buffer);
    stage(slot, payload.data(), payload.size());
    note_payload(slot, slot.length);
    return false;
}

bool Broadcasts::any_message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                             transport::Buffer buffer) try {
    return protocol_message(from, header, payload, buffer);
} catch (const std::bad_alloc&) {
    news_.note_refused();
    return false;
}

bool Broadcasts::protocol_message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                                  transport::Buffer buffer) {
    if (header.sequence - window_.stable() >= window_.size() || single_node_) [[unlikely]]
        return refuse(header);
    if (publishing_ && !members_.is_leader_for(Rank(header.root))) [[unlikely]]
        return keep_for_leader(from, header, payload);
    Slot* const slot = engage(Sequence(header.sequence), Rank(header.root));
    if (slot == nullptr) [[unlikely]]
        return keep(pending_, from, header, payload);
    if (slot->root.value != header.root && !take_root(*slot, from, header)) [[unlikely]]
        return false;
    slot->confirmed = true;
    const bool begins = !slot->machine && !slot->has_payload && !publishing_;
    ensure_machine(*slot);
    const Envelope envelope{.tag = header.tag,
                            .from = members_.position_of(members_.node_of(from), slot->root),
                            .to = members_.position_of(members_.own_node(), slot->root),
                            .detail = header.detail,
                            .more = header.more};
    if (!slot->machine.receive(plan_, envelope) && !receive_without_root(*slot, envelope)) [[unlikely]] {
        news_.note_garbage();
        return false;
    }
    if (begins) send_plans_.note_first(from, header, slot->machine);
    // A late correction changes nothing where this rank's part is over.
    if (slot->request != nullptr || !slot->machine.finished() || slot->machine.tree() == nullptr) wake(*slot);
    // Nothing leaves before the payload is published: machines are asked for sends between polls only.
    if (slot->has_payload || !carries_payload(header.tag) || !slot->machine.colored()) return false;
    slot->described = header.length & kDescribed;
    return take_payload(*slot, from, payload, buffer);
}

// The sender takes the root for dead, which has left in peace as far as this rank has heard: so it counts as dead here, too.
bool Broadcasts::receive_without_root(Slot& slot, const Envelope& envelope) {
    const auto departed = life_.departed();
    if (members_.failed(slot.root) || std::ranges::find(departed, slot.root) == departed.end()) return false;
    membership_.do_without_the_departed();
    return slot.machine.receive(plan_, envelope);
}

// Late repetitions are nobody's mistake: everybody has it. Returns false, as message() does for what is not kept.
bool Broadcasts::refuse(const WireHeader& header) {
    if (header.sequence >= window_.stable()) news_.note_garbage();
    return false;
}

// The sender takes those for dead that speak for this host. If they are, this rank is about to hear of it. But they may live: what is behind a
// cut looks dead, and what was sent meanwhile arrives when the cut is over. If two ranks spoke for one host, then one could have the payload and
// the other say that it is not here, for both: a verdict stands on that.
bool Broadcasts::keep_for_leader(Rank from, const WireHeader& header, std::span<const std::byte> payload) {
    membership_.do_without_the_departed();
    std::erase_if(for_leader_, [this](const auto& one) { return one.header.sequence < window_.stable(); });
    auto& kept = members_.is_leader_for(Rank(header.root)) ? pending_ : for_leader_;
    return keep(kept, from, header, payload);
}

bool Broadcasts::keep(std::deque<PendingMessage>& kept, Rank from, const WireHeader& header,
                      std::span<const std::byte> payload) {
    if (kept.size() >= kMostPending) {
        news_.note_garbage();
    } else {
        kept.push_back({from, header, {payload.begin(), payload.end()}});
    }
    return false;
}

// A message names another root than this rank has heard of so far. Whether it is the right one.
bool Broadcasts::take_root(Slot& slot, Rank from, const WireHeader& header) {
    if (slot.request != nullptr) {
        complete(slot, COPPICE_ERR_MISMATCH,
                 fmt::format("broadcast {}: this rank names root {}, rank {} names root {}", header.sequence,
                             slot.root.value, from.value, header.root));
    }
    // If nobody but this rank's own caller has named its root so far, then others rely on this rank for theirs.
    if (slot.confirmed || slot.has_payload || slot.root == members_.self()) {
        news_.note_garbage();
        if (slot.has_payload && carries_payload(header.tag))
            (void)roots_.tell({header.sequence, slot.root, Rank(header.root)});
        return false;
    }
    slot.root = Rank(header.root);
    slot.machine.reset();
    slot.unsent.reset();
    slot.corrections = 0;
    slot.notices_sent = false;
    return true;
}

// True: the payload stays where it landed.
// A descriptor takes memory of its own.
bool Broadcasts::take_payload(Slot& slot, Rank from, std::span<const std::byte> payload, transport::Buffer buffer) try {
    const bool keeps = hold_payload(slot, from, payload, buffer);
    if (slot.described == 0) note_payload(slot, slot.length);
    return keeps;
} catch (const std::bad_alloc&) {
    news_.note_refused();
    return false;
}

bool Broadcasts::hold_payload(Slot& slot, Rank from, std::span<const std::byte> payload, transport::Buffer buffer) {
    const bool keep = buffer != 0 && !publishing_ && slot.described == 0 && payload.size() >= kKeepFrom;
    if (keep) {
        slot.payload = payload.data();
        slot.length = static_cast<std::uint32_t>(payload.size());
        slot.has_payload = true;
        slot.kept = buffer;
        slot.kept_from = router_.to(from);
    } else {
        stage(slot, payload.data(), payload.size());
    }
    return keep;
}

void Broadcasts::take_pending() {
    for (std::size_t i = pending_.size(); i > 0; --i) {
        const PendingMessage pending = std::move(pending_.front());
        pending_.pop_front();
        if (members_.failed(pending.from)) continue;
        protocol_message(pending.from, pending.header, pending.payload, 0);
    }
}

// ----------------------------------------------------------------------------------------------------- machines ---

// The machine of a slot for which this rank has to speak. It starts colored if the payload is already here: with this
// rank, or published by another of its host, dead or alive.
void Broadcasts::make_machine(Slot& slot) {
    const bool has_payload = slot.has_payload || adopt_line(slot);
    const SendPlan* const plan = send_plans_.of(slot.root);
    if (plan != nullptr && has_payload == (slot.root == members_.self())) {
        slot.machine.copy_tree(plan->machine);
        return wake(slot);
    }
    slot.machine.emplace(plan_, members_.position_of(members_.own_node(), slot.root), members_.node_of(slot.root).value,
                         members_.failed_nodes(), has_payload, seed_of(around_.id().token, slot.sequence.value));
    if (plan_.is_timed) slot.began_ns = around_.now_ns();
    wake(slot);
    // Publish first: a root of this host that left no line has not told anybody outside either.
    if (!has_payload && members_.node_of(slot.root) == members_.own_node() && members_.failed(slot.root)) {
        slot.machine.origin_lost();
    }
}

bool Broadcasts::adopt_published_line(Slot& slot) {
    transport::PublishedLine line;
    for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
        if (local_peer == members_.self() || !board_->look(local_peer, slot.sequence, line)) continue;
        const auto kind = static_cast<LineKind>(line.detail);
        if ((kind != LineKind::payload && kind != LineKind::descriptor) || line.root != slot.root.value) continue;
        slot.described = kind == LineKind::descriptor ? kDescribed : 0;
        stage(slot, line.payload, line.length);
        return true;
    }
    return false;
}

// One at a time. Checked and failure-proof correction are paced beyond their first two
// messages: they decide on each after what has arrived since the one before, and neighbours need time to speak up.
void Broadcasts::pump_by_asking(Slot& slot) {
    const bool paced = plan_.is_paced;
    WireHeader header = header_of(slot);
    while (true) {
        Envelope next;
        if (slot.unsent) {
            next = *slot.unsent;
        } else {
            const bool wait =
                paced && slot.corrections >= 2 && settings_.correction_gap_ns > 0 && !slot.machine.finished();
            if (wait && around_.now_ns() < slot.next_correction_ns) return;
            const Nanoseconds now(plan_.is_timed ? around_.now_ns() - slot.began_ns : 0);
            const auto pulled = slot.machine.next_send(plan_, now);
            if (!pulled) return;
            next = *pulled;
        }
        if (!send(slot, next, header)) {
            slot.unsent = next;
            return;
        }
        if (paced && is_correction(next.tag)) {
            ++slot.corrections;
            if (slot.corrections >= 2) slot.next_correction_ns = around_.now_ns() + settings_.correction_gap_ns;
        }
        slot.unsent.reset();
        slot.notices_sent = false;
    }
}

// From that message of the schedule on.
bool Broadcasts::send_by_plan(Slot& slot, protocol::Broadcast& machine, const SendPlan& plan, std::uint32_t number) {
    WireHeader header = header_of(slot);
    header.length = slot.length | slot.described;
    const std::span<const std::byte> bytes = bytes_of(header).first(kShortHeader);
    const std::span<const std::byte> payload(slot.payload, slot.length);
    for (; number != protocol::Broadcast::kNothing; number = machine.next_scheduled(plan.schedule)) {
        const SendPlan::Send& send = plan.sends[number];
        if (!send.link) continue;
        header.tag = send.tag;
        const transport::SendStatus status = send.is_write ? send.link.write(bytes, payload, &slot.in_flight)
                                                           : send.link.send(bytes, payload, &slot.in_flight);
        if (status == transport::SendStatus::again) {
            slot.unsent = Envelope{send.tag, {}, plan.schedule.to(number)};
            return false;
        }
        count_sent(status, send.crossing);
    }
    return true;
}

// What all messages of the slot say alike.
WireHeader Broadcasts::header_of(const Slot& slot) const {
    return {.token = around_.id().token,
            .tag = {},
            .sequence = slot.sequence.value,
            .stable = window_.stable(),
            .root = slot.root.value,
            .epoch = around_.id().epoch.value};
}

// `header` has what all messages of the slot say alike. False when the transport has no room: try it again later.
bool Broadcasts::send(Slot& slot, const Envelope& message, WireHeader& header) {
    const auto to = members_.leader_for(members_.node_at(message.to, slot.root), slot.root);
    if (!to) return true;
    const Link link = router_.to(*to);
    if (!link) return true;
    const bool payload = carries_payload(message.tag);
    if (carries_failures(message.tag)) {
        // The verdict about a dead root stands on the receiver knowing what the sender knows.
        if (!slot.notices_sent) {
            for (const Rank dead : members_.failed_ranks())
                controls_.send(*to, {Channel::members, MembersKind::failure_notice}, 0, dead.value);
            slot.notices_sent = true;
        }
        controls_.flush();
        if (controls_.wait_for(*to)) return false;
    }
    header.tag = message.tag;
    header.detail = message.detail;
    header.length = payload ? slot.length | slot.described : 0;
    header.more = message.more;
    const std::span<const std::byte> body(slot.payload, payload ? slot.length : 0);
    const transport::SendStatus status = is_correction(message.tag)
                                             ? link.write(bytes_of(header), body, &slot.in_flight)
                                             : link.send(bytes_of(header), body, &slot.in_flight);
    count_sent(status, crossing_by(link, *to, members_));
    return status != transport::SendStatus::again;
}

// What the machine's state means for the waiting caller and for the other ranks of this host.
void Broadcasts::settle(Slot& slot) {
    const protocol::BroadcastResult result = slot.machine.result();
    if (result == protocol::BroadcastResult::root_failed || result == protocol::BroadcastResult::orphaned) {
        const bool root_failed = result == protocol::BroadcastResult::root_failed;
        if (publishing_ && !slot.verdict_shown) {
            slot.verdict_shown = true;
            board_->publish(slot.sequence, 0, slot.root.value,
                            static_cast<std::uint32_t>(root_failed ? LineKind::root_failed : LineKind::orphaned));
        }
        if (slot.request != nullptr) {
            complete_without_payload(slot, root_failed ? LineKind::root_failed : LineKind::orphaned);
        }
        return;
    }
    if (slot.request != nullptr && slot.has_payload && slot.machine.finished() && !slot.unsent) deliver(slot);
}

// Moves the machines that may have something to say; those that have finished are left alone until something happens.
void Broadcasts::pump_active() {
    // Much of what several have to say is for the same ranks.
    std::optional<Router::Batch> batch;
    if (active_.size() > 1) batch.emplace(router_);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < active_.size(); ++i) {
        Slot& slot = *active_[i];
        if (slot.engaged && slot.machine && slot.sequence.value >= window_.stable()) {
            pump(slot);
            if (slot.request != nullptr || !slot.machine.colored()) settle(slot);
            if (slot.request == nullptr && slot.in_place) stage_what_is_in_place(slot);
            const bool over = slot.machine.finished() && !slot.unsent && slot.request == nullptr && !slot.in_place;
            if (!over) {
                active_[kept++] = &slot;
                continue;
            }
        }
        slot.listed = false;
    }
    active_.resize(kept);
}

}  // namespace coppice::engine
