// What all corrections share: when they start, and the memory of the members heard from, and from which side.
//
// A correction message that travels to the right comes from somebody on the left. Offsets up to 64 are remembered one
// by one, so that when the nearest sender dies the next nearest takes its place; of those farther off only the nearest.
// That memory serves two ends: checked and delayed correction stop at the nearest sender (a promise that this one goes
// on from there), and opportunistic correction does not send to a member that has spoken (proof that it has the
// payload).
#include <algorithm>
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

Nanoseconds dissemination_end(const topology::Tree& tree, std::uint64_t latency, std::uint64_t overhead) {
    // Parents stand before their children.
    std::vector<std::uint64_t> colored_at(tree.processes(), 0);
    std::uint64_t end = 0;
    for (std::uint32_t position = 0; position < tree.processes(); ++position) {
        const std::uint32_t children = tree.child_count(Position{position});
        for (std::uint32_t index = 0; index < children; ++index) {
            const std::uint64_t at = colored_at[position] + (index + 2) * overhead + latency;
            colored_at[tree.child(Position{position}, index).value] = at;
            end = std::max(end, at);
        }
    }
    return Nanoseconds{end};
}

std::optional<Message> Broadcast::next_correction(Nanoseconds now) {
    if (!takes_part()) return std::nullopt;
    if (plan_->correction.synchronized && now < plan_->correction_start) {
        wake_ = plan_->correction_start;
        return std::nullopt;
    }
    switch (plan_->correction.kind) {
        case CorrectionKind::checked:
            return next_checked();
        case CorrectionKind::delayed:
            return next_delayed(now);
        case CorrectionKind::failure_proof:
            return std::nullopt;  // its owner's
        default:
            return next_opportunistic();
    }
}

void Broadcast::hear(MessageKind kind, Position from) {
    if (plan_->correction.kind == CorrectionKind::failure_proof) return;
    const bool from_left = kind == MessageKind::correction_right;
    const Position self{self_};
    const std::uint32_t offset = from_left ? topology::distance_left(self, from, processes())
                                           : topology::distance_right(self, from, processes());
    if (offset <= kRemembered) {
        (from_left ? heard_left_ : heard_right_) |= bit(offset);
        return;
    }
    if (plan_->correction.kind != CorrectionKind::checked && plan_->correction.kind != CorrectionKind::delayed) return;
    std::uint32_t& far = from_left ? relied_left_ : relied_right_;
    if (far == 0 || offset < far) far = offset;
}

// Somebody that has the payload and did not say so by a correction message: nobody to rely on, only nobody to send to.
void Broadcast::remember_as_colored(Position position) {
    switch (plan_->correction.kind) {
        case CorrectionKind::opportunistic:
        case CorrectionKind::opportunistic_paper:
        case CorrectionKind::optimized_opportunistic:
        case CorrectionKind::optimized_paper:
            break;
        default:
            return;
    }
    const std::uint32_t offset = topology::distance_left(Position{self_}, position, processes());
    if (offset <= kRemembered) heard_left_ |= bit(offset);
    const std::uint32_t other = processes() - offset;
    if (other <= kRemembered) heard_right_ |= bit(other);
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
    const bool heard = was_heard(left);
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
