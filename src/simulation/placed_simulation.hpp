// The broadcast of a placement (protocol/placed_broadcast.hpp) in the simulator: a tree of trees, a ring of leaves, and a ring of
// hosts in each leaf.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "protocol/placed_broadcast.hpp"
#include "simulation/network.hpp"
#include "simulation/simulator.hpp"

namespace coppice::simulation {

struct PlacedSetup {
    std::shared_ptr<const protocol::PlacedPlan> plan;  // its hosts are positions: the first one is the root
    std::shared_ptr<const Network> network;            // its positions are the plan's
    LogP model{};                                      // without its latency
    RunOptions options{};
};

tl::expected<std::unique_ptr<Simulator>, std::string> make_simulator(const PlacedSetup& setup);
std::uint64_t bytes_needed(const PlacedSetup& setup);

// The live positions that are not reached, ascending, when these are dead from before the start, nobody is told of it
// and the root lives: all but the smallest set that holds the root and, of each of its members, the children in the tree of
// trees, the d nearest hosts on either side of its leaf's ring, and, for a leaf's leader, of the d nearest leaves to the right
// the leaders, of those to the left the hosts behind them.
std::vector<Position> left_out(const protocol::PlacedPlan& plan, std::span<const Position> dead);

}  // namespace coppice::simulation
