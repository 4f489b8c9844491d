// Membership: a group's views, one after the other. After Varma et al., "Scalable, Fault-Tolerant Membership for MPI
// Tasks on HPC Systems" (ICS'06), with what that paper leaves open: which view is the next one when roots die or are
// cut off half way, and who may go on without the others. docs/membership.md argues it.
//
// The next view is one decree over the present one. The root, which is the lowest member that lives, sends a proposal
// down a radix tree; each member votes for it and passes it on; acknowledgements come up the tree, each for all that
// live below; then the root says down the tree that it is stable, and only then does anybody install it. A vote binds:
// a member whose lower ones are all dead to it becomes root, asks all others first, and carries on with the latest vote
// that it finds. It is Paxos for one value a view, its ballots the ranks of roots, its phases waves over the tree.
//
// Suspicions are for good and travel with every message. A member takes nothing from those that it suspects; so ballots
// only rise, and one number for each root will do. Where too many are suspected and not dead for certain there is no
// quorum (quorum.hpp); then it says so until it learns more.
//
// The dead vote, too. What a member has promised and voted is written where it outlives it (`last_vote()`), and a witness
// that says that it is dead for certain brings that along. Otherwise it does not count as certain.
//
// A message for a view brings what made that view: a member that is one behind installs it first; a newcomer is sent the
// view itself. Only one that leaves, or was cut off, can be further behind: it is told so (EXCLUDED). A member that knows a
// view stays ready to tell it to those below it in the tree of the one before.
//
// What the driver owes:
//  - everybody learns of every death, sooner or later, and nobody else is taken for dead for good unless it is cut off;
//  - a member that takes another for dead closes the connection: so the other learns that it is cut off;
//  - whenever epoch() has changed, peer_failed() again for all members of the new view that it knows to be dead;
//  - messages between two living that can reach each other arrive once, in any order.
//
// A pure machine. It allocates.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "protocol/membership/message.hpp"
#include "protocol/membership/quorum.hpp"
#include "protocol/membership/radix_tree.hpp"
#include "protocol/membership/view.hpp"

namespace coppice::protocol {

// Rules that a test takes away, to see that they are missed. None in what ships. docs/membership.md has them by name.
enum MembershipFault : std::uint32_t {
    kVotesAreForgotten = 1U << 0,         // a vote leaves no trace
    kNewRootsDoNotAsk = 1U << 1,          // a new root proposes at once
    kFoundVotesAreIgnored = 1U << 2,      // a new root asks, and proposes what it likes
    kTheDeadDoNotVote = 1U << 3,          // certain deaths bring no vote
    kTheDeadPromiseNothing = 1U << 4,     // nor which root the dead followed last
    kEveryRootIsFollowed = 1U << 5,       // whichever root speaks last
    kQuorumIsNotAsked = 1U << 6,          // each side goes on
    kHalvesAreEnough = 1U << 7,           // whichever half it is
    kInstallsOnHearing = 1U << 8,         // a proposal is the next view
    kOrphansAreNotTold = 1U << 9,         // the children of the dead hear nothing from the parent of the dead
    kLateOrphansAreNotTold = 1U << 10,    // nor, where that is stable, what made the view
    kTheLateAreNotAnswered = 1U << 11,    // a root that asks about the view before gets no answer
    kViewsHaveNoNumbers = 1U << 12,       // a message of the view before counts in this one
    kAcksNameNothing = 1U << 13,          // an acknowledgement is for whatever was asked last
    kWelcomeFirst = 1U << 14,             // a joiner is greeted before anybody knows it
    kSeatsHaveNoIncarnations = 1U << 15,  // the death of a seat's earlier holder is that of the present one
    kJoinersDoNotScan = 1U << 16,         // a joiner asks one member only
    kRequestsAreNotPassedOn = 1U << 17,   // a member keeps a joiner's request to itself
    kViewsAreNotSentAlong = 1U << 18,     // a message does not bring what made its view
    kNewRootsAreNotTold = 1U << 19,       // what the old root was told of who waits or leaves dies with it
    kLeaversAreNotTold = 1U << 20,        // whom a leaver has told that it leaves does not tell it what became of that
    kConsentsAreForgotten = 1U << 21,     // a new root does not mind to what was consented
    kConsentsNeedNotBeAlike = 1U << 22,   // a root that all have told that they want a view takes its own
    kCallersAreNotWaitedFor = 1U << 23,   // a root proposes before all have said what they know
    kTheDeadDoNotConsent = 1U << 24,      // certain deaths bring no consent
    kConsentsBringNoLeaves = 1U << 25,    // who leaves is told to the root alone
    kCertaintyIsKept = 1U << 26,      // a member that lacks a quorum does not tell the root which deaths are certain
    kVoidConsentsAreKept = 1U << 27,  // as many as are kept, of changes that can't have been decided
};

struct MembershipPlan {
    View first{};                         // the same at all its members, and known to joiners
    std::uint32_t radix_bits = 1;         // log2 of the radix
    std::uint32_t capacity = UINT32_MAX;  // most seats
    // Which members of the first view share a host, for a tree of two levels while none of its seats is empty; null: a plain one.
    const topology::Nodes* hosts = nullptr;
    Quorum quorum = Quorum::certain;
    // Members tell the root which deaths they have noticed, as in the paper. Not needed where something else tells all.
    bool reports = false;
    // Members that want the next view say at once what they would propose, up the tree. Where all say the same the root need
    // not ask, nor propose: the next view takes two waves. And a member that was known to be dead to any of them, when it
    // called, is not in it.
    bool consents = false;
    // Newcomers are known to all members before any of them counts (introduce()); else each asks one member, which passes it on.
    bool introduces = false;
    // Each view makes a group of its own, with machines of its own: in these newcomers never speak, and none counts for a quorum.
    bool newcomers_go = false;
    std::uint32_t faults = 0;
};

// What a member leaves behind. The view's change is there because those that outlive it may be one view behind.
struct LastVote {
    std::uint32_t epoch = 0;
    Change made;
    std::uint32_t followed = 0;  // one more than the rank of the latest root that it has followed; 0 for none
    std::optional<Vote> latest;
    std::optional<Change> consent;

    bool operator==(const LastVote&) const = default;
};

class Membership {
  public:
    using Message = MembershipMessage;

    enum class Standing : std::uint8_t {
        joining,
        member,
        left,        // as it wanted
        excluded,    // the others go on without it
        refused,     // a joiner that there is no seat for: refused_by() says why
        unanswered,  // a joiner that found nobody
    };

    // A member of the first view; a newcomer, which asks from the start on. The plan outlives the machine.
    Membership(const MembershipPlan& plan, Process self);
    Membership(const MembershipPlan& plan, const JoinRequest& request);

    // --------------------------------------------------------------------------------------------------- facts

    // The caller wants the next view. The view's offer is what its members' offers have in common. Where their terms are at odds nobody is
    // waited for, and nobody joins. How many members there are to be is the root's to say; where its caller has no bounds, it goes
    // by the terms that the members have in common.
    void renew(const Offer& offer = {}, const std::optional<Bounds>& bounds = {});
    // While it waits for the next view: other bounds.
    void ask_for(const Bounds& bounds);
    // It wants not to be in the next view.
    void leave();
    // A process that all members can reach waits for a seat: each member's driver says so, sooner or later, and nobody asks the process to
    // ask by itself. Members that have the view that has it welcome it, all of them.
    void introduce(const JoinRequest& request);
    // False for what can't be.
    bool receive(const MembershipMessage& message);
    // It can't be reached; with its last vote it is dead for certain. Again, where the certainty comes later.
    void peer_failed(Process process, const LastVote* last_vote = nullptr);
    // It will not take part any more, and has told what made this view, if it is in it: to those that were below it in the tree.
    void peer_left(Process process);

    // -------------------------------------------------------------------------------------------------- pulled

    bool wants_to_send() const { return pulled_ < sends_.size(); }
    std::optional<MembershipMessage> next_send();

    // ------------------------------------------------------------------------------------------------- looking

    Process self() const { return self_; }
    Standing standing() const { return standing_; }
    MembershipKind refused_by() const { return refused_by_; }
    const View& view() const { return view_; }
    const Change& made_by() const { return made_; }  // of the view
    std::uint32_t epoch() const { return view_.epoch(); }
    bool is_renewing() const { return called_; }
    bool is_leaving() const { return leaving_; }
    bool is_root() const { return standing_ == Standing::member && failures_.suspected.lowest_absent() == self_rank_; }
    Phase phase() const { return phase_; }
    // The caller waits, and on this side there are too few.
    bool lacks_quorum() const { return lacks_quorum_; }
    // That is because one of the dead has followed a later root than this one.
    bool is_overtaken() const { return lacks_quorum_ && failures_.followed > followed_; }
    // The caller waits, and as root: with those that live there would be fewer than it has asked for.
    bool lacks_members() const { return called_ && is_root() && has_too_few(change_as_root()); }
    // So many, for which it waits.
    std::uint32_t least() const { return bounds(change_as_root().offer).least; }
    const Failures& failures() const { return failures_; }
    // Whether those of the view that are not suspected may make the next one.
    bool are_enough() const;
    // Of the view, ranks that count for no quorum (MembershipPlan::newcomers_go).
    const FailedSet& voiceless() const { return voiceless_; }
    LastVote last_vote() const;
    // Of a member.
    Process root_process() const { return view_.process_of(root()); }
    // Of a joiner that waits.
    Process asked() const { return plan_->first.process_of(asked_); }
    bool knows_request(Process process) const;
    bool knows_leave(Process process) const;
    bool suspects(Process process) const;
    // While the caller waits: the ranks from which this member has to hear next.
    FailedSet waited_for() const;
    // Whether it makes a difference that this one can't be reached.
    bool minds(Process process) const;
    // What to do with a message of the group's users, sent in the view of that number: now, when this member is there
    // itself, or never.
    enum class Delivery : std::uint8_t { now, later, never };
    Delivery delivery(Process from, std::uint32_t epoch) const;

    // Everything that decides what it does next: equal words, equal futures.
    void append_state(std::vector<std::uint32_t>& words) const;

  private:
    struct Waiting {
        JoinRequest request;
        bool asked_here;  // the joiner itself has, or was introduced here, and waits for a word from here
    };
    // The view before, for those who have not heard what followed.
    struct Before {
        View view;
        std::uint32_t self_rank;
        FailedSet suspected;
        FailedSet left;  // of those, that have told what followed
    };

    bool lacks(MembershipFault rule) const { return (plan_->faults & rule) != 0; }

    // membership.cpp: seats and members, and the step from one view to the next.
    RadixTree tree() const { return tree_of(view_); }
    RadixTree tree_of(const View& view) const {
        const bool has_hosts = plan_->hosts != nullptr && view.empty().empty() && view.count() == plan_->hosts->ranks();
        return {plan_->radix_bits, view.count(), has_hosts ? plan_->hosts : nullptr};
    }
    std::uint32_t root() const { return tree().root(failures_.suspected); }
    std::vector<std::uint32_t> children() const;
    std::vector<std::uint32_t> children_before() const;
    std::uint32_t parent_before() const;
    bool was_told_before(std::uint32_t rank) const;
    void suspect(Process process, bool certainly);
    void suspect_before(Process process);
    // `told_by`: its rank in the old view.
    void install(const Change& change, std::uint32_t told_by = RadixTree::kNobody);
    void tell_leavers();
    void carry_over(const View& old);
    void be_left_behind();

    // talk.cpp: what is told to whom, and what is made of what comes.
    MembershipMessage draft(MembershipKind kind, Process to) const;
    void say(MembershipKind kind, std::uint32_t rank) { sends_.push_back(draft(kind, view_.process_of(rank))); }
    void tell_stable(Process to);
    void tell_parent_before(std::uint32_t told_by);
    void tell_new_root();
    void report();
    void tell_root_of_deaths();
    bool receive_as_member(const MembershipMessage& message);
    void answer_the_late(const MembershipMessage& message);
    void receive_in_view(const MembershipMessage& message, std::uint32_t from);
    bool adopt(const MembershipMessage& message);
    void note(const Vote& vote);

    // decree.cpp: how the next view is decided.
    void begin(Phase phase, std::uint32_t root);
    void give_order(std::uint32_t rank);
    void obey(const MembershipMessage& message, std::uint32_t from);
    void count(const MembershipMessage& message, std::uint32_t from);
    bool is_acknowledged() const;
    void settle();
    void start_as_root();
    Change change_as_root() const;
    Bounds bounds(const Offer& offer) const;
    bool has_too_few(const Change& next) const;
    void propose(const Change& change);
    void conclude();
    void say_no_quorum();
    MembershipKind order_kind() const;
    MembershipKind acknowledgement_kind() const;

    // consent.cpp: views on which all have the same idea.
    struct Found {
        std::optional<Change> change;
        bool is_torn = false;  // there are two, of which only one can have been decided
    };
    void consent(const Offer& offer);
    void note(const Consent& consent);
    void tell_consent();
    bool is_void(const Consent& consent) const;
    const Consent* own_consent() const;
    bool may_be_alike() const;
    bool all_have_called() const;
    bool waits_for_callers() const;
    bool is_consented() const;
    bool may_be_decided(const Consent& consent, const FailedSet& gone) const;
    FailedSet ranks_at(const FailedSet& seats) const;
    Found find_decided() const;

    // joining.cpp: newcomers, on both sides.
    void ask_next();
    bool receive_as_joiner(const MembershipMessage& message);
    bool sit_down(const MembershipMessage& message);
    void consider(const JoinRequest& request, bool asked_here);
    void pass_on(const JoinRequest& request, std::uint32_t rank);
    void answer(MembershipKind kind, Process to);
    void welcome(const JoinRequest& request, const View& view);
    void welcome_those_who_waited();
    void refuse_where_full(const Change& change);
    Change next_change() const;

    const MembershipPlan* plan_;
    Process self_;
    std::uint32_t self_rank_ = 0;
    Standing standing_ = Standing::member;
    View view_;
    Change made_;  // the view
    Failures failures_;
    FailedSet voiceless_;  // ranks
    bool called_ = false;
    bool leaving_ = false;
    std::optional<Bounds> bounds_;  // the caller's

    // The decree.
    Phase phase_ = Phase::idle;
    std::uint32_t followed_ = 0;      // one more than the rank of the root in whose name the phase is; 0 for none
    std::optional<Change> proposal_;  // voting
    std::optional<Vote> latest_;      // that this member knows of, its own and those of the dead among them
    FailedSet acked_;                 // children that have acknowledged the phase
    FailedSet owed_;                  // members that wait for this one's acknowledgement
    bool lacks_quorum_ = false;

    // What was said before anybody has asked.
    Offer offer_;  // in common
    std::vector<Consent> consents_;
    FailedSet called_below_;                           // children from which on all have called
    std::uint32_t consent_told_ = RadixTree::kNobody;  // the parent that has been told so

    std::optional<Before> before_;
    std::vector<Waiting> waiting_;  // in the order in which they were heard of
    FailedSet leaves_;              // ranks that want to
    FailedSet told_here_;           // those that have said so to this member themselves: to them it is the root

    // A joiner.
    JoinRequest request_;
    FailedSet unreachable_;  // ranks of the first view
    std::uint32_t asked_ = RadixTree::kNobody;
    MembershipKind refused_by_ = MembershipKind::seat_taken;

    std::vector<MembershipMessage> sends_;
    std::size_t pulled_ = 0;  // of those
};

}  // namespace coppice::protocol
