// Newcomers: how they find the root, and what members do for them (§3.7).
//
// A joiner asks the lowest member of the first view that it does not know to be unreachable. That one passes the request
// on to the root, keeps it, and answers in the end: it welcomes the joiner with the view that has it, or it refuses. When
// it dies the joiner asks the next. A joiner that asks twice is in once: requests are told apart by their process.
#include <algorithm>

#include "protocol/membership/membership.hpp"

namespace coppice::protocol {

// ----------------------------------------------------------------------------------------------------- the joiner ---

void Membership::ask_next() {
    const std::uint32_t next = unreachable_.lowest_absent();
    if (next >= plan_->first.count()) {
        asked_ = RadixTree::kNobody;
        standing_ = Standing::unanswered;
        return;
    }
    if (plan_->introduces && asked_ != RadixTree::kNobody) {  // all have been told
        asked_ = next;
        return;
    }
    asked_ = next;
    if (plan_->introduces) {
        for (std::uint32_t rank = 0; rank < plan_->first.count(); ++rank)
            sends_.push_back({.kind = MembershipKind::new_node,
                              .from = self_,
                              .to = plan_->first.process_of(rank),
                              .request = request_});
        return;
    }
    const bool is_again = request_.seat != JoinRequest::kAnySeat;
    sends_.push_back({.kind = is_again ? MembershipKind::node_alive : MembershipKind::new_node,
                      .from = self_,
                      .to = plan_->first.process_of(asked_),
                      .request = request_});
}

bool Membership::receive_as_joiner(const MembershipMessage& message) {
    switch (message.kind) {
        case MembershipKind::seat_taken:
        case MembershipKind::group_full:
            standing_ = Standing::refused;
            refused_by_ = message.kind;
            return true;
        case MembershipKind::join_det_ack:
        case MembershipKind::alive_node_join_det_ack:
            return sit_down(message);
        case MembershipKind::stable:  // who joined beside it has gone on from a view that it has not heard of yet
            return true;
        default:
            // A rank that is in the view already may speak first.
            return sit_down(message) && receive_as_member(message);
    }
}

bool Membership::sit_down(const MembershipMessage& message) {
    const auto rank = message.view ? message.view->rank_of(self_) : std::nullopt;
    if (!rank || !message.made) return false;
    standing_ = Standing::member;
    view_ = *message.view;
    made_ = *message.made;
    self_rank_ = *rank;
    return true;
}

// -------------------------------------------------------------------------------------------------------- members ---

void Membership::consider(const JoinRequest& request, bool asked_here) {
    if (view_.rank_of(request.process)) {
        if (asked_here) welcome(request, view_);
        return;
    }
    if (request.seat == view_.seat_of(self_rank_).value) return answer(MembershipKind::seat_taken, request.process);
    const auto known = std::ranges::find(waiting_, request.process, [](const Waiting& w) { return w.request.process; });
    if (known != waiting_.end()) {
        known->asked_here = known->asked_here || asked_here;
    } else {
        waiting_.push_back({.request = request, .asked_here = asked_here});
    }
    if (!is_root()) {
        if (asked_here && !lacks(kRequestsAreNotPassedOn)) pass_on(request, root());
        return;
    }
    // A holder that lives says so itself.
    const Seat wanted(request.seat);
    if (request.seat == JoinRequest::kAnySeat || !view_.has(wanted)) return settle();
    const std::uint32_t holder = view_.rank_of(wanted);
    if (!failures_.suspected.contains(holder)) pass_on(request, holder);
    settle();
}

void Membership::introduce(const JoinRequest& request) {
    if (standing_ != Standing::member) return;
    if (view_.rank_of(request.process)) return welcome(request, view_);
    const auto known = std::ranges::find(waiting_, request.process, [](const Waiting& w) { return w.request.process; });
    if (known != waiting_.end()) {
        known->asked_here = true;
        return;
    }
    waiting_.push_back({.request = request, .asked_here = true});
    if (is_root()) return settle();
    // A newcomer of an earlier view may be root, which nobody has told.
    if (!plan_->first.rank_of(root_process())) pass_on(request, root());
}

void Membership::pass_on(const JoinRequest& request, std::uint32_t rank) {
    say(request.seat == JoinRequest::kAnySeat ? MembershipKind::new_node : MembershipKind::node_alive, rank);
    sends_.back().request = request;
}

void Membership::answer(MembershipKind kind, Process to) {
    sends_.push_back({.kind = kind, .from = self_, .to = to, .epoch = epoch()});
}

void Membership::welcome(const JoinRequest& request, const View& view) {
    const bool is_again = request.seat != JoinRequest::kAnySeat;
    answer(is_again ? MembershipKind::alive_node_join_det_ack : MembershipKind::join_det_ack, request.process);
    sends_.back().epoch = view.epoch();
    sends_.back().view = view;
    sends_.back().made = made_;
}

void Membership::welcome_those_who_waited() {
    std::erase_if(waiting_, [this](const Waiting& one) {
        if (!view_.rank_of(one.request.process)) return false;
        if (one.asked_here && !lacks(kWelcomeFirst)) welcome(one.request, view_);
        return true;
    });
}

// What this member would propose: without those that can't be reached or leave, with as many of those that wait as
// there are seats, in their order: first those that want the seat that they had, then those that want any, which get the lowest ones.
Change Membership::next_change() const {
    Change change{.gone = {}, .joined = {}, .offer = offer_, .left = {}};
    for (const FailedSet* of : {&failures_.suspected, &leaves_}) {
        for (const FailedSet::Interval& run : of->intervals()) {
            for (std::uint32_t rank = run.first; rank <= run.last; ++rank)
                change.gone.insert(view_.seat_of(rank).value);
        }
    }
    for (const FailedSet::Interval& run : leaves_.intervals()) {
        for (std::uint32_t rank = run.first; rank <= run.last; ++rank)
            change.left.insert(view_.seat_of(rank).value);
    }
    std::uint32_t members = view_.count() - change.gone.count();
    FailedSet taken;
    const auto is_free = [&](std::uint32_t seat) {
        const bool is_empty = !view_.has(Seat(seat)) || change.gone.contains(seat);
        return seat < plan_->capacity && is_empty && !taken.contains(seat);
    };
    const std::uint32_t most = offer_.is_at_odds() ? 0 : bounds(offer_).most;
    const auto seat_down = [&](const Waiting& one, std::uint32_t seat) {
        if (members >= most || !is_free(seat)) return;
        taken.insert(seat);
        ++members;
        const bool is_new = !view_.holder_of(Seat(seat)).has_value();
        change.joined.push_back({.seat = Seat(seat),
                                 .incarnation = is_new ? 0 : view_.incarnation_of(Seat(seat)) + 1,
                                 .process = one.request.process});
    };
    for (const Waiting& one : waiting_)
        if (one.request.seat != JoinRequest::kAnySeat) seat_down(one, one.request.seat);
    for (const Waiting& one : waiting_) {
        if (one.request.seat != JoinRequest::kAnySeat) continue;
        std::uint32_t seat = 0;
        while (seat < view_.seats() + waiting_.size() && !is_free(seat))
            ++seat;
        seat_down(one, seat);
    }
    std::ranges::sort(change.joined, {}, [](const Occupant& one) { return one.seat; });
    return change;
}

// Those that want any seat, are not in the change, and do not want to wait for one.
void Membership::refuse_where_full(const Change& change) {
    std::erase_if(waiting_, [&](const Waiting& one) {
        const bool wants_any = one.request.seat == JoinRequest::kAnySeat;
        if (change.seats(one.request.process) || one.request.waits) return false;
        if (!wants_any && one.request.seat < plan_->capacity) return false;
        if (wants_any && view_.after(change).count() < plan_->capacity) return false;
        answer(MembershipKind::group_full, one.request.process);
        return true;
    });
}

}  // namespace coppice::protocol
