// The file that coppice-perf logp writes: what a message takes at each level of a job.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace coppice::engine {

struct MeasuredLevel {
    std::string name;    // "host", "leaf", "pod", "network"
    double step_us = 1;  // the larger of o and g, so that no rank of the model sends faster than the wire takes it
    std::uint32_t latency = 0;  // L, in such steps
};

// At least one, the innermost first. The error is a sentence that names the file.
tl::expected<std::vector<MeasuredLevel>, std::string> read_measured_levels(const std::string& path);

// The same of what the file holds, of which `name` is said in errors.
tl::expected<std::vector<MeasuredLevel>, std::string> parse_measured_levels(const std::string& text,
                                                                            const std::string& name);

// The one of this name; the outermost where there is none. Of at least one.
const MeasuredLevel& level_called(const std::vector<MeasuredLevel>& levels, std::string_view name);

}  // namespace coppice::engine
