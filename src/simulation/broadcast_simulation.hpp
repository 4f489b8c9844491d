// The corrected broadcast (protocol/broadcast.hpp) in the simulator.
//
//   BroadcastSetup setup{.processes = 65536, .tree = *topology::parse_tree("lame:2"),
//                        .correction = *protocol::parse_correction("checked:synchronized")};
//   auto simulator = make_simulator(setup).value();                 // one per thread
//   FaultPlan plan{.dead_rate = 0.01};
//   auto outcome = simulator->run(plan.draw(setup.processes, seed), seed);   // Outcome, or the Violation
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "protocol/broadcast.hpp"
#include "simulation/model.hpp"
#include "simulation/network.hpp"
#include "simulation/simulator.hpp"

namespace coppice::simulation {

struct BroadcastSetup {
    std::uint32_t processes = 2;
    topology::TreeSpec tree{};
    // Synchronized corrections start when the dissemination would have ended without faults, unless told otherwise.
    protocol::CorrectionSpec correction{};
    std::optional<Step> correction_start{};
    // With rounds: gossip in the place of the tree, drawn by the run's seed.
    protocol::GossipRounds gossip{};
    LogP model{};
    // With one, it says how long messages travel, and the model's latency says nothing.
    std::shared_ptr<const Network> network{};
    RunOptions options{};
    // The same outcomes, sooner, where no machine is needed to know them (shortcut.hpp).
    bool shortcuts = false;
};

// Refuses what no tree or clock can be made of.
tl::expected<std::unique_ptr<Simulator>, std::string> make_simulator(const BroadcastSetup& setup);

// What one simulator of this setup needs, roughly.
std::uint64_t bytes_needed(const BroadcastSetup& setup);

}  // namespace coppice::simulation
