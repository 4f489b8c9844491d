#include "protocol/failure_proof_broadcast.hpp"

namespace coppice::protocol {
namespace {

// The kinds that a Broadcast knows have its numbers, but for gossip.
constexpr MessageKind plain(FailureProofKind kind) {
    if (kind == FailureProofKind::gossip) return MessageKind::gossip;
    return kind == FailureProofKind::sos ? MessageKind::correction_right : static_cast<MessageKind>(kind);
}

constexpr FailureProofKind failure_proof(MessageKind kind) {
    return kind == MessageKind::gossip ? FailureProofKind::gossip : static_cast<FailureProofKind>(kind);
}

static_assert(plain(FailureProofKind::tree) == MessageKind::tree);
static_assert(plain(FailureProofKind::correction_left) == MessageKind::correction_left);
static_assert(plain(FailureProofKind::correction_right) == MessageKind::correction_right);
static_assert(plain(FailureProofKind::rescue) == MessageKind::rescue);
static_assert(plain(FailureProofKind::query) == MessageKind::query);
static_assert(plain(FailureProofKind::denial) == MessageKind::denial);
static_assert(plain(FailureProofKind::verdict) == MessageKind::verdict);

}  // namespace

FailureProofPlan make_failure_proof_plan(const BroadcastPlan& broadcast, Nanoseconds timeout) {
    const CorrectionSpec& spec = broadcast.correction;
    FailureProofSettings settings;
    settings.processes = broadcast.tree.processes();
    settings.failures = spec.failures;
    settings.timeout = spec.delay.value > 0 ? spec.delay : timeout;
    return {broadcast, settings};
}

FailureProofBroadcast::FailureProofBroadcast(const FailureProofPlan& plan, Position self, std::uint32_t root_member,
                                             const FailedSet& failed, bool has_payload, std::uint64_t seed)
    : core_(plan.broadcast, self, root_member, failed, has_payload, seed),
      correction_(plan.settings, self, root_member, failed) {
    if (has_payload) correction_.join();
}

bool FailureProofBroadcast::receive(const FailureProofMessage& message) {
    if (message.kind > FailureProofKind::sos) return false;
    if (is_correction(message.kind)) {
        if (message.detail != 0 || !correction_.is_possible(message)) return false;
    } else if (message.known_count != 0) {
        return false;
    }
    const protocol::Message received{plain(message.kind), message.from, message.to, message.detail};
    if (message.kind == FailureProofKind::gossip && (correction_.finished() || correction_.is_sos())) {
        // A member that is through, or calls for help, does not start to gossip; a copy tells whether the message can
        // be.
        Broadcast copy = core_;
        return copy.receive(received);
    }
    if (!core_.receive(received)) return false;
    if (is_correction(message.kind)) return correction_.receive(message);
    if (message.kind == FailureProofKind::tree || message.kind == FailureProofKind::gossip) correction_.join();
    if (message.kind == FailureProofKind::rescue) correction_.color();
    return true;
}

void FailureProofBroadcast::peer_failed(Position position) {
    core_.peer_failed(position);
    correction_.peer_failed(position);
}

void FailureProofBroadcast::peer_restarted(Position position) {
    core_.peer_restarted(position);
    correction_.peer_restarted(position);
}

std::optional<FailureProofMessage> FailureProofBroadcast::next_send(Nanoseconds now) {
    if (const auto next = core_.next_send(now)) {
        FailureProofMessage message;
        message.kind = failure_proof(next->kind);
        message.from = next->from;
        message.to = next->to;
        message.detail = next->detail;
        return message;
    }
    // Its tree messages are out, and correction may begin.
    if (core_.finished()) correction_.start();
    return correction_.next_send(now);
}

}  // namespace coppice::protocol
