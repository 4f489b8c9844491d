#include "protocol/baselines/failure_proof_gossip.hpp"

namespace coppice::protocol {

tl::expected<FailureProofGossipPlan, std::string> make_failure_proof_gossip_plan(const GossipSpec& spec,
                                                                                 const GossipModel& model, double delta,
                                                                                 std::uint32_t hop,
                                                                                 Nanoseconds timeout) {
    if (spec.kind != GossipKind::failure_proof) return tl::unexpected<std::string>("only fcg is failure-proof");
    auto gossip = make_gossip_plan(spec, model, delta, hop);
    if (!gossip) return tl::unexpected(gossip.error());
    FailureProofGossipPlan plan;
    plan.gossip = *gossip;
    plan.correction.processes = model.processes;
    plan.correction.failures = spec.failures;
    plan.correction.closed_turn = Nanoseconds{spec.by_rounds ? 0 : model.overhead};
    plan.correction.timeout = timeout;
    if (timeout.value == 0) {
        // By time all start at once; by rounds some are still reached when others have long started.
        const std::uint64_t hop_time = model.latency + 2 * std::uint64_t{model.overhead};
        const std::uint64_t spread = spec.by_rounds ? gossip->spec.limit * hop_time : hop_time;
        plan.correction.timeout = failure_proof_timeout(model.processes, model.latency, model.overhead, spread);
    }
    return plan;
}

FailureProofGossip::FailureProofGossip(const FailureProofGossipPlan& plan, Position self, std::uint32_t root_member,
                                       const FailedSet& failed, bool has_payload, std::uint64_t seed)
    : gossip_(plan.gossip, self, root_member, failed, has_payload, seed),
      correction_(plan.correction, self, root_member, failed) {
    if (has_payload) correction_.join();
}

bool FailureProofGossip::receive(const FailureProofMessage& message) {
    if (message.kind != FailureProofKind::gossip) {
        return message.detail == 0 && correction_.receive(message);
    }
    if (message.known_count != 0) return false;
    // A member that is through as a c-node has nothing to add; a copy finds out whether the message can be.
    const bool is_late = !gossip_.colored() && (correction_.finished() || correction_.is_sos());
    Gossip copy = gossip_;
    Gossip& gossip = is_late ? copy : gossip_;
    if (!gossip.receive({GossipMessageKind::gossip, message.from, message.to, message.detail})) return false;
    if (!is_late) correction_.join();
    return true;
}

void FailureProofGossip::peer_failed(Position position) {
    gossip_.peer_failed(position);
    correction_.peer_failed(position);
}

std::optional<FailureProofMessage> FailureProofGossip::next_send(Nanoseconds now) {
    if (is_gossiping()) {
        if (const std::optional<GossipMessage> next = gossip_.next_send(now)) {
            FailureProofMessage message;
            message.kind = FailureProofKind::gossip;
            message.from = next->from;
            message.to = next->to;
            message.detail = next->round;
            return message;
        }
        if (!gossip_.finished()) return std::nullopt;
    }
    if (gossip_.finished()) correction_.start();
    return correction_.next_send(now);
}

}  // namespace coppice::protocol
