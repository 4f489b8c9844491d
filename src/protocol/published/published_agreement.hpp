// Agreements among ranks that can read each other's memory: contributions are published, and everybody decides for
// itself.
//
// The intuition. Where each rank owns memory that all others read and that outlives it, an agreement needs no messages:
// each publishes its contribution, and a rank that sees the contributions of all members has the decision, the same as
// every other rank. Only when a member dies and its contribution is not there must the others come to terms. They stop
// deciding, and agree with the tree machine (agreement.hpp, ERA) on two things: how far any live rank has decided, and
// which ranks are dead. Up to there all contributions are there, and everybody decides as it would have; from there on
// the dead are no members any more. Then they go on deciding for themselves. One such round is a recovery.
//
// Why all the living decide the same. M(r) are the members after r recoveries: all ranks but the agreed dead of
// recovery r.
//  1. A rank that decides k in the r-th period has seen the contributions of all of M(r), and these never change. So
//     all that decide k in the same period decide the same.
//  2. A rank that takes part in recovery r + 1 names d, the first agreement that it has not decided, and decides
//     nothing until the recovery is over. Its outcome is D, the largest d of all contributors, and F, the agreed dead.
//     A rank that is not in F has contributed, or the machine says so by its promise: everybody whose contribution may
//     be missing is in F. So of the living nobody has decided D or later among M(r), and nobody will.
//  3. Somebody decided D − 1 among M(r) (or D is where the period began), so all contributions below D are there: a
//     rank that has not decided them decides them now, among M(r), as 1. says. D and later are decided among M(r + 1)
//     by everybody. Recoveries are agreements of the machine, one after the other, and D and F are the same at all.
// A store of a dying process that shows late changes nothing: a contribution of a member of F counts up to D only,
// where somebody has seen it, and is not looked at from D on.
//
// Why it ends. A rank whose agreement lacks a contribution of a member that it knows to be dead enters a recovery (or
// is in one); the others see that on the board, or hear from the machine, in any call of the library, and enter it too.
// The machine ends. Afterwards that member is gone from M.
//
// The ring of lines. To publish k is to have decided k − W, W the window; to have decided j is to have seen that
// everybody has published j, and so has decided j − W. Hence when k is published, all living ranks have decided k − 2W:
// 2W lines are enough, and nothing is overwritten that anybody may still read.
//
// Two levels. Where ranks share a cache or a NUMA node with a few of the others (a domain), each looking at every other's
// line moves all lines into all caches. There one member of a domain speaks for it: when the contributions of all members
// of its domain are in, it publishes them as one, their summary. Everybody, the speaker included, decides by the
// summaries of all domains: of other caches it reads one line each.
//  - A summary is a function of the contributions of those of M(r) that are in its domain, and is marked with r. So 1.
//    holds: to have seen the summaries of all domains is to have seen all contributions, by the eyes of the speakers,
//    and the others see what those have seen. Values are combined domain by domain in any case, so that even an
//    operation for which the order matters gives the same everywhere.
//  - Nobody has to be told who speaks: the lowest of M(r) in the domain. When it dies those who wait enter a recovery,
//    as when any other member dies, and the next one speaks from then on. Agreements below D, which somebody has decided
//    by summaries, need none: their contributions are there, and are read directly.
//  - A speaker looks whether it is shut out after it has read and before it says what it has read: then it read in time.
//  - A summary lies in a line like the contribution's, and is overwritten 2W agreements later, when all have decided it.
//    In a later period its speaker may write that line again: all the living have left the period before by then.
//
// Pure: reads no clock, knows no thread; the board is an interface. Allocates nothing while nobody dies. Not for
// concurrent use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/agreement/agreement.hpp"
#include "topology/nodes.hpp"

namespace coppice::protocol {

// What one member publishes for one agreement.
struct Contribution {
    std::uint8_t operation = 0;      // encode_operation(), or kFlushCode
    bool change_waits = false;       // a change of members, as this member knows it
    std::uint32_t acknowledged = 0;  // how long its log of acknowledged failures was then
    std::span<const std::byte> value;
};

// What the speaker of a domain publishes for its members.
struct Summary {
    std::uint8_t operation = 0;                      // the speaker's own, as in a Contribution
    bool change_waits = false;                       // some member's
    bool unacknowledged = false;                     // some member had not acknowledged all of the agreed dead
    std::uint32_t differs = AgreementTree::kNobody;  // a member that contributed another operation or size
    std::span<const std::byte> value;                // all members', combined
};

// The memory that each member writes for itself and all others read. What is there stays when its writer dies.
class ContributionBoard {
  public:
    virtual void publish(std::uint64_t sequence, const Contribution& contribution) = 0;
    // The contribution of a member, this rank included, if it is there; good until 2 windows later. Nothing about it
    // has been checked except that the value is not longer than the plan's maximum.
    virtual bool look(std::uint32_t member, std::uint64_t sequence, Contribution& contribution) const = 0;

    // The same of summaries, of one period; only where there are domains. One of another period is none.
    virtual void publish_summary(std::uint64_t sequence, std::uint64_t period, const Summary& summary) = 0;
    virtual bool look_summary(std::uint32_t speaker, std::uint64_t sequence, std::uint64_t period,
                              Summary& summary) const = 0;

    // A log of the failures that this rank has acknowledged; it only grows.
    virtual void log_acknowledged(std::uint32_t failed) = 0;
    virtual std::uint32_t logged_acknowledged(std::uint32_t member, std::uint32_t index) const = 0;

    // How many recoveries this rank has entered, for the others to follow.
    virtual void set_recoveries(std::uint64_t count) = 0;
    virtual std::uint64_t recoveries(std::uint32_t member) const = 0;

    // Some member takes this rank for dead. A member that does so has said it here before it looks for contributions
    // the next time, and a rank that finds this false is seen to have published by every member that comes to say it
    // later.
    virtual bool shut_out() const = 0;

  protected:
    ~ContributionBoard() = default;
};

// The calls mean what they mean at Agreement, the machine, except where said.
class PublishedAgreement {
  public:
    // `plan` says window, the longest value and the tree of recoveries; `domains` which ranks share a cache, null where all
    // look at everybody. All three outlive this object.
    PublishedAgreement(const AgreementPlan& plan, Rank self, ContributionBoard& board,
                       const topology::Nodes* domains = nullptr);

    std::optional<Sequence> contribute(const Operation& operation, std::span<const std::byte> value);
    // A rank that has decided it may leave, except that a recovery may need it: leaving then counts as failing, which
    // is harmless, as nobody has anything left to decide but its own flush.
    std::optional<Sequence> flush();
    bool can_start() const { return next_ < decided_below_ + plan_->window; }
    void acknowledge(const FailedSet& failed);
    const FailedSet& acknowledged() const { return acknowledged_; }
    void set_change_waits(bool waits) { change_waits_ = waits; }

    Reception receive(const AgreementMessage& message);
    void peer_failed(Rank rank);
    void peers_failed(const FailedSet& ranks) { recovery_.peers_failed(ranks); }
    const FailedSet& failed() const { return recovery_.failed(); }
    bool fenced() const { return broken_ || shut_out_ || recovery_.fenced(); }

    // Looks at the board whether this rank is shut out.
    std::optional<AgreementMessage> next_send(Nanoseconds now);
    bool wants_to_send() const { return !shut_out_ && recovery_.wants_to_send(); }

    // Looks at the board and decides what can be decided: call it whenever somebody waits. The cost while nothing
    // happens: one look. With `thoroughly` also whether others have entered a recovery: now and then, in any call.
    void look(bool thoroughly);

    bool decided(Sequence agreement) const { return agreement.value < decided_below_; }
    // Until this rank starts the agreement 2 windows later.
    std::optional<AgreementOutcome> outcome(Sequence agreement) const;
    // The same set as in the outcome, to hold on to. Never null.
    std::shared_ptr<const FailedSet> agreed(Sequence agreement) const;
    // A rank that contributed another operation or size than this one, after an outcome that says `mismatched`.
    std::optional<Rank> who_differs(Sequence agreement) const;
    Sequence next() const { return Sequence{next_}; }
    Sequence decided_below() const { return Sequence{decided_below_}; }
    // Calls `tell` for each rank that it waits for, until it returns false: live ones that have not contributed; where
    // there is none, those that the recovery waits for.
    void waiting_for(Sequence agreement, const std::function<bool(Rank)>& tell) const;
    bool waits_for_recovery(Sequence agreement) const;
    std::uint64_t recoveries() const { return entered_; }
    // This rank speaks for its domain, and has not yet for all that it has started: others wait for its next look.
    bool owes_summary() const;
    bool recovering() const { return recovering_; }

    // All that makes two objects of one plan and rank behave differently, as bytes; for the explorer.
    void fingerprint(std::string& out) const;

  private:
    // What was contributed, as far as it is in.
    struct Sum {
        std::uint32_t cursor = 0;  // members, or domains, that are in
        std::uint32_t differs = AgreementTree::kNobody;
        bool has_value = false;
        bool unacknowledged = false;
        bool change_waits = false;
        alignas(8) std::byte value[AgreementPlan::kMaxValue];

        void restart();
    };
    struct Slot {
        std::uint64_t sequence = UINT64_MAX;
        std::uint16_t bytes = 0;
        std::uint8_t code = 0;
        bool spoken = false;  // this rank's summary is out
        Operation operation;
        std::shared_ptr<const FailedSet> agreed;
        Sum all;
        Sum domain;  // this rank's, where it speaks for one

        void restart();
    };
    // What is known of a member's acknowledgements: those up to `count` do (not) hold all the agreed dead.
    struct Acknowledgement {
        std::uint32_t count = UINT32_MAX;
        bool complete = false;
    };

    Slot& slot_of(std::uint64_t sequence) { return slots_[sequence & (slots_.size() - 1)]; }
    const Slot& slot_of(std::uint64_t sequence) const { return slots_[sequence & (slots_.size() - 1)]; }
    std::optional<Sequence> start(std::uint8_t code, const Operation& operation, std::span<const std::byte> value);
    bool is_missing(std::uint32_t member, Sequence agreement) const;
    void waiting_for_speakers(Sequence agreement, const std::function<bool(Rank)>& tell) const;
    bool has_domains() const { return bounds_.size() > 2; }
    std::span<const std::uint32_t> members_of(std::uint32_t domain) const {
        return std::span(members_).subspan(bounds_[domain], bounds_[domain + 1] - bounds_[domain]);
    }
    std::uint32_t domain_count() const { return static_cast<std::uint32_t>(bounds_.size()) - 1; }
    bool speaks() const { return has_domains() && !own_domain().empty() && own_domain().front() == self_; }
    std::span<const std::uint32_t> own_domain() const { return members_of(domains_->node_of(Rank{self_})); }
    void leave_out_agreed();
    bool gather(Slot& slot);
    bool gather_directly(Slot& slot);
    bool gather_members(const Slot& slot, std::span<const std::uint32_t> members, Sum& sum);
    bool speak(Slot& slot);
    bool is_not_shut_out();
    static Summary summary_of(const Slot& slot, const Sum& sum);
    void take(const Slot& slot, std::uint32_t member, const Contribution& contribution, Sum& sum);
    static void take(Slot& slot, std::uint32_t speaker, const Summary& summary);
    static void combine_into(const Slot& slot, std::span<const std::byte> value, Sum& sum);
    bool has_acknowledged(std::uint32_t member, std::uint32_t count);
    void decide_what_is_there();
    bool others_recover() const;
    void enter_recovery();
    void end_recovery();

    const AgreementPlan* plan_;
    std::uint32_t self_;
    ContributionBoard* board_;
    const topology::Nodes* domains_;
    Agreement recovery_;                             // its agreement r is recovery r + 1
    std::vector<std::uint32_t> members_;             // by domain, then by rank
    std::vector<std::uint32_t> bounds_;              // where each domain's begin; one more at the end
    std::vector<Acknowledgement> acknowledgements_;  // by rank
    std::shared_ptr<const FailedSet> agreed_;        // everybody that is no member any more
    std::vector<Slot> slots_;
    FailedSet acknowledged_;
    std::uint64_t next_ = 0;
    std::uint64_t decided_below_ = 0;
    std::uint64_t entered_ = 0;
    std::uint32_t logged_ = 0;  // acknowledged
    bool recovering_ = false;
    bool called_ = false;  // somebody is in a recovery that this rank has not entered
    bool broken_ = false;
    bool shut_out_ = false;
    bool change_waits_ = false;
};

}  // namespace coppice::protocol
