#include "placements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "engine/read_network.hpp"
#include "simulation/random.hpp"
#include "topology/number.hpp"

namespace coppice::sim {
namespace {

using topology::Site;

constexpr std::array<std::pair<PlacementKind, std::string_view>, 4> kNames{
    {{PlacementKind::ranked, "ranked"},
     {PlacementKind::random, "random"},
     {PlacementKind::leaf_by_leaf, "leaf-by-leaf"},
     {PlacementKind::ours, "ours"}}};

}  // namespace

tl::expected<Network, std::string> load_network(const std::string& text) {
    if (text.starts_with("fattree:")) {
        const auto tree = topology::parse_fat_tree(text);
        if (!tree) return tl::unexpected(tree.error());
        return Network{tree->sites(tree->hosts()), *tree};
    }
    const auto file = engine::read_network(text);
    if (!file) return tl::unexpected(file.error() + "; a network is a file or fattree:K[:LEVELS][:TAPER]");
    return Network{file->sites(), std::nullopt};
}

Leaves::Leaves(std::span<const Site> sites) : leaf_of(sites.size()) {
    std::map<std::uint32_t, std::uint32_t> leaf_numbers;
    std::map<std::uint32_t, std::uint32_t> pod_numbers;
    for (std::uint32_t host = 0; host < sites.size(); ++host) {
        const auto [leaf, is_new] = leaf_numbers.try_emplace(sites[host].leaf, count());
        if (is_new) {
            hosts.emplace_back();
            const auto [pod, is_first] =
                pod_numbers.try_emplace(sites[host].pod, static_cast<std::uint32_t>(pods.size()));
            if (is_first) pods.emplace_back();
            pods[pod->second].push_back(leaf->second);
        }
        leaf_of[host] = leaf->second;
        hosts[leaf->second].push_back(host);
    }
}

std::optional<std::uint32_t> Leaves::live_root(std::uint32_t root, std::span<const std::uint32_t> dead) const {
    const std::uint32_t own = leaf_of[root];
    for (std::uint32_t offset = 0; offset < count(); ++offset) {
        const std::uint32_t leaf = (own + offset) % count();
        if (std::ranges::find(dead, leaf) != dead.end()) continue;
        return offset == 0 ? root : hosts[leaf].front();
    }
    return std::nullopt;
}

tl::expected<std::vector<std::uint32_t>, std::string> chosen(const char* option, const std::string& text,
                                                             std::uint32_t count) {
    std::vector<std::uint32_t> numbers;
    if (text.empty()) return numbers;
    if (text == "all") {
        numbers.resize(count);
        std::iota(numbers.begin(), numbers.end(), 0U);
        return numbers;
    }
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        const auto number = topology::parse_number(std::string_view(text).substr(at, comma - at), 0U, count - 1);
        if (!number)
            return tl::unexpected(fmt::format("{} {}: expected all, or numbers from 0 to {}", option, text, count - 1));
        numbers.push_back(*number);
        at = comma + 1;
    }
    return numbers;
}

std::vector<std::string> placement_names() {
    std::vector<std::string> names;
    for (const auto& [kind, name] : kNames)
        names.emplace_back(name);
    return names;
}

std::optional<PlacementKind> parse_placement(std::string_view name) {
    const auto* const found = std::ranges::find(kNames, name, &std::pair<PlacementKind, std::string_view>::second);
    if (found == kNames.end()) return std::nullopt;
    return found->first;
}

std::string_view to_string(PlacementKind kind) {
    return std::ranges::find(kNames, kind, &std::pair<PlacementKind, std::string_view>::first)->second;
}

std::vector<std::uint32_t> order_of_hosts(PlacementKind kind, std::span<const Site> sites, std::uint64_t seed) {
    std::vector<std::uint32_t> order(sites.size());
    std::iota(order.begin(), order.end(), 0U);
    if (kind == PlacementKind::random) {
        simulation::Random random(seed);
        for (auto left = static_cast<std::uint32_t>(order.size()); left > 1; --left)
            std::swap(order[left - 1], order[random.below(left)]);
    }
    if (kind == PlacementKind::leaf_by_leaf) {
        const Leaves leaves(sites);
        order.clear();
        for (const auto& pod : leaves.pods) {
            for (const std::uint32_t leaf : pod)
                order.insert(order.end(), leaves.hosts[leaf].begin(), leaves.hosts[leaf].end());
        }
    }
    return order;
}

topology::TreeSpec tree_for(PlacementKind kind, topology::TreeSpec spec) {
    // A star's root serves all, in whatever order.
    const bool has_order = spec.shape != topology::TreeShape::star;
    if (kind == PlacementKind::leaf_by_leaf && has_order) spec.numbering = topology::Numbering::in_order;
    return spec;
}

}  // namespace coppice::sim
