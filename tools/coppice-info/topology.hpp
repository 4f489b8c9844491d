// Where hosts are, as a file of a scheduler or a fabric says it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>

#include "engine/whereabouts.hpp"

namespace coppice::info {

// "kind", "hosts", "pods", "remarks", "leaves" (name, pod, hosts), how far the ring of leaves spreads pods, and where the host
// with these names is. A sentence if the file cannot be read.
tl::expected<nlohmann::ordered_json, std::string> describe_topology(const std::string& path,
                                                                    const engine::OwnNames& own);
void print_topology(const nlohmann::ordered_json& topology);

}  // namespace coppice::info
