// One broadcast at one member: dissemination down a tree, then correction on a ring (PPoPP'19 §3; IPDPS'17 §III), and
// what we add to both, service after death: whoever is colored takes its correction up again when a member on which
// it relied has failed, so that a live root's payload reaches every live member whoever else dies, and when.
//
// A pure machine: facts go in (receive, peer_failed, peer_restarted, origin_lost), sends are pulled out one at a time
// (next_send). It reads no clock, allocates nothing after construction, and never sees the payload.
//
// A member is a process, or a host whose live ranks stand in for each other (see docs/architecture.md).
//
// The driver's duties:
//  - Call next_send() whenever its send port is free and send what it returns, until it returns nothing. Call it again
//    after every fact.
//  - Insert into the FailedSet first, then call peer_failed() on every machine of the group, in any order of machines.
//  - Refuse every message from a member in its FailedSet from then on. The root-failure verdict stands on it.
//  - `query` and `denial` carry their sender's FailedSet; merge it into your own (insert + peer_failed) before receive().
//  - Give the payload along with every message for which carries_payload() holds, and store it before the receive()
//    that colors; keep it servable until every live member is known to have it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "protocol/failed_set.hpp"
#include "topology/tree.hpp"
#include "topology/words.hpp"

namespace coppice::protocol {

enum class CorrectionKind : std::uint8_t {
    none,                     // the tree alone, as fault-ignorant libraries do it
    acknowledged,             // the tree, acknowledged up the tree: the classical baseline
    opportunistic,            // d neighbours on each side (or on the right only)
    optimized_opportunistic,  // the same, skipping what a neighbour surely covers: our mended rule (docs/corrections.md)
    optimized_paper,          // the rule as printed in PPoPP'19 §3.3, which is not live for three messages a side; to compare
    checked,                  // outward in both directions until somebody was heard from there
};

struct CorrectionSpec {
    CorrectionKind kind = CorrectionKind::opportunistic;
    std::uint32_t distance = 1;    // d, messages a side; opportunistic kinds only
    bool one_directional = false;  // to the right (ascending) only, as the paper's MPI prototype; opportunistic kinds only

    bool operator==(const CorrectionSpec&) const = default;
};

// Reads "none", "ack", "opportunistic:D", "optimized:D", "optimized-paper:D", "checked"; the opportunistic ones take
// ":one-directional" at the end, and D defaults to 1. The error lists the known names.
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
    verdict,           // nobody has it and nobody can get it any more: the root failed
};
inline constexpr std::uint8_t kMessageKinds = 8;

constexpr bool carries_payload(MessageKind kind) { return kind <= MessageKind::rescue; }
constexpr bool is_correction(MessageKind kind) {
    return kind == MessageKind::correction_left || kind == MessageKind::correction_right;
}
std::string_view to_string(MessageKind kind);

struct Message {
    MessageKind kind = MessageKind::tree;
    Position from;
    Position to;
    // query, denial: the round. Corrections may use it to say what their sender will still cover. 0 elsewhere.
    std::uint32_t detail = 0;

    bool operator==(const Message&) const = default;
};

// What all broadcasts of a group have in common. Immutable; outlives its machines.
struct BroadcastPlan {
    topology::Tree tree;
    CorrectionSpec correction;
};

enum class BroadcastResult : std::uint8_t {
    pending,      // not colored yet
    colored,      // has the payload
    root_failed,  // the root died and no live member has the payload, nor ever will
    orphaned,     // correction none or ack only: an ancestor died, nobody else will send
};

class Broadcast {
  public:
    // `self` is this member's position; `root_member` the root's ring index, so that position p is member
    // (p + root_member) mod P of `failed`. Position 0 starts colored unless `has_payload` is false there (a member
    // that stands in for the dead root process without its payload). Any other position may start colored too
    // (a stand-in that found the payload published): it then sends everything that a freshly colored member sends.
    // Members that are in `failed` already are not sent to.
    Broadcast(const BroadcastPlan& plan, Position self, std::uint32_t root_member, const FailedSet& failed,
              bool has_payload);

    // A message to this member. False when it can't be (position out of range, from itself, an impossible kind): it was
    // ignored and should be counted.
    bool receive(const Message& message);

    // `position` is in the FailedSet now. May reopen a finished machine.
    void peer_failed(Position position);

    // The process that acted for member `position` died and another stands in. What was sent to the dead one may be
    // lost: it is sent again. What it said still holds, because members say only what outlives their acting process.
    void peer_restarted(Position position);

    // This member is position 0 and the root process died before its payload outlived it: nobody has it.
    void origin_lost();

    // The next message that the machine wants sent, now. `now` is unused by the machines of this version's corrections.
    std::optional<Message> next_send(Nanoseconds now);
    Nanoseconds next_timer() const { return kNever; }

    bool colored() const;
    BroadcastResult result() const;
    // Nothing to send and nothing to wait for, as far as is known now: colored (or given up) and its part of the
    // correction done. peer_failed, peer_restarted and a query may reopen it.
    bool finished() const;

  private:
    // The builder of this room adds the state; it fits two cache lines.
};

}  // namespace coppice::protocol
