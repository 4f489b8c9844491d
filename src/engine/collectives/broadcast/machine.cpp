#include "engine/collectives/broadcast/machine.hpp"

#include "topology/ring.hpp"

namespace coppice::engine {
namespace {

using protocol::FailureProofBroadcast;
using protocol::FailureProofKind;
using protocol::FailureProofMessage;
using protocol::PlacedBroadcast;

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

void Machine::emplace_other(const Plan& plan, Position self, std::uint32_t root_member,
                            const protocol::FailedSet& failed, bool has_payload, std::uint64_t seed) {
    if (plan.placed) {
        machine_.emplace<PlacedBroadcast>(*plan.placed, self, root_member, failed, has_payload);
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
    return is_of(Channel::placed) && envelope.more == 0 &&
           std::get<PlacedBroadcast>(machine_).receive(
               {static_cast<protocol::PlacedKind>(envelope.tag.kind), envelope.from, envelope.to, envelope.detail});
}

std::optional<Envelope> Machine::next_other(const Plan& plan, Nanoseconds now) {
    if (auto* proof = std::get_if<FailureProofBroadcast>(&machine_)) {
        const auto message = proof->next_send(now);
        if (!message) return std::nullopt;
        return wrap(*message, plan.tree().processes());
    }
    const auto message = std::get<PlacedBroadcast>(machine_).next_send(now);
    if (!message) return std::nullopt;
    return Envelope{{Channel::placed, message->kind}, message->from, message->to, message->detail, 0};
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
