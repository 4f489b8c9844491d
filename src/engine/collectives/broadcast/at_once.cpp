// Blocking calls that need not wait, where broadcasts go by messages.
//
// What is different from start(), wait and complete(): there is no request, and of the progress that a wait makes only what
// brings messages in and relays them. The slot stays as they would leave it, for late messages and for the dead to come.
#include "engine/collectives/broadcast/at_once.hpp"

#include <algorithm>

#include "base/copy.hpp"

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
    const Sequence sequence = window_.next();
    if (core_.has_news()) core_.attend_to_news();
    if (!nothing_has_happened(sequence) || root.value >= members_.ranks()) return false;
    if (board_ != nullptr && board_->fenced()) return false;
    if (root == members_.self()) {
        if (bytes > transport::kMaxPayload || !send_at_once(sequence, {buffer, bytes})) return false;
        if (received != nullptr) *received = bytes;
    } else {
        const Slot* const slot = find_arrived(sequence);
        if (slot == nullptr || slot->root != root || slot->length > bytes) return false;
        copy_few(buffer, slot->payload, slot->length);
        if (received != nullptr) *received = slot->length;
    }
    slot_of(sequence).consumed = true;
    window_.note_started();
    window_.consume(window_.next());
    return true;
}

// No death is known, and this rank takes part in the group as before; nor has a callback used it up.
bool Broadcasts::nothing_has_happened(Sequence next) const {
    return next < next_look_ && window_.next() == next && members_.failed_ranks().empty();
}

// False: there is no room in the window, or a transport has none for all messages. What has left by then is start()'s, which
// goes on from there.
bool Broadcasts::send_at_once(Sequence sequence, std::span<const std::byte> payload) {
    if (!window_.has_known_room() || !registered_.empty()) return false;
    Slot* const slot = engage(sequence, members_.self());
    const SendPlan* const plan = send_plans_.of(members_.self());
    if (slot == nullptr || plan == nullptr || slot->machine || slot->root != members_.self()) return false;
    stage(*slot, payload.data(), payload.size());
    slot->machine.copy_tree(plan->machine);
    if (pump_by_plan(*slot, *slot->machine.tree(), *plan)) return true;
    wake(*slot);
    return false;
}

// The slot of that broadcast, if its payload is here and this rank's part in it is done. New messages are taken in where it is
// not, and what has come of other broadcasts is relayed.
const Slot* Broadcasts::find_arrived(Sequence sequence) {
    const Slot& slot = slot_of(sequence);
    const auto is_here = [&slot, sequence] {
        return slot.engaged && slot.sequence == sequence && slot.has_payload && slot.machine &&
               slot.machine.finished() && !slot.unsent;
    };
    if (is_here()) return &slot;
    core_.take_in();
    if (!active_.empty()) pump_active();
    return nothing_has_happened(sequence) && is_here() ? &slot : nullptr;
}

}  // namespace coppice::engine
