// Many broadcasts by gossip, and their means.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "protocol/baselines/names.hpp"
#include "simulation/faults.hpp"
#include "simulation/gossip_simulation.hpp"

namespace coppice::simulation {

inline const double kDelta = protocol::delta_for(0.5, 1e6);

struct Statistics {
    double sum = 0;
    double squares = 0;
    double largest = 0;
    std::uint32_t count = 0;

    void add(double value) {
        sum += value;
        squares += value * value;
        largest = std::max(largest, value);
        ++count;
    }
    double mean() const { return sum / count; }
    double variance() const { return std::max(squares / count - mean() * mean(), 0.0); }
};

struct Sample {
    Statistics coloring;
    Statistics quiescence;
    Statistics messages;
    Statistics unreached;
};

inline GossipSetup setup_of(const std::string& spec, std::uint32_t processes, Step latency = 2) {
    GossipSetup setup;
    setup.processes = processes;
    setup.spec = *protocol::baselines::parse_gossip(spec);
    setup.delta = kDelta;
    setup.model.latency = latency;
    return setup;
}

// Seeds 1 … runs: every run does exactly the same each time. Violations of what the protocol promises fail the test.
inline Sample sample(Simulator& simulator, const FaultPlan& faults, std::uint32_t runs) {
    Sample sample;
    for (std::uint64_t seed = 1; seed <= runs; ++seed) {
        const auto outcome = simulator.run(faults.draw(simulator.processes(), seed), seed);
        if (!outcome) {
            ADD_FAILURE() << to_string(outcome.error(), 20);
            break;
        }
        sample.coloring.add(outcome->coloring_latency);
        sample.quiescence.add(outcome->quiescence_latency);
        sample.messages.add(static_cast<double>(outcome->messages));
        sample.unreached.add(static_cast<double>(outcome->unreached.size()));
    }
    return sample;
}

inline Sample sample(const GossipSetup& setup, const FaultPlan& faults, std::uint32_t runs) {
    return sample(*make_simulator(setup).value(), faults, runs);
}

}  // namespace coppice::simulation
