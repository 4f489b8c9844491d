// One broadcast at one member: what comes in, and in which order things go out.
//
// A member that is colored sends the payload down the tree, children in send order, and only then takes part in the
// correction. Overlapped (PPoPP'19 §3.3), correction starts at each member as soon as its tree messages are out, and it
// makes no difference to a member's children whether its parent or a neighbour colored it. Synchronized, it starts
// everywhere at one time, and a member colored by it sends nothing.
//
// Beyond the paper: members that are known to have failed are not sent to; a failure notice lets the members that
// relied on the dead one go on as if it had never spoken (forget()); and since each member goes on until it has served
// its nearest live neighbours, one live colored member is enough for all live members to get the payload once failures
// are known (docs/corrections.md has the proof). Synchronized correction needs no synchronized clocks: a tree message
// that comes after a correction makes its receiver a member colored by the tree after all.
//
// Gossip may take the place of the tree; then a member draws its targets, one for each round. What the proofs say of
// the tree they say of nobody but the root: it starts, and takes part. So with gossip everything is promised that is
// promised with a tree, and known failures or not, no death can cut anybody off from the dissemination.
#include "protocol/broadcast.hpp"

#include "topology/ring.hpp"

namespace coppice::protocol {

using topology::to_member;

bool Broadcast::is_in_failed(Position position) const {
    return failed_->contains(to_member(position, root_member_, processes()));
}

bool Broadcast::takes_part_when_reached_late() const {
    if (self_ == 0 || root_dead_) return true;
    switch (plan_->correction.kind) {
        case CorrectionKind::checked:
        case CorrectionKind::delayed:
        case CorrectionKind::failure_proof:
            return false;
        default:
            // Gossip leaves gaps of any length, without a single death.
            return !plan_->correction.synchronized || gossips() || !failed_->empty();
    }
}

// ---------------------------------------------------------------------------------------------------- events ---

bool Broadcast::receive_any(const Message& message) {
    if (message.detail != 0 && message.kind <= MessageKind::acknowledgement && !takes_turns()) return false;
    switch (message.kind) {
        case MessageKind::tree:
            return receive_tree(message);
        case MessageKind::correction_left:
        case MessageKind::correction_right:
            return receive_correction(message);
        case MessageKind::rescue:
            return receive_rescue(message);
        case MessageKind::acknowledgement:
            return receive_acknowledgement(message);
        case MessageKind::query:
            return receive_query(message);
        case MessageKind::denial:
            return receive_denial(message);
        case MessageKind::verdict:
            return receive_verdict(message);
        case MessageKind::gossip:
            return receive_gossip(message);
    }
    return false;
}

bool Broadcast::receive_tree(const Message& message) {
    if (gossips()) return false;
    if (!plan_->tree.is_parent(message.from, Position{self_})) return false;
    if (given_up_ != BroadcastResult::pending) return false;
    if (plan_->correction.kind == CorrectionKind::acknowledged) {
        ack_due_ = true;
        idle_ = false;
    }
    const bool comes_late = plan_->correction.synchronized && color_ == Color::by_correction;
    if (color_ == Color::uncolored || comes_late) color(Color::by_tree);
    remember_as_colored(message.from);
    return true;
}

bool Broadcast::receive_gossip(const Message& message) {
    if (!gossips() || message.detail == 0 || message.detail > children_) return false;
    if (given_up_ != BroadcastResult::pending) return false;
    if (color_ == Color::uncolored || color_ == Color::by_correction) {
        color(Color::by_tree);
        const std::uint32_t left = children_ - message.detail;
        child_ = plan_->gossip.hop < left ? message.detail + plan_->gossip.hop : children_;
    } else if (message.detail == children_) {
        child_ = children_;
    }
    remember_as_colored(message.from);
    return true;
}

bool Broadcast::receive_correction(const Message& message) {
    if (!has_correction() || given_up_ != BroadcastResult::pending) return false;
    if (plan_->correction.one_directional && message.kind == MessageKind::correction_left) return false;
    if (message.detail > kMaxProcesses) return false;
    rely(message.kind, message.from, message.detail);
    hear(message.kind, message.from);
    if (color_ == Color::uncolored) color(Color::by_correction);
    if (plan_->correction.kind == CorrectionKind::delayed) {
        if (message.kind == MessageKind::correction_right) owe_stop(message.from);
        idle_ = false;
    }
    return true;
}

bool Broadcast::receive_rescue(const Message& message) {
    // Only a coordinator asks, and nobody else is answered: but a process that stands in for one may not know
    // yet why. The payload is as good.
    if (!has_correction() || given_up_ != BroadcastResult::pending) return false;
    if (color_ == Color::uncolored) color(Color::by_rescue);
    remember_as_colored(message.from);
    return true;
}

bool Broadcast::receive_acknowledgement(const Message& message) {
    if (plan_->correction.kind != CorrectionKind::acknowledged || color_ == Color::uncolored) return false;
    if (plan_->tree.parent(message.from) != Position{self_}) return false;
    for (std::uint32_t index = first_awaited_; index < children_ && index - first_awaited_ < kAwaited; ++index) {
        if (plan_->tree.child(Position{self_}, index) != message.from) continue;
        answered_ |= std::uint64_t{1} << (index - first_awaited_);
        pass_acknowledged();
        return true;
    }
    return true;  // once more, or from before this process stood in for another
}

// Passes all children that have acknowledged, or failed.
void Broadcast::pass_acknowledged() {
    const Position self{self_};
    while (first_awaited_ < children_ && ((answered_ & 1) != 0 || failed(plan_->tree.child(self, first_awaited_)))) {
        answered_ >>= 1;
        ++first_awaited_;
    }
    if (child_ < first_awaited_) child_ = first_awaited_;
    idle_ = false;
}

void Broadcast::color(Color how) {
    if (color_ == Color::uncolored) answered_ = 0;
    if (gossips()) child_ = children_;
    color_ = how;
    idle_ = false;
}

void Broadcast::peer_failed(Position position) {
    if (position.value >= processes() || position.value == self_) return;
    idle_ = false;
    learn_of_failures();
    forget(position);
    if (plan_->correction.kind == CorrectionKind::acknowledged && colored()) pass_acknowledged();
}

void Broadcast::peer_restarted(Position position) {
    if (position.value >= processes() || position.value == self_) return;
    idle_ = false;
    if (color_ == Color::uncolored) {
        // Queries, or the verdict, may be lost with the dead process.
        if (given_up_ != BroadcastResult::pending) child_ = 0;
        if (is_asking()) {
            ask_next_ = first_awaited_;
        } else if (given_up_ != BroadcastResult::pending) {
            ask_next_ = self_ + 1;
        }
        return;
    }
    const Position self{self_};
    const bool is_child = is_child_of(position, self);
    const bool in_range = topology::distance_right(self, position, processes()) <= right_ ||
                          topology::distance_left(self, position, processes()) <= left_;
    if (!is_child && !in_range) return;
    if (!gossips()) child_ = plan_->correction.kind == CorrectionKind::acknowledged ? first_awaited_ : 0;
    forget_sends();
}

// ----------------------------------------------------------------------------------------------------- sends ---

std::optional<Message> Broadcast::next_of_all(Nanoseconds now) {
    if (wake_ <= now) {
        wake_ = kNever;
        idle_ = false;
    }
    if (reply_due_) {
        if (const std::optional<Message> reply = next_reply()) return reply;
    }
    if (color_ != Color::uncolored) {
        if (disseminates()) {
            if (const std::optional<Message> next = next_tree()) return next;
        }
        if (ack_due_) {
            if (const std::optional<Message> acknowledgement = next_acknowledgement()) return acknowledgement;
        }
        if (has_correction()) {
            if (const std::optional<Message> correction = next_correction(now)) return correction;
        }
    } else if (is_asking()) {
        if (const std::optional<Message> query = next_query()) return query;
    }
    if (given_up_ != BroadcastResult::pending) {
        if (const std::optional<Message> verdict = next_verdict()) return verdict;
    }
    idle_ = true;
    return std::nullopt;
}

std::optional<Message> Broadcast::next_tree() {
    if (gossips()) return next_gossip();
    const Position self{self_};
    const bool acknowledged = plan_->correction.kind == CorrectionKind::acknowledged;
    while (child_ < children_) {
        if (acknowledged) {
            if (child_ - first_awaited_ == kAwaited) break;
            if ((answered_ >> (child_ - first_awaited_) & 1) != 0) {
                ++child_;
                continue;
            }
        }
        const Position child = plan_->tree.child(self, child_++);
        if (!failed(child)) return message(MessageKind::tree, child, 0);
    }
    if (acknowledged) pass_acknowledged();
    return std::nullopt;
}

// A drawn member that is known to have failed is drawn again, but not for ever.
std::optional<Message> Broadcast::next_gossip() {
    constexpr int kDraws = 8;
    while (child_ < children_ && processes() > 1) {
        ++child_;
        for (int i = 0; i < kDraws; ++i) {
            const std::uint32_t other = chance_.below(processes() - 1);
            const Position target{other < self_ ? other : other + 1};
            if (!failed(target)) return message(MessageKind::gossip, target, child_);
        }
    }
    return std::nullopt;
}

std::optional<Message> Broadcast::next_acknowledgement() {
    if (first_awaited_ < children_) return std::nullopt;
    ack_due_ = false;
    const std::optional<Position> parent = plan_->tree.parent(Position{self_});
    if (!parent || failed(*parent)) return std::nullopt;
    return message(MessageKind::acknowledgement, *parent, 0);
}

}  // namespace coppice::protocol
