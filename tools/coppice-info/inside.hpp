// Where a core lies within its host: the NUMA node and the shared cache around it, as hwloc sees the machine or a file of one.
#pragma once

#include <hwloc.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace coppice::info {

// "numa1/l3-9/core75", from the outermost to the core, by hwloc's logical numbers. A level that all cores have in common is none, nor is a
// cache that is as large as its NUMA node, or one core's own: so paths may differ in length. `core`: hwloc's logical number.
std::string inside_path(hwloc_topology_t topology, hwloc_obj_t core);

// How far the paths of these cores agree: where a process is that may run on all of them. Empty: anywhere on the host.
std::string common_path(const std::vector<std::string>& paths);

// "cores", "threads", "this_process" (only of the machine itself) and "places": for each path without the core "path", the "first" and the "last" core
// there, and, where the machine has several, the "kind" of its cores, the least fast being 0.
nlohmann::ordered_json describe_inside(hwloc_topology_t topology, bool is_this_machine);

// The same of a file that lstopo or hwloc's hwloc_topology_export_xml wrote. A sentence if it can't be read.
tl::expected<nlohmann::ordered_json, std::string> describe_machine_file(const std::string& path);

void print_inside(const nlohmann::ordered_json& inside);

}  // namespace coppice::info
