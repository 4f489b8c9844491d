// Which RDMA devices are near to the cores on which this process runs, as hwloc sees the machine.
#pragma once

#include <hwloc.h>

#include <span>
#include <string>
#include <vector>

namespace coppice::transport::verbs {

// `names` by nearness, the nearest first: a device is the nearer, the smaller the part of the machine that holds it and all cores of
// `own`. Of equally near ones the order stays; those that the topology does not have come last. It has to be loaded with its devices.
std::vector<std::string> by_nearness(hwloc_topology_t topology, hwloc_const_cpuset_t own,
                                     std::vector<std::string> names);

// For the calling thread on this machine. As given where hwloc can't tell. Some milliseconds.
std::vector<std::string> by_nearness_here(std::vector<std::string> names);

}  // namespace coppice::transport::verbs
