// One point of a figure: a protocol at so many ranks, with so many dead, broadcast so many times.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "protocol/baselines/binomial_graph.hpp"
#include "protocol/gossip.hpp"
#include "reproduce/figures.hpp"
#include "simulation/batch.hpp"
#include "simulation/explore/agreement_clock.hpp"
#include "simulation/explore/membership_clock.hpp"
#include "simulation/model.hpp"

namespace coppice::sim {

struct TreeProtocol {
    std::string tree;        // as parse_tree() reads it
    std::string correction;  // as parse_correction() reads it
};
// The dissemination down a tree, without a clock: only the gaps that it leaves (simulation/tree_reach.hpp).
struct TreeGaps {
    std::string tree;
};
// Whom the dissemination down a tree and its correction leave out, without a clock (simulation/reach.hpp).
struct TreeLeftOut {
    std::string tree;
    std::string correction;
};
struct GossipProtocol {
    protocol::GossipSpec spec;  // limit and corrections given
};
struct BinomialGraphProtocol {
    protocol::BinomialGraph::Directions directions = protocol::BinomialGraph::Directions::right;
};
struct BuntinasProtocol {
    // Failures are noticed so many steps after they happened (FaultPlan::notice_after).
    simulation::Step notice_after = 0;
};
// One change of a group's view, without lots: quiescence is T_s, in nanoseconds.
struct MembershipProtocol {
    simulation::MembershipSetup setup;
};
// Parents and their children that answer each other through one switch: quiescence is a message's latency, in nanoseconds.
struct ContentionProtocol {
    std::uint32_t children = 1;
    simulation::MembershipNetwork network{};
};
// Agreements one after the other, without lots: quiescence is the latency of one of them, or the sum of all.
struct AgreementProtocol {
    static constexpr std::uint32_t kAll = UINT32_MAX;

    std::string tree;  // as parse_agreement_tree() reads it
    std::uint32_t ranks_per_host = 16;
    simulation::AgreementAlgorithm algorithm = simulation::AgreementAlgorithm::era;
    protocol::Rebalance rebalance = protocol::Rebalance::when_degenerated;
    std::uint32_t agreements = 1;
    std::uint32_t measured = 0;
    std::vector<protocol::FailedSet::Interval> dying{};
    simulation::Step dying_at = 0;
    simulation::Step apart = 0;          // from one death to the next; 0: all at one time
    simulation::Step notice_after = 0;   // the first of the others may be told of a death so much later,
    simulation::Step notice_spread = 0;  // the last so much after that; 0: all at one time
};
using Protocol = std::variant<TreeProtocol, TreeGaps, TreeLeftOut, GossipProtocol, BinomialGraphProtocol,
                              BuntinasProtocol, MembershipProtocol, ContentionProtocol, AgreementProtocol>;

struct Cell {
    Protocol protocol;
    std::uint32_t ranks = 2;
    simulation::LogP model{};
    std::uint32_t dead_count = 0;       // drawn again for each broadcast
    std::vector<std::uint32_t> dead{};  // always these
    std::uint32_t dying_count = 0;      // drawn again, as are their times from the start on up to `dying_until`
    simulation::Step dying_until = 0;
    std::uint64_t first_seed = 1;  // run i has the seed first_seed + i
    std::uint64_t runs = 1;

    // Everything but seeds and runs, in words: the same text, the same broadcasts.
    std::string key() const;
    // A command that runs these broadcasts, where coppice-sim has one.
    std::string command() const;
    // Every run is like every other: one will do.
    bool is_deterministic() const;
};

// Bytes of one simulator.
std::uint64_t bytes_needed(const Cell& cell);

// Runs them all. Every run is checked; what a violation has to say otherwise.
tl::expected<Figures, std::string> run(const Cell& cell, unsigned threads);

}  // namespace coppice::sim
