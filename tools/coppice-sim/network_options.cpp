#include "network_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "joined.hpp"

namespace coppice::sim {
namespace {

constexpr const char* kLatenciesHelp =
    "steps on the wire for a message that stays below its leaf switch, below its pod, and for one that goes beyond";
constexpr const char* kLinkGapsHelp = "steps between two messages on one link above a leaf, and on one above a pod";

// Positions are counted from the root: along the order of hosts, or, in our placement, of ranks.
void number_positions(PlacedRanks& placed, std::uint64_t seed) {
    const auto ranks = static_cast<std::uint32_t>(placed.sites.size());
    std::vector<std::uint32_t> order = order_of_hosts(placed.kind, placed.sites, seed);
    std::ranges::rotate(order, std::ranges::find(order, placed.root));
    placed.rank_at = std::move(order);
    placed.position_of.resize(ranks);
    for (std::uint32_t position = 0; position < ranks; ++position)
        placed.position_of[placed.rank_at[position]] = Position{position};
}

}  // namespace

void NetworkOptions::add_to(CLI::App& app) {
    app_ = &app;
    app.add_option("--network", network_, kNetworkHelp);
    app.add_option("--placement", placement_, kPlacementHelp)
        ->capture_default_str()
        ->check(CLI::IsMember(placement_names()));
    app.add_option("--latencies", latencies_, kLatenciesHelp)->delimiter(',')->expected(3)->capture_default_str();
    app.add_option("--link-gaps", link_gaps_, kLinkGapsHelp)->delimiter(',')->expected(2)->capture_default_str();
    app.add_option("--placement-seed", placement_seed_, "of the placement random")->capture_default_str();
    app.add_option("--dead-leaf", dead_leaf_, "all hosts below these leaf switches are dead from the start: 17 or 3,5");
    app.add_option("--dead-pod", dead_pod_, "all hosts of these pods are dead from the start");
}

std::optional<std::string> NetworkOptions::reason_against_none() const {
    if (app_ == nullptr) return std::nullopt;
    for (const char* option :
         {"--placement", "--latencies", "--link-gaps", "--placement-seed", "--dead-leaf", "--dead-pod"}) {
        if (app_->count(option) > 0) return fmt::format("{} needs --network", option);
    }
    return std::nullopt;
}

tl::expected<PlacedRanks, std::string> NetworkOptions::place(std::optional<std::uint32_t> ranks) const {
    const auto network = load_network(network_);
    if (!network) return tl::unexpected("--network: " + network.error());
    PlacedRanks placed;
    placed.sites = network->sites;
    if (ranks && *ranks > placed.sites.size())
        return tl::unexpected(fmt::format("--network {} has {} hosts, not {}", network_, placed.sites.size(), *ranks));
    if (ranks) placed.sites.resize(*ranks);
    placed.kind = *parse_placement(placement_);
    placed.title = fmt::format("{}, {}", network_, placement_);

    const Leaves leaves(placed.sites);
    auto dead = chosen("--dead-leaf", dead_leaf_, leaves.count());
    if (!dead) return tl::unexpected(dead.error());
    const auto dead_pods = chosen("--dead-pod", dead_pod_, static_cast<std::uint32_t>(leaves.pods.size()));
    if (!dead_pods) return tl::unexpected(dead_pods.error());
    for (const std::uint32_t pod : *dead_pods)
        dead->insert(dead->end(), leaves.pods[pod].begin(), leaves.pods[pod].end());
    std::ranges::sort(*dead);
    dead->erase(std::unique(dead->begin(), dead->end()), dead->end());
    const auto root = leaves.live_root(0, *dead);
    if (!root) return tl::unexpected(std::string("no leaf is left alive"));
    placed.root = *root;

    number_positions(placed, placement_seed_);
    for (const std::uint32_t leaf : *dead) {
        for (const std::uint32_t rank : leaves.hosts[leaf])
            placed.dead.push_back(placed.position_of[rank]);
    }
    simulation::NetworkTimes times;
    std::ranges::copy(latencies_, times.latency.begin());
    std::ranges::copy(link_gaps_, times.gap.begin());
    if (const auto reason = reason_against(times)) return tl::unexpected(*reason);
    placed.network = std::make_shared<simulation::Network>(placed.sites, placed.rank_at, times,
                                                           network->fat_tree ? network->fat_tree->taper : 1);
    return placed;
}

std::string NetworkOptions::command_line() const {
    if (!given()) return {};
    std::string line =
        fmt::format(" --network {} --placement {} --latencies {} --link-gaps {} --placement-seed {}", network_,
                    placement_, joined(latencies_, ","), joined(link_gaps_, ","), placement_seed_);
    if (!dead_leaf_.empty()) line += " --dead-leaf " + dead_leaf_;
    if (!dead_pod_.empty()) line += " --dead-pod " + dead_pod_;
    return line;
}

}  // namespace coppice::sim
