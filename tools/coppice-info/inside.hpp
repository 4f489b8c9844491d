// Where a core lies within its host: the NUMA node and the shared cache around it, as hwloc sees the machine or a file of one.
#pragma once

#include <hwloc.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>

namespace coppice::info {

// "cores", "threads", "this_process" (only of the machine itself) and "places": for each path without the core "path", the "first" and the "last" core
// there, and, where the machine has several, the "kind" of its cores, the least fast being 0. "publishing_domains": of ranks on all cores; 1: they
// publish in one level.
nlohmann::ordered_json describe_inside(hwloc_topology_t topology, bool is_this_machine);

// The same of a file that lstopo or hwloc's hwloc_topology_export_xml wrote. A sentence if it can't be read.
tl::expected<nlohmann::ordered_json, std::string> describe_machine_file(const std::string& path);

void print_inside(const nlohmann::ordered_json& inside);

}  // namespace coppice::info
