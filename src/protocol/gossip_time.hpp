// How long to gossip: Equations 1 to 5 of IPDPS'17 (§III, Appendix B), which foresee how many members a gossip of a
// given length reaches, how long the longest run of unreached members between two reached ones is, and from both when
// to stop gossiping and start correcting.
//
// All of it is estimation (the runs are taken to be independent, the expected number of reached members to be the
// actual one); docs/gossip.md says how near it comes. The paper adds one O to T in all its experiments and recommends
// another for the correction; nothing is added here.
//
// Times are LogP steps. Pure functions; they allocate.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace coppice::protocol {

struct GossipModel {
    std::uint32_t processes = 2;  // N, from 2
    std::uint32_t active = 2;     // n, those of them that live: 1 … N
    std::uint32_t latency = 1;    // L
    std::uint32_t overhead = 1;   // O, from 1; g = O
};

enum class GossipKind : std::uint8_t {
    gossip,         // GOS: gossip alone
    opportunistic,  // OCG: then a fixed number of corrections
    checked,        // CCG: then checked correction
    failure_proof,  // FCG: then failure-proof correction
};

// Equation 1, Lemma 1: c(t) for t = 0 … until, the expected number of members that have the payload t steps after the
// root began to gossip, if nobody stops.
std::vector<double> expected_reached(const GossipModel& model, std::uint32_t until);

// The same for gossip by rounds (gossip.hpp), which counts messages sent instead of steps: c(r) for r = 0 … until.
std::vector<double> expected_reached_by_rounds(std::uint32_t processes, std::uint32_t active, std::uint32_t hop,
                                               std::uint32_t until);

// Equation 2, summed: the probability that, of `processes` members on a ring of which `reached` have the payload, some
// run of consecutive members without it between two with it is longer than `length`. Members are drawn
// independently of each other, so it says little where there are few, and nothing for the root alone.
double probability_of_longer_gap(std::uint32_t processes, double reached, std::uint32_t length);

// K̄: the smallest length that the longest such run exceeds with a probability below delta, and not below the average
// one's.
std::uint32_t longest_gap(std::uint32_t processes, double reached, double delta);

// Ē_V of Appendix B: the same for a run of consecutive members that begins and ends with a reached one and has
// `reached_ones` (V ≥ 2) of them: the smallest number of members that such a run exceeds with a probability below
// delta.
std::uint32_t longest_chain(std::uint32_t processes, double reached, std::uint32_t reached_ones, double delta);
double probability_of_longer_chain(std::uint32_t processes, double reached, std::uint32_t reached_ones,
                                   std::uint32_t length);

struct GossipTime {
    std::uint32_t time = 0;    // T: members stop gossiping; a multiple of O
    std::uint32_t length = 0;  // OCG and CCG: K̄, which for OCG is the number of corrections to send. FCG: Ē_V. GOS: 0
    std::uint64_t total = 0;   // the steps that the whole broadcast takes, as the equation has it
    double unreached = 0;      // what the equation puts below delta
};

// T for the shortest total: Equation 3 (OCG), 4 (CCG), 5 (FCG, with V = 2f + 3, which is the paper's five for its f =
// 1). Among equals that which can withstand the largest reduction of delta. GOS: the first T with n − c(T + L + O) <
// delta. An error in words when the model or delta (0 < delta < 1) is none, or no time up to a million steps will do.
tl::expected<GossipTime, std::string> choose_gossip_time(GossipKind kind, const GossipModel& model, double delta,
                                                         std::uint32_t failures = 1);

// The same for gossip by rounds (gossip.hpp), where time is counted in messages sent and each hop costs `hop` rounds
// more. `time` of the result is the number of rounds, `total` counts rounds and corrections.
tl::expected<GossipTime, std::string> choose_gossip_rounds(GossipKind kind, std::uint32_t processes,
                                                           std::uint32_t active, std::uint32_t hop, double delta,
                                                           std::uint32_t failures = 1);

// delta for one broadcast when, of `broadcasts` of them, all are to reach everybody with probability `reliability`
// (IPDPS'17 §III.B: delta = 1 − (1 − γ)^(1/m), γ = 1 − reliability).
double delta_for(double reliability, double broadcasts);

}  // namespace coppice::protocol
