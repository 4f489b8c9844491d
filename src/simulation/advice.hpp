// Which broadcast suits a machine: from how large it is, how fast its messages and how long-lived its ranks are, and
// how surely a broadcast is to reach everybody. Candidates are trees with corrections of the smallest distance that
// will do, corrected gossip for the time that the equations choose (protocol/gossip_time.hpp) and the binomial graph;
// each is run on the LogP clock a few times for its latency and messages.
//
// What is judged is what a protocol does by itself, at the end of the job, when most ranks are dead: nobody is told of
// a death. (Groups of processes are told, and then a live root reaches every live rank anyway: docs/corrections.md.)
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "simulation/model.hpp"

namespace coppice::simulation {

struct Wishes {
    std::uint32_t ranks = 2;     // from 2
    LogP model{};                // L and o
    double step_seconds = 1e-6;  // how long a step of the model is
    double mtbf_hours = 0;       // of one rank
    double job_hours = 0;        // how long a job runs; no rank that dies comes back
    double reliability = 0;      // the probability with which all `broadcasts` reach every live rank: between 0 and 1
    double broadcasts = 1;       // of a job
    std::uint64_t first_seed = 1;
    std::uint64_t runs = 0;  // of each candidate; 0: fewer, the more ranks there are
};

// Why nobody can be advised; nothing if somebody can.
std::optional<std::string> reason_against(const Wishes& wishes);

enum class Family : std::uint8_t { tree, gossip, binomial_graph };

// One candidate. Latencies in steps, means over the runs.
struct Candidate {
    Family family = Family::tree;
    std::string tree;               // "lame:2"; empty for others than trees
    std::string correction;         // "optimized:2", or the gossip with its time, "ocg:31:5"
    std::string settings;           // "COPPICE_TREE=lame:2 COPPICE_CORRECTION=optimized:2"; empty where there are none
    std::uint32_t distance = 0;     // of opportunistic corrections; of ocg, how many corrections a member sends
    std::uint32_t gossip_time = 0;  // T in steps; 0 for others
    double coloring = 0;
    double quiescence = 0;
    double messages = 0;           // per rank
    double unreached_dead = 0;     // probability that a live rank is left out because of ranks that are dead before
    double unreached_dying = 0;    // the same because somebody dies while the broadcast runs: an upper bound
    std::uint64_t incomplete = 0;  // runs in which a live rank was left out
    bool is_refuted = false;       // they were more than these probabilities let happen once in ten thousand times
    bool is_reliable = false;      // both together are no more than is tolerated, and it is not refuted
    bool is_eligible = true;       // not the tree alone and plain gossip, which are there to compare

    double unreached() const { return unreached_dead + unreached_dying; }
    std::string name() const { return family == Family::tree ? tree + " " + correction : correction; }
};

struct Advice {
    double dead_share = 0;       // of the ranks, at the end of the job
    double expected_dead = 0;    // of all ranks, at the end of the job
    std::uint32_t dead_999 = 0;  // no more are dead by then with a probability of 99.9 %
    double tolerated = 0;        // delta: the probability with which one broadcast may leave a live rank out
    double death_during = 0;  // the probability that a rank dies while the recommended broadcast runs; and that two do
    double two_deaths_during = 0;
    double shorter_distance = 0;        // unreached_dead of the recommended tree with one message less a side
    double binomial_graph_until = 0;    // from so many ranks on as many failures are expected as the binomial graph has
                                        // neighbours
    std::vector<Candidate> candidates;  // in the order of trees, corrections, gossips
    std::size_t best = 0;               // of these
    std::size_t best_gossip = 0;
    std::uint64_t first_seed = 1;
    std::uint64_t runs = 0;

    const Candidate& recommended() const { return candidates[best]; }
    const Candidate& gossip() const { return candidates[best_gossip]; }
};

// What one simulator takes, at most.
std::uint64_t bytes_needed(const Wishes& wishes);

// `progress` is told how many of how many candidates are done. An error in words where a simulation broke a promise.
// Recommended is the candidate that is quiet first; of those that are within a twentieth of it the one with the fewest
// messages; of candidates that are reliable enough, or, if none is, of those that leave somebody out most rarely.
tl::expected<Advice, std::string> advise(const Wishes& wishes,
                                         const std::function<void(std::size_t, std::size_t)>& progress);

}  // namespace coppice::simulation
