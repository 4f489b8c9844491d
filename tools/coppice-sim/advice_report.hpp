// What to use, in words for people or as one JSON object.
#pragma once

#include <string>
#include <vector>

#include "chunked.hpp"
#include "simulation/advice.hpp"

namespace coppice::sim {

std::string advice_as_text(const simulation::Wishes& wishes, const simulation::Advice& advice);
// `payload`: large payloads beside each other, if any are asked for.
std::string advice_as_json(const simulation::Wishes& wishes, const simulation::Advice& advice,
                           const std::vector<ChunkedOptions::Row>& payload);

}  // namespace coppice::sim
