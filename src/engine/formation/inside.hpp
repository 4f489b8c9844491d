// Where a core lies within its host: the NUMA node and the shared cache around it, as hwloc sees the machine or a file of one.
#pragma once

#include <hwloc.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/words.hpp"
#include "transport/host_memory.hpp"

namespace coppice::engine {

// "numa1/l3-9/core75", from the outermost to the core, by hwloc's logical numbers. A level that all cores have in common is none, nor is a
// cache that is as large as its NUMA node, or one core's own: so paths may differ in length. `core`: hwloc's logical number.
std::string inside_path(hwloc_topology_t topology, hwloc_obj_t core);

// How far the paths of these cores agree: where a process is that may run on all of them. Empty: anywhere on the host.
std::string common_path(const std::vector<std::string>& paths);
// Without the core.
std::string path_above_core(hwloc_topology_t topology, hwloc_obj_t core);

// Where this process may run. Without a machine that hwloc has loaded: it loads this one's, which takes milliseconds; empty where it can't.
std::string own_inside_path(hwloc_topology_t topology);
std::string own_inside_path();

// Of a rank that shares its host with all others of a group of `ranks`: nowhere, if it shares its cores with more ranks than these have room
// for. Then a second level would take turns on them that the first one does without.
std::string own_place(transport::HostMemory& host_memory, std::uint32_t ranks, std::uint32_t own_cores);
// What ranks have told of it behind their first byte. Where a dead one was does not matter, as long as all say the same.
Result<std::vector<std::string>> read_places(std::span<const Rank> ranks, std::span<const std::vector<std::byte>> told);

}  // namespace coppice::engine
