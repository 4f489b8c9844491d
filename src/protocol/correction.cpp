// What all corrections share: the memory of who was heard from, and from which side.
//
// A correction message that travels to the right comes from somebody on the left. Offsets up to 64 are
// remembered one by one, so that when the nearest sender dies the next nearest takes its place; of those
// farther off only the nearest. That memory serves two ends: checked correction stops at the nearest sender
// (a promise that this one goes on from there), and opportunistic correction does not send to whoever has
// spoken (proof that it has the payload).
#include <bit>

#include "protocol/broadcast.hpp"
#include "topology/ring.hpp"

namespace coppice::protocol {
namespace {

constexpr std::uint64_t bit(std::uint32_t offset) {
    return std::uint64_t{1} << (offset - 1);
}

std::uint32_t nearest(std::uint64_t heard, std::uint32_t far) {
    return heard != 0 ? static_cast<std::uint32_t>(std::countr_zero(heard)) + 1 : far;
}

}  // namespace

std::optional<Message> Broadcast::next_correction() {
    return plan_->correction.kind == CorrectionKind::checked ? next_checked() : next_opportunistic();
}

void Broadcast::hear(MessageKind kind, Position from) {
    const bool from_left = kind == MessageKind::correction_right;
    const Position self{self_};
    const std::uint32_t offset = from_left ? topology::distance_left(self, from, processes())
                                           : topology::distance_right(self, from, processes());
    if (offset <= kRemembered) {
        (from_left ? heard_left_ : heard_right_) |= bit(offset);
        return;
    }
    if (plan_->correction.kind != CorrectionKind::checked) return;
    std::uint32_t& far = from_left ? relied_left_ : relied_right_;
    if (far == 0 || offset < far) far = offset;
}

// Somebody that has the payload and did not say so by a correction message: nobody to rely on, only nobody to
// send to.
void Broadcast::remember_as_colored(Position position) {
    if (!has_correction() || plan_->correction.kind == CorrectionKind::checked) return;
    const std::uint32_t offset = topology::distance_left(Position{self_}, position, processes());
    if (offset <= kRemembered) heard_left_ |= bit(offset);
    const std::uint32_t other = processes() - offset;
    if (other <= kRemembered) heard_right_ |= bit(other);
}

bool Broadcast::was_heard(Position position) const {
    const std::uint32_t left = topology::distance_left(Position{self_}, position, processes());
    const std::uint32_t right = processes() - left;
    return (left <= kRemembered && (heard_left_ & bit(left)) != 0) ||
           (right <= kRemembered && (heard_right_ & bit(right)) != 0);
}

std::uint32_t Broadcast::nearest_left() const {
    return nearest(heard_left_, relied_left_);
}
std::uint32_t Broadcast::nearest_right() const {
    return nearest(heard_right_, relied_right_);
}

// `from` has failed: as if it had never spoken.
void Broadcast::forget(Position from) {
    const std::uint32_t left = topology::distance_left(Position{self_}, from, processes());
    const std::uint32_t right = processes() - left;
    const bool heard = was_heard(from);
    if (left <= kRemembered) heard_left_ &= ~bit(left);
    if (right <= kRemembered) heard_right_ &= ~bit(right);
    for (std::uint32_t* offset : {&relied_left_, &equal_left_}) {
        if (*offset == left) *offset = 0;
    }
    for (std::uint32_t* offset : {&relied_right_, &equal_right_}) {
        if (*offset == right) *offset = 0;
    }
    // The optimized rules pass over single targets on somebody's account and do not remember which.
    const CorrectionKind kind = plan_->correction.kind;
    if (heard && (kind == CorrectionKind::optimized_opportunistic || kind == CorrectionKind::optimized_paper)) {
        left_ = 0;
        right_ = 0;
    }
    // So do our opportunistic ones on the root's.
    if (from.value == 0 && (kind == CorrectionKind::opportunistic || kind == CorrectionKind::optimized_opportunistic)) {
        left_ = 0;
        right_ = 0;
    }
}

}  // namespace coppice::protocol
