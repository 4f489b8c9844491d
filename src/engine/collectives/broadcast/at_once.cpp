// Blocking calls that need not wait, where broadcasts go by messages.
//
// What is different from start(), wait and complete(): there is no request, and of the progress that a wait makes only what
// brings messages in and relays them. The slot stays as they would leave it, for late messages and for the dead to come.
#include "engine/collectives/broadcast/at_once.hpp"

#include <algorithm>

#include "base/copy.hpp"
#include "engine/collectives/broadcast/pump_in_stream.hpp"

namespace coppice::engine {

// For at_once(), which has it not done by each start().
bool Broadcasts::look_for_news() {
    if (!goes_at_once_ || core_.starts_without_a_look() == 0) return false;
    if (publishing_ && roots_.is_due()) compare_own_roots();
    core_.look_for_news();
    const std::uint32_t more = core_.starts_without_a_look();
    if (more == 0) return false;
    next_look_ = Sequence(window_.next().value + more + 1);
    if (publishing_) next_look_ = std::min(roots_.due(), next_look_);
    return true;
}

bool Broadcasts::at_once_by_messages(std::byte* buffer, std::size_t bytes, Rank root, std::size_t* received) {
    if (core_.has_news()) [[unlikely]]
        core_.attend_to_news(!payloads_.none());
    if (!nothing_has_happened(window_.next()) || root.value >= members_.ranks()) return false;
    if (board_ != nullptr && board_->fenced()) return false;
    return root == members_.self() ? send_at_once({buffer, bytes}, received)
                                   : take_at_once({buffer, bytes}, root, received);
}

// No death is known, and this rank takes part in the group as before; nor has a callback used it up.
bool Broadcasts::nothing_has_happened(Sequence next) const {
    return next < next_look_ && window_.next() == next && members_.failed_ranks().empty();
}

// A root that never waits takes nothing in, so what is stable may be here already.
bool Broadcasts::room_has_come() {
    const Sequence sequence = window_.next();
    core_.take_in(!payloads_.none());
    if (!active_.empty()) pump_active();
    return window_.has_known_room() && nothing_has_happened(sequence);
}

// False: there is no room in the window, or a transport has none for all messages. What has left by then is start()'s, which
// goes on from there.
bool Broadcasts::send_at_once(std::span<const std::byte> payload, std::size_t* received) {
    if (!window_.has_known_room() && !room_has_come()) return false;
    if (payloads_.goes_in_chunks(payload.size()) || !registered_.empty()) return false;
    const Rank self = members_.self();
    Slot* const slot = engage(window_.next(), self);
    const SendPlan* const plan = send_plans_.of(self);
    if (slot == nullptr || plan == nullptr || slot->machine || slot->root != self) return false;
    stage(*slot, payload.data(), payload.size());
    slot->machine.copy_tree(plan->machine);
    if (!pump_in_stream([&] { return pump_by_plan(*slot, *slot->machine.tree(), *plan); })) {
        wake(*slot);
        return false;
    }
    if (received != nullptr) *received = payload.size();
    end_at_once(*slot);
    return true;
}

// As pump_active(), of which mostly nothing is left but this: one broadcast has come, the one that the caller wants. True: and its
// part is done, and nothing else has happened.
inline bool Broadcasts::pump_what_came(Slot& slot, Sequence sequence) {
    const bool is_alone = active_.size() == 1 && active_.front() == &slot && slot.engaged &&
                          slot.sequence == sequence && slot.has_payload && slot.request == nullptr && !slot.in_place &&
                          !slot.unsent && slot.machine;
    const SendPlan* const plan = is_alone ? send_plans_.find(slot.root) : nullptr;
    protocol::Broadcast* const tree = slot.machine.tree();
    if (plan == nullptr || tree == nullptr || !tree->follows_schedule()) {
        pump_active();
        return false;
    }
    if (!pump_by_plan(slot, *tree, *plan) || !tree->finished()) return false;
    slot.listed = false;
    active_.clear();
    return nothing_has_happened(sequence);
}

// New messages are taken in where the payload is not here, and what has come of other broadcasts is relayed.
bool Broadcasts::take_at_once(std::span<std::byte> buffer, Rank root, std::size_t* received) {
    const Sequence sequence = window_.next();
    Slot& slot = slot_of(sequence);
    if (!has_done_its_part(slot, sequence)) {
        core_.take_in(!payloads_.none());
        const bool is_done = !active_.empty() && pump_what_came(slot, sequence);
        if (!is_done && (!nothing_has_happened(sequence) || !has_done_its_part(slot, sequence))) return false;
    }
    if (slot.root != root || slot.length > buffer.size() || slot.described != 0) return false;
    copy_few(buffer.data(), slot.payload, slot.length);
    if (received != nullptr) *received = slot.length;
    end_at_once(slot);
    return true;
}

void Broadcasts::end_at_once(Slot& slot) {
    slot.consumed = true;
    window_.note_started();
    window_.consume(window_.next());
}

}  // namespace coppice::engine
