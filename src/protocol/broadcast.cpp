// One broadcast at one member: what comes in, and in which order things go out.
//
// A member that is colored sends the payload down the tree, children in send order, and only then takes part
// in the correction: overlapped correction (PPoPP'19 §3.3), which starts at each member on its own as soon as
// its tree messages are out. It makes no difference to a member's children who colored it, parent or
// neighbour.
//
// Beyond the paper: members that are known to have failed are not sent to; a failure notice lets whoever
// relied on the dead member go on as if that one had never spoken (forget()); and since each member goes on
// until it has served its nearest live neighbours, one live colored member is enough for all live members to
// get the payload once failures are known (docs/corrections.md has the proof).
#include "protocol/broadcast.hpp"

#include "topology/ring.hpp"

namespace coppice::protocol {

using topology::to_member;

Broadcast::Broadcast(const BroadcastPlan& plan, Position self, std::uint32_t root_member, const FailedSet& failed,
                     bool has_payload)
    : plan_(&plan),
      failed_(&failed),
      self_(self.value),
      root_member_(root_member),
      children_(plan.tree.child_count(self)) {
    if (has_payload) color_ = Color::from_start;
    coordinator_ = self_ == 0;
    if (!failed.empty()) learn_of_failures();
}

bool Broadcast::failed(Position position) const {
    return !failed_->empty() && failed_->contains(to_member(position, root_member_, processes()));
}

bool Broadcast::has_correction() const {
    return plan_->correction.kind != CorrectionKind::none && plan_->correction.kind != CorrectionKind::acknowledged;
}

Message Broadcast::message(MessageKind kind, Position to, std::uint32_t detail) const {
    return Message{kind, Position{self_}, to, detail};
}

// ---------------------------------------------------------------------------------------------------- events
// ---

bool Broadcast::receive(const Message& message) {
    if (message.to.value != self_ || message.from.value == self_) return false;
    if (message.from.value >= processes()) return false;
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
    }
    return false;
}

bool Broadcast::receive_tree(const Message& message) {
    const std::optional<Position> parent = plan_->tree.parent(Position{self_});
    if (!parent || *parent != message.from) return false;
    if (given_up_ != BroadcastResult::pending) return false;
    if (plan_->correction.kind == CorrectionKind::acknowledged) {
        ack_due_ = true;
        idle_ = false;
    }
    if (color_ == Color::uncolored) color(Color::by_tree);
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
    const bool is_child = plan_->tree.parent(position) == self;
    const bool in_range = topology::distance_right(self, position, processes()) <= right_ ||
                          topology::distance_left(self, position, processes()) <= left_;
    if (!is_child && !in_range) return;
    child_ = plan_->correction.kind == CorrectionKind::acknowledged ? first_awaited_ : 0;
    left_ = 0;
    right_ = 0;
}

// ----------------------------------------------------------------------------------------------------- sends
// ---

std::optional<Message> Broadcast::next_send(Nanoseconds /*now*/) {
    if (idle_) return std::nullopt;
    std::optional<Message> next;
    if (reply_due_) next = next_reply();
    if (next) return next;
    if (color_ != Color::uncolored) {
        next = next_tree();
        if (!next && ack_due_) next = next_acknowledgement();
        if (!next && has_correction()) next = next_correction();
    } else if (is_asking()) {
        next = next_query();
    }
    if (!next && given_up_ != BroadcastResult::pending) next = next_verdict();
    idle_ = !next;
    return next;
}

std::optional<Message> Broadcast::next_tree() {
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

std::optional<Message> Broadcast::next_acknowledgement() {
    if (first_awaited_ < children_) return std::nullopt;
    ack_due_ = false;
    const std::optional<Position> parent = plan_->tree.parent(Position{self_});
    if (!parent || failed(*parent)) return std::nullopt;
    return message(MessageKind::acknowledgement, *parent, 0);
}

// ---------------------------------------------------------------------------------------------------- status
// ---

bool Broadcast::colored() const {
    return color_ != Color::uncolored;
}

BroadcastResult Broadcast::result() const {
    return colored() ? BroadcastResult::colored : given_up_;
}

bool Broadcast::finished() const {
    if (!idle_ || result() == BroadcastResult::pending) return false;
    return plan_->correction.kind != CorrectionKind::acknowledged || !colored() || first_awaited_ >= children_;
}

}  // namespace coppice::protocol
