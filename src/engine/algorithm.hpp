// The algorithm of a group's broadcasts, as settings name it, and what follows from it for all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "protocol/broadcast.hpp"
#include "protocol/failure_proof_broadcast.hpp"
#include "protocol/gossip_broadcast.hpp"
#include "protocol/placed_broadcast.hpp"

namespace coppice::engine {

enum class Algorithm : std::uint8_t {
    tree,  // a tree and a correction (protocol/broadcast.hpp, protocol/failure_proof_broadcast.hpp, protocol/placed_broadcast.hpp)
    gossip,  // gossip by rounds, and a correction (the same machines; protocol/gossip_broadcast.hpp)
};

struct AlgorithmSpec {
    Algorithm algorithm = Algorithm::tree;
    protocol::GossipSpec gossip;  // gossip only
};
// "tree", and what protocol::parse_gossip() reads, of that what is by rounds. The error lists them. What is only there to be compared
// with ("bfb", "big", "gos") is refused with where it is.
tl::expected<AlgorithmSpec, std::string> parse_algorithm(std::string_view text);
std::string to_string(const AlgorithmSpec& spec);

// Its dissemination and correction among so many positions; what the spec leaves open is chosen by the papers' equations.
tl::expected<protocol::BroadcastPlan, std::string> plan_gossip(const protocol::GossipSpec& spec,
                                                               std::uint32_t processes);

// What every broadcast of a group has in common. Immutable; outlives its machines.
struct Plan {
    // `disseminated` has its correction.
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
    bool is_tree() const { return !failure_proof && !placed; }
};

}  // namespace coppice::engine
