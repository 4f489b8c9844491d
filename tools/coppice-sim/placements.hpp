// Networks that broadcasts run on, and where their hosts may stand in tree and ring.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/fat_tree.hpp"

namespace coppice::sim {

struct Network {
    std::vector<topology::Site> sites{};  // by host, in the order of ranks
    // What was given, where it is a fat tree of which every link is known.
    std::optional<topology::FatTree> fat_tree{};
};

inline constexpr const char* kNetworkHelp =
    R"(fattree:K[:LEVELS][:TAPER]: switches of K ports, 3 levels of them unless LEVELS is 2
or a file: what ibnetdiscover prints, Slurm's topology.conf, or lines of HOST LEAF [POD])";

tl::expected<Network, std::string> load_network(const std::string& text);

// Leaves and pods as the network numbers them: in the order of their first hosts.
struct Leaves {
    explicit Leaves(std::span<const topology::Site> sites);

    std::uint32_t count() const { return static_cast<std::uint32_t>(hosts.size()); }
    // Where a broadcast from `root` starts when these leaves are dead: there, or at the first host of the next leaf that lives;
    // nothing when no leaf lives.
    std::optional<std::uint32_t> live_root(std::uint32_t root, std::span<const std::uint32_t> dead) const;

    std::vector<std::uint32_t> leaf_of{};             // by host
    std::vector<std::vector<std::uint32_t>> hosts{};  // by leaf
    std::vector<std::vector<std::uint32_t>> pods{};   // by pod, its leaves
};

// "all", or numbers below `count`, separated by commas.
tl::expected<std::vector<std::uint32_t>, std::string> chosen(const char* option, const std::string& text,
                                                             std::uint32_t count);

enum class PlacementKind : std::uint8_t { ranked, random, leaf_by_leaf, ours };

inline constexpr const char* kPlacementHelp =
    R"(where hosts stand in tree and ring
ranked: in the order of ranks
random: in an order that the seed draws
leaf-by-leaf: sorted by leaf, and the tree in order, so that it stays within a leaf where it can
ours: a tree of trees and a ring of leaves, what groups take that know their switches)";

std::vector<std::string> placement_names();
std::optional<PlacementKind> parse_placement(std::string_view name);
std::string_view to_string(PlacementKind kind);

// The hosts, by their places on one ring of all; for ours as they come, as it has no such ring.
std::vector<std::uint32_t> order_of_hosts(PlacementKind kind, std::span<const topology::Site> sites,
                                          std::uint64_t seed);
// The tree over these places.
topology::TreeSpec tree_for(PlacementKind kind, topology::TreeSpec spec);

}  // namespace coppice::sim
