// Buntinas' broadcast (protocol/baselines/buntinas.hpp) in the simulator. It needs failure notices to reach everybody: see
// FaultPlan::notice_after.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "simulation/model.hpp"
#include "simulation/simulator.hpp"

namespace coppice::simulation {

struct BuntinasSetup {
    std::uint32_t processes = 2;
    LogP model{};
    RunOptions options{};
};

// Refuses what no clock can be made of.
tl::expected<std::unique_ptr<Simulator>, std::string> make_simulator(const BuntinasSetup& setup);

// What one simulator of this setup needs, roughly.
std::uint64_t bytes_needed(const BuntinasSetup& setup);

}  // namespace coppice::simulation
