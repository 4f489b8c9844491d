// Gossip, corrected gossip and the binomial graph (protocol/baselines/gossip.hpp, failure_proof_gossip.hpp, binomial_graph.hpp) in the
// simulator.
//
//   GossipSetup setup{.processes = 4096, .spec = *protocol::parse_gossip("ocg")};  // T and K chosen by the equations
//   auto simulator = make_simulator(setup).value();                                // one per thread
//   auto outcome = simulator->run({}, seed);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "protocol/baselines/binomial_graph.hpp"
#include "protocol/baselines/failure_proof_gossip.hpp"
#include "protocol/baselines/gossip.hpp"
#include "simulation/model.hpp"
#include "simulation/simulator.hpp"

namespace coppice::simulation {

struct GossipSetup {
    std::uint32_t processes = 2;
    // A limit of 0 is replaced by what the equations choose for `delta` and `active`.
    protocol::GossipSpec spec;
    double delta = 1e-6;
    std::uint32_t active = 0;  // expected to live; 0: all
    std::uint32_t hop = 0;     // gossip by rounds: the rounds that a hop costs
    LogP model;
    RunOptions options;
    // The same outcomes, sooner, where no machine is needed to know them (shortcut.hpp).
    bool shortcuts = false;
};

struct BinomialGraphSetup {
    std::uint32_t processes = 2;
    LogP model;
    RunOptions options;
    protocol::BinomialGraph::Directions directions = protocol::BinomialGraph::Directions::right;
};

// Refuse what no clock or gossip can be made of.
tl::expected<std::unique_ptr<Simulator>, std::string> make_simulator(const GossipSetup& setup);
tl::expected<std::unique_ptr<Simulator>, std::string> make_simulator(const BinomialGraphSetup& setup);

// The plan that the simulator of this setup runs: what was chosen, above all.
tl::expected<protocol::GossipPlan, std::string> gossip_plan(const GossipSetup& setup);

// What one simulator of this setup needs, roughly.
std::uint64_t bytes_needed(const GossipSetup& setup);
std::uint64_t bytes_needed(const BinomialGraphSetup& setup);

}  // namespace coppice::simulation
