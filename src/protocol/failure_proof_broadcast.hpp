// Dissemination down a tree, or by gossip, then failure-proof correction: all or none of the live members get the
// payload, while no more than f die on the way (failure_proof.hpp; IPDPS'17 §III.D, with a tree in the place of
// gossip).
//
// Two machines in one: a Broadcast whose correction is left to a FailureProofCorrection. What a Broadcast does when its
// root has died (rescue, verdict: root_failure.cpp), and the duties of its driver (broadcast.hpp), are the same here.
//
// A member may give the payload to its caller at once (colored), or when it is through (finished). Only the latter is
// uniform: a member that returned the payload then, and dies, leaves it with all survivors.
//
// Beyond the paper, when failures are noticed: with a live root every live member gets the payload, whichever others
// die, and when; with a dead root all survivors get it, or all are told that the root failed.
#pragma once

#include "protocol/broadcast.hpp"
#include "protocol/failure_proof.hpp"

namespace coppice::protocol {

// Immutable; outlives its machines.
struct FailureProofPlan {
    BroadcastPlan broadcast;  // its correction is failure_proof
    FailureProofSettings settings;
};

// `correction` is failure_proof; a delay of 0 there needs a `timeout`.
FailureProofPlan make_failure_proof_plan(const BroadcastPlan& broadcast, Nanoseconds timeout);

class FailureProofBroadcast {
  public:
    using Message = FailureProofMessage;

    // As Broadcast's.
    FailureProofBroadcast(const FailureProofPlan& plan, Position self, std::uint32_t root_member,
                          const FailedSet& failed, bool has_payload, std::uint64_t seed = 0);

    bool receive(const FailureProofMessage& message);
    void peer_failed(Position position);
    void peer_restarted(Position position);
    void origin_lost() { core_.origin_lost(); }

    std::optional<FailureProofMessage> next_send(Nanoseconds now);
    Nanoseconds next_timer() const { return std::min(core_.next_timer(), correction_.next_timer()); }

    bool colored() const { return core_.colored(); }
    BroadcastResult result() const { return core_.result(); }
    // Colored and through, or given up.
    bool finished() const { return core_.finished() && (!core_.colored() || correction_.finished()); }
    bool is_sos() const { return correction_.is_sos(); }

  private:
    Broadcast core_;
    FailureProofCorrection correction_;
};

static_assert(Machine<FailureProofBroadcast>);

}  // namespace coppice::protocol
