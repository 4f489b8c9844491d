// What to use, in words for people or as one JSON object.
#pragma once

#include <string>

#include "simulation/advice.hpp"

namespace coppice::sim {

std::string advice_as_text(const simulation::Wishes& wishes, const simulation::Advice& advice);
std::string advice_as_json(const simulation::Wishes& wishes, const simulation::Advice& advice);

}  // namespace coppice::sim
