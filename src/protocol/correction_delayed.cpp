// Delayed correction (PPoPP'19 §3.3): the fewest messages while nobody is dead, one per member, at the price of a wait
// for each gap.
//
// The intuition: a member that takes part sends one message to the left, and then it is its right neighbour's turn to
// do the same. If nothing comes from the right for the length of the delay, there may be a gap: the member sends to the
// right, one step, two steps, …, until it hears from there. A member that takes part and hears from the left answers at
// once, which stops the sender. So each gap is closed by the member on its left.
//
// The delay is no failure detector: too short, it costs messages; too long, time; nothing else depends on it. A member
// that is colored by a correction takes no part, neither sends nor answers; the one that colored it passes over it. It
// answers when it comes to take part after all.
//
// Departures:
//  - A member that was sent the message to the left already is not answered once more: that message stops it, too.
//  - The message to the left goes to the nearest member not known to have failed. When that one fails, it goes to the
//    next.
//  - When the member at which a sender stopped has failed the sender goes on to the right at once; no more delay.
//  - When the root has failed everybody colored takes part.
#include <bit>

#include "protocol/broadcast.hpp"
#include "topology/ring.hpp"

namespace coppice::protocol {

using topology::left_neighbour;
using topology::right_neighbour;

std::optional<Message> Broadcast::next_delayed(Nanoseconds now) {
    if (const auto next = next_to_left(now)) return next;
    if (const auto next = next_stop()) return next;
    const bool is_alone = nearest_right() == 0;
    // From the message to the left on the delay lasts as long as wake_ is set.
    if (is_alone && wake_ != kNever) return std::nullopt;
    wake_ = kNever;
    while (right_ < processes() - 1 && (is_alone || right_ < turn_)) {
        const Position target = right_neighbour(Position{self_}, ++right_, processes());
        if (!failed(target)) return message(MessageKind::correction_right, target, 0);
    }
    return std::nullopt;
}

std::optional<Message> Broadcast::next_to_left(Nanoseconds now) {
    const Position self{self_};
    while (left_ < processes() - 1 && (left_ == 0 || failed(left_neighbour(self, left_, processes())))) {
        if (left_ == 0) wake_ = Nanoseconds{now.value + plan_->correction.delay.value};
        const Position target = left_neighbour(self, ++left_, processes());
        if (failed(target)) continue;
        if (left_ <= kRemembered) answered_ |= std::uint64_t{1} << (left_ - 1);
        return message(MessageKind::correction_left, target, 0);
    }
    return std::nullopt;
}

// The answer to a member on the left that sends to the right.
std::optional<Message> Broadcast::next_stop() {
    const std::uint64_t owed = heard_left_ & ~answered_;
    std::uint32_t offset = equal_left_;
    if (owed != 0) {
        offset = static_cast<std::uint32_t>(std::countr_zero(owed)) + 1;
        answered_ |= owed & -owed;
    } else {
        equal_left_ = 0;
    }
    if (offset == 0) return std::nullopt;
    return message(MessageKind::correction_left, left_neighbour(Position{self_}, offset, processes()), 0);
}

void Broadcast::owe_stop(Position to) {
    const std::uint32_t offset = topology::distance_left(Position{self_}, to, processes());
    if (offset == left_) return;  // it was sent the message to the left
    if (offset <= kRemembered) {
        answered_ &= ~(std::uint64_t{1} << (offset - 1));
    } else {
        // One at a time is enough: a sender that is not stopped here will be farther on.
        equal_left_ = offset;
    }
}

// What was sent on the ring may be lost.
void Broadcast::forget_sends() {
    if (plan_->correction.kind == CorrectionKind::delayed) {
        if (turn_ < right_) turn_ = right_;
        answered_ = 0;
    }
    left_ = 0;
    right_ = 0;
}

}  // namespace coppice::protocol
