// How the next view is decided: a root asks, proposes and decides; the others obey, vote and pass on.
#include <algorithm>

#include "protocol/membership/membership.hpp"

namespace coppice::protocol {

void Membership::settle() {
    if (standing_ != Standing::member) return;
    tell_consent();
    if (is_root()) start_as_root();
    if (phase_ == Phase::idle || !is_acknowledged()) return;
    if (followed_ == self_rank_ + 1) return conclude();
    // To ask is the root's affair, where members do not say what they know as soon as they want a view; the next view is one
    // that each caller wants.
    if ((phase_ == Phase::voting || plan_->consents) && !called_) return;
    for (const FailedSet::Interval& run : owed_.intervals()) {
        for (std::uint32_t rank = run.first; rank <= run.last; ++rank)
            say(acknowledgement_kind(), rank);
    }
    owed_.clear();
}

bool Membership::is_acknowledged() const {
    bool is_complete = true;
    tree().for_children(self_rank_, failures_.suspected,
                        [&](std::uint32_t child) { is_complete = is_complete && acked_.contains(child); });
    return is_complete;
}

// ----------------------------------------------------------------------------------------------------------- root ---

void Membership::start_as_root() {
    if (!called_ || followed_ > self_rank_ || waits_for_callers()) return;
    const Change change = change_as_root();
    if (has_too_few(change)) return;
    if (is_consented()) return install(change);
    // Nobody can have followed an earlier root than the lowest member.
    if (self_rank_ == 0 || lacks(kNewRootsDoNotAsk)) return propose(change);
    begin(Phase::asking, self_rank_);
}

// Terms of one that died before it consented are in the offer in common, and not in that to which all others have consented.
Change Membership::change_as_root() const {
    return is_consented() ? own_consent()->change : next_change();
}

bool Membership::has_too_few(const Change& next) const {
    return view_.after(next).count() < bounds(next.offer).least && !next.offer.is_at_odds();
}

Bounds Membership::bounds(const Offer& offer) const {
    return bounds_ ? *bounds_ : offer.terms.bounds();
}

void Membership::propose(const Change& change) {
    refuse_where_full(change);
    proposal_ = change;
    note({.root = self_rank_, .change = change});
    begin(Phase::voting, self_rank_);
    if (lacks(kWelcomeFirst)) {
        for (const Waiting& one : waiting_)
            if (change.seats(one.request.process)) welcome(one.request, view_.after(change));
    }
    if (lacks(kInstallsOnHearing)) install(change);
}

void Membership::conclude() {
    const bool is_overtaken = failures_.followed > followed_;
    const bool has_quorum = lacks(kQuorumIsNotAsked) || are_enough();
    if (is_overtaken || !has_quorum) return say_no_quorum();
    lacks_quorum_ = false;
    if (phase_ == Phase::voting) return install(Change(*proposal_));
    const Found found = find_decided();
    if (found.is_torn) return say_no_quorum();
    const Change change = found.change ? *found.change : next_change();
    // It may have heard of deaths and leaves since it began to ask. What may be decided already is so whatever it has.
    if (!found.change && has_too_few(change)) return;
    propose(change);
    settle();
}

void Membership::say_no_quorum() {
    if (lacks_quorum_) return;
    lacks_quorum_ = true;
    for (const std::uint32_t child : children())
        say(MembershipKind::no_quorum, child);
}

// ----------------------------------------------------------------------------------------------------- all others ---

void Membership::begin(Phase phase, std::uint32_t root) {
    phase_ = phase;
    followed_ = root + 1;
    acked_.clear();
    owed_.clear();
    lacks_quorum_ = false;
    for (const std::uint32_t child : children())
        give_order(child);
}

void Membership::give_order(std::uint32_t rank) {
    say(order_kind(), rank);
    if (phase_ == Phase::voting) sends_.back().proposal = proposal_;
}

void Membership::obey(const MembershipMessage& message, std::uint32_t from) {
    const Phase phase = order_of(message.kind);
    const std::uint32_t root = message.root;
    if (phase == Phase::voting && !message.proposal) return;
    if (!lacks(kEveryRootIsFollowed)) {
        if (root + 1 < followed_) return;
        if (root + 1 == followed_ && phase < phase_) return;
    }
    const bool is_new = root + 1 != followed_ || phase != phase_;
    if (phase == Phase::voting) {
        proposal_ = message.proposal;
        note({.root = root, .change = *proposal_});
    }
    if (is_new) begin(phase, root);
    owed_.insert(from);
    if (phase == Phase::voting && lacks(kInstallsOnHearing)) {
        say(acknowledgement_kind(), from);
        install(Change(*proposal_));
    }
}

void Membership::count(const MembershipMessage& message, std::uint32_t from) {
    const bool is_meant = message.root + 1 == followed_ && acknowledged_by(message.kind) == phase_;
    if (!is_meant && !lacks(kAcksNameNothing)) return;
    acked_.insert(from);
    if (lacks_quorum_) say(MembershipKind::no_quorum, from);
}

// ----------------------------------------------------------------------------------------------------------- names ---

MembershipKind Membership::order_kind() const {
    if (phase_ == Phase::asking) {
        const bool is_only_root = failures_.suspected.count() == followed_ - 1;
        return is_only_root ? MembershipKind::root_dead : MembershipKind::root_and_node_failure;
    }
    if (proposal_->joined.empty()) return MembershipKind::failed_node;
    const bool is_again =
        std::ranges::any_of(proposal_->joined, [](const Occupant& one) { return one.incarnation > 0; });
    return is_again ? MembershipKind::alive_node_join : MembershipKind::new_node_join;
}

MembershipKind Membership::acknowledgement_kind() const {
    if (phase_ == Phase::asking) return MembershipKind::root_dead_ack;
    switch (order_kind()) {
        case MembershipKind::alive_node_join:
            return MembershipKind::alive_node_join_ack;
        case MembershipKind::new_node_join:
            return MembershipKind::new_node_join_ack;
        default:
            return MembershipKind::failure_ack;
    }
}

}  // namespace coppice::protocol
