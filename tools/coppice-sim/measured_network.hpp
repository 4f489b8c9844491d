// The file that coppice-perf logp writes, as a model's parameters.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "simulation/model.hpp"

namespace coppice::sim {

struct MeasuredNetwork {
    std::string level;       // "network"
    simulation::LogP model;  // o is one step
    double step_us = 1;
};

// A step is the larger of o and g, so that no rank of the model sends faster than the wire takes it; L is a number of these.
// `level`: as the file names it; empty is the outermost. The error is a sentence that names the file.
tl::expected<MeasuredNetwork, std::string> read_measured_network(const std::string& path, const std::string& level);

}  // namespace coppice::sim
