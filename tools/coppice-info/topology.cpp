#include "topology.hpp"

#include <fmt/format.h>

#include "engine/read_network.hpp"
#include "topology/placement.hpp"

namespace coppice::info {
namespace {

using nlohmann::ordered_json;

ordered_json leaves_of(const topology::NetworkFile& file) {
    ordered_json leaves = ordered_json::array();
    for (const std::string& name : file.leaves)
        leaves.push_back({{"name", name}, {"pod", ""}, {"hosts", ordered_json::array()}});
    for (const topology::NetworkHost& host : file.hosts) {
        leaves[host.site.leaf]["pod"] = file.pods[host.site.pod];
        leaves[host.site.leaf]["hosts"].push_back(host.name);
    }
    return leaves;
}

std::string place_of(const topology::NetworkFile& file, const engine::OwnNames& own) {
    const auto found = topology::find_host(file, own.host, own.guids);
    if (!found) return "not in it";
    const topology::NetworkHost& host = file.hosts[found->host];
    const std::string& pod = file.pods[host.site.pod];
    return fmt::format(
        "{}below leaf {}{}",
        found->guid == 0 ? "" : fmt::format("which it calls {} (GUID {:016x}), ", host.name, found->guid),
        file.leaves[host.site.leaf], pod.empty() ? "" : " of pod " + pod);
}

}  // namespace

tl::expected<ordered_json, std::string> describe_topology(const std::string& path, const engine::OwnNames& own) {
    const auto file = engine::read_network(path);
    if (!file) return tl::unexpected(file.error());
    const auto placement = topology::Placement::make(file->sites(), topology::TreeSpec{});
    if (!placement) return tl::unexpected(path + ": " + placement.error());
    const auto spread = placement->spread(3);
    return ordered_json{{"file", path},
                        {"kind", file->kind},
                        {"hosts", file->hosts.size()},
                        {"pods", file->pods.size()},
                        {"largest_pod", placement->leaves_of(0)},
                        {"nearest_of_one_pod", spread.nearest},
                        {"this_host", fmt::format("{}: {}", own.host, place_of(*file, own))},
                        {"remarks", file->remarks},
                        {"leaves", leaves_of(*file)}};
}

void print_topology(const ordered_json& topology) {
    const auto& leaves = topology["leaves"];
    fmt::print("{} ({}): {} hosts, {} leaf switches, {} pods\n", topology["file"].get<std::string>(),
               topology["kind"].get<std::string>(), topology["hosts"].get<std::size_t>(), leaves.size(),
               topology["pods"].get<std::size_t>());
    for (const auto& remark : topology["remarks"])
        fmt::print("  Note: {}\n", remark.get<std::string>());
    fmt::print("  This host, {}\n", topology["this_host"].get<std::string>());
    if (topology["pods"].get<std::size_t>() > 1) {
        fmt::print("  On the ring of leaves two of one pod are {} apart at least; the largest pod has {}\n",
                   topology["nearest_of_one_pod"].get<unsigned>(), topology["largest_pod"].get<unsigned>());
    }
    fmt::print("  {:<24} {:<24} {:>6}  {}\n", "leaf", "pod", "hosts", "first");
    for (const auto& leaf : leaves) {
        fmt::print("  {:<24} {:<24} {:>6}  {}\n", leaf["name"].get<std::string>(), leaf["pod"].get<std::string>(),
                   leaf["hosts"].size(), leaf["hosts"][0].get<std::string>());
    }
}

}  // namespace coppice::info
