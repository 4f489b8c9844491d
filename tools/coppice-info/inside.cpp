#include "inside.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/formation/inside.hpp"
#include "topology/domains.hpp"

namespace coppice::info {
namespace {

using nlohmann::ordered_json;

struct TopologyEnd {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyEnd>;

unsigned count(hwloc_topology_t topology, hwloc_const_cpuset_t within, hwloc_obj_type_t type) {
    const int found = hwloc_get_nbobjs_inside_cpuset_by_type(topology, within, type);
    return found < 0 ? 0 : static_cast<unsigned>(found);
}

// Where hwloc knows several kinds.
std::optional<int> kind_of(hwloc_topology_t topology, hwloc_obj_t core) {
    if (hwloc_cpukinds_get_nr(topology, 0) < 2) return std::nullopt;
    const int kind = hwloc_cpukinds_get_by_cpuset(topology, core->cpuset, 0);
    return kind < 0 ? std::nullopt : std::optional(kind);
}

}  // namespace

ordered_json describe_inside(hwloc_topology_t topology, bool is_this_machine) {
    const hwloc_const_cpuset_t all = hwloc_get_root_obj(topology)->cpuset;
    ordered_json places = ordered_json::array();
    for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr;) {
        ordered_json place{{"path", engine::path_above_core(topology, core)},
                           {"first", core->logical_index},
                           {"last", core->logical_index}};
        if (const auto kind = kind_of(topology, core)) place["kind"] = *kind;
        const bool goes_on = !places.empty() && places.back()["path"] == place["path"] &&
                             places.back().value("kind", -1) == place.value("kind", -1);
        if (goes_on) {
            places.back()["last"] = core->logical_index;
        } else {
            places.push_back(std::move(place));
        }
    }
    ordered_json inside{{"cores", count(topology, all, HWLOC_OBJ_CORE)},
                        {"threads", count(topology, all, HWLOC_OBJ_PU)}};
    if (is_this_machine) inside["this_process"] = engine::own_inside_path(topology);
    inside["places"] = std::move(places);
    std::vector<std::string> cores;
    for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr;)
        cores.push_back(engine::inside_path(topology, core));
    const auto domains = coppice::topology::domains_of(cores);
    inside["publishing_domains"] = domains ? domains->count() : 1;
    return inside;
}

tl::expected<ordered_json, std::string> describe_machine_file(const std::string& path) {
    if (access(path.c_str(), R_OK) != 0) return tl::unexpected(fmt::format("{}: {}", path, std::strerror(errno)));
    hwloc_topology_t made = nullptr;
    if (hwloc_topology_init(&made) != 0) return tl::unexpected(std::string("hwloc_topology_init failed"));
    const Topology topology(made);
    if (hwloc_topology_set_xml(made, path.c_str()) != 0 || hwloc_topology_load(made) != 0)
        return tl::unexpected(path + ": hwloc does not read this as a machine; lstopo --of xml writes such files");
    ordered_json inside{{"file", path}};
    inside.update(describe_inside(made, false));
    return inside;
}

void print_inside(const ordered_json& inside) {
    fmt::print("Within {}: {} cores, {} threads\n",
               inside.contains("file") ? inside["file"].get<std::string>() : "this host",
               inside["cores"].get<unsigned>(), inside["threads"].get<unsigned>());
    if (inside.contains("this_process")) {
        const std::string own = inside["this_process"];
        fmt::print("  this process may run {}\n", own.empty() ? "anywhere" : "in " + own);
    }
    const auto domains = inside["publishing_domains"].get<unsigned>();
    fmt::print("  ranks on all cores publish in {}\n",
               domains == 1 ? "one level" : fmt::format("two levels, {} domains", domains));
    for (const auto& place : inside["places"]) {
        const std::string path = place["path"];
        const auto first = place["first"].get<unsigned>();
        const auto last = place["last"].get<unsigned>();
        const std::string cores =
            first == last ? fmt::format("core{}", first) : fmt::format("core{} to core{}", first, last);
        const std::string kind =
            place.contains("kind") ? fmt::format(", of kind {} (0 is the least fast)", place["kind"].get<int>()) : "";
        fmt::print("  {:<18} {}{}\n", path.empty() ? "no level above" : path, cores, kind);
    }
}

}  // namespace coppice::info
