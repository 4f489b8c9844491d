// The agreements of one group at one rank: Early Returning Agreement (Herault et al., SC'15, §2–§4).
//
// The driver's duties:
//  - Call next_send() whenever its send port is free and send what it returns, until it returns nothing; again after
//    every fact. Go on doing so, and handing in messages, after a decision: others may depend on it until the group is
//    gone.
//  - Deliver messages of the living reliably, in any order. Those of the dead may be lost or come late.
//  - Call peer_failed() for every rank that died or left, at every live rank, sooner or later, in any order; only for
//    ranks that never act again (a rank that is wrongly suspected has to be kept out for good: fencing).
//  - Learn from failed() after receive() in turn: messages tell of failures that the driver may not have noticed.
//  - All ranks start their agreements in the same order: the n-th call of contribute() or flush() is agreement n.
//
// Not for concurrent use.
//
// A pure machine: facts go in (contribute, receive, peer_failed), sends are pulled out one at a time (next_send). It
// reads no clock. While nobody has failed it allocates nothing after construction (a user operation's early
// contributions excepted). Work per event: logarithmic in the ranks, plus the tree's degree times the failures that the
// event tells of.
//
// The intuition. Contributions go up a tree (UP), the root decides when everybody's is in, the decision comes down
// (DOWN), and a rank returns as soon as it has it. When a parent dies its children contribute again, to the nearest
// live ancestor. When the root dies the lowest live rank takes its place; the decision may be out already, so it asks
// those directly below it (RESULTREQUEST), each of which sends the decision or, once more, its contribution. So a rank
// that has returned has to go on answering: see `settled_below`. docs/era.md has the rules, and where and why they
// depart from the printed ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/words.hpp"
#include "protocol/agreement/agreement_body.hpp"
#include "protocol/agreement/agreement_tree.hpp"
#include "protocol/agreement/operation.hpp"
#include "protocol/failed_set.hpp"

namespace coppice::protocol {

// When later agreements get a tree without those that died.
enum class Rebalance : std::uint8_t {
    never,
    when_degenerated,  // half of it is dead, or somebody has more than twice the children that a fresh tree gives
    always,
};

// Rules as the paper prints them in place of ours, to compare: with each of them the explorer finds a schedule that
// breaks a promise (docs/era.md). Not for use.
enum PrintedRule : std::uint8_t {
    kDecisionsFromParentOnly = 1,  // Recv(DOWN): a DOWN counts only if it comes from the parent
    kForgetsLateContributors = 2,  // Recv(UP): one that comes while broadcasting is dropped
    kRequestsTellOfElders = 4,     // Recv(RESULTREQUEST): tells only that all below the asker have failed
    kHearsTheDead = 8,             // what the dead sent is taken in also when their death is known
    kMarksEldersSilently = 16,  // Recv(RESULTREQUEST): marks them as dead, without the rule for those discovered dead
    kLearnsFromNobody = 32,     // the failed sets of UP and DOWN are agreed upon, not learned from
};

// What all ranks of a group have in common. Immutable; outlives its machines.
struct AgreementPlan {
    AgreementTree tree;                       // nobody excluded
    const topology::Nodes* hosts = nullptr;   // for trees of levels
    std::span<const topology::Site> sites{};  // of the hosts, where the tree has more than two; outlives the plan
    // How many agreements may be under way at once at one rank: 1, 2, 4, 8 or 16.
    std::uint32_t window = 4;
    std::uint32_t max_value = 256;  // bytes; at most kMaxValue
    Rebalance rebalance = Rebalance::when_degenerated;
    std::uint8_t printed = 0;  // PrintedRules

    static constexpr std::uint32_t kMaxWindow = 16;
    static constexpr std::uint32_t kMaxValue = 256;
    bool is_valid() const;
};

enum class AgreementKind : std::uint8_t {
    up,              // to the parent: what this rank's subtree contributes
    down,            // the decision
    result_request,  // from a rank that became root: has it been decided?
};
inline constexpr std::uint8_t kAgreementKinds = 3;
std::string_view to_string(AgreementKind kind);

struct AgreementMessage {
    AgreementKind kind = AgreementKind::up;
    Rank from;
    Rank to;
    Sequence agreement;
    std::span<const std::byte> body;
};
// The longest body while nobody has failed. Sets of failed ranks make it longer.
constexpr std::size_t body_bytes(std::size_t value_bytes) {
    return kBodyHeader + value_bytes;
}

enum class Reception : std::uint8_t {
    taken,
    stale,    // from a rank that has failed, or about an agreement that everybody has returned from: right to ignore
    garbage,  // what nobody of this group can have sent: ignored; to be counted
};

// What was agreed upon: the same at every survivor.
struct AgreementOutcome {
    std::span<const std::byte> value;
    // Everybody whose contribution may be missing from the value is in it.
    const FailedSet* failed = nullptr;
    // Every member of `failed` was known to, and had been acknowledged by, every contributor when it contributed.
    bool acknowledged = true;
    // Contributors differed in operation or size: the value means nothing.
    bool mismatched = false;
    // Some contributor knew of a change of members that waits (set_change_waits()).
    bool change_waits = false;
};

class Agreement {
  public:
    static constexpr std::uint32_t kNobody = AgreementTree::kNobody;

    Agreement(const AgreementPlan& plan, Rank self);

    // --- starting

    // This rank's part in the group's next agreement, and that agreement's number. Nothing when the window is full:
    // pump, until the oldest is decided. `value` is copied. What reason_against() objects to, or a value longer than
    // the plan's maximum, is the caller's mistake (asserted).
    std::optional<Sequence> contribute(const Operation& operation, std::span<const std::byte> value);
    // The agreement with which a group ends: when it is decided everybody has returned from all before, and this rank
    // may leave as soon as it has nothing more to send. Otherwise as contribute(); a rank that contributes a value to
    // it is told of the mismatch.
    std::optional<Sequence> flush();
    bool can_start() const { return next_ < decided_below_ + plan_->window; }

    // The caller has taken note of these failures: agreements that start from now on don't report them. Members that
    // this rank does not know to have failed are ignored.
    void acknowledge(const FailedSet& failed);
    const FailedSet& acknowledged() const { return acknowledged_; }
    // Whether a change of members waits, as this rank knows it: what it contributes from now on says so.
    void set_change_waits(bool waits) { change_waits_ = waits; }

    // --- facts

    Reception receive(const AgreementMessage& message);
    void peer_failed(Rank rank);
    // The same for many, which costs little more than for one. Never this rank.
    void peers_failed(const FailedSet& ranks);
    // Everybody that has failed, as far as this rank was told, by peer_failed() or by messages.
    const FailedSet& failed() const { return failed_; }
    // Somebody takes this rank for dead: whatever it does is ignored, and it does nothing any more.
    bool fenced() const { return fenced_; }

    // --- sends

    // The next message that the machine wants sent, now. Its body is valid until the next call of anything here.
    std::optional<AgreementMessage> next_send(Nanoseconds now);
    bool wants_to_send() const { return pending_ != 0 && !fenced_; }
    Nanoseconds next_timer() const { return kNever; }

    // --- results

    bool decided(Sequence agreement) const;
    // Nothing while undecided, and once the slot has been reused: at the earliest when this rank starts the agreement
    // 3·window − 1 later. What it points to lives as long; the driver copies it at once.
    std::optional<AgreementOutcome> outcome(Sequence agreement) const;
    // The number of the next agreement to start; all below this one are decided here; about all below that one nobody
    // will ever ask again.
    Sequence next() const { return Sequence{next_}; }
    Sequence decided_below() const { return Sequence{decided_below_}; }
    Sequence settled_below() const { return Sequence{settled_below_}; }
    // Calls `tell` for each rank whose message this rank's part of the agreement waits for, until it returns false.
    // Never a rank known to have failed. This rank itself while it has not contributed.
    void waiting_for(Sequence agreement, const std::function<bool(Rank)>& tell) const;

    // All that makes two machines of one plan and rank behave differently, as bytes; for the explorer.
    void fingerprint(std::string& out) const;

  private:
    enum class Status : std::uint8_t { free, not_contributed, gathering, broadcasting, decided };

    // What this rank knows of one tree: from 0 the plan's own, later those without the dead.
    struct View {
        std::shared_ptr<const AgreementTree> own;  // null: the plan's
        std::uint32_t children = 0;                // in the tree as made
        std::uint32_t live = 0;                    // of those, not failed
        std::uint32_t parent = kNobody;            // in the repaired tree
        std::vector<std::uint32_t> dead;           // indices of children that failed
        std::vector<std::uint32_t> adopted;        // other children in the repaired tree, ascending
        std::vector<std::uint32_t> fresh;          // of those, the ones that were not before the last failure
    };

    struct Slot {
        std::uint64_t sequence = 0;
        std::uint32_t missing = 0;       // gathering: children that have not contributed
        std::uint32_t parent = kNobody;  // broadcasting: where the contribution goes or went
        std::uint32_t cursor = 0;        // children in the tree as made that have been asked or told
        std::uint16_t bytes = 0;         // of the value
        std::uint8_t operation = 0;
        std::uint8_t lag = 0;
        std::uint8_t view = 0;
        Status status = Status::free;
        bool has_value = false;
        bool mismatched = false;
        bool unacknowledged = false;
        bool change_waits = false;
        bool asking = false;  // gathering: became root, and somebody may know the decision
        bool up_due = false;  // broadcasting
    };

    // A rank that contributed here and is not a child in the tree as made.
    struct Helper {
        std::uint32_t rank = 0;
        bool counts = false;  // since this rank began to gather
        bool operator==(const Helper&) const = default;
    };

    // The part of a slot that is empty while nobody fails.
    struct Trouble {
        FailedSet agreed;                   // decided: the whole set agreed upon
        FailedSet failed;                   // gathered, beyond the set agreed upon a window before
        FailedSet acknowledged;             // the same, by every contributor
        std::vector<Helper> helpers;        // ascending; everybody here is told of the decision
        std::vector<std::uint32_t> others;  // to ask or to tell, beyond the children in the tree as made
        std::uint32_t told = 0;             // of those
        std::vector<std::byte> early;       // contributions under a function that is not known yet
    };

    std::uint32_t slots() const { return plan_->window * 4; }
    std::uint32_t index_of(const Slot& slot) const { return static_cast<std::uint32_t>(&slot - slots_.data()); }
    Slot* find(std::uint64_t sequence);
    const Slot* find(std::uint64_t sequence) const;
    Slot& engage(std::uint64_t sequence);
    std::byte* value_of(const Slot& slot) { return values_.data() + std::size_t{index_of(slot)} * stride_; }
    const std::byte* value_of(const Slot& slot) const { return values_.data() + std::size_t{index_of(slot)} * stride_; }
    std::uint64_t* bits_of(const Slot& slot) { return bits_.data() + std::size_t{index_of(slot)} * words_; }
    const std::uint64_t* bits_of(const Slot& slot) const { return bits_.data() + std::size_t{index_of(slot)} * words_; }
    Trouble& trouble(const Slot& slot);
    const Trouble* find_trouble(const Slot& slot) const;
    const FailedSet& agreed_before(std::uint64_t sequence) const;
    const AgreementTree& tree(const View& view) const { return view.own ? *view.own : plan_->tree; }
    const View& view_of(const Slot& slot) const { return views_[slot.view]; }
    void mark(const Slot& slot) { pending_ |= std::uint64_t{1} << index_of(slot); }

    bool as_printed(PrintedRule rule) const { return (plan_->printed & rule) != 0; }

    // agreement.cpp: contributions and decisions
    std::optional<Sequence> start(std::uint8_t code, const Operation& operation, std::span<const std::byte> value);
    void merge(Slot& slot, const AgreementBody& body, const Operation* operation);
    void merge_value(Slot& slot, const AgreementBody& body, const Operation* operation);
    void merge_early(Slot& slot, const Operation& operation);
    void settle(Slot& slot);
    void decide(Slot& slot);
    Reception receive_up(const AgreementMessage& message, const AgreementBody& body);
    Reception receive_down(const AgreementMessage& message, const AgreementBody& body);
    Reception receive_request(const AgreementMessage& message, const FailedSet& failed);
    bool is_about_us(const FailedSet& failed, Rank from, Reception& verdict);

    // repair.cpp: children, parents and failures
    void learn(const FailedSet& failed);
    void learn_silently(const FailedSet& failed);  // kMarksEldersSilently
    void refresh(View& view);
    void repair(Slot& slot);
    void become_root(Slot& slot);
    void note_contributor(Slot& slot, std::uint32_t rank);
    bool has_contributed(const Slot& slot, std::uint32_t rank) const;
    std::uint32_t count_missing(const Slot& slot) const;
    void choose_view(Slot& slot);
    void rebalance(const FailedSet& agreed);
    void add_view(const FailedSet& excluded);
    void move_to_view(Slot& slot, std::uint8_t view);

    // sends.cpp
    void owe(Slot& slot, std::uint32_t rank);
    void collect_others(Slot& slot);
    std::optional<std::uint32_t> next_target(Slot& slot, bool skip_contributors);
    bool write_next(Slot& slot, AgreementMessage& message);
    void write_up(Slot& slot);
    void write_down(const Slot& slot);
    void gather_own_failures(Slot& slot);

    const AgreementPlan* plan_;
    std::uint32_t self_;
    std::uint32_t words_ = 1;    // of bits_ for each slot
    std::uint32_t stride_ = 8;   // of values_
    std::uint64_t pending_ = 0;  // slots that may have something to send, as bits
    std::uint64_t next_ = 0;
    std::uint64_t decided_below_ = 0;
    std::uint64_t settled_below_ = 0;
    std::vector<Slot> slots_;
    std::vector<std::uint64_t> bits_;  // which children in the tree as made have contributed
    std::vector<std::byte> values_;
    std::vector<View> views_;
    std::vector<Trouble> trouble_;  // one for each slot, from the first failure on
    std::vector<Operation> user_;   // one for each slot, from the first user operation on
    FailedSet failed_;
    FailedSet acknowledged_;
    std::vector<std::byte> out_;        // the body of the message that was pulled last
    std::uint32_t checked_failed_ = 0;  // how many had failed when the tree was last looked at
    std::uint8_t latest_view_ = 0;
    bool fenced_ = false;
    bool change_waits_ = false;
};

}  // namespace coppice::protocol
