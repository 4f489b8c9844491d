// One broadcast by gossip at one member, as the papers have it (IPDPS'17 §III.A to C): GOS, OCG and CCG of protocol/gossip.hpp. FCG is a
// machine of its own, failure_proof_gossip.hpp; this one gossips for it. Members reached by a correction send nothing. No group runs it:
// groups gossip with the machine of broadcast.hpp. docs/gossip.md tells what each promises.
//
// A pure machine (machine.hpp): the same seed and the same facts give the same messages. Nothing is allocated, every
// call is O(1) but for members known to have failed, which a correction steps over one by one.
//
// Departures from the paper: members known to have failed are not sent to. A checked correction ends when everybody on
// the ring has been sent to from one side or the other (Algorithm 2 goes once round in each direction). A member that a
// correction reached first and gossip later takes part from then on, as if gossip had come first: by time that can't
// happen, by rounds nobody keeps the phases apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/words.hpp"
#include "protocol/chance.hpp"
#include "protocol/failed_set.hpp"
#include "protocol/gossip.hpp"

namespace coppice::protocol {

enum class GossipMessageKind : std::uint8_t {
    gossip,            // to a member drawn at random
    correction_left,   // towards lower positions
    correction_right,  // towards higher positions
};

constexpr bool carries_payload(GossipMessageKind /*kind*/) {
    return true;
}
constexpr bool is_correction(GossipMessageKind kind) {
    return kind != GossipMessageKind::gossip;
}
std::string_view to_string(GossipMessageKind kind);

struct GossipMessage {
    GossipMessageKind kind = GossipMessageKind::gossip;
    Position from;
    Position to;
    std::uint32_t round = 0;  // gossip by rounds: this message's, 1 … limit. 0 elsewhere

    bool operator==(const GossipMessage&) const = default;
};

class Gossip {
  public:
    using Message = GossipMessage;

    // `self` is this member's position; `root_member` the root's ring index, so that position p is member (p +
    // root_member) mod P of `failed`. Position 0 is the root. A member that has the payload from the start (it stands
    // in for a dead process) gossips like the root, from round 1. Each broadcast of a group takes another seed; members
    // draw from streams of their own.
    Gossip(const GossipPlan& plan, Position self, std::uint32_t root_member, const FailedSet& failed, bool has_payload,
           std::uint64_t seed);

    // False when it can't be: ignored.
    bool receive(const GossipMessage& message);
    // `position` is in the FailedSet now. It is not sent to any more, and a checked direction that had closed at it
    // opens again. Once the root has failed, members that a correction reached take part in checked correction.
    void peer_failed(Position position);
    std::optional<GossipMessage> next_send(Nanoseconds now);
    Nanoseconds next_timer() const;

    bool colored() const { return phase_ != Phase::uncolored; }
    // Colored, its gossip over and its part of the correction done, as far as is known now: true only once next_send()
    // has returned nothing since. Members reached by a correction finish at once. peer_failed() may reopen it.
    bool finished() const { return phase_ == Phase::done; }
    // Reached by gossip, or has had the payload from the start.
    bool gossiped() const { return gossiped_; }

  private:
    enum class Phase : std::uint8_t { uncolored, gossiping, correcting, done };

    // How far on each side members heard from are remembered one by one.
    static constexpr std::uint32_t kRemembered = 32;

    bool failed(Position position) const;
    bool by_rounds() const { return plan_->spec.by_rounds; }
    bool is_checked() const { return plan_->spec.kind == GossipKind::checked; }
    bool is_opportunistic() const { return plan_->spec.kind == GossipKind::opportunistic; }
    bool receive_gossip(const GossipMessage& message);
    bool receive_correction(const GossipMessage& message);
    bool gossip_is_over(Nanoseconds now) const;
    void end_gossip();
    std::optional<GossipMessage> next_gossip(Nanoseconds now);
    std::optional<Position> draw();
    std::optional<GossipMessage> next_opportunistic();
    std::optional<GossipMessage> next_checked(Nanoseconds now);
    std::optional<GossipMessage> step(bool to_left);
    bool is_open(bool to_left) const;
    bool all_are_served() const { return left_ + right_ + 1 >= plan_->processes; }
    void hear(GossipMessageKind kind, Position from);
    void forget(Position from);

    const GossipPlan* plan_;
    const FailedSet* failed_;
    Chance chance_;
    // Members heard from at the offsets 1 … 32 to each side, bit (offset − 1); and the nearest one beyond (0: nobody).
    std::uint32_t heard_left_ = 0;
    std::uint32_t heard_right_ = 0;
    std::uint32_t far_left_ = 0;
    std::uint32_t far_right_ = 0;
    std::uint32_t self_;
    std::uint32_t root_member_;
    std::uint32_t left_ = 0;  // offsets dealt with, to the left
    std::uint32_t right_ = 0;
    // By rounds: the round of the last message sent, or of that which colored, with its hop. By time: nothing is to be
    // sent before then; 0 when there is nothing to wait for.
    std::uint32_t clock_ = 0;
    Phase phase_ = Phase::uncolored;
    bool gossiped_ = false;
    bool root_dead_ = false;
    bool lefts_turn_ = false;
};

static_assert(sizeof(Gossip) <= 64, "a machine fits a cache line");

}  // namespace coppice::protocol
