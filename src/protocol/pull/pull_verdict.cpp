// What becomes of the ranks that lack chunks when the root is dead (pull.hpp has the argument).
#include <algorithm>

#include "protocol/pull/pull.hpp"

namespace coppice::protocol {

// The FailedSet has grown (or was not empty at the start).
void Pull::learn_of_failures() {
    root_dead_ = self_ != root_ && failed(root_);
    if (holder_ != kNobody && failed(holder_)) holder_ = kNobody;
    if (asker_ != kNobody && failed(asker_)) asker_ = kNobody;
    std::erase_if(needy_, [this](std::uint32_t rank) { return failed(rank); });
}

bool Pull::receive_verdicts_message(const PullMessage& message) {
    const std::uint32_t from = message.from.value;
    switch (message.kind) {
        case PullKind::need:
            if (std::ranges::find(needy_, from) == needy_.end()) needy_.push_back(from);
            has_to_ask_ = true;
            return true;
        case PullKind::query:
            // The asker is the lowest live rank and its FailedSet has been merged: the root is dead, this rank is above it.
            if (!root_dead_ || from > self_) return false;
            // Of two that ask, the lower one is dead, and of two rounds the later one counts.
            if (asker_ != from || asked_round_ < message.first) asked_round_ = message.first;
            asker_ = from;
            return true;
        case PullKind::denial:
            return receive_denial(message);
        case PullKind::complete:
            if (message.first >= ranks()) return false;
            if (!failed(message.first)) note_holder(message.first);
            return true;
        case PullKind::verdict:
            if (complete()) return false;
            given_up_ = true;
            return true;
        default:
            return false;
    }
}

bool Pull::receive_denial(const PullMessage& message) {
    if (message.from.value < self_) return false;
    if (!is_coordinator() || denied_.empty()) return true;
    start_round_if_stale();
    if (message.first != round_ && !lacks(kOldDenialsCount)) return true;
    denied_[message.from.value] = true;
    return true;
}

// Some live rank has everything: so does this one, sooner or later.
void Pull::note_holder(std::uint32_t rank) {
    if (holder_ == rank || rank == self_) return;
    holder_ = rank;
    if (chunks_ == 0 || complete() || given_up_ || source_ == rank) return;
    leave_source();
    turn_to(0);
}

void Pull::start_round_if_stale() {
    if (!denied_.empty() && round_ == failed_.count()) return;
    round_ = failed_.count();
    denied_.assign(ranks(), false);
    ask_next_ = 0;
}

std::optional<PullMessage> Pull::next_of_verdict() {
    if (asker_ != kNobody) {
        if (const auto reply = next_reply()) return reply;
    }
    if (is_coordinator()) return next_of_coordinator();
    // Said again whenever somebody else has died: the coordinator may be another one, or the rank that it named may be dead.
    const std::uint32_t coordinator = failed_.lowest_absent();
    const bool again = said_need_in_ != failed_.count() && !lacks(kNeedIsSaidOnce);
    if (chunks_ == 0 || result() != PullResult::pending || (said_need_to_ != kNobody && !again)) return std::nullopt;
    said_need_to_ = coordinator;
    said_need_in_ = failed_.count();
    return message(PullKind::need, coordinator);
}

std::optional<PullMessage> Pull::next_reply() {
    const std::uint32_t to = asker_;
    asker_ = kNobody;
    if (complete()) return message(PullKind::complete, to, self_);
    if (given_up_) return message(PullKind::verdict, to);
    return message(PullKind::denial, to, asked_round_);
}

std::optional<PullMessage> Pull::next_of_coordinator() {
    if (given_up_) {
        while (tell_next_ < ranks() && !lacks(kVerdictIsNotTold)) {
            const std::uint32_t to = tell_next_++;
            if (to != self_ && !failed(to)) return message(PullKind::verdict, to);
        }
        return std::nullopt;
    }
    const std::uint32_t holder = complete() ? self_ : holder_;
    if (holder != kNobody) {
        if (needy_.empty() || lacks(kTheNeedyAreNotTold)) return std::nullopt;
        const std::uint32_t to = needy_.back();
        needy_.pop_back();
        if (to == holder) return next_of_coordinator();
        return message(PullKind::complete, to, holder);
    }
    if (!has_to_ask_ && chunks_ == 0) return std::nullopt;
    return next_query();
}

std::optional<PullMessage> Pull::next_query() {
    start_round_if_stale();
    while (ask_next_ < ranks() && !lacks(kNobodyIsAsked)) {
        const std::uint32_t to = ask_next_++;
        if (to != self_ && !failed(to) && !denied_[to]) return message(PullKind::query, to, round_);
    }
    for (std::uint32_t rank = 0; rank < ranks() && !lacks(kNobodyIsAsked); ++rank) {
        if (rank != self_ && !failed(rank) && !denied_[rank]) return std::nullopt;
    }
    given_up_ = true;
    return next_of_coordinator();
}

}  // namespace coppice::protocol
