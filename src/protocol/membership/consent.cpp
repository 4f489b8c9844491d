// Views on which all have the same idea: members say what they would propose before anybody has asked.
//
// A member consents once in a view, when its caller wants the next one, to the change that leaves out those that it holds to
// be dead; never after it has followed a root. It takes nothing any more from those. A change to which all have consented
// that it leaves is decided by the lowest of them, without a proposal. A later root, or one of another side, finds out by
// what the members that it has asked have consented to; a consent to S counts like a vote for the lowest member outside of S.
#include <algorithm>

#include "protocol/membership/membership.hpp"

namespace coppice::protocol {

void Membership::consent(const Offer& offer) {
    if (followed_ != 0 || latest_ || own_consent() != nullptr) return;
    Change change = next_change();
    // Of those who wait or leave only the root knows.
    if (leaving_ || !leaves_.empty() || !change.joined.empty()) return;
    change.offer = offer;
    Consent own{.change = std::move(change), .members = {}};
    own.members.insert(self_rank_);
    note(own);
}

void Membership::note(const Consent& consent) {
    const auto known = std::ranges::find(consents_, consent.change, &Consent::change);
    if (known != consents_.end()) {
        known->members.unite(consent.members);
        return;
    }
    const bool is_own = consent.members.contains(self_rank_);
    if (!is_own && is_void(consent)) return;
    if (consents_.size() == kMostConsents) {
        if (!is_own) return;
        consents_.pop_back();
    }
    consents_.push_back(consent);
}

// Each member consents once: where one that a change keeps has consented to another, that change has not been decided and will not be.
bool Membership::is_void(const Consent& consent) const {
    if (lacks(kVoidConsentsAreKept)) return false;
    const FailedSet gone = ranks_at(consent.change.gone);
    return std::ranges::any_of(consents_, [&](const Consent& other) { return !gone.includes(other.members); });
}

const Consent* Membership::own_consent() const {
    const auto own =
        std::ranges::find_if(consents_, [this](const Consent& one) { return one.members.contains(self_rank_); });
    return own == consents_.end() ? nullptr : &*own;
}

// Once to each parent: what is below has told its own parent, and did so before that one told this member.
void Membership::tell_consent() {
    if (!plan_->consents || is_root() || !all_have_called()) return;
    const std::uint32_t parent = tree().parent(self_rank_, failures_.suspected);
    if (consent_told_ == parent) return;
    consent_told_ = parent;
    say(MembershipKind::consent, parent);
}

bool Membership::all_have_called() const {
    bool all = called_;
    tree().for_children(self_rank_, failures_.suspected,
                        [&](std::uint32_t child) { all = all && called_below_.contains(child); });
    return all;
}

// As far as this root can know.
bool Membership::may_be_alike() const {
    const Consent* const own = own_consent();
    if (own == nullptr || followed_ != 0 || latest_ || failures_.followed > self_rank_ + 1) return false;
    return (consents_.size() == 1 || lacks(kConsentsNeedNotBeAlike)) &&
           ranks_at(own->change.gone) == failures_.suspected && leaves_.empty() && next_change().joined.empty();
}

// The lowest member of all proposes without asking; so all have to say first what they know.
bool Membership::waits_for_callers() const {
    if (!plan_->consents || lacks(kCallersAreNotWaitedFor) || all_have_called()) return false;
    return self_rank_ == 0 || may_be_alike();
}

bool Membership::is_consented() const {
    if (!plan_->consents || !may_be_alike()) return false;
    const bool all = own_consent()->members.count() + failures_.suspected.count() == view_.count();
    return (all || lacks(kConsentsNeedNotBeAlike)) && are_enough();
}

FailedSet Membership::ranks_at(const FailedSet& seats) const {
    FailedSet ranks;
    for (const FailedSet::Interval& run : seats.intervals()) {
        for (std::uint32_t seat = run.first; seat <= run.last; ++seat)
            if (view_.has(Seat(seat))) ranks.insert(view_.rank_of(Seat(seat)));
    }
    return ranks;
}

// All that are heard outside of it have consented to it: those that live, and those that are dead for certain.
bool Membership::may_be_decided(const Consent& consent, const FailedSet& gone) const {
    FailedSet unheard = failures_.suspected;
    unheard.subtract(failures_.certain);
    FailedSet needed;
    needed.append({0, view_.count() - 1});
    needed.subtract(unheard);
    needed.subtract(gone);
    return !needed.empty() && consent.members.includes(needed);
}

// What an earlier root may have decided, known to a root that has asked all.
Membership::Found Membership::find_decided() const {
    Found found;
    if (lacks(kFoundVotesAreIgnored)) return found;
    if (latest_) found.change = latest_->change;
    if (lacks(kConsentsAreForgotten)) return found;
    for (const Consent& one : consents_) {
        const FailedSet gone = ranks_at(one.change.gone);
        if (gone.lowest_absent() == self_rank_) continue;  // that would have been this member's to decide
        if (latest_ && latest_->root >= gone.lowest_absent()) continue;
        if (!may_be_decided(one, gone)) continue;
        found.is_torn = found.is_torn || (found.change && *found.change != one.change);
        found.change = one.change;
    }
    // There may be more than are kept.
    found.is_torn = found.is_torn || consents_.size() == kMostConsents;
    found.is_torn = found.is_torn && plan_->quorum != Quorum::any;
    return found;
}

}  // namespace coppice::protocol
