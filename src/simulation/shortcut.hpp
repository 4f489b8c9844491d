// What comes of a broadcast, computed without machines and without a queue of events: the very Outcome that the machines have on the
// clock, for the few protocols of which thousands of millions of messages are wanted. Nothing else is known of such a run: no
// conversation, no orders other than the clock's.
//
// The machines stay what is measured: tests hold each shortcut against them (tests/simulation/shortcut_test.cpp), and a simulator that
// takes one compares again and again while it runs (shortcut_simulator.hpp).
#pragma once

#include <memory>
#include <span>

#include "protocol/baselines/failure_proof_gossip.hpp"
#include "protocol/baselines/gossip.hpp"
#include "protocol/broadcast.hpp"
#include "simulation/model.hpp"

namespace coppice::simulation {

// Keeps its memory between runs: one per thread.
class Shortcut {
  public:
    virtual ~Shortcut() = default;

    // `dead` from before the start, without the root; nobody is told of them, and nobody dies on the way. `seed` is for what draws lots.
    // Nothing when only the machines know what comes of it, which is seldom.
    virtual const Outcome* run(std::span<const Position> dead, std::uint64_t seed) = 0;
};

// Nothing where there is none.
std::unique_ptr<Shortcut> make_shortcut(const protocol::BroadcastPlan& plan, const LogP& model);
std::unique_ptr<Shortcut> make_shortcut(const protocol::GossipPlan& plan, const LogP& model);
std::unique_ptr<Shortcut> make_shortcut(const protocol::FailureProofGossipPlan& plan, const LogP& model);

}  // namespace coppice::simulation
