#include "protocol/membership/membership.hpp"

#include <algorithm>

namespace coppice::protocol {
namespace {

void erase(FailedSet& set, std::uint32_t member) {
    if (!set.contains(member)) return;
    FailedSet one;
    one.insert(member);
    set.subtract(one);
}

// The same members, by their ranks in another view; those that are not in it are left out.
FailedSet translate(const FailedSet& ranks, const View& from, const View& to) {
    FailedSet translated;
    for (const FailedSet::Interval& run : ranks.intervals()) {
        for (std::uint32_t rank = run.first; rank <= run.last; ++rank) {
            if (const auto there = to.rank_of(from.process_of(rank))) translated.insert(*there);
        }
    }
    return translated;
}

}  // namespace

Membership::Membership(const MembershipPlan& plan, Process self)
    : plan_(&plan), self_(self), self_rank_(plan.first.rank_of(self).value_or(0)), view_(plan.first) {}

Membership::Membership(const MembershipPlan& plan, const JoinRequest& request)
    : plan_(&plan), self_(request.process), standing_(Standing::joining), request_(request) {
    ask_next();
}

// ---------------------------------------------------------------------------------------------------------- facts ---

void Membership::renew(const Offer& offer, const std::optional<Bounds>& bounds) {
    if (standing_ != Standing::member) return;
    called_ = true;
    bounds_ = bounds;
    offer_ &= offer;
    if (plan_->consents && leaving_) leaves_.insert(self_rank_);
    if (plan_->consents) consent(offer);
    settle();
}

void Membership::ask_for(const Bounds& bounds) {
    if (!called_) return;
    bounds_ = bounds;
    settle();
}

// Where members say what they want when they call, they say that, too.
void Membership::leave() {
    if (standing_ != Standing::member || leaving_) return;
    leaving_ = true;
    const bool will_be_told = plan_->consents && !called_ && !lacks(kConsentsBringNoLeaves);
    if (is_root()) {
        leaves_.insert(self_rank_);
    } else if (!will_be_told) {
        say(MembershipKind::leave, root());
    }
}

void Membership::peer_failed(Process process, const LastVote* last_vote) {
    if (standing_ == Standing::joining) {
        if (const auto rank = plan_->first.rank_of(process)) unreachable_.insert(*rank);
        if (asked_ != RadixTree::kNobody && unreachable_.contains(asked_) && !lacks(kJoinersDoNotScan)) ask_next();
        return;
    }
    // Before what the dead knew makes another view the one before. One that has left is asked for it, too.
    suspect_before(process);
    if (standing_ != Standing::member) return;
    std::erase_if(waiting_, [process](const Waiting& one) { return one.request.process == process; });
    if (last_vote != nullptr && !lacks(kTheDeadDoNotVote)) {
        if (last_vote->epoch > epoch() + 1) be_left_behind();
        if (last_vote->epoch == epoch() + 1) install(last_vote->made);
        if (standing_ != Standing::member) return;
        if (last_vote->epoch == epoch()) {
            if (!lacks(kTheDeadPromiseNothing)) failures_.followed = std::max(failures_.followed, last_vote->followed);
            if (last_vote->latest) note(*last_vote->latest);
            const auto rank = view_.rank_of(process);
            if (last_vote->consent && rank && !lacks(kTheDeadDoNotConsent)) {
                Consent of{.change = *last_vote->consent, .members = {}};
                of.members.insert(*rank);
                note(of);
            }
        }
    }
    const std::uint32_t old_root = root();
    const std::uint32_t known = failures_.suspected.count();
    const std::uint32_t certain = failures_.certain.count();
    suspect(process, last_vote != nullptr);
    const bool is_certain_now = failures_.certain.count() != certain;
    if (lacks_quorum_ && is_certain_now && !lacks(kCertaintyIsKept)) {
        tell_root_of_deaths();
    } else if (failures_.suspected.count() != known && root() == old_root) {  // a new root has been told already
        report();
    }
    settle();
}

void Membership::peer_left(Process process) {
    const bool is_there = standing_ == Standing::member && before_ && view_.rank_of(process);
    if (const auto rank = is_there ? before_->view.rank_of(process) : std::nullopt) before_->left.insert(*rank);
    peer_failed(process);
}

void Membership::suspect(Process process, bool certainly) {
    suspect_before(process);
    auto rank = view_.rank_of(process);
    if (!rank && lacks(kSeatsHaveNoIncarnations) && plan_->first.rank_of(process)) {
        const Seat seat(process.value);
        if (view_.has(seat)) rank = view_.rank_of(seat);
    }
    if (!rank || *rank == self_rank_) return;
    if (certainly) failures_.certain.insert(*rank);
    if (failures_.suspected.contains(*rank)) return;
    const std::uint32_t old_root = root();
    const std::vector<std::uint32_t> old_children = children();
    failures_.suspected.insert(*rank);
    for (FailedSet* of : {&acked_, &owed_, &leaves_, &told_here_, &called_below_})
        erase(*of, *rank);
    // The children of the dead are this member's now. A dead root's orders are not passed on: the next one will ask.
    const bool is_ordered = phase_ != Phase::idle && !failures_.suspected.contains(followed_ - 1);
    if (is_ordered && !lacks(kOrphansAreNotTold)) {
        for (const std::uint32_t child : children())
            if (!std::ranges::binary_search(old_children, child)) give_order(child);
    }
    if (root() != old_root) tell_new_root();
}

void Membership::suspect_before(Process process) {
    if (!before_) return;
    const auto rank = before_->view.rank_of(process);
    if (!rank || *rank == before_->self_rank || before_->suspected.contains(*rank)) return;
    const std::vector<std::uint32_t> old_children = children_before();
    const bool was_parent = parent_before() == *rank;
    before_->suspected.insert(*rank);
    if (was_parent && plan_->consents && !was_told_before(parent_before())) tell_parent_before(RadixTree::kNobody);
    if (lacks(kLateOrphansAreNotTold)) return;
    for (const std::uint32_t child : children_before()) {
        if (!std::ranges::binary_search(old_children, child) && !was_told_before(child))
            tell_stable(before_->view.process_of(child));
    }
}

// By the one above it, which has left.
bool Membership::was_told_before(std::uint32_t rank) const {
    if (rank == RadixTree::kNobody || rank == 0) return false;
    return before_->left.contains(tree_of(before_->view).parent(rank));
}

// ------------------------------------------------------------------------------------------------- the next view ---

void Membership::install(const Change& change, std::uint32_t told_by) {
    const View old = view_;
    const Process old_root = old.process_of(root());
    before_ = {.view = old, .self_rank = self_rank_, .suspected = failures_.suspected, .left = {}};
    made_ = change;
    view_ = old.after(made_);
    for (const std::uint32_t child : children_before())
        tell_stable(old.process_of(child));
    // Who has been told that there is no quorum has no reason to ask again.
    if (plan_->consents || (lacks_quorum_ && !lacks(kCertaintyIsKept))) tell_parent_before(told_by);
    // Those that still wait for a word from here: this member may know it from the dead.
    for (const FailedSet::Interval& run : owed_.intervals()) {
        for (std::uint32_t rank = run.first; rank <= run.last; ++rank)
            tell_stable(old.process_of(rank));
    }
    tell_leavers();
    phase_ = Phase::idle;
    followed_ = 0;
    proposal_.reset();
    latest_.reset();
    acked_.clear();
    owed_.clear();
    lacks_quorum_ = false;
    called_ = false;
    bounds_.reset();
    offer_ = {};
    consents_.clear();
    called_below_.clear();
    consent_told_ = RadixTree::kNobody;
    const auto rank = view_.rank_of(self_);
    if (!rank) {
        be_left_behind();
        return;
    }
    self_rank_ = *rank;
    carry_over(old);
    welcome_those_who_waited();
    if (view_.process_of(root()) != old_root) tell_new_root();
}

// The root that they had may have left itself, and be gone before it was heard.
void Membership::tell_leavers() {
    const std::vector<std::uint32_t> below = children_before();
    for (const FailedSet::Interval& run : told_here_.intervals()) {
        for (std::uint32_t rank = run.first; rank <= run.last; ++rank) {
            const Process leaver = before_->view.process_of(rank);
            const bool is_told = std::ranges::binary_search(below, rank) || owed_.contains(rank);
            if (!view_.rank_of(leaver) && !is_told && !lacks(kLeaversAreNotTold)) tell_stable(leaver);
        }
    }
    told_here_.clear();
}

// A member that votes is at most one behind: where there are two views more, this member is not missed.
void Membership::be_left_behind() {
    standing_ = leaving_ ? Standing::left : Standing::excluded;
}

// What is known of members of both views. Votes were for the old one only: those that died before they were in this
// one have promised nothing here.
void Membership::carry_over(const View& old) {
    failures_ = {.suspected = translate(failures_.suspected, old, view_),
                 .certain = translate(failures_.certain, old, view_)};
    leaves_ = translate(leaves_, old, view_);
    voiceless_ = translate(voiceless_, old, view_);
    for (const Occupant& one : made_.joined)
        if (plan_->newcomers_go) voiceless_.insert(view_.rank_of(one.seat));
}

// -------------------------------------------------------------------------------------------------------- looking ---

std::vector<std::uint32_t> Membership::children() const {
    std::vector<std::uint32_t> all;
    tree().for_children(self_rank_, failures_.suspected, [&all](std::uint32_t child) { all.push_back(child); });
    std::ranges::sort(all);
    return all;
}

std::uint32_t Membership::parent_before() const {
    return tree_of(before_->view).parent(before_->self_rank, before_->suspected);
}

std::vector<std::uint32_t> Membership::children_before() const {
    std::vector<std::uint32_t> all;
    const RadixTree tree = tree_of(before_->view);
    tree.for_children(before_->self_rank, before_->suspected, [&all](std::uint32_t child) { all.push_back(child); });
    std::ranges::sort(all);
    return all;
}

bool Membership::are_enough() const {
    return is_quorum(plan_->quorum, view_.count(), failures_, lacks(kHalvesAreEnough), voiceless_);
}

LastVote Membership::last_vote() const {
    LastVote vote{.epoch = epoch(), .made = made_, .followed = followed_, .latest = latest_, .consent = {}};
    if (const Consent* own = own_consent()) {
        // It takes nothing any more from those that it leaves out.
        vote.consent = own->change;
        vote.followed = std::max(vote.followed, ranks_at(own->change.gone).lowest_absent() + 1);
    }
    return vote;
}

FailedSet Membership::waited_for() const {
    FailedSet ranks;
    if (standing_ != Standing::member || !called_) return ranks;
    const FailedSet& heard = phase_ == Phase::idle ? called_below_ : acked_;
    tree().for_children(self_rank_, failures_.suspected, [&](std::uint32_t child) {
        if (!heard.contains(child)) ranks.insert(child);
    });
    if (ranks.empty() && !is_root()) ranks.insert(tree().parent(self_rank_, failures_.suspected));
    return ranks;
}

bool Membership::knows_request(Process process) const {
    return std::ranges::any_of(waiting_, [process](const Waiting& one) { return one.request.process == process; });
}

bool Membership::knows_leave(Process process) const {
    const auto rank = view_.rank_of(process);
    return rank && leaves_.contains(*rank);
}

bool Membership::suspects(Process process) const {
    if (standing_ != Standing::member) return false;
    const auto rank = view_.rank_of(process);
    return rank && failures_.suspected.contains(*rank);
}

bool Membership::minds(Process process) const {
    if (standing_ == Standing::joining) return plan_->first.rank_of(process).has_value();
    if (standing_ != Standing::member || process == self_) return false;
    if (view_.rank_of(process) || (before_ && before_->view.rank_of(process))) return true;
    return knows_request(process);
}

Membership::Delivery Membership::delivery(Process from, std::uint32_t epoch) const {
    if (standing_ == Standing::joining || (standing_ == Standing::member && epoch > this->epoch()))
        return Delivery::later;
    const bool is_member = standing_ == Standing::member && epoch == this->epoch() && view_.rank_of(from).has_value();
    return is_member || lacks(kViewsHaveNoNumbers) ? Delivery::now : Delivery::never;
}

void Membership::append_state(std::vector<std::uint32_t>& words) const {
    words.insert(words.end(),
                 {static_cast<std::uint32_t>(standing_) << 16 | static_cast<std::uint32_t>(phase_) << 8 |
                      (called_ ? 1U : 0U) | (leaving_ ? 2U : 0U) | (lacks_quorum_ ? 4U : 0U) | (latest_ ? 8U : 0U) |
                      (proposal_ ? 16U : 0U) | (before_ ? 32U : 0U) | (bounds_ ? 64U : 0U),
                  self_.value, bounds_.value_or(Bounds()).least, bounds_.value_or(Bounds()).most, followed_,
                  failures_.followed, asked_, static_cast<std::uint32_t>(refused_by_)});
    if (standing_ == Standing::joining) return protocol::append_state(unreachable_, words);
    view_.append_state(words);
    protocol::append_state(made_, words);
    protocol::append_state(offer_, words);
    words.push_back(consent_told_);
    protocol::append_state(consents_, words);
    for (const FailedSet* set : {&failures_.suspected, &failures_.certain, &acked_, &owed_, &leaves_, &told_here_,
                                 &called_below_, &voiceless_})
        protocol::append_state(*set, words);
    if (proposal_) protocol::append_state(*proposal_, words);
    if (latest_) {
        words.push_back(latest_->root);
        protocol::append_state(latest_->change, words);
    }
    if (before_) {
        before_->view.append_state(words);
        protocol::append_state(before_->suspected, words);
        protocol::append_state(before_->left, words);
    }
    for (const Waiting& one : waiting_)
        words.insert(words.end(), {one.request.process.value, one.request.seat,
                                   (one.request.waits ? 1U : 0U) | (one.asked_here ? 2U : 0U)});
    for (std::size_t i = pulled_; i < sends_.size(); ++i)
        protocol::append_state(sends_[i], words);
}

}  // namespace coppice::protocol
