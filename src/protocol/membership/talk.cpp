// What a member tells the others, and what it makes of what they tell.
#include <algorithm>
#include <utility>

#include "protocol/membership/membership.hpp"

namespace coppice::protocol {

std::optional<MembershipMessage> Membership::next_send() {
    std::optional<MembershipMessage> next;
    if (!wants_to_send()) return next;
    next = std::move(sends_[pulled_++]);
    if (pulled_ == sends_.size()) {
        sends_.clear();
        pulled_ = 0;
    }
    return next;
}

MembershipMessage Membership::draft(MembershipKind kind, Process to) const {
    MembershipMessage message{.kind = kind,
                              .from = self_,
                              .to = to,
                              .epoch = epoch(),
                              .root = followed_ == 0 ? 0 : followed_ - 1,
                              .failures = failures_};
    if (epoch() > 0 && !lacks(kViewsAreNotSentAlong)) {
        message.made = made_;
        if (made_.seats(to)) message.view = view_;
    }
    if (plan_->consents) {
        message.consents = consents_;
        message.offer = offer_;
        if (!lacks(kConsentsBringNoLeaves)) message.leaves = leaves_;
    }
    // The vote that is asked for is known to both, in what asks for it and answers. All else brings it: who hears which deaths are
    // certain has to know for what the dead have voted.
    const bool is_about_it = order_of(kind) == Phase::voting || acknowledged_by(kind) == Phase::voting;
    if (latest_ && !(is_about_it && latest_->root + 1 == followed_)) message.latest = latest_;
    return message;
}

// Of the view before; the receiver was a member of it.
void Membership::tell_stable(Process to) {
    sends_.push_back(
        {.kind = MembershipKind::stable, .from = self_, .to = to, .epoch = before_->view.epoch(), .proposal = made_});
}

// A parent waits until its children call, and does not ask them: one that knows the view from elsewhere tells it.
void Membership::tell_parent_before(std::uint32_t told_by) {
    const std::uint32_t parent = parent_before();
    if (parent != RadixTree::kNobody && parent != told_by) tell_stable(before_->view.process_of(parent));
}

// What only the old root was told.
void Membership::tell_new_root() {
    if (lacks(kNewRootsAreNotTold)) return;
    if (leaving_ && is_root()) leaves_.insert(self_rank_);
    if (is_root()) return;
    const std::uint32_t next = root();
    for (const Waiting& one : waiting_)
        pass_on(one.request, next);
    if (leaving_) say(MembershipKind::leave, next);
    // The next root may not have the view with which this member has joined; nobody else may be left on this side to bring it.
    if (made_.seats(self_) && !plan_->reports) say(MembershipKind::root_failure, next);
    report();
}

void Membership::report() {
    if (plan_->reports) tell_root_of_deaths();
}

// With few enough votes the root waits for certainty, which this member may have and the root not: only those on the host of
// the dead may ever know.
void Membership::tell_root_of_deaths() {
    if (failures_.suspected.empty() || is_root()) return;
    const bool is_new_root = failures_.suspected.contains(0);
    say(is_new_root ? MembershipKind::root_failure : MembershipKind::node_failure, root());
}

bool Membership::receive(const MembershipMessage& message) {
    if (message.to != self_ || message.from == self_) return false;
    switch (standing_) {
        case Standing::joining:
            return receive_as_joiner(message);
        case Standing::member:
            return receive_as_member(message);
        default:
            return true;
    }
}

bool Membership::receive_as_member(const MembershipMessage& message) {
    if (message.request && message.request->process == message.from) {
        plan_->introduces ? introduce(*message.request) : consider(*message.request, true);
        return true;
    }
    if (lacks(kViewsHaveNoNumbers)) {
        if (const auto from = view_.rank_of(message.from)) receive_in_view(message, *from);
        return true;
    }
    if (message.epoch == epoch() + 1 && message.made) {
        install(*message.made);
        if (standing_ != Standing::member) return true;
    }
    const auto from = view_.rank_of(message.from);
    const bool is_heard = from && (!failures_.suspected.contains(*from) || lacks(kEveryRootIsFollowed));
    // What joiners and leavers want does not depend on the view in which it was said.
    if (message.request || message.kind == MembershipKind::leave) {
        if (message.request) consider(*message.request, false);
        if (message.kind != MembershipKind::leave) return true;
        if (!from) answer_the_late(message);
        if (is_heard) leaves_.insert(*from);
        if (is_heard && message.epoch == epoch()) told_here_.insert(*from);
        return true;
    }
    const bool is_ack = acknowledged_by(message.kind) != Phase::idle;
    if (message.epoch == epoch() || (lacks(kAcksNameNothing) && is_ack)) {
        if (is_heard) receive_in_view(message, *from);
        return true;
    }
    if (message.kind == MembershipKind::excluded) {
        if (is_heard && message.epoch > epoch()) be_left_behind();
        return true;
    }
    const std::uint32_t at = message.kind == MembershipKind::stable ? message.epoch + 1 : message.epoch;
    if (is_heard && at > epoch() + 1) {
        be_left_behind();
        return true;
    }
    answer_the_late(message);
    return true;
}

// The sender does not know of this view, or did not when it spoke. A root that asks, proposes or lacks a quorum, and one that wants to
// leave, have to hear of it. Members are one behind at most; those that have left, or were left out, may be any number.
void Membership::answer_the_late(const MembershipMessage& message) {
    const bool consents = message.kind == MembershipKind::consent;
    const bool waits = message.kind == MembershipKind::leave || message.kind == MembershipKind::no_quorum || consents;
    const bool asks = order_of(message.kind) != Phase::idle || waits;
    if (!asks || message.epoch >= epoch() || lacks(kTheLateAreNotAnswered)) return;
    if (message.epoch + 1 == epoch()) {
        const auto from = before_ ? before_->view.rank_of(message.from) : std::nullopt;
        if (from && !before_->suspected.contains(*from)) tell_stable(message.from);
    } else if (!consents) {  // nobody waits for an answer to that
        answer(MembershipKind::excluded, message.from);
    }
}

void Membership::receive_in_view(const MembershipMessage& message, std::uint32_t from) {
    if (message.kind == MembershipKind::stable) {
        if (message.proposal) install(*message.proposal, from);
        return;
    }
    const bool knows_more = !message.failures.certain.includes(failures_.certain);
    // A sender that takes this member for dead has gone its own way.
    if (!adopt(message)) return;
    if (order_of(message.kind) != Phase::idle) {
        obey(message, from);
    } else if (acknowledged_by(message.kind) != Phase::idle) {
        count(message, from);
    } else if (message.kind == MembershipKind::no_quorum) {
        if (message.root + 1 == followed_) {
            say_no_quorum();
            if (knows_more && !lacks(kCertaintyIsKept)) tell_root_of_deaths();
        }
    } else if (message.kind == MembershipKind::consent) {
        called_below_.insert(from);
        if (lacks_quorum_) say(MembershipKind::no_quorum, from);
    } else if (message.kind == MembershipKind::node_failure || message.kind == MembershipKind::root_failure) {
        say(MembershipKind::failure_det_ack, from);
    }
    settle();
}

bool Membership::adopt(const MembershipMessage& message) {
    const Failures& told = message.failures;
    if (lacks(kEveryRootIsFollowed)) return true;
    if (told.suspected.contains(self_rank_)) return false;
    failures_.followed = std::max(failures_.followed, told.followed);
    if (message.latest) note(*message.latest);
    for (const Consent& one : message.consents)
        note(one);
    offer_ &= message.offer;
    FailedSet news = told.suspected;
    news.subtract(failures_.suspected);
    for (const FailedSet::Interval& run : news.intervals()) {
        for (std::uint32_t rank = run.first; rank <= run.last; ++rank)
            suspect(view_.process_of(rank), false);
    }
    failures_.certain.unite(told.certain);
    leaves_.unite(message.leaves);
    leaves_.subtract(failures_.suspected);
    return true;
}

void Membership::note(const Vote& vote) {
    if (lacks(kVotesAreForgotten)) return;
    if (!latest_ || vote.root >= latest_->root) latest_ = vote;
}

}  // namespace coppice::protocol
