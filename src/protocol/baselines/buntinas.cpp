#include "protocol/baselines/buntinas.hpp"

#include <algorithm>

#include "topology/ring.hpp"

namespace coppice::protocol {

std::string_view to_string(BuntinasKind kind) {
    switch (kind) {
        case BuntinasKind::tree:
            return "tree";
        case BuntinasKind::acknowledgement:
            return "acknowledgement";
        case BuntinasKind::refusal:
            return "refusal";
        case BuntinasKind::verdict:
            return "verdict";
    }
    return "unknown";
}

BuntinasBroadcast::BuntinasBroadcast(std::uint32_t processes, Position self, std::uint32_t root_member,
                                     const FailedSet& failed, bool has_payload)
    : failed_(&failed), processes_(processes), self_(self.value), root_member_(root_member), colored_(has_payload) {
    root_dead_ = self_ != 0 && this->failed(Position{0});
    given_up_ = root_dead_ && !colored_;
    if (self_ == 0 && has_payload) begin(1, processes_);
}

bool BuntinasBroadcast::failed(Position position) const {
    return !failed_->empty() && failed_->contains(topology::to_member(position, root_member_, processes_));
}

BuntinasMessage BuntinasBroadcast::message(BuntinasKind kind, std::uint32_t to, std::uint32_t detail) const {
    return {kind, Position{self_}, Position{to}, attempt_, detail};
}

void BuntinasBroadcast::begin(std::uint32_t attempt, std::uint32_t end) {
    attempt_ = attempt;
    newest_ = attempt;
    end_ = end;
    children_ = 0;
    awaited_ = 0;
    resend_ = 0;
    refused_ = false;
    answer_due_ = false;
    acknowledged_ = false;
    through_ = false;
}

// The root starts again, others tell their parent.
void BuntinasBroadcast::fail_attempt() {
    if (self_ == 0) {
        begin(std::max(attempt_, newest_) + 1, processes_);
        return;
    }
    if (refused_) return;
    refused_ = true;
    answer_due_ = true;
    through_ = false;
}

// ------------------------------------------------------------------------------------------------------------ events

bool BuntinasBroadcast::receive(const BuntinasMessage& message) {
    if (message.to.value != self_ || message.from.value == self_ || message.from.value >= processes_) return false;
    if ((message.attempt == 0) != (message.kind == BuntinasKind::verdict)) return false;
    if (given_up_) return true;  // too late: the caller was told
    switch (message.kind) {
        case BuntinasKind::tree:
            return receive_tree(message);
        case BuntinasKind::acknowledgement:
        case BuntinasKind::refusal:
            return receive_answer(message);
        case BuntinasKind::verdict:
            given_up_ = !colored_ && message.from.value == 0 && message.detail == 0;
            return given_up_;
    }
    return false;
}

bool BuntinasBroadcast::receive_tree(const BuntinasMessage& message) {
    if (message.from.value > self_ || message.detail <= self_ || message.detail > processes_) return false;
    colored_ = true;
    if (message.attempt < attempt_) {
        stale_from_ = message.from.value;
        stale_attempt_ = message.attempt;
        through_ = false;
        return true;
    }
    parent_ = message.from.value;
    begin(message.attempt, message.detail);
    return true;
}

bool BuntinasBroadcast::receive_answer(const BuntinasMessage& message) {
    if (message.from.value < self_ || !colored_) return false;
    const bool refuses = message.kind == BuntinasKind::refusal;
    if (!refuses && message.detail != 0) return false;
    if (message.attempt != attempt_) return true;  // of another attempt
    auto* const end = child_.data() + children_;
    auto* const child = std::find(child_.data(), end, message.from.value);
    if (child == end) return true;  // from before this process stood in for another
    if (refuses) {
        newest_ = std::max(newest_, message.detail);
        fail_attempt();
    } else {
        awaited_ &= ~(1U << (child - child_.data()));
        through_ = false;
    }
    return true;
}

void BuntinasBroadcast::peer_failed(Position position) {
    if (position.value >= processes_ || position.value == self_) return;
    if (position.value == 0) {
        root_dead_ = true;
        if (!colored_) given_up_ = true;
        through_ = false;
    }
    for (std::uint32_t index = 0; index < children_; ++index) {
        if (child_[index] != position.value || (awaited_ >> index & 1) == 0) continue;
        fail_attempt();
        return;
    }
}

// An acknowledgement outlives its process: the range is colored.
void BuntinasBroadcast::peer_restarted(Position position) {
    for (std::uint32_t index = 0; index < children_; ++index) {
        if (child_[index] != position.value || (awaited_ >> index & 1) == 0) continue;
        resend_ |= 1U << index;
        through_ = false;
    }
    if (given_up_ && self_ == 0) {
        end_ = 0;
        through_ = false;
    }
    if (position.value == parent_ && self_ != 0 && attempt_ > 0) {
        answer_due_ = refused_;
        acknowledged_ = false;
        through_ = false;
    }
}

void BuntinasBroadcast::origin_lost() {
    if (self_ == 0 && !colored_) given_up_ = true;
}

// ------------------------------------------------------------------------------------------------------------- sends

std::optional<BuntinasMessage> BuntinasBroadcast::next_send(Nanoseconds /*now*/) {
    if (through_) return std::nullopt;
    if (stale_attempt_ != 0) {
        BuntinasMessage stale = message(BuntinasKind::refusal, stale_from_, attempt_);
        stale.attempt = stale_attempt_;
        stale_attempt_ = 0;
        if (!failed(stale.to)) return stale;
    }
    if (colored_ && !refused_) {
        if (const auto next = next_tree()) return next;
    }
    if (const auto next = next_answer()) return next;
    if (const auto next = next_verdict()) return next;
    through_ = is_over();
    return std::nullopt;
}

// As far as this member knows.
bool BuntinasBroadcast::is_over() const {
    // Nobody starts another attempt when the root is dead. A process that stands in for another and was sent nothing
    // has nothing to do.
    if (!colored_) return given_up_;
    if (root_dead_ || attempt_ == 0) return true;
    return self_ == 0 ? awaited_ == 0 : acknowledged_;
}

std::optional<BuntinasMessage> BuntinasBroadcast::next_tree() {
    for (std::uint32_t index = 0; resend_ != 0 && index < children_; ++index) {
        if ((resend_ >> index & 1) == 0) continue;
        resend_ &= ~(1U << index);
        if (!failed(Position{child_[index]})) return message(BuntinasKind::tree, child_[index], child_end_[index]);
    }
    while (end_ > self_ + 1) {
        // The upper half of what is left, to the first in it that is not known to have failed.
        const std::uint32_t middle = self_ + 1 + (end_ - self_ - 1) / 2;
        std::uint32_t child = middle;
        while (child < end_ && failed(Position{child}))
            ++child;
        const std::uint32_t child_end = end_;
        end_ = middle;
        if (child == child_end) continue;
        child_[children_] = child;
        child_end_[children_] = child_end;
        awaited_ |= 1U << children_;
        ++children_;
        return message(BuntinasKind::tree, child, child_end);
    }
    return std::nullopt;
}

std::optional<BuntinasMessage> BuntinasBroadcast::next_answer() {
    if (self_ == 0 || attempt_ == 0 || failed(Position{parent_})) return std::nullopt;
    if (refused_) {
        if (!answer_due_) return std::nullopt;
        answer_due_ = false;
        return message(BuntinasKind::refusal, parent_, newest_);
    }
    if (awaited_ != 0 || acknowledged_) return std::nullopt;
    acknowledged_ = true;
    return message(BuntinasKind::acknowledgement, parent_, 0);
}

std::optional<BuntinasMessage> BuntinasBroadcast::next_verdict() {
    if (self_ != 0 || !given_up_) return std::nullopt;
    while (end_ < processes_ - 1) {
        const Position target{++end_};
        if (!failed(target)) return message(BuntinasKind::verdict, target.value, 0);
    }
    return std::nullopt;
}

}  // namespace coppice::protocol
