#include "engine/formation/inside.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <memory>

#include "topology/switch_path.hpp"

namespace coppice::engine {
namespace {

struct TopologyEnd {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyEnd>;

unsigned count(hwloc_topology_t topology, hwloc_const_cpuset_t within, hwloc_obj_type_t type) {
    const int found = hwloc_get_nbobjs_inside_cpuset_by_type(topology, within, type);
    return found < 0 ? 0 : static_cast<unsigned>(found);
}

// The smallest of those that hold all of it.
hwloc_obj_t numa_node_of(hwloc_topology_t topology, hwloc_obj_t core) {
    hwloc_obj_t found = nullptr;
    for (hwloc_obj_t node = nullptr;
         (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
        const bool holds = hwloc_bitmap_isincluded(core->cpuset, node->cpuset) != 0;
        if (holds && (found == nullptr || hwloc_bitmap_weight(node->cpuset) < hwloc_bitmap_weight(found->cpuset)))
            found = node;
    }
    return found;
}

// The largest that several cores share, and that is smaller than what is around it.
hwloc_obj_t shared_cache_of(hwloc_topology_t topology, hwloc_obj_t core, hwloc_const_cpuset_t around) {
    hwloc_obj_t found = nullptr;
    for (hwloc_obj_t above = core->parent; above != nullptr; above = above->parent) {
        if (hwloc_obj_type_is_dcache(above->type) == 0) continue;
        const bool is_shared = count(topology, above->cpuset, HWLOC_OBJ_CORE) > 1;
        const bool is_smaller = hwloc_bitmap_isincluded(around, above->cpuset) == 0;
        if (is_shared && is_smaller) found = above;
    }
    return found;
}

std::string with_core(std::string path, hwloc_obj_t core) {
    return path + fmt::format("{}core{}", path.empty() ? "" : "/", core->logical_index);
}

}  // namespace

std::string path_above_core(hwloc_topology_t topology, hwloc_obj_t core) {
    hwloc_const_cpuset_t around = hwloc_get_root_obj(topology)->cpuset;
    std::string path;
    const hwloc_obj_t node = numa_node_of(topology, core);
    if (node != nullptr && hwloc_bitmap_isincluded(around, node->cpuset) == 0) {
        path = fmt::format("numa{}", node->logical_index);
        around = node->cpuset;
    }
    if (const hwloc_obj_t cache = shared_cache_of(topology, core, around); cache != nullptr)
        path += fmt::format("{}l{}-{}", path.empty() ? "" : "/", cache->attr->cache.depth, cache->logical_index);
    return path;
}

std::string inside_path(hwloc_topology_t topology, hwloc_obj_t core) {
    return with_core(path_above_core(topology, core), core);
}

std::string common_path(const std::vector<std::string>& paths) {
    if (paths.empty()) return {};
    std::string common = paths.front() + "/";
    for (const std::string& path : paths) {
        const std::string other = path + "/";
        const auto differ = std::ranges::mismatch(common, other).in1;
        common.resize(static_cast<std::size_t>(differ - common.begin()));
        common.resize(common.rfind('/') + 1);  // of npos: nothing
    }
    if (!common.empty()) common.pop_back();
    return common;
}

std::string own_inside_path(hwloc_topology_t topology) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
    std::vector<std::string> paths;
    for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr;) {
        bool is_allowed = false;
        for (int cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(core->cpuset, cpu))
            is_allowed = is_allowed || (cpu < CPU_SETSIZE && CPU_ISSET(static_cast<unsigned>(cpu), &allowed));
        if (is_allowed) paths.push_back(inside_path(topology, core));
    }
    return common_path(paths);
}

std::string own_inside_path() {
    hwloc_topology_t made = nullptr;
    if (hwloc_topology_init(&made) != 0) return {};
    const Topology topology(made);
    return hwloc_topology_load(made) == 0 ? own_inside_path(made) : std::string();
}

std::string own_place(transport::HostMemory& host_memory, std::uint32_t ranks, std::uint32_t own_cores) {
    std::vector<Seat> local_peers;
    for (std::uint32_t r = 0; r < ranks; ++r)
        local_peers.emplace_back(r);
    host_memory.look_at_cores();
    return host_memory.sharing_cores(local_peers) > own_cores ? std::string() : own_inside_path();
}

Result<std::vector<std::string>> read_places(std::span<const Rank> ranks,
                                             std::span<const std::vector<std::byte>> told) {
    std::vector<std::string> places;
    for (std::size_t at = 0; at < ranks.size(); ++at) {
        std::string place;
        for (std::size_t i = 1; i < told[at].size(); ++i)
            place += static_cast<char>(told[at][i]);
        if (const auto checked = topology::check_switch_path(place); !checked)
            return fail(COPPICE_ERR_MISMATCH, "rank {} tells of its place within its host: {}", ranks[at].value,
                        checked.error());
        if (told[at].empty() && at > 0) place = places.back();
        places.push_back(std::move(place));
    }
    return places;
}

}  // namespace coppice::engine
