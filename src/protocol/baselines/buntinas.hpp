// Buntinas' fault-tolerant tree broadcast (BFB), as IPDPS'17 §IV.B describes it: the classical way, with a failure
// detector and acknowledgements, to compare with.
//
// The intuition: each message says for which range of positions its receiver is to care. The receiver hands the upper
// half of what is left to the first member there that it does not know to have failed, and so on: a binomial tree made
// on the way. A member that has heard from all its children acknowledges to its parent. One that learns before that
// that a child has failed refuses (nack), which goes straight up to the root, and the root starts the next attempt,
// with a tree around those known to have failed. So while the root lives every live member gets the payload, whichever
// others die and when, as long as the deaths are noticed. Without failures it takes 2 · log2 P · (2o + L), twice as
// long as the tree, and 2 (P − 1) messages.
//
// Nothing is promised when the root dies: members that have nothing then give up, others keep what they have, and the
// operation is over.
//
// Departures: an attempt is named by a number, and what belongs to an older one is ignored. A member that is sent an
// older attempt than it knows refuses and names the newest, so that a process that stands in for the root goes beyond
// it.
#pragma once

#include <array>

#include "protocol/broadcast.hpp"

namespace coppice::protocol {

enum class BuntinasKind : std::uint8_t {
    tree,             // payload, from parent to child
    acknowledgement,  // child to parent: my range is colored
    refusal,          // child to parent: this attempt fails
    verdict,          // from the process that stands in for the root without its payload, to everybody: nobody has it
};

inline constexpr std::uint8_t kBuntinasKinds = 4;

constexpr bool carries_payload(BuntinasKind kind) {
    return kind == BuntinasKind::tree;
}
std::string_view to_string(BuntinasKind kind);

struct BuntinasMessage {
    BuntinasKind kind = BuntinasKind::tree;
    Position from;
    Position to;
    std::uint32_t attempt = 0;  // 1, 2, …; verdict: 0
    // tree: the receiver cares for the positions behind its own up to, not including, this one. refusal: the newest
    // attempt that the sender knows of. 0 elsewhere
    std::uint32_t detail = 0;

    bool operator==(const BuntinasMessage&) const = default;
};

// As Broadcast in all that both have (broadcast.hpp); the driver's duties are the same. Allocates nothing.
class BuntinasBroadcast {
  public:
    using Message = BuntinasMessage;

    BuntinasBroadcast(std::uint32_t processes, Position self, std::uint32_t root_member, const FailedSet& failed,
                      bool has_payload);

    bool receive(const BuntinasMessage& message);
    void peer_failed(Position position);
    void peer_restarted(Position position);
    void origin_lost();

    std::optional<BuntinasMessage> next_send(Nanoseconds now);
    Nanoseconds next_timer() const { return kNever; }

    bool colored() const { return colored_; }
    BroadcastResult result() const {
        return colored_    ? BroadcastResult::colored
               : given_up_ ? BroadcastResult::root_failed
                           : BroadcastResult::pending;
    }
    // At the root: all have acknowledged. Elsewhere: this member has acknowledged, or the root is dead. Another attempt
    // may reopen it.
    bool finished() const { return through_; }
    // How often the root has begun; elsewhere the newest attempt known.
    std::uint32_t attempt() const { return attempt_; }

  private:
    static constexpr std::uint32_t kMostChildren = 32;  // each takes half of what is left

    bool failed(Position position) const;
    bool receive_tree(const BuntinasMessage& message);
    bool receive_answer(const BuntinasMessage& message);
    void begin(std::uint32_t attempt, std::uint32_t end);
    void fail_attempt();
    std::optional<BuntinasMessage> next_tree();
    std::optional<BuntinasMessage> next_answer();
    std::optional<BuntinasMessage> next_verdict();
    bool is_over() const;
    BuntinasMessage message(BuntinasKind kind, std::uint32_t to, std::uint32_t detail) const;

    const FailedSet* failed_;
    std::uint32_t processes_;
    std::uint32_t self_;
    std::uint32_t root_member_;
    std::uint32_t attempt_ = 0;
    std::uint32_t newest_ = 0;  // refused with
    std::uint32_t parent_ = 0;
    // What is left to hand on: the positions behind self_ before this one. Where the payload is lost: the members that
    // were told so.
    std::uint32_t end_ = 0;
    std::uint32_t children_ = 0;
    std::uint32_t awaited_ = 0;                             // children that owe an answer, by index
    std::uint32_t resend_ = 0;                              // children that must be sent to once more
    std::array<std::uint32_t, kMostChildren> child_{};      // this attempt's, in send order
    std::array<std::uint32_t, kMostChildren> child_end_{};  // and up to where they care
    std::uint32_t stale_from_ = 0;                          // which member sent an older attempt, and which one
    std::uint32_t stale_attempt_ = 0;                       // 0: nobody
    bool colored_ = false;
    bool given_up_ = false;
    bool refused_ = false;     // this attempt has failed
    bool answer_due_ = false;  // to the parent
    bool acknowledged_ = false;
    bool through_ = false;
    bool root_dead_ = false;
    std::uint8_t unused_ = 0;  // no byte that does not count, so that states can be compared by their bytes
};

static_assert(Machine<BuntinasBroadcast>);

}  // namespace coppice::protocol
