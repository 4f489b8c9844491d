#include "topology/switch_path.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "topology/network_text.hpp"

namespace coppice::topology {

tl::expected<void, std::string> check_switch_path(std::string_view path) {
    if (path.empty()) return {};
    if (path.size() > kMaxSwitchPath)
        return tl::unexpected("a path of switches longer than " + std::to_string(kMaxSwitchPath) + " characters");
    std::size_t names = 0;
    for (std::size_t start = 0; start <= path.size(); ++names) {
        const std::string_view name = path.substr(start, path.find('/', start) - start);
        if (!is_name(name)) return tl::unexpected(shown(name) + " in " + shown(path) + " is no name of a switch");
        start += name.size() + 1;
    }
    if (names > kMaxSwitches)
        return tl::unexpected(shown(path) + " names more than " + std::to_string(kMaxSwitches) + " switches");
    return {};
}

std::string make_switch_path(std::span<const std::string> names) {
    std::string path;
    for (const std::string& name : names) {
        if (name.empty()) continue;
        if (!path.empty()) path += '/';
        for (const char c : name)
            path += c <= ' ' || c == '\x7f' || c == '"' || c == '/' ? '_' : c;
    }
    return path;
}

std::vector<Site> sites_of(std::span<const std::string> paths) {
    if (std::ranges::any_of(paths, &std::string::empty)) return {};
    const bool has_pods =
        std::ranges::all_of(paths, [](const std::string& path) { return path.find('/') != std::string::npos; });
    Numbers<std::string> leaves;
    Numbers<std::string> pods;
    std::vector<Site> sites;
    sites.reserve(paths.size());
    for (const std::string& path : paths) {
        const std::string pod = has_pods ? path.substr(0, path.rfind('/')) : std::string();
        sites.push_back({.pod = pods.number(pod).first, .leaf = leaves.number(path).first});
    }
    return sites;
}

LevelSizes level_sizes(std::span<const Site> sites) {
    std::map<std::uint32_t, std::uint32_t> hosts;             // by leaf
    std::map<std::uint32_t, std::set<std::uint32_t>> leaves;  // by pod
    LevelSizes sizes;
    for (const Site& site : sites) {
        sizes.hosts = std::max(sizes.hosts, ++hosts[site.leaf]);
        auto& of_pod = leaves[site.pod];
        of_pod.insert(site.leaf);
        sizes.leaves = std::max(sizes.leaves, static_cast<std::uint32_t>(of_pod.size()));
    }
    sizes.pods = static_cast<std::uint32_t>(leaves.size());
    return sizes;
}

bool is_worth_placing(std::span<const Site> sites) {
    const LevelSizes sizes = level_sizes(sites);
    return (sizes.hosts > 1 && (sizes.leaves > 1 || sizes.pods > 1)) || (sizes.leaves > 1 && sizes.pods > 1);
}

}  // namespace coppice::topology
