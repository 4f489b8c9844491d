#include "engine/collectives/broadcast/machine.hpp"

#include <algorithm>

#include "topology/ring.hpp"

namespace coppice::engine {
namespace {

using protocol::BinomialGraph;
using protocol::BuntinasBroadcast;
using protocol::FailureProofBroadcast;
using protocol::FailureProofKind;
using protocol::FailureProofMessage;
using protocol::PlacedBroadcast;

// How long a member that has the payload waits for others to make themselves known before it sends to everybody. If all do, that
// is P² messages: about as long as those take, within bounds that people do not mind.
Nanoseconds failure_proof_timeout(std::uint64_t positions) {
    return Nanoseconds{std::clamp<std::uint64_t>(positions * positions * 10'000, 1'000'000, 1'000'000'000)};
}

// The equations are to choose the length of a gossip so that it reaches everybody but with this probability.
constexpr double kGossipDelta = 1e-9;

constexpr unsigned kOffsetBits = 16;
constexpr std::uint32_t kLargestOffset = (1U << kOffsetBits) - 1;
constexpr std::uint32_t kOffsetsInMore = 4;
static_assert(protocol::kMaxFailures + 1 <= kOffsetsInMore + 2);

// The known are behind the sender: on its left when it sends to the right.
std::uint32_t offset_of(const FailureProofMessage& message, Position known, std::uint32_t processes) {
    return message.kind == FailureProofKind::correction_right
               ? topology::distance_left(message.from, known, processes)
               : topology::distance_right(message.from, known, processes);
}

Envelope wrap(const FailureProofMessage& message, std::uint32_t processes) {
    Envelope envelope{{Channel::failure_proof, message.kind}, message.from, message.to, message.detail, 0};
    std::uint32_t at = 0;
    for (std::uint32_t i = 0; i < message.known_count; ++i) {
        const std::uint32_t offset = offset_of(message, message.known[i], processes);
        if (offset > kLargestOffset) continue;
        if (at < kOffsetsInMore) {
            envelope.more |= std::uint64_t{offset} << kOffsetBits * at;
        } else {
            envelope.detail |= offset << kOffsetBits * (at - kOffsetsInMore);
        }
        ++at;
    }
    return envelope;
}

std::optional<FailureProofMessage> unwrap(const Envelope& envelope, std::uint32_t processes) {
    FailureProofMessage message;
    message.kind = static_cast<FailureProofKind>(envelope.tag.kind);
    message.from = envelope.from;
    message.to = envelope.to;
    if (!protocol::is_correction(message.kind)) {
        message.detail = envelope.detail;
        if (envelope.more != 0) return std::nullopt;
        return message;
    }
    for (std::uint32_t at = 0; at < kOffsetsInMore + 2; ++at) {
        const std::uint64_t word = at < kOffsetsInMore ? envelope.more >> kOffsetBits * at
                                                       : envelope.detail >> kOffsetBits * (at - kOffsetsInMore);
        const auto offset = static_cast<std::uint32_t>(word & kLargestOffset);
        if (offset == 0) continue;
        if (offset >= processes || message.known_count == message.known.size()) return std::nullopt;
        message.known[message.known_count++] = message.kind == FailureProofKind::correction_right
                                                   ? topology::left_neighbour(message.from, offset, processes)
                                                   : topology::right_neighbour(message.from, offset, processes);
    }
    return message;
}

}  // namespace

tl::expected<AlgorithmSpec, std::string> parse_algorithm(std::string_view text) {
    AlgorithmSpec spec;
    if (text == "tree") return spec;
    if (text == "bfb" || text == "big") {
        spec.algorithm = text == "bfb" ? Algorithm::bfb : Algorithm::big;
        return spec;
    }
    spec.algorithm = Algorithm::gossip;
    const auto gossip = protocol::parse_gossip(text);
    if (!gossip) return tl::unexpected("tree, bfb, big, or gossip: " + gossip.error());
    spec.gossip = *gossip;
    // What can be said without knowing the group.
    if (const auto plan = plan_gossip(spec.gossip, 2); !plan) return tl::unexpected(plan.error());
    return spec;
}

std::string to_string(const AlgorithmSpec& spec) {
    switch (spec.algorithm) {
        case Algorithm::tree:
            return "tree";
        case Algorithm::gossip:
            return protocol::to_string(spec.gossip);
        case Algorithm::bfb:
            return "bfb";
        case Algorithm::big:
            return "big";
    }
    return "?";
}

tl::expected<protocol::BroadcastPlan, std::string> plan_gossip(const protocol::GossipSpec& spec,
                                                               std::uint32_t processes) {
    return protocol::make_gossip_broadcast_plan(spec, processes, protocol::kHopRounds, kGossipDelta);
}

Plan::Plan(Algorithm chosen, const protocol::BroadcastPlan& disseminated)
    : algorithm(chosen), broadcast(disseminated), is_timed(false), is_paced(false) {
    if (algorithm == Algorithm::bfb || algorithm == Algorithm::big) return;
    const protocol::CorrectionSpec& correction = broadcast.correction;
    const bool proof = correction.kind == protocol::CorrectionKind::failure_proof;
    if (proof) failure_proof = protocol::make_failure_proof_plan(broadcast, failure_proof_timeout(tree().processes()));
    is_timed = proof || correction.kind == protocol::CorrectionKind::delayed || correction.synchronized;
    is_paced = proof || correction.kind == protocol::CorrectionKind::checked;
}

Plan::Plan(topology::Placement placement, const protocol::CorrectionSpec& correction)
    : algorithm(Algorithm::tree),
      broadcast{*topology::Tree::make({topology::TreeShape::star}, placement.hosts()), correction},
      placed(protocol::make_placed_plan(std::move(placement), correction.distance)),
      is_timed(false),
      is_paced(false) {}

std::string Plan::doubt() const {
    if (algorithm == Algorithm::gossip && broadcast.correction.kind == protocol::CorrectionKind::none) {
        return "gossip alone (gos) may have left this rank out";
    }
    if (algorithm == Algorithm::big) {
        return "more than " + std::to_string(withstood()) + " deaths may cut this rank off the binomial graph (big)";
    }
    return {};
}

void Machine::emplace_other(const Plan& plan, Position self, std::uint32_t root_member,
                            const protocol::FailedSet& failed, bool has_payload, std::uint64_t seed) {
    if (plan.placed) {
        machine_.emplace<PlacedBroadcast>(*plan.placed, self, root_member, failed, has_payload);
    } else if (plan.algorithm == Algorithm::bfb) {
        machine_.emplace<BuntinasBroadcast>(plan.tree().processes(), self, root_member, failed, has_payload);
    } else if (plan.algorithm == Algorithm::big) {
        machine_.emplace<BinomialGraph>(plan.tree().processes(), self, root_member, failed, has_payload);
    } else {
        machine_.emplace<FailureProofBroadcast>(*plan.failure_proof, self, root_member, failed, has_payload, seed);
    }
}

bool Machine::receive_other(const Plan& plan, const Envelope& envelope) {
    const auto is_of = [&envelope](Channel channel) { return envelope.tag.channel == channel; };
    if (auto* proof = std::get_if<FailureProofBroadcast>(&machine_)) {
        if (!is_of(Channel::failure_proof)) return false;
        const auto message = unwrap(envelope, plan.tree().processes());
        return message && proof->receive(*message);
    }
    if (auto* placed = std::get_if<PlacedBroadcast>(&machine_)) {
        return is_of(Channel::placed) && envelope.more == 0 &&
               placed->receive(
                   {static_cast<protocol::PlacedKind>(envelope.tag.kind), envelope.from, envelope.to, envelope.detail});
    }
    if (auto* buntinas = std::get_if<BuntinasBroadcast>(&machine_)) {
        if (!is_of(Channel::buntinas) || envelope.more > UINT32_MAX) return false;
        return buntinas->receive({static_cast<protocol::BuntinasKind>(envelope.tag.kind), envelope.from, envelope.to,
                                  static_cast<std::uint32_t>(envelope.more), envelope.detail});
    }
    if (!is_of(Channel::binomial_graph) || envelope.detail != 0) return false;
    return std::get<BinomialGraph>(machine_).receive(
        {static_cast<protocol::BinomialGraphMessageKind>(envelope.tag.kind), envelope.from, envelope.to});
}

std::optional<Envelope> Machine::next_other(const Plan& plan, Nanoseconds now) {
    if (auto* proof = std::get_if<FailureProofBroadcast>(&machine_)) {
        const auto message = proof->next_send(now);
        if (!message) return std::nullopt;
        return wrap(*message, plan.tree().processes());
    }
    if (auto* placed = std::get_if<PlacedBroadcast>(&machine_)) {
        const auto message = placed->next_send(now);
        if (!message) return std::nullopt;
        return Envelope{{Channel::placed, message->kind}, message->from, message->to, message->detail, 0};
    }
    if (auto* buntinas = std::get_if<BuntinasBroadcast>(&machine_)) {
        const auto message = buntinas->next_send(now);
        if (!message) return std::nullopt;
        return Envelope{
            {Channel::buntinas, message->kind}, message->from, message->to, message->detail, message->attempt};
    }
    const auto message = std::get<BinomialGraph>(machine_).next_send(now);
    if (!message) return std::nullopt;
    return Envelope{{Channel::binomial_graph, message->kind}, message->from, message->to, 0, 0};
}

void Machine::peer_failed(Position position) {
    ask(machine_, [position](auto& machine) { machine.peer_failed(position); });
}

void Machine::peer_restarted(Position position) {
    ask(machine_, [position](auto& machine) { machine.peer_restarted(position); });
}

void Machine::origin_lost() {
    ask(machine_, [](auto& machine) { machine.origin_lost(); });
}

}  // namespace coppice::engine
