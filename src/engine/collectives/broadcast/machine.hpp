// The protocol machine of one broadcast, whichever algorithm it follows, and what it says as it goes over the wire.
//
// One type for all, in place, because a group's slots are made once. The tree with corrections is the usual case and is asked
// for first everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>

#include "base/words.hpp"
#include "engine/core/channel.hpp"
#include "protocol/baselines/binomial_graph.hpp"
#include "protocol/baselines/buntinas.hpp"
#include "protocol/broadcast.hpp"
#include "protocol/failure_proof_broadcast.hpp"
#include "protocol/gossip_broadcast.hpp"
#include "protocol/placed_broadcast.hpp"

namespace coppice::engine {

enum class Algorithm : std::uint8_t {
    tree,  // a tree and a correction (protocol/broadcast.hpp, protocol/failure_proof_broadcast.hpp, protocol/placed_broadcast.hpp)
    gossip,  // gossip by rounds, and a correction but for gos (the same machines; protocol/gossip_broadcast.hpp)
    bfb,     // Buntinas' broadcast (protocol/baselines/buntinas.hpp)
    big,     // the binomial graph (protocol/baselines/binomial_graph.hpp)
};

struct AlgorithmSpec {
    Algorithm algorithm = Algorithm::tree;
    protocol::GossipSpec gossip;  // gossip only
};
// "tree", "bfb", "big", and what protocol::parse_gossip() reads, of that what is by rounds. The error lists them.
tl::expected<AlgorithmSpec, std::string> parse_algorithm(std::string_view text);
std::string to_string(const AlgorithmSpec& spec);

// Its dissemination and correction among so many positions; what the spec leaves open is chosen by the papers' equations.
tl::expected<protocol::BroadcastPlan, std::string> plan_gossip(const protocol::GossipSpec& spec,
                                                               std::uint32_t processes);

// What every broadcast of a group has in common. Immutable; outlives its machines.
struct Plan {
    // `disseminated` has its correction; with bfb and big only its number of positions counts.
    Plan(Algorithm chosen, const protocol::BroadcastPlan& disseminated);
    // A tree of trees, and a ring of leaf switches.
    Plan(topology::Placement placement, const protocol::CorrectionSpec& correction);

    Algorithm algorithm;
    protocol::BroadcastPlan broadcast;
    std::optional<protocol::FailureProofPlan> failure_proof;
    std::optional<protocol::PlacedPlan> placed;  // then `broadcast` is its core's, but for the correction
    bool is_timed;                               // machines need to know how much time has passed
    bool is_paced;  // corrections decide on each message after what has arrived since the one before

    const topology::Tree& tree() const { return broadcast.tree; }
    // Its machines are protocol::Broadcast.
    bool is_tree() const {
        return !failure_proof && !placed && algorithm != Algorithm::bfb && algorithm != Algorithm::big;
    }
    // What a live root's broadcast withstands may be too little for some live rank to be reached, ever: why, in words for
    // a rank that waits in vain. Empty where every live rank is reached or told in the end.
    std::string doubt() const;
    // big: deaths that cannot cut anybody off.
    std::uint32_t withstood() const { return protocol::BinomialGraph::degree(tree().processes()) - 1; }
};

// A message of any family. Failure-proof: `more`, and `detail` behind it, hold the known g-nodes as offsets from the sender,
// 16 bits each, 0 behind the last; a g-node that is farther off is left out, which costs messages but no promise. Buntinas: `more`
// is the attempt.
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
        if (auto* const placed = std::get_if<protocol::PlacedBroadcast>(&machine)) return visitor(*placed);
        if (auto* const buntinas = std::get_if<protocol::BuntinasBroadcast>(&machine)) return visitor(*buntinas);
        return visitor(std::get<protocol::BinomialGraph>(machine));
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

    std::variant<std::monostate, protocol::Broadcast, protocol::FailureProofBroadcast, protocol::BuntinasBroadcast,
                 protocol::BinomialGraph, protocol::PlacedBroadcast>
        machine_;
    bool is_there_ = false;
};

}  // namespace coppice::engine
