// Many runs on several threads, each result handed over in the order of seeds: what comes out does not depend on how
// many threads there are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "simulation/faults.hpp"
#include "simulation/simulator.hpp"

namespace coppice::simulation {

struct Batch {
    std::uint64_t first_seed = 1;  // run i has the seed first_seed + i
    std::uint64_t runs = 1;
    unsigned threads = 1;
    FaultPlan faults{};
};

using MakeSimulator = std::function<std::unique_ptr<Simulator>()>;
// One at a time, but from any thread. False ends the batch; nothing is handed over after that.
using UseResult =
    std::function<bool(std::uint64_t seed, const Faults& faults, tl::expected<Outcome, Violation>&& result)>;

// `make` is called once for each thread, one at a time.
void run_batch(const Batch& batch, const MakeSimulator& make, const UseResult& use);

}  // namespace coppice::simulation
