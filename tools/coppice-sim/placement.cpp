// coppice-sim placement: what a fat tree's dead leaves and pods leave uncolored, wherever hosts stand.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "placements.hpp"
#include "progress.hpp"
#include "simulation/tree_reach.hpp"
#include "subcommand.hpp"
#include "topology/placement_gaps.hpp"

namespace coppice::sim {
namespace {

using topology::Placement;

constexpr const char* kDescription =
    R"(Says how far apart on the ring what fails together stands, and how long the gaps are that a dead leaf switch, a dead pod or
two dead leaves leave after the dissemination. Nothing is drawn and nothing is timed: every case counts once.
)";

constexpr const char* kFooter =
    R"(A gap is a run of positions of the ring without the payload: of leaves with the placement "ours", of hosts with the others.
Where the root would be among the dead, the broadcast starts at the first host of the next leaf that lives.
Exit code: 0; 1 when a gap is longer than --at-most; 2 bad options.

Examples:
  coppice-sim placement --network fattree:64 --dead-leaves all --dead-pods all
  coppice-sim placement --network fattree:16 --dead-leaves all --placement ranked
  coppice-sim placement --network fattree:8:2 --dead-leaves 3,5 --format csv
)";

struct Options {
    std::string network = "fattree:8";
    std::string placement = "ours";
    std::string tree = "binomial";
    std::string dead_leaves;
    std::string dead_pods;
    bool pairs = true;
    std::uint32_t distance = 1;
    std::uint32_t root = 0;
    std::uint32_t at_most = 0;
    std::uint64_t seed = 1;
    std::string format = "table";
};

struct Row {
    std::string dead;
    std::uint64_t cases = 0;
    std::uint32_t longest = 0;
    std::uint64_t longer_than_one = 0;

    void add(std::uint32_t gap) {
        ++cases;
        longest = std::max(longest, gap);
        longer_than_one += gap > 1 ? 1 : 0;
    }
};

// The longest gap that dead switches leave, asked of one placement. `dead` are leaves as the network numbers them.
class Gaps {
  public:
    virtual ~Gaps() = default;
    virtual std::uint32_t longest(std::uint32_t root, std::span<const std::uint32_t> dead) = 0;
};

class OurGaps final : public Gaps {
  public:
    OurGaps(const Placement& placement, const Leaves& leaves)
        : placement_(placement), leaves_(leaves), gaps_(placement) {}

    std::uint32_t longest(std::uint32_t root, std::span<const std::uint32_t> dead) override {
        places_.clear();
        for (const std::uint32_t leaf : dead)
            places_.push_back(placement_.leaf_of(leaves_.hosts[leaf].front()));
        return gaps_.longest(root, places_);
    }

  private:
    const Placement& placement_;
    const Leaves& leaves_;
    topology::PlacementGaps gaps_;
    std::vector<std::uint32_t> places_;
};

// All hosts on one ring, in some order, and a tree of one level over them.
class FlatGaps final : public Gaps {
  public:
    FlatGaps(topology::Tree tree, const std::vector<std::uint32_t>& order, const Leaves& leaves)
        : tree_(std::move(tree)), leaves_(leaves), place_of_(order.size()), reach_(tree_) {
        for (std::uint32_t place = 0; place < order.size(); ++place)
            place_of_[order[place]] = place;
    }

    std::uint32_t longest(std::uint32_t root, std::span<const std::uint32_t> dead) override {
        const auto hosts = static_cast<std::uint32_t>(place_of_.size());
        dead_.clear();
        for (const std::uint32_t leaf : dead) {
            for (const std::uint32_t host : leaves_.hosts[leaf])
                dead_.push_back(topology::left_neighbour(Position{place_of_[host]}, place_of_[root], hosts));
        }
        std::ranges::sort(dead_);
        return reach_.gaps(dead_).largest;
    }

  private:
    topology::Tree tree_;
    const Leaves& leaves_;
    std::vector<std::uint32_t> place_of_;
    simulation::TreeReach reach_;
    std::vector<Position> dead_;
};

void add(Row& row, Gaps& gaps, const Leaves& leaves, std::uint32_t root, std::span<const std::uint32_t> dead) {
    if (const auto start = leaves.live_root(root, dead)) row.add(gaps.longest(*start, dead));
}

std::vector<Row> count(const Options& options, const Leaves& leaves, Gaps& gaps,
                       std::span<const std::uint32_t> dead_leaves, std::span<const std::uint32_t> dead_pods) {
    std::vector<Row> rows;
    if (!dead_leaves.empty()) {
        Row one{.dead = "one leaf"};
        for (const std::uint32_t leaf : dead_leaves)
            add(one, gaps, leaves, options.root, std::array{leaf});
        rows.push_back(one);
    }
    if (!dead_pods.empty()) {
        Row pod{.dead = "one pod"};
        for (const std::uint32_t number : dead_pods)
            add(pod, gaps, leaves, options.root, leaves.pods[number]);
        rows.push_back(pod);
    }
    if (options.pairs && dead_leaves.size() > 1) {
        Row two{.dead = "two leaves"};
        Progress progress("leaves", dead_leaves.size());
        for (std::size_t i = 0; i < dead_leaves.size(); ++i) {
            for (std::size_t j = i + 1; j < dead_leaves.size(); ++j)
                add(two, gaps, leaves, options.root, std::array{dead_leaves[i], dead_leaves[j]});
            progress.at(i);
        }
        rows.push_back(two);
    }
    return rows;
}

double share(const Row& row) {
    return row.cases == 0 ? 1 : 1 - static_cast<double>(row.longer_than_one) / static_cast<double>(row.cases);
}

void print(const Options& options, const std::vector<Row>& rows) {
    if (options.format == "csv") {
        fmt::print("network,placement,tree,dead,cases,longest_gap,gap_at_most_1\n");
        for (const Row& row : rows)
            fmt::print("{},{},{},{},{},{},{:.6f}\n", options.network, options.placement, options.tree, row.dead,
                       row.cases, row.longest, share(row));
        return;
    }
    fmt::print("\n{:<12} {:>12} {:>14} {:>22}\n", "dead", "cases", "longest gap", "with gaps of 1 at most");
    for (const Row& row : rows)
        fmt::print("{:<12} {:>12} {:>14} {:>20.4f} %\n", row.dead, row.cases, row.longest, 100 * share(row));
}

void print_ring(const Options& options, const Placement& placement, std::chrono::nanoseconds took) {
    const std::uint32_t reach = 2 * options.distance + 1;
    const auto spread = placement.spread(reach);
    fmt::print("{}: {} hosts, {} leaves, {} pods; placed in {:.2f} ms, {:.2f} MiB\n", options.network,
               placement.hosts(), placement.leaves(), placement.pods(),
               std::chrono::duration<double, std::milli>(took).count(),
               static_cast<double>(placement.memory()) / (1 << 20));
    if (placement.pods() == 1) {
        fmt::print("Ring of leaves: no pods are known, so none to spread\n");
        return;
    }
    fmt::print("Ring of leaves: the nearest two of one pod are {} apart, the largest pod has {} of {} leaves\n",
               spread.nearest, placement.leaves_of(0), placement.leaves());
    fmt::print("Pairs of leaves of one pod within 2d+1 = {} places: {}\n", reach, spread.close_pairs);
}

int run(const Options& options, const Network& network) {
    const auto hosts = static_cast<std::uint32_t>(network.sites.size());
    if (options.root >= hosts) return refuse(fmt::format("--root is a host, 0 to {}", hosts - 1));
    const Leaves leaves(network.sites);
    const auto dead_leaves = chosen("--dead-leaves", options.dead_leaves, leaves.count());
    if (!dead_leaves) return refuse(dead_leaves.error());
    const auto dead_pods = chosen("--dead-pods", options.dead_pods, static_cast<std::uint32_t>(leaves.pods.size()));
    if (!dead_pods) return refuse(dead_pods.error());
    const auto spec = topology::parse_tree(options.tree);
    if (!spec) return refuse(spec.error());

    std::vector<Row> rows;
    const auto kind = parse_placement(options.placement);
    if (kind == PlacementKind::ours) {
        const auto start = std::chrono::steady_clock::now();
        const auto placement = Placement::make(network.sites, *spec);
        if (!placement) return refuse(placement.error());
        const auto took = std::chrono::steady_clock::now() - start;
        if (options.format == "table") print_ring(options, *placement, took);
        OurGaps gaps(*placement, leaves);
        rows = count(options, leaves, gaps, *dead_leaves, *dead_pods);
    } else {
        auto tree = topology::Tree::make(tree_for(*kind, *spec), hosts);
        if (!tree) return refuse(tree.error());
        if (options.format == "table")
            fmt::print("{}: {} hosts, {} leaves, {} pods; {} on one ring of hosts, {}\n", options.network, hosts,
                       leaves.count(), leaves.pods.size(), options.placement, to_string(tree->spec()));
        FlatGaps gaps(std::move(*tree), order_of_hosts(*kind, network.sites, options.seed), leaves);
        rows = count(options, leaves, gaps, *dead_leaves, *dead_pods);
    }
    print(options, rows);
    if (options.at_most == 0) return kFine;
    const bool fine = std::ranges::all_of(rows, [&](const Row& row) { return row.longest <= options.at_most; });
    return fine ? kFine : kFailed;
}

}  // namespace

int run_placement(int argc, char** argv) {
    Options options;
    CLI::App app(kDescription, "coppice-sim placement");
    app.footer(kFooter);
    app.add_option("--network", options.network, kNetworkHelp)->capture_default_str();
    app.add_option("--placement", options.placement, kPlacementHelp)
        ->capture_default_str()
        ->check(CLI::IsMember(placement_names()));
    app.add_option("--tree", options.tree, "of every level; as for broadcast")->capture_default_str();
    app.add_option("--dead-leaves", options.dead_leaves,
                   "each of these is dead once, and each two of them: all, or 3,5");
    app.add_option("--dead-pods", options.dead_pods, "each of these is dead once: all, or 0,2");
    app.add_flag("--pairs,!--no-pairs", options.pairs, "whether two dead leaves are counted, too (they are)");
    app.add_option("--distance,-d", options.distance, "d: messages a side of the correction, for the ring's spread")
        ->capture_default_str()
        ->check(CLI::Range(1U, 1024U));
    app.add_option("--root", options.root, "the host that the broadcast starts at")->capture_default_str();
    app.add_option("--at-most", options.at_most, "fail when a gap is longer than this");
    app.add_option("--seed", options.seed, "of the placement random")->capture_default_str();
    app.add_option("--format", options.format, "table or csv")
        ->capture_default_str()
        ->check(CLI::IsMember({"table", "csv"}));
    if (const auto code = parse(app, argc, argv)) return *code;
    const auto network = load_network(options.network);
    if (!network) return refuse("--network: " + network.error());
    return run(options, *network);
}

}  // namespace coppice::sim
