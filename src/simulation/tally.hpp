// Which members were reached in the end: the part of an outcome that does not depend on the clock.
#pragma once

#include <cstdint>

#include "simulation/model.hpp"
#include "simulation/position_set.hpp"

namespace coppice::simulation {

// Fills in failed, reached and unreached.
void tally(Outcome& outcome, std::uint32_t processes, const PositionSet& dead, const PositionSet& colored);

// Runs of positions that are not in `disseminated`, on the ring.
Gaps measure_gaps(const PositionSet& disseminated, std::uint32_t processes);

}  // namespace coppice::simulation
