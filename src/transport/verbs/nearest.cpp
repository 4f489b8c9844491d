#include "transport/verbs/nearest.hpp"

#include <algorithm>
#include <memory>

namespace coppice::transport::verbs {
namespace {

struct TopologyEnd {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyEnd>;

struct BitmapEnd {
    void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapEnd>;

hwloc_obj_t find_device(hwloc_topology_t topology, const std::string& name) {
    for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_osdev(topology, device)) != nullptr;) {
        if (device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS && name == device->name) return device;
    }
    return nullptr;
}

// How deep in the machine the smallest part of it lies that holds both; −1: there is no such device.
int nearness(hwloc_topology_t topology, hwloc_obj_t own, const std::string& name) {
    const hwloc_obj_t device = find_device(topology, name);
    if (device == nullptr) return -1;
    const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, device);
    return hwloc_get_common_ancestor_obj(topology, own, place)->depth;
}

}  // namespace

std::vector<std::string> by_nearness(hwloc_topology_t topology, hwloc_const_cpuset_t own,
                                     std::vector<std::string> names) {
    const hwloc_obj_t place = hwloc_get_obj_covering_cpuset(topology, own);
    if (place == nullptr) return names;
    std::ranges::stable_sort(names, std::ranges::greater(),
                             [&](const std::string& name) { return nearness(topology, place, name); });
    return names;
}

std::vector<std::string> by_nearness_here(std::vector<std::string> names) {
    hwloc_topology_t made = nullptr;
    if (hwloc_topology_init(&made) != 0) return names;
    const Topology topology(made);
    hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(made) != 0) return names;
    const Bitmap own(hwloc_bitmap_alloc());
    if (!own || hwloc_get_cpubind(made, own.get(), HWLOC_CPUBIND_THREAD) != 0) return names;
    return by_nearness(made, own.get(), std::move(names));
}

}  // namespace coppice::transport::verbs
