// Failure-proof correction (IPDPS'17 §III.D, Algorithm 3): all or none of the live members get the payload, whatever
// the order of messages and without any failure detector, while no more than f members die on the way. Any number may
// be dead before.
//
// The intuition: no member stops before it knows f + 1 others that carry on, for one of them survives. As in checked
// correction, members reached by the dissemination (g-nodes) send outward in both directions. Their messages say which
// g-nodes they know behind them. A g-node that knows f + 1 on its left tells those on its right, from its next
// neighbour on, once more (the final round), so that they get to know f + 1 on their left, too; and the other way
// round. A direction is closed when the farthest of the f + 1 nearest g-nodes known there has been sent to; with both
// closed a g-node is through. Members reached by a correction (c-nodes) send nothing and are through when they know f +
// 1 g-nodes. A member that does not get there sends to everybody, and each receiver does the same (SOS).
//
// FailureProofCorrection is the correction alone, for whatever dissemination; FailureProofBroadcast
// (failure_proof_broadcast.hpp) puts it behind a tree, FailureProofGossip behind gossip.
//
// "Through" is when a caller may be given the payload if it must be sure that all live members get it: finished(). To
// have the payload (colored) is not enough, as its holder may be the only one, and die.
//
// Departures from the paper:
//  - A g-node that has been all round the ring without finding f + 1 others waits for the timeout of a c-node before
//    SOS: others may only be late.
//  - A c-node that the dissemination reaches after all becomes a g-node, unless it is through.
//  - f is at most P − 2: then there is but one survivor.
//  - Where failures are noticed (peer_failed): members known to have failed are not sent to. When none of the f + 1 on
//    which a member relied is left, it goes on as if it had never heard of them. When no f + 1 others are left at all,
//    it is enough to have heard from all that are. So with a detector it is all or none of the survivors however many
//    die. Without notices more than f deaths may leave some with and some without.
//  - After peer_restarted everything on the ring is sent once more.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/words.hpp"
#include "protocol/failed_set.hpp"

namespace coppice::protocol {

inline constexpr std::uint32_t kMaxFailures = 4;

// The first eight are numbered like those of MessageKind (broadcast.hpp); there are no acknowledgements here.
enum class FailureProofKind : std::uint8_t {
    tree = 0,              // payload, from parent to child
    correction_left = 1,   // payload, towards lower positions
    correction_right = 2,  // payload, towards higher positions
    rescue = 3,            // these four as in broadcast.hpp
    gossip = 4,            // payload, to a member drawn at random; `detail` is the round
    query = 5,
    denial = 6,
    verdict = 7,
    sos = 8,  // payload, to everybody: send to everybody
};
inline constexpr std::uint8_t kFailureProofKinds = 9;

constexpr bool carries_payload(FailureProofKind kind) {
    return kind <= FailureProofKind::gossip || kind == FailureProofKind::sos;
}
constexpr bool is_correction(FailureProofKind kind) {
    return kind == FailureProofKind::correction_left || kind == FailureProofKind::correction_right ||
           kind == FailureProofKind::sos;
}
std::string_view to_string(FailureProofKind kind);

struct FailureProofMessage {
    FailureProofKind kind = FailureProofKind::correction_right;
    std::uint8_t known_count = 0;  // corrections only: of `known`
    Position from;
    Position to;
    std::uint32_t detail = 0;
    // The nearest g-nodes that the sender knows behind it: on its left when it sends to the right. 0 behind
    // known_count.
    std::array<Position, kMaxFailures + 1> known{};

    bool operator==(const FailureProofMessage&) const = default;
};

// What all members of a broadcast have in common. Immutable; outlives its machines.
struct FailureProofSettings {
    std::uint32_t processes = 1;
    std::uint32_t failures = 1;  // f, 1 … kMaxFailures
    // From when a member has the payload by a correction (or begins to correct) to its SOS. No promise depends on it.
    // Too short costs P² messages.
    Nanoseconds timeout{0};
    // How long the turn of a closed direction lasts: overhead as in the paper's pseudocode, 0 to give it to the other
    // one.
    Nanoseconds closed_turn{0};
};

// Longer than any correction lasts that needs no SOS, in LogP steps, for members that begin within `spread` of each
// other.
Nanoseconds failure_proof_timeout(std::uint32_t processes, std::uint64_t latency, std::uint64_t overhead,
                                  std::uint64_t spread);

// A component: its owner is the machine, and hands it what concerns the correction. It has the payload from the first
// join() or receive() on. Allocates nothing.
class FailureProofCorrection {
  public:
    // `root_member`: the member of `failed` that is position 0.
    FailureProofCorrection(const FailureProofSettings& settings, Position self, std::uint32_t root_member,
                           const FailedSet& failed);

    // The dissemination has reached this member: a g-node. It remembers what it hears, but sends nothing before
    // start().
    void join();
    // Its dissemination is over. Only after join().
    void start();
    // It has the payload from a member of which nothing else is known: a c-node, if it is not a g-node.
    void color();

    // correction_left, correction_right or sos. False when it can't be: ignored.
    bool receive(const FailureProofMessage& message);
    // Whether receive() would accept it.
    bool is_possible(const FailureProofMessage& message) const;
    // `position` is in the FailedSet now. May reopen.
    void peer_failed(Position position);
    // What was sent to `position` may be lost. May reopen.
    void peer_restarted(Position position);

    std::optional<FailureProofMessage> next_send(Nanoseconds now);
    Nanoseconds next_timer() const { return wake_; }

    bool colored() const { return role_ != Role::uncolored; }
    // Through: it may be forgotten, and the payload be given to the caller.
    bool finished() const { return role_ == Role::done; }
    // Sends to everybody, or has.
    bool is_sos() const { return sos_; }

  private:
    enum class Role : std::uint8_t { uncolored, c_node, joined, g_node, sos, done };

    // The nearest g-nodes known on one side, as offsets, ascending; at most f + 1.
    using Known = std::array<std::uint32_t, kMaxFailures + 1>;

    struct Side {
        Known known{};
        std::uint32_t sent = 0;     // offsets dealt with
        std::uint8_t count = 0;     // of `known`
        bool is_final = false;      // this side's g-nodes are told of f + 1 on the other side
        std::uint16_t unused_ = 0;  // no byte that does not count, so that states can be compared by their bytes
    };

    std::uint32_t failures() const;
    bool failed(Position position) const;
    Position at(bool left, std::uint32_t offset) const;
    Side& side(bool left) { return left ? left_ : right_; }
    const Side& side(bool left) const { return left ? left_ : right_; }
    void learn(bool left, Position g_node);
    bool knows_enough(bool left) const;
    bool c_node_knows_enough() const;
    bool knows_all_survivors() const;
    bool is_known_on_the_left(std::uint32_t offset_right) const;
    bool is_open(bool left) const;
    std::uint32_t distinct_known() const;
    bool all_known_failed(bool left) const;
    void begin_final_round(bool left);
    void begin_sos();
    void reopen();
    std::optional<FailureProofMessage> next_of_g_node(Nanoseconds now);
    std::optional<FailureProofMessage> next_on(bool left);
    std::optional<FailureProofMessage> next_sos();
    void wait_for_sos(Nanoseconds now);

    const FailureProofSettings* settings_;
    const FailedSet* failed_;
    Nanoseconds wake_{kNever};
    Nanoseconds deadline_{kNever};  // of SOS; kNever: not running yet
    std::uint32_t self_;
    std::uint32_t root_member_;
    Side left_;
    Side right_;
    std::uint32_t sos_sent_ = 0;  // offsets dealt with, to the right
    Role role_ = Role::uncolored;
    bool sos_ = false;
    bool lefts_turn_ = false;
    bool is_g_node_ = false;
};

static_assert(sizeof(FailureProofCorrection) <= 128, "a component fits two cache lines");

}  // namespace coppice::protocol
