// What gossips there are, and plans of them: their names, and how long to gossip and to correct.
//
//   GOS  gossip alone: a member that has the payload sends it to members drawn at random
//   OCG  opportunistic corrected gossip (IPDPS'17 §III, Algorithm 1): then each member reached by gossip sends a given number of
//        corrections on the ring of positions, one to the right, one to the left, two to the right, …
//   CCG  checked corrected gossip (Algorithm 2): then each of them sends on, in both directions, until it has sent to the
//        nearest member that it has heard from there
//   FCG  failure-proof corrected gossip (Algorithm 3): then failure-proof correction among them
//
// Groups have the last three, with the corrections of broadcast.hpp (gossip_broadcast.hpp). The papers' own machines are in
// baselines/gossip.hpp and baselines/failure_proof_gossip.hpp. docs/gossip.md tells what each promises.
//
// Two ways to measure gossip:
//  - by time, as IPDPS'17: all members stop gossiping at T and start correcting at T + L + O, when all gossip has
//    arrived. Their clocks must agree (the simulator's do; across hosts they do not).
//  - by rounds, as PPoPP'19 §4.4 does on a real network: messages carry the round, which goes up by one with every
//    message sent and by `hop` with every hop. A member that has sent the last round's message, or received one, goes
//    on to the correction.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "protocol/gossip_time.hpp"

namespace coppice::protocol {

struct GossipSpec {
    GossipKind kind = GossipKind::checked;
    std::uint32_t failures = 1;     // FCG: F, deaths on the way that it withstands
    bool by_rounds = false;         // `limit` is in rounds
    std::uint32_t limit = 0;        // T, or the number of rounds; 0: to be chosen by the equations
    std::uint32_t corrections = 0;  // OCG: how many each member sends; 0: to be chosen by the equations

    bool operator==(const GossipSpec&) const = default;
};

// Reads "ocg", "ccg", "fcg:F" (F defaults to 1), then, optionally, ":T" ("ocg": ":T:K", K corrections) and, last, ":rounds". As
// strict as parse_correction(). to_string() writes what parse_gossip() reads, and what baselines/names.hpp does.
inline constexpr std::uint32_t kMaxGossipLimit = 1'000'000;
inline constexpr std::uint32_t kMaxGossipFailures = 4;
tl::expected<GossipSpec, std::string> parse_gossip(std::string_view text);
std::string to_string(const GossipSpec& spec);
const std::vector<std::string_view>& known_gossips();

// What all members of a broadcast have in common. Immutable; outlives its machines.
struct GossipPlan {
    std::uint32_t processes = 1;
    GossipSpec spec;            // limit and corrections given; kind other than failure_proof
    std::uint32_t latency = 0;  // L and O, gossip by time only
    std::uint32_t overhead = 1;
    std::uint32_t hop = 0;  // gossip by rounds only
    // Checked, by time: a direction that is done leaves its turns to the other one, instead of letting them pass, as
    // Algorithm 2 does. (By rounds there is nothing to let pass.)
    bool gives_turns_away = false;

    // When the correction starts, by time.
    std::uint64_t correction_start() const { return std::uint64_t{spec.limit} + latency + overhead; }
};

// A plan from what a user says: what `spec` leaves open is chosen by the equations (gossip_time.hpp), so that some
// member is left out, or a correction takes longer than foreseen, with a probability of about delta. `hop` is for
// gossip by rounds. An error in words when there is no such plan.
tl::expected<GossipPlan, std::string> make_gossip_plan(const GossipSpec& spec, const GossipModel& model, double delta,
                                                       std::uint32_t hop);

}  // namespace coppice::protocol
