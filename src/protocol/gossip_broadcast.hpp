// Corrected gossip as a Broadcast, for real networks: gossip by rounds in the place of the tree, a correction of
// Broadcast's behind it, and with that all that Broadcast knows of deaths, stand-ins, and dead roots.
//
// Besides, as everywhere in Broadcast, opportunistic correction is not left to the members that gossip reached: every
// colored member takes part, so that no gap is too long but for the dead.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "protocol/broadcast.hpp"
#include "protocol/gossip.hpp"

namespace coppice::protocol {

// What a hop costs in rounds where processes gossip: it takes as long as so many sends (L = 2, o = 1).
inline constexpr std::uint32_t kHopRounds = 4;

// "ocg" stands for opportunistic correction over half of K on each side, "ccg" for checked, "fcg:F" for failure-proof
// correction (whose plan make_failure_proof_plan() completes). What the spec leaves open is chosen by the equations for
// `delta`, with `hop` rounds for each hop. Refused, in words: a time instead of rounds; no processes; "gos", which leaves
// out for good whom chance leaves out.
tl::expected<BroadcastPlan, std::string> make_gossip_broadcast_plan(const GossipSpec& spec, std::uint32_t processes,
                                                                    std::uint32_t hop, double delta);

}  // namespace coppice::protocol
