#include "engine/whereabouts.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/host.hpp"
#include "engine/read_network.hpp"
#include "engine/wire/address_list.hpp"
#include "topology/switch_path.hpp"

namespace coppice::engine {
namespace {

Result<Whereabouts> in_file(const std::string& path, const OwnNames& names) {
    Whereabouts said{.source = "COPPICE_TOPOLOGY"};
    if (path.empty()) {
        said.why_not = "not set";
        return said;
    }
    const auto file = read_network(path);
    if (!file) return fail(COPPICE_ERR_CONFIG, "COPPICE_TOPOLOGY: {}", file.error());
    const auto found = topology::find_host(*file, names.host, names.guids);
    if (!found) {
        const std::size_t devices = file->adapters.empty() ? 0 : names.guids.size();
        said.why_not = fmt::format("{} has no host {}{}", path, names.host,
                                   devices == 0 ? "" : fmt::format(", and none of its {} RDMA devices", devices));
        return said;
    }
    const topology::NetworkHost* const own = &file->hosts[found->host];
    said.how = found->guid == 0 ? fmt::format("by its name, {}", own->name)
                                : fmt::format("by the GUID of an adapter, {:016x}, of {}", found->guid, own->name);
    // Leaves may have equal names, and pods none.
    const std::string& pod = file->pods[own->site.pod];
    const std::array switches{file->pods.size() > 1 && pod.empty() ? fmt::format("pod{}", own->site.pod) : pod,
                              file->leaves[own->site.leaf]};
    said.path = topology::make_switch_path(switches);
    if (said.path.empty() || !topology::check_switch_path(said.path))
        said.path = fmt::format("pod{}/leaf{}", own->site.pod, own->site.leaf);
    return said;
}

Whereabouts by_slurm(const Environment& environment) {
    Whereabouts said{.source = "SLURM_TOPOLOGY_ADDR"};
    const char* const address = environment("SLURM_TOPOLOGY_ADDR");
    const char* const pattern = environment("SLURM_TOPOLOGY_ADDR_PATTERN");
    if (address == nullptr || pattern == nullptr) {
        said.why_not = "not set";
        return said;
    }
    auto names = topology::parse_slurm_address(address, pattern);
    if (!names) {
        said.why_not = names.error();
        return said;
    }
    names->pop_back();  // the host
    said.path = topology::make_switch_path(*names);
    if (said.path.empty()) said.why_not = "it names no switch";
    if (const auto path = topology::check_switch_path(said.path); !path) {
        said.path.clear();
        said.why_not = path.error();
    }
    return said;
}

}  // namespace

Result<std::vector<Whereabouts>> look_for_switches(const Settings& settings, const OwnNames& own,
                                                   const Environment& environment) {
    std::vector<Whereabouts> found;
    found.push_back({.source = "COPPICE_SWITCHES",
                     .path = settings.switches,
                     .why_not = settings.switches.empty() ? "not set" : ""});
    const auto is_known = [&found] { return !switches_in(found).empty(); };
    const auto not_asked = [&found](std::string_view source) {
        found.push_back({.source = source, .why_not = "not asked: another source has answered"});
    };
    if (is_known()) {
        not_asked("COPPICE_TOPOLOGY");
    } else {
        auto said = in_file(settings.topology, own);
        if (!said) return tl::unexpected(std::move(said.error()));
        found.push_back(std::move(*said));
    }
    if (is_known()) {
        not_asked("SLURM_TOPOLOGY_ADDR");
    } else {
        found.push_back(by_slurm(environment));
    }
    return found;
}

std::string switches_in(const std::vector<Whereabouts>& found) {
    const auto first = std::ranges::find_if(found, [](const Whereabouts& one) { return !one.path.empty(); });
    return first == found.end() ? std::string() : first->path;
}

OwnNames own_names(const Settings& settings) {
    if (!settings.host.empty()) return {settings.host};
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    return {name.data(), rdma_node_guids()};
}

Result<std::vector<Whereabouts>> look_for_switches_here(const Settings& settings) {
    return look_for_switches(settings, own_names(settings),
                             [](const char* variable) -> const char* { return std::getenv(variable); });
}

Result<std::string> own_switches(const Settings& settings, bool is_simulated) {
    if (is_simulated) return settings.switches;
    auto found = look_for_switches_here(settings);
    if (!found) return tl::unexpected(std::move(found.error()));
    return switches_in(*found);
}

Result<std::vector<std::string>> switches_by_node(const topology::Nodes& nodes, std::span<const std::string> switches) {
    std::vector<std::string> paths;
    for (std::uint32_t node = 0; node < nodes.count(); ++node) {
        const Rank first = nodes.members(node).front();
        const std::string& path = switches[first.value];
        if (const auto checked = topology::check_switch_path(path); !checked)
            return fail(COPPICE_ERR_MISMATCH, "rank {} greets with {}", first.value, checked.error());
        for (const Rank rank : nodes.members(node)) {
            if (switches[rank.value] == path) continue;
            return fail(COPPICE_ERR_MISMATCH,
                        "ranks {} and {} share a host, but name different switches above it: \"{}\" and \"{}\"",
                        first.value, rank.value, shown(path), shown(switches[rank.value]));
        }
        paths.push_back(path);
    }
    return paths;
}

}  // namespace coppice::engine
