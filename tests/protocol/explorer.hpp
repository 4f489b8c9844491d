// The explorer of simulation/explore, under the names by which tests speak of it.
#pragma once

#include "simulation/explore/state_explorer.hpp"

namespace coppice::protocol::testing {

using simulation::Conditions;
using simulation::describe_ends;
using simulation::Exploration;
using simulation::kMaxExplored;
using simulation::StateExplorer;

}  // namespace coppice::protocol::testing
