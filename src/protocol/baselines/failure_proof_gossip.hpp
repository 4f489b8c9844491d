// Failure-proof corrected gossip, FCG (IPDPS'17 §III.D, Algorithm 3), as the paper has it: gossip (gossip.hpp) by time or by rounds, then
// failure-proof correction (failure_proof.hpp) among the members that gossip has reached. All or none of the live
// members get the payload while no more than f die on the way, and any number may be dead before, without a detector.
//
// Only a member that is through (finished()) knows that everybody will get it.
//
// By rounds nobody keeps the phases apart: corrections may overtake gossip. A member that is reached by a correction
// first and by gossip later joins the correction, unless it is through or has heard an SOS.
#pragma once

#include <cstdint>
#include <optional>

#include "base/words.hpp"
#include "protocol/baselines/gossip.hpp"
#include "protocol/failed_set.hpp"
#include "protocol/failure_proof.hpp"

namespace coppice::protocol {

// What all members of a broadcast have in common. Immutable; outlives its machines.
struct FailureProofGossipPlan {
    GossipPlan gossip;  // of kind failure_proof
    FailureProofSettings correction;
};

// As make_gossip_plan(), for kind failure_proof. `timeout` 0: longer than any correction lasts on the model's clock.
tl::expected<FailureProofGossipPlan, std::string> make_failure_proof_gossip_plan(const GossipSpec& spec,
                                                                                 const GossipModel& model, double delta,
                                                                                 std::uint32_t hop,
                                                                                 Nanoseconds timeout);

class FailureProofGossip {
  public:
    using Message = FailureProofMessage;

    // As Gossip's.
    FailureProofGossip(const FailureProofGossipPlan& plan, Position self, std::uint32_t root_member,
                       const FailedSet& failed, bool has_payload, std::uint64_t seed);

    // gossip, correction_left, correction_right, sos. False when it can't be: ignored.
    bool receive(const FailureProofMessage& message);
    // May reopen a finished machine.
    void peer_failed(Position position);
    std::optional<FailureProofMessage> next_send(Nanoseconds now);
    Nanoseconds next_timer() const { return is_gossiping() ? gossip_.next_timer() : correction_.next_timer(); }

    bool colored() const { return correction_.colored(); }
    bool finished() const { return correction_.finished(); }
    bool gossiped() const { return gossip_.gossiped(); }
    bool is_sos() const { return correction_.is_sos(); }

  private:
    bool is_gossiping() const { return gossip_.colored() && !gossip_.finished() && !correction_.is_sos(); }

    Gossip gossip_;
    FailureProofCorrection correction_;
};

static_assert(sizeof(FailureProofGossip) <= 192, "a machine fits three cache lines");

}  // namespace coppice::protocol
