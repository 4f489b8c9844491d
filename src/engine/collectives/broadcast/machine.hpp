// The protocol machine of one broadcast, whichever algorithm it follows, and what it says as it goes over the wire.
//
// One type for all, in place, because a group's slots are made once. The tree with corrections is the usual case and is asked
// for first everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "base/words.hpp"
#include "engine/algorithm.hpp"
#include "engine/wire/channel.hpp"
#include "protocol/broadcast.hpp"
#include "protocol/failure_proof_broadcast.hpp"
#include "protocol/placed_broadcast.hpp"

namespace coppice::engine {

// A message of any family. Failure-proof: `more`, and `detail` behind it, hold the known g-nodes as offsets from the sender,
// 16 bits each, 0 behind the last; a g-node that is farther off is left out, which costs messages but no promise.
struct Envelope {
    Tag tag;
    Position from;
    Position to;
    std::uint32_t detail = 0;
    std::uint64_t more = 0;
};

class Machine {
    // For what all machines have under the same name.
    template <class Variant, class Visitor>
    static decltype(auto) ask(Variant& machine, Visitor&& visitor) {
        if (auto* const tree = std::get_if<protocol::Broadcast>(&machine)) [[likely]]
            return visitor(*tree);
        if (auto* const proof = std::get_if<protocol::FailureProofBroadcast>(&machine)) return visitor(*proof);
        return visitor(std::get<protocol::PlacedBroadcast>(machine));
    }

  public:
    explicit operator bool() const { return is_there_; }
    // What it has in memory of its own stays until the next one is made.
    void reset() { is_there_ = false; }
    // As emplace(), where `made` was made for another broadcast with the same arguments but for `seed`, which no tree uses.
    void copy_tree(const Machine& made) {
        is_there_ = true;
        const auto& tree = *std::get_if<protocol::Broadcast>(&made.machine_);
        if (auto* const own = std::get_if<protocol::Broadcast>(&machine_)) [[likely]]
            *own = tree;
        else
            machine_.emplace<protocol::Broadcast>(tree);
    }
    // Null where it is of another family.
    protocol::Broadcast* tree() { return std::get_if<protocol::Broadcast>(&machine_); }
    // `seed`: another one for each broadcast.
    void emplace(const Plan& plan, Position self, std::uint32_t root_member, const protocol::FailedSet& failed,
                 bool has_payload, std::uint64_t seed) {
        is_there_ = true;
        if (plan.is_tree()) [[likely]] {
            machine_.emplace<protocol::Broadcast>(plan.broadcast, self, root_member, failed, has_payload, seed);
        } else {
            emplace_other(plan, self, root_member, failed, has_payload, seed);
        }
    }

    // False when it can't be, be it of another family.
    bool receive(const Plan& plan, const Envelope& envelope) {
        if (auto* const tree = std::get_if<protocol::Broadcast>(&machine_)) [[likely]] {
            return envelope.tag.channel == Channel::broadcast &&
                   tree->receive({static_cast<protocol::MessageKind>(envelope.tag.kind), envelope.from, envelope.to,
                                  envelope.detail});
        }
        return receive_other(plan, envelope);
    }
    void peer_failed(Position position);
    void peer_restarted(Position position);
    void origin_lost();
    std::optional<Envelope> next_send(const Plan& plan, Nanoseconds now) {
        if (auto* const tree = std::get_if<protocol::Broadcast>(&machine_)) [[likely]] {
            const auto message = tree->next_send(now);
            if (!message) return std::nullopt;
            return Envelope{{Channel::broadcast, message->kind}, message->from, message->to, message->detail, 0};
        }
        return next_other(plan, now);
    }

    bool colored() const {
        return ask(machine_, [](const auto& machine) { return machine.colored(); });
    }
    protocol::BroadcastResult result() const {
        return ask(machine_, [](const auto& machine) { return machine.result(); });
    }
    bool finished() const {
        return ask(machine_, [](const auto& machine) { return machine.finished(); });
    }

  private:
    // machine.cpp: all but the tree with its corrections
    void emplace_other(const Plan& plan, Position self, std::uint32_t root_member, const protocol::FailedSet& failed,
                       bool has_payload, std::uint64_t seed);
    bool receive_other(const Plan& plan, const Envelope& envelope);
    std::optional<Envelope> next_other(const Plan& plan, Nanoseconds now);

    std::variant<std::monostate, protocol::Broadcast, protocol::FailureProofBroadcast, protocol::PlacedBroadcast>
        machine_;
    bool is_there_ = false;
};

}  // namespace coppice::engine
