// What becomes of the members that have nothing when the root is dead. Either a live member has the payload: then all
// get it. Or none has and none ever will: then all are told.
//
// This is ours; the papers assume a live root. The intuition: the lowest live position (the coordinator), if it has
// nothing, asks everybody. A member that has the payload hands it over (rescue), and from there correction serves
// everybody, as all colored members take part once the root is dead. A member that has not says so (denial). Query and
// denial carry their sender's set of failed members, and everybody refuses what comes from a member of its set. So by
// its denial a member has bound itself not to accept anything that a dead member left under way. When all live members
// have denied with one and the same set, no live member has the payload and no dead one can hand it over any more: the
// verdict is final. A round is named by the size of the coordinator's set; a set that grew starts a new round, as
// somebody may have denied before it knew of the new death.
//
// Memory: the coordinator asks at most 64 positions at a time, so that the answers fit one word.
//
// Correction none and ack promise less, and need less: a member whose parent is dead and that has nothing gets nothing
// more; it gives up and tells its children.
#include "protocol/broadcast.hpp"
#include "topology/ring.hpp"

namespace coppice::protocol {
namespace {

// detail of a verdict down the tree
constexpr std::uint32_t kRootFailed = 0;
constexpr std::uint32_t kOrphaned = 1;

// Whether all of [first, last] (members, no wrap-around) are in the set, whose intervals are maximal.
bool all_failed(const FailedSet& failed, std::uint32_t first, std::uint32_t last) {
    for (const FailedSet::Interval& interval : failed.intervals()) {
        if (interval.last < first) continue;
        return interval.first <= first && last <= interval.last;
    }
    return false;
}

}  // namespace

// The FailedSet has grown (or was not empty at the start).
void Broadcast::learn_of_failures() {
    const std::uint32_t p = processes();
    root_dead_ = self_ != 0 && failed(Position{0});
    if (root_dead_ && !coordinator_) {
        const std::uint32_t end = root_member_ + self_;  // one behind the member before this one
        coordinator_ = end <= p ? all_failed(*failed_, root_member_, end - 1)
                                : all_failed(*failed_, root_member_, p - 1) && all_failed(*failed_, 0, end - p - 1);
        if (coordinator_) ask_next_ = self_ + 1;
    }
    if (color_ != Color::uncolored || given_up_ != BroadcastResult::pending || self_ == 0) return;
    if (has_correction()) {
        if (is_asking()) start_round_if_stale();
    } else if (failed(*plan_->tree.parent(Position{self_}))) {
        give_up(root_dead_ ? BroadcastResult::root_failed : BroadcastResult::orphaned);
    }
}

void Broadcast::origin_lost() {
    if (self_ == 0 && color_ == Color::uncolored) give_up(BroadcastResult::root_failed);
}

void Broadcast::give_up(BroadcastResult why) {
    if (given_up_ != BroadcastResult::pending) return;
    given_up_ = why;
    child_ = 0;
    ask_next_ = self_ + 1;
    idle_ = false;
}

bool Broadcast::is_asking() const {
    return root_dead_ && coordinator_ && has_correction() && color_ == Color::uncolored &&
           given_up_ == BroadcastResult::pending;
}

// ------------------------------------------------------------------------------------------- the coordinator

void Broadcast::start_round_if_stale() {
    if (round_ != failed_->count()) {
        round_ = failed_->count();
        answered_ = 0;
        first_awaited_ = self_ + 1;
        ask_next_ = self_ + 1;
    }
    advance_round();
}

// Passes everybody that has denied or failed; behind the last one it is certain that nobody has the payload.
void Broadcast::advance_round() {
    while (first_awaited_ < processes() && ((answered_ & 1) != 0 || failed(Position{first_awaited_}))) {
        answered_ >>= 1;
        ++first_awaited_;
        idle_ = false;
    }
    if (ask_next_ < first_awaited_) ask_next_ = first_awaited_;
    if (first_awaited_ == processes()) give_up(BroadcastResult::root_failed);
}

std::optional<Message> Broadcast::next_query() {
    start_round_if_stale();
    while (is_asking() && ask_next_ < processes() && ask_next_ - first_awaited_ < kAwaited) {
        const Position target{ask_next_++};
        const bool has_denied = ((answered_ >> (target.value - first_awaited_)) & 1) != 0;
        if (has_denied || failed(target)) continue;
        return message(MessageKind::query, target, round_);
    }
    return std::nullopt;
}

bool Broadcast::receive_denial(const Message& message) {
    // Answers go to the lowest live position, from above it.
    if (!has_correction() || message.from.value < self_) return false;
    if (!is_asking()) return true;
    start_round_if_stale();
    if (!is_asking() || message.detail != round_) return true;
    if (message.from.value < first_awaited_ || message.from.value - first_awaited_ >= kAwaited) return true;
    answered_ |= std::uint64_t{1} << (message.from.value - first_awaited_);
    advance_round();
    return true;
}

std::optional<Message> Broadcast::next_verdict() {
    if (!has_correction()) {
        const std::uint32_t detail = given_up_ == BroadcastResult::root_failed ? kRootFailed : kOrphaned;
        const Position self{self_};
        while (child_ < children_) {
            const Position child = plan_->tree.child(self, child_++);
            if (!failed(child)) return message(MessageKind::verdict, child, detail);
        }
        return std::nullopt;
    }
    // A member that holds the verdict and is, or becomes, the coordinator tells everybody: its predecessor may have
    // died over it.
    while (coordinator_ && ask_next_ < processes()) {
        const Position target{ask_next_++};
        if (!failed(target)) return message(MessageKind::verdict, target, kRootFailed);
    }
    return std::nullopt;
}

// --------------------------------------------------------------------------------------------------- everybody else

bool Broadcast::receive_query(const Message& message) {
    // The asker is the lowest live position and its FailedSet has been merged: the root is dead, and this
    // member is above it.
    if (!has_correction() || !root_dead_ || message.from.value > self_) return false;
    // One answer is enough to remember: of two that ask, the lower one is dead, and of two rounds the later one counts,
    // in whatever order they came.
    const bool asked_later = reply_due_ && asker_ == message.from.value && asked_round_ > message.detail;
    asker_ = message.from.value;
    if (!asked_later) asked_round_ = message.detail;
    reply_due_ = true;
    idle_ = false;
    return true;
}

std::optional<Message> Broadcast::next_reply() {
    reply_due_ = false;
    const Position asker{asker_};
    if (failed(asker)) return std::nullopt;
    if (color_ != Color::uncolored) return message(MessageKind::rescue, asker, 0);
    if (given_up_ != BroadcastResult::pending) return message(MessageKind::verdict, asker, kRootFailed);
    return message(MessageKind::denial, asker, asked_round_);
}

bool Broadcast::receive_verdict(const Message& message) {
    if (color_ != Color::uncolored || self_ == 0) return false;
    if (has_correction()) {
        if (message.detail != kRootFailed) return false;
        give_up(BroadcastResult::root_failed);
        return true;
    }
    if (plan_->tree.parent(Position{self_}) != message.from || message.detail > kOrphaned) return false;
    give_up(message.detail == kRootFailed ? BroadcastResult::root_failed : BroadcastResult::orphaned);
    return true;
}

}  // namespace coppice::protocol
