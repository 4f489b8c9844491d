// Opportunistic correction (IPDPS'17 §III.B; PPoPP'19 §3.1) and its optimized form (PPoPP'19 §3.3),
// overlapped.
//
// The intuition: every colored member sends to its d nearest neighbours on each side, right first, outward. A
// gap of up to 2d is covered from its two ends. Nobody waits for anybody.
//
// Plain: a neighbour that has spoken, or to which this member has sent already (as its child), needs nothing, and
// neither do the root and its children: correction stands in for dead members between the root and a target, and there
// is none. Should the root die itself in mid-operation, its failure notice takes that back. So under a star nothing is
// sent at all. The papers' rule sends to all of them (opportunistic_paper).
//
// Optimized: a target may be left to another member that has it in its range and has spoken. As printed,
// both of two neighbours that send to each other at once leave the rest to each other, and neither serves it
// (optimized_paper). What is missing is an order. Ours is: first the member whose turn is lower; of those
// with the same turn the one nearer to the target; of two equally near the one on the target's left. A member
// takes its turn when it sends its first correction: one more than the highest turn it has heard of by then,
// 0 if it has heard nothing. Its messages say it (Message::detail). A member leaves a target only to somebody
// before it in that order; so the first of all that have the target in range serves it, always.
// One-directional: the farther is first, and no turns are needed.
//
// The root and members that stood in with the payload leave nothing to others: those others may already rely
// on what their predecessor said.
//
// Departure: a range reaches the d nearest members *not known to have failed*. So a failure notice in
// mid-operation extends it, and in the end each colored member has served its live neighbours on both sides.
#include <algorithm>

#include "protocol/broadcast.hpp"
#include "topology/ring.hpp"

namespace coppice::protocol {
namespace {

// Failed members among the `count` members from `first` on, ascending with wrap-around.
std::uint32_t failed_among(const FailedSet& failed, std::uint32_t first, std::uint32_t count, std::uint32_t processes) {
    const auto in_span = [&failed](std::uint32_t from, std::uint32_t to) {  // [from, to)
        std::uint32_t sum = 0;
        const auto intervals = failed.intervals();
        auto i = std::partition_point(intervals.begin(), intervals.end(),
                                      [from](const FailedSet::Interval& interval) { return interval.last < from; });
        for (; i != intervals.end() && i->first < to; ++i) {
            sum += std::min(i->last + 1, to) - std::max(i->first, from);
        }
        return sum;
    };
    if (first + count <= processes) return in_span(first, first + count);
    return in_span(first, processes) + in_span(0, first + count - processes);
}

}  // namespace

// Whether the range on that side, which covers right_ or left_ positions, is to go farther.
bool Broadcast::is_open_to_right() const {
    if (right_ < plan_->correction.distance) return true;
    if (failed_->empty()) return false;
    return is_open_beyond(topology::right_neighbour(Position{self_}, 1, processes()), right_);
}

bool Broadcast::is_open_to_left() const {
    if (left_ < plan_->correction.distance) return true;
    if (failed_->empty()) return false;
    return is_open_beyond(topology::left_neighbour(Position{self_}, left_, processes()), left_);
}

bool Broadcast::is_open_beyond(Position first, std::uint32_t count) const {
    const std::uint32_t first_member = topology::to_member(first, root_member_, processes());
    return count - failed_among(*failed_, first_member, count, processes()) < plan_->correction.distance;
}

std::optional<Message> Broadcast::next_opportunistic() {
    const std::uint32_t p = processes();
    const Position self{self_};
    while (left_ + right_ < p - 1) {
        const bool right_open = is_open_to_right();
        const bool left_open = !plan_->correction.one_directional && is_open_to_left();
        if (!right_open && !left_open) return std::nullopt;
        const bool to_right = right_open && (!left_open || right_ <= left_);
        const Position target =
            to_right ? topology::right_neighbour(self, ++right_, p) : topology::left_neighbour(self, ++left_, p);
        if (failed(target) || needless(target, to_right ? p - right_ : left_)) continue;
        took_turn_ = true;
        return message(to_right ? MessageKind::correction_right : MessageKind::correction_left, target,
                       takes_turns() ? turn_ : 0);
    }
    return std::nullopt;
}

// `left`: how far to the left it is.
bool Broadcast::needless(Position target, std::uint32_t left) const {
    switch (plan_->correction.kind) {
        case CorrectionKind::opportunistic_paper:
            return false;
        case CorrectionKind::optimized_paper:
            return relies_on_others_for(target);
        default:
            break;
    }
    if (was_heard(left) || served_by_root(target)) return true;
    if (target.value > self_ && child_ > 0 && is_child_of(target, Position{self_})) return true;
    return plan_->correction.kind == CorrectionKind::optimized_opportunistic && relies_on_others_for(target);
}

// A correction message from `from`: may this member leave something to it?
void Broadcast::rely(MessageKind kind, Position from, std::uint32_t turn) {
    const CorrectionKind rule = plan_->correction.kind;
    if (rule != CorrectionKind::optimized_opportunistic && rule != CorrectionKind::optimized_paper) return;
    const Position self{self_};
    const bool from_left = kind == MessageKind::correction_right;
    const std::uint32_t offset = from_left ? topology::distance_left(self, from, processes())
                                           : topology::distance_right(self, from, processes());
    // Only on those whose failure would be recognised as one that matters.
    if (offset > kRemembered && rule == CorrectionKind::optimized_opportunistic) return;
    const auto keep_nearest = [offset](std::uint32_t& nearest) {
        if (nearest == 0 || offset < nearest) nearest = offset;
    };
    if (!takes_turns()) {
        keep_nearest(from_left ? relied_left_ : relied_right_);
        return;
    }
    if (color_ == Color::from_start) return;
    if (!took_turn_) {
        if (turn >= turn_) turn_ = turn + 1;
        keep_nearest(from_left ? relied_left_ : relied_right_);
    } else if (turn < turn_) {
        keep_nearest(from_left ? relied_left_ : relied_right_);
    } else if (turn == turn_) {
        keep_nearest(from_left ? equal_left_ : equal_right_);
    }
}

bool Broadcast::relies_on_others_for(Position target) const {
    const std::uint32_t p = processes();
    const std::uint32_t distance = plan_->correction.distance;
    const Position self{self_};
    if (plan_->correction.one_directional) {
        return relied_left_ != 0 && relied_left_ + topology::distance_right(self, target, p) <= distance;
    }
    const auto reach = [&](Position from) { return topology::ring_distance(from, target, p); };
    if (relied_left_ != 0 && reach(topology::left_neighbour(self, relied_left_, p)) <= distance) return true;
    if (relied_right_ != 0 && reach(topology::right_neighbour(self, relied_right_, p)) <= distance) return true;
    if (equal_left_ == 0 && equal_right_ == 0) return false;

    const std::uint32_t own = reach(self);
    const bool self_is_left = topology::distance_right(self, target, p) == own;
    const auto is_before_self = [&](Position other) {
        const std::uint32_t others = reach(other);
        return others <= distance && (others < own || (others == own && !self_is_left));
    };
    return (equal_left_ != 0 && is_before_self(topology::left_neighbour(self, equal_left_, p))) ||
           (equal_right_ != 0 && is_before_self(topology::right_neighbour(self, equal_right_, p)));
}

}  // namespace coppice::protocol
