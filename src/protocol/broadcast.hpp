// One broadcast at one member: dissemination down a tree, then correction on a ring (PPoPP'19 §3; IPDPS'17 §III), and
// what we add to both, service after death: a colored member takes its correction up again when a member on which it
// relied has failed. So a live root's payload reaches every live member, whichever others die, and whenever.
//
// The driver's duties:
//  - Call next_send() whenever its send port is free and send what it returns, until it returns nothing. Call it again
//    after every fact, and at next_timer().
//  - Count `now` from the start of the broadcast, as well as it knows; no promise but speed depends on it.
//  - Insert into the FailedSet first, then call peer_failed() on every machine of the group, in any order of machines.
//  - Refuse every message from a member in its FailedSet from then on. The root-failure verdict stands on it.
//  - `query` and `denial` carry their sender's FailedSet; merge it into your own (insert + peer_failed) before
//    receive().
//  - What a member says outlives its leader: before a message leaves, the payload (if it is colored) and its FailedSet
//    (if it is a denial) are where a process that stands in for it finds them, and that process starts from both.
//  - Give the payload along with every message for which carries_payload() holds, and store it before the receive()
//    that colors; keep it servable until every live member is known to have it.
//
// A pure machine: facts go in (receive, peer_failed, peer_restarted, origin_lost), sends are pulled out one at a time
// (next_send). It reads no clock, allocates nothing after construction, and never sees the payload.
//
// A member is a process, or a host whose live ranks stand in for each other (see docs/architecture.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "base/words.hpp"
#include "protocol/chance.hpp"
#include "protocol/failed_set.hpp"
#include "protocol/machine.hpp"
#include "topology/ring.hpp"
#include "topology/tree.hpp"

namespace coppice::protocol {

enum class CorrectionKind : std::uint8_t {
    none,                     // the tree alone, as fault-ignorant libraries do it
    acknowledged,             // the tree, acknowledged up the tree: the classical baseline
    opportunistic,            // d neighbours on each side (or on the right only) but those known to have it
    opportunistic_paper,      // all d neighbours on each side, heard from or not; to compare
    optimized_opportunistic,  // the same, skipping what a neighbour surely covers: our repaired rule (docs/corrections.md)
    optimized_paper,          // the rule as printed in PPoPP'19 §3.3, which is not live for three messages a side; to
                              // compare
    checked,  // outward in both directions until somebody was heard from there; nothing under a star, while the root lives
    delayed,        // one message to the left; to the right only when nobody was heard from there for a while
    failure_proof,  // all or none with up to f deaths on the way. FailureProofBroadcast's: a Broadcast with it leaves
                    // the correction to its owner
};

struct CorrectionSpec {
    CorrectionKind kind = CorrectionKind::opportunistic;
    // Opportunistic kinds only: d, messages a side; and whether to the right (ascending) alone, as the paper's
    // prototype.
    std::uint32_t distance = 1;
    bool one_directional = false;
    // Starts everywhere at BroadcastPlan::correction_start, not as soon as a member's own tree messages are out
    // (overlapped).
    bool synchronized = false;
    // delayed: how long to wait for a message from the right. failure_proof: the timeout of failure_proof.hpp, 0 for
    // the driver's choice.
    Nanoseconds delay{0};
    // failure_proof only: f.
    std::uint32_t failures = 1;

    bool operator==(const CorrectionSpec&) const = default;
};

// Reads what users may choose: "none", "ack", "opportunistic:D", "optimized:D", "checked", "delayed:T",
// "failure-proof:F[:T]" (F from 1, the default, to 4). The opportunistic ones take ":one-directional" behind D
// (1 … kMaxDistance), which defaults to 1; all but none and ack take ":overlapped" (the default) or ":synchronized" at
// the end. T is in units of the driver's clock: nanoseconds in the library, LogP steps in the simulator; 1 … kMaxDelay.
// Strict: no blanks, signs or leading zeros. The error lists the known names. to_string() writes what
// parse_correction() reads, and what baselines/names.hpp does.
inline constexpr std::uint32_t kMaxDistance = 1U << 20;
inline constexpr std::uint64_t kMaxDelay = 3'600'000'000'000;  // an hour in nanoseconds
tl::expected<CorrectionSpec, std::string> parse_correction(std::string_view text);
std::string to_string(const CorrectionSpec& spec);
const std::vector<std::string_view>& known_corrections();

enum class MessageKind : std::uint8_t {
    tree,              // payload, parent to child
    correction_left,   // payload, towards lower positions
    correction_right,  // payload, towards higher positions
    rescue,            // payload, the answer of a colored member to a query
    acknowledgement,   // child to parent: my subtree is colored
    query,             // the coordinator, after the root's death: do you have it? `detail` is the round
    denial,            // no, and I refuse what the members of your failed set may still have under way; echoes `detail`
    verdict,           // nobody has it and nobody can get it any more: the root failed. With correction none and ack,
                       // parent to child: nothing will come down from here
    gossip,            // payload, to a member drawn at random; `detail` is the round
};
inline constexpr std::uint8_t kMessageKinds = 9;

constexpr bool carries_payload(MessageKind kind) {
    return kind <= MessageKind::rescue || kind == MessageKind::gossip;
}
constexpr bool is_correction(MessageKind kind) {
    return kind == MessageKind::correction_left || kind == MessageKind::correction_right;
}
std::string_view to_string(MessageKind kind);

struct Message {
    MessageKind kind = MessageKind::tree;
    Position from;
    Position to;
    // query, denial: the round (the size of the asker's FailedSet). Corrections of optimized_opportunistic: the
    // sender's turn, which says on which members it may rely (docs/corrections.md). verdict with correction none and
    // ack: 0 the root failed, 1 another ancestor did. gossip: its round, from 1. 0 elsewhere.
    std::uint32_t detail = 0;

    bool operator==(const Message&) const = default;
};

// Dissemination by gossip in the place of the tree: by rounds, as gossip.hpp has it and tells. A member that a
// correction reaches gossips only when gossip reaches it, too.
struct GossipRounds {
    std::uint32_t rounds = 0;  // 0: no gossip, but the tree
    std::uint32_t hop = 0;     // how many rounds a hop costs

    bool operator==(const GossipRounds&) const = default;
};

// What all broadcasts of a group have in common. Immutable; outlives its machines.
struct BroadcastPlan {
    topology::Tree tree;
    CorrectionSpec correction;
    // Synchronized correction starts when this much time has passed since the start of the broadcast.
    Nanoseconds correction_start{0};
    // With rounds, nothing of `tree`, a star, counts but its size, and there is a correction, neither none nor ack.
    GossipRounds gossip{};
};

// Whether checked correction has nothing to do in it while the root lives.
bool leaves_checked_to_root(const BroadcastPlan& plan);

// When the dissemination down `tree` ends if nobody fails, in LogP steps: the start of synchronized correction in the
// papers (PPoPP'19 §3.3). A member sends its k-th tree message k·overhead after it was colored; it colors its receiver
// 2·overhead + latency later. O(P) time and memory.
Nanoseconds dissemination_end(const topology::Tree& tree, std::uint64_t latency, std::uint64_t overhead);

enum class BroadcastResult : std::uint8_t {
    pending,      // not colored yet
    colored,      // has the payload
    root_failed,  // the root died and no live member has the payload, nor ever will
    orphaned,     // correction none or ack only: an ancestor died, nobody else will send. Final, as root_failed
                  // is: it is said only when the parent is dead, or has said itself that nothing will come from
                  // it
};

class Schedule;

class Broadcast {
  public:
    using Message = protocol::Message;

    // `self` is this member's position; `root_member` the root's ring index, so that position p is member (p +
    // root_member) mod P of `failed`. Position 0 starts colored unless `has_payload` is false there (a member that
    // stands in for the dead root process without its payload). Any other position may start colored too (a stand-in
    // that found the payload published): it then sends everything that a freshly colored member sends. Members that are
    // in `failed` already are not sent to. Gossip draws its targets from `seed`, which is another one for each
    // broadcast.
    Broadcast(const BroadcastPlan& plan, Position self, std::uint32_t root_member, const FailedSet& failed,
              bool has_payload, std::uint64_t seed = 0)
        : plan_(&plan),
          failed_(&failed),
          self_(self.value),
          root_member_(root_member),
          children_(plan.gossip.rounds != 0 ? plan.gossip.rounds : plan.tree.child_count(self)) {
        if (has_payload) color_ = Color::from_start;
        if (gossips()) chance_ = Chance(seed, self.value);
        coordinator_ = self_ == 0;
        if (!failed.empty()) learn_of_failures();
    }

    // A message to this member. False when it can't be (position out of range, from itself, an impossible kind): it was
    // ignored and should be counted.
    bool receive(const Message& message) {
        if (message.to.value != self_ || message.from.value == self_ || message.from.value >= processes()) return false;
        if (plan_->correction.kind == CorrectionKind::opportunistic && is_correction(message.kind)) [[likely]]
            return receive_opportunistic(message);
        return receive_any(message);
    }

    // `position` is in the FailedSet now. May reopen a finished machine.
    void peer_failed(Position position);

    // The process that acted for member `position` died and another stands in. What was sent to the dead one may be
    // lost: it is sent again. What it said still holds, because members say only what outlives their leader.
    void peer_restarted(Position position);

    // This member is position 0 and the root process died before its payload outlived it: nobody has it.
    void origin_lost();

    // The next message that the machine wants sent, now.
    std::optional<Message> next_send(Nanoseconds now) {
        if (idle_ && wake_ > now) return std::nullopt;
        return next_of_all(now);
    }
    // The same, looked up where that can be done, in the schedule of this machine's position (schedule.hpp). Both may be mixed.
    std::optional<Message> next_send(Nanoseconds now, const Schedule& schedule);
    // Only while follows_schedule(): the message's number in the schedule, or kNothing.
    static constexpr std::uint32_t kNothing = UINT32_MAX;
    std::uint32_t next_scheduled(const Schedule& schedule);
    bool follows_schedule() const { return color_ != Color::uncolored && !reply_due_ && failed_->empty(); }
    // When to call next_send() again though nothing happens: the start of synchronized correction, the end of a delay.
    Nanoseconds next_timer() const { return wake_; }

    bool colored() const { return color_ != Color::uncolored; }
    BroadcastResult result() const { return colored() ? BroadcastResult::colored : given_up_; }
    // Nothing to send and nothing to wait for, as far as is known now: colored (or given up) and its part of the
    // correction done. True only once next_send() has returned nothing since the last fact that mattered. peer_failed,
    // peer_restarted and a query may reopen it.
    bool finished() const {
        if (!idle_ || wake_ != kNever || result() == BroadcastResult::pending) return false;
        return plan_->correction.kind != CorrectionKind::acknowledged || !colored() || first_awaited_ >= children_;
    }

  private:
    friend class Schedule;

    // How far on each side members heard from are remembered one by one.
    static constexpr std::uint32_t kRemembered = 64;
    // How many may owe an answer at a time: their answers fit one word.
    static constexpr std::uint32_t kAwaited = 64;

    // by_tree: or by gossip.
    enum class Color : std::uint8_t { uncolored, from_start, by_tree, by_correction, by_rescue };

    // broadcast.cpp: events, the tree, acknowledgements.
    std::uint32_t processes() const { return plan_->tree.processes(); }
    bool failed(Position position) const { return !failed_->empty() && is_in_failed(position); }
    bool is_in_failed(Position position) const;
    bool has_correction() const {
        return plan_->correction.kind != CorrectionKind::none && plan_->correction.kind != CorrectionKind::acknowledged;
    }
    // Whether a colored member takes part in the correction.
    bool takes_part() const {
        return (color_ != Color::by_correction && color_ != Color::by_rescue) || takes_part_when_reached_late();
    }
    bool takes_part_when_reached_late() const;
    // All; in synchronized correction not the members that it colors. If failures are known: docs/corrections.md.
    bool serves_children() const { return !plan_->correction.synchronized || color_ != Color::by_correction; }
    // Whether next_tree() may have anything to do.
    bool disseminates() const {
        if (child_ == children_ && !gossips() && plan_->correction.kind != CorrectionKind::acknowledged) return false;
        return serves_children();
    }
    bool gossips() const { return plan_->gossip.rounds != 0; }
    // In the tree, if there is one.
    bool is_child_of(Position position, Position parent) const {
        return !gossips() && plan_->tree.is_parent(parent, position);
    }
    bool receive_any(const Message& message);
    bool receive_tree(const Message& message);
    bool receive_gossip(const Message& message);
    bool receive_acknowledgement(const Message& message);
    bool receive_correction(const Message& message);
    // As receive_correction(), for the plain rule, which relies on nobody and takes no turns.
    bool receive_opportunistic(const Message& message) {
        const bool from_left = message.kind == MessageKind::correction_right;
        if (message.detail != 0 || given_up_ != BroadcastResult::pending) return false;
        if (plan_->correction.one_directional && !from_left) return false;
        const Position self{self_};
        const std::uint32_t offset = from_left ? topology::distance_left(self, message.from, processes())
                                               : topology::distance_right(self, message.from, processes());
        if (offset <= kRemembered) (from_left ? heard_left_ : heard_right_) |= std::uint64_t{1} << (offset - 1);
        if (color_ == Color::uncolored) color(Color::by_correction);
        return true;
    }
    bool receive_rescue(const Message& message);
    void color(Color how);
    Message message(MessageKind kind, Position to, std::uint32_t detail) const {
        return Message{kind, Position{self_}, to, detail};
    }
    std::optional<Message> next_of_all(Nanoseconds now);
    std::optional<Message> next_tree();
    std::optional<Message> next_gossip();
    std::optional<Message> next_acknowledgement();
    void pass_acknowledged();

    // correction.cpp: what all share; correction_opportunistic.cpp; correction_checked.cpp; correction_delayed.cpp.
    std::optional<Message> next_correction(Nanoseconds now);
    void hear(MessageKind kind, Position from);
    void forget(Position from);
    void remember_as_colored(Position position);
    // From the member that is so far to the left.
    bool was_heard(std::uint32_t left) const {
        const std::uint32_t right = processes() - left;
        return (left <= kRemembered && (heard_left_ >> (left - 1) & 1) != 0) ||
               (right <= kRemembered && (heard_right_ >> (right - 1) & 1) != 0);
    }
    std::uint32_t nearest_left() const;
    std::uint32_t nearest_right() const;

    std::optional<Message> next_opportunistic();
    void rely(MessageKind kind, Position from, std::uint32_t turn);
    // The root has the payload, and sends it to its children itself while it lives.
    bool served_by_root(Position target) const {
        return !root_dead_ && (target.value == 0 || is_child_of(target, Position{0}));
    }
    bool needless(Position target, std::uint32_t left) const;
    bool relies_on_others_for(Position target) const;
    bool is_open_to_right() const;
    bool is_open_to_left() const;
    bool is_open_beyond(Position first, std::uint32_t count) const;
    bool takes_turns() const {
        return plan_->correction.kind == CorrectionKind::optimized_opportunistic && !plan_->correction.one_directional;
    }

    std::optional<Message> next_checked();
    bool all_are_served_by_root() const { return !root_dead_ && leaves_checked_to_root(*plan_); }

    std::optional<Message> next_delayed(Nanoseconds now);
    std::optional<Message> next_to_left(Nanoseconds now);
    std::optional<Message> next_stop();
    void owe_stop(Position to);
    void forget_sends();

    // root_failure.cpp: what happens when nobody may have the payload.
    bool receive_query(const Message& message);
    bool receive_denial(const Message& message);
    bool receive_verdict(const Message& message);
    std::optional<Message> next_reply();
    std::optional<Message> next_query();
    std::optional<Message> next_verdict();
    void learn_of_failures();
    void give_up(BroadcastResult why);
    bool is_asking() const;
    void start_round_if_stale();
    void advance_round();

    const BroadcastPlan* plan_;
    const FailedSet* failed_;

    // Members heard from at the offsets 1 … 64 to the left and to the right, bit (offset − 1).
    std::uint64_t heard_left_ = 0;
    std::uint64_t heard_right_ = 0;
    // Whose answer has come, of the 64 from first_awaited_ on. The coordinator: which positions have denied in this
    // round. Correction ack: which children (by index) have acknowledged. Correction delayed, when colored: the members
    // on the left, as in heard_left_, that this one has stopped.
    std::uint64_t answered_ = 0;
    // Nothing changes before then; kNever: not with time alone.
    Nanoseconds wake_{kNever};
    Chance chance_;

    std::uint32_t self_;
    std::uint32_t root_member_;
    std::uint32_t children_;   // gossip: the last round
    std::uint32_t child_ = 0;  // the next child to send to; gossip: the round of the last message
    std::uint32_t left_ = 0;   // offsets dealt with on the ring, to the left
    std::uint32_t right_ = 0;
    // checked, delayed: the nearest member heard from beyond the offset 64. Optimized: the nearest one whose turn was
    // before this member's. As offsets; 0 is nobody.
    std::uint32_t relied_left_ = 0;
    std::uint32_t relied_right_ = 0;
    // Optimized: the nearest one whose turn is the same as this member's. Delayed: the one to stop beyond the offset
    // 64.
    std::uint32_t equal_left_ = 0;
    std::uint32_t equal_right_ = 0;
    // Optimized: this member's turn, fixed once took_turn_. Delayed: up to where everybody is sent to once more.
    std::uint32_t turn_ = 0;
    std::uint32_t asker_ = 0;  // the member to reply to, and for which round
    std::uint32_t asked_round_ = 0;
    std::uint32_t round_ = 0;          // the coordinator's round
    std::uint32_t first_awaited_ = 0;  // everybody before it has answered, or failed
    std::uint32_t ask_next_ = 0;       // the next position to ask, or to tell the verdict

    Color color_ = Color::uncolored;
    BroadcastResult given_up_ = BroadcastResult::pending;
    bool idle_ = false;       // nothing to send until the next fact
    bool took_turn_ = false;  // optimized: sent a correction
    bool reply_due_ = false;
    bool ack_due_ = false;
    bool root_dead_ = false;    // position 0 is in the FailedSet (and is not this member)
    bool coordinator_ = false;  // everybody at a lower position is in the FailedSet
};

static_assert(sizeof(Broadcast) <= 128, "a machine fits two cache lines");
static_assert(Machine<Broadcast>);

}  // namespace coppice::protocol
