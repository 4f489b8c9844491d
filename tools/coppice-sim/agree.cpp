// coppice-sim agree: what agreements cost on a LogP clock, without failures and with.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "joined.hpp"
#include "memory.hpp"
#include "network_options.hpp"
#include "protocol/agreement/rebalance.hpp"
#include "simulation/explore/agreement_clock.hpp"
#include "simulation/random.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

using protocol::AgreementPlan;
using protocol::AgreementTree;
using simulation::AgreementAlgorithm;
using simulation::AgreementSetup;
using simulation::AgreementTiming;

constexpr const char* kDescription =
    R"(Runs agreements one after the other on a LogP clock. Latency is from the first rank's call until the last live
rank's return, in steps. With deaths, the first agreement after one is the one that detects it; later ones show what
it left.
)";

constexpr const char* kFooter =
    R"(Victims: root (the lowest ranks), children (those of the root, then theirs), leaves (the highest ranks), random,
host (all of the first host but rank 0), or numbers: 3,17.
"bound" is Theorem 5 of the paper: without failures 2 log_d(n) walks of a message, each L + 2o and waiting for d - 1
others at its receiver's port; F failures add F d + 2 walks and the time at which everybody has been told.
With --network each rank is a host of it. Placed "ours", a tree is one of trees: of pods, of a pod's leaves, of a leaf's hosts. What is
dead by --dead-leaf and --dead-pod dies at --at, as victims do. "bound" takes the longest latency then, and no waiting for links.
Exit code: 0; 1 when live ranks decided differently or not at all; 2 bad options.

Examples:
  coppice-sim agree --ranks 1048576 --tree binary
  coppice-sim agree --ranks 4096 --tree binary --failures 8 --victims root --at 10 --notice-after 50 --agreements 4
  coppice-sim agree --ranks 4096 --algorithm three-phase
  coppice-sim agree --network fattree:16 --placement ours
  coppice-sim agree --network fattree:16 --placement leaf-by-leaf --dead-leaf 3 --at 5 --notice-after 50
)";

struct Options {
    std::uint32_t ranks = 64;  // with a network: as many as it has hosts, unless it is given
    std::string tree = "binary";
    std::uint32_t ranks_per_host = 16;
    std::uint32_t hosts_per_leaf = 16;
    std::uint32_t leaves_per_pod = 16;
    std::string algorithm = "era";
    simulation::LogP model;
    std::uint32_t agreements = 1;
    std::uint32_t failures = 0;
    std::string victims = "random";
    std::uint32_t at = 0;
    std::uint32_t notice_after = 0;
    std::uint32_t notice_spread = 0;
    bool known = false;
    std::string rebalance = "when-degenerated";
    std::uint64_t seed = 1;
    NetworkOptions network;
};

constexpr std::pair<const char*, AgreementAlgorithm> kAlgorithms[] = {
    {"era", AgreementAlgorithm::era},
    {"two-phase", AgreementAlgorithm::two_phase},
    {"three-phase", AgreementAlgorithm::three_phase},
    {"allreduce-doubling", AgreementAlgorithm::allreduce_doubling},
    {"allreduce-binomial", AgreementAlgorithm::allreduce_binomial},
    {"allreduce-hosts", AgreementAlgorithm::allreduce_hosts},
};

std::vector<std::string> names_of_algorithms() {
    std::vector<std::string> names;
    for (const auto& [name, algorithm] : kAlgorithms)
        names.emplace_back(name);
    return names;
}

AgreementAlgorithm algorithm_of(const std::string& name) {
    return std::ranges::find(kAlgorithms, name, [](const auto& each) { return std::string(each.first); })->second;
}

void add_options(CLI::App& app, Options& options) {
    app.add_option("--ranks", options.ranks)->capture_default_str()->check(CLI::Range(1U, 1U << 24));
    app.add_option("--tree", options.tree, "binary, heap, binomial, kary:K, star, chain, bin/bin, bin/star, ...")
        ->capture_default_str();
    app.add_option("--ranks-per-host", options.ranks_per_host, "for trees of levels")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--hosts-per-leaf", options.hosts_per_leaf, "for trees of three levels: hosts on a leaf switch")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--leaves-per-pod", options.leaves_per_pod, "for trees of four levels")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--algorithm", options.algorithm)
        ->capture_default_str()
        ->check(CLI::IsMember(names_of_algorithms()));
    app.add_option("--latency", options.model.latency, "L, steps")->capture_default_str();
    app.add_option("--overhead", options.model.overhead, "o, steps")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--gap", options.model.gap, "g, steps; below o means o")->capture_default_str();
    app.add_option("--agreements", options.agreements, "one after the other")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--failures", options.failures, "how many ranks die")->capture_default_str();
    app.add_option("--victims", options.victims, "which ones")->capture_default_str();
    app.add_option("--at", options.at, "when they die, steps")->capture_default_str();
    app.add_option("--notice-after", options.notice_after, "all others are told so many steps later")
        ->capture_default_str();
    app.add_option("--notice-spread", options.notice_spread, "each of them up to so many steps later still")
        ->capture_default_str();
    app.add_flag("--known", options.known, "they are dead from before the start, known and acknowledged");
    app.add_option("--rebalance", options.rebalance)
        ->capture_default_str()
        ->check(CLI::IsMember({"never", "when-degenerated", "always"}));
    app.add_option("--seed", options.seed, "of random victims, and of when each rank is told")->capture_default_str();
    options.network.add_to(app);
}

std::optional<std::vector<std::uint32_t>> draw_victims(const Options& options, const AgreementTree& tree) {
    std::vector<std::uint32_t> victims;
    if (options.victims == "root") {
        for (std::uint32_t rank = 0; rank < options.failures; ++rank)
            victims.push_back(rank);
    } else if (options.victims == "leaves") {
        for (std::uint32_t i = 0; i < options.failures; ++i)
            victims.push_back(options.ranks - 1 - i);
    } else if (options.victims == "children") {
        std::vector<std::uint32_t> level{0};
        while (victims.size() < options.failures && !level.empty()) {
            std::vector<std::uint32_t> below;
            for (const std::uint32_t rank : level) {
                for (std::uint32_t i = 0; i < tree.child_count(rank); ++i)
                    below.push_back(tree.child(rank, i));
            }
            victims.insert(victims.end(), below.begin(), below.end());
            level = below;
        }
        victims.resize(std::min<std::size_t>(victims.size(), options.failures));
    } else if (options.victims == "host") {
        for (std::uint32_t rank = 1; rank < std::min(options.ranks, options.ranks_per_host); ++rank)
            victims.push_back(rank);
    } else if (options.victims == "random") {
        simulation::Random random(options.seed);
        protocol::FailedSet drawn;
        while (drawn.count() < options.failures) {
            const std::uint32_t rank = random.below(options.ranks);
            if (drawn.insert(rank)) victims.push_back(rank);
        }
    } else {
        std::size_t at = 0;
        while (at < options.victims.size()) {
            const std::size_t comma = std::min(options.victims.find(',', at), options.victims.size());
            const std::string digits = options.victims.substr(at, comma - at);
            if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
                return std::nullopt;
            victims.push_back(static_cast<std::uint32_t>(std::stoul(digits)));
            if (victims.back() >= options.ranks) return std::nullopt;
            at = comma + 1;
        }
    }
    return victims;
}

// By the network's options, if there are any: a rank is one of its hosts then. A sentence if they make no sense.
std::optional<std::string> place(const CLI::App& app, Options& options, std::optional<PlacedRanks>& placed) {
    if (!options.network.given()) return options.network.reason_against_none();
    for (const char* option : {"--ranks-per-host", "--hosts-per-leaf", "--leaves-per-pod", "--latency"}) {
        if (app.count(option) > 0) return fmt::format("{}: with --network it is the network that says so", option);
    }
    if (options.victims == "host") return "--victims host: with --network each rank is a host; see --dead-leaf";
    if (options.algorithm == "allreduce-hosts")
        return "--algorithm allreduce-hosts: with --network each rank is a host";
    auto found = options.network.place(app.count("--ranks") > 0 ? std::optional(options.ranks) : std::nullopt);
    if (!found) return found.error();
    options.ranks = static_cast<std::uint32_t>(found->sites.size());
    options.ranks_per_host = 1;
    options.model.latency = found->network->times().latency.back();
    placed = std::move(*found);
    return std::nullopt;
}

// Which ranks share what.
struct Whereabouts {
    std::optional<topology::Nodes> hosts{};
    std::vector<topology::Site> sites{};
    std::vector<Position> position_of{};  // by rank, in the network
    std::vector<std::uint32_t> dead{};
};

std::vector<std::uint64_t> hosts_of_blocks(std::uint32_t ranks, std::uint32_t ranks_per_host) {
    std::vector<std::uint64_t> host_of(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
        host_of[rank] = rank / ranks_per_host;
    return host_of;
}

tl::expected<Whereabouts, std::string> in_blocks(const Options& options, const protocol::AgreementTreeSpec& spec) {
    Whereabouts made;
    if (!spec.within) return made;
    made.hosts = topology::Nodes::by_host(hosts_of_blocks(options.ranks, options.ranks_per_host));
    made.sites.resize(spec.between.empty() ? 0 : made.hosts->count());
    for (std::uint32_t host = 0; host < made.sites.size(); ++host) {
        const std::uint32_t leaf = host / options.hosts_per_leaf;
        made.sites[host] = {.pod = leaf / options.leaves_per_pod, .leaf = leaf};
    }
    return made;
}

// Ours has ranks as the network numbers its hosts, and a tree of each level; the others a tree over the hosts in their order.
tl::expected<Whereabouts, std::string> on_network(const PlacedRanks& placed, protocol::AgreementTreeSpec& spec) {
    const auto ranks = static_cast<std::uint32_t>(placed.sites.size());
    Whereabouts made;
    if (placed.kind != PlacementKind::ours) {
        if (spec.within)
            return tl::unexpected(
                fmt::format("--tree: trees of levels go by the network's switches with --placement ours, not {}",
                            to_string(placed.kind)));
        spec.across = tree_for(placed.kind, spec.across);
        for (const Position position : placed.dead)
            made.dead.push_back(position.value);
        return made;
    }
    if (!spec.within) {
        spec.between = {spec.across, spec.across};
        spec.within = spec.across;
    }
    made.hosts = topology::Nodes::by_host(hosts_of_blocks(ranks, 1));
    made.sites = placed.sites;
    made.position_of = placed.position_of;
    for (const Position position : placed.dead)
        made.dead.push_back(placed.rank_at[position.value]);
    return made;
}

void print(const Options& options, const std::string& title, const AgreementSetup& setup,
           const simulation::AgreementTimings& timings) {
    const double degree = std::max(2.0, static_cast<double>(setup.plan.tree.max_degree()));
    const double failures = static_cast<double>(setup.deaths.size());
    const double logarithm = std::log(static_cast<double>(options.ranks)) / std::log(degree);
    // O(log n + f d), with the constants to which the tests hold it.
    const double walks = 2 * logarithm + (failures > 0 ? failures * degree + 2 : 0);
    const double told = failures > 0 ? options.at + options.notice_after + options.notice_spread : 0;
    const double hop = options.model.latency + 2.0 * options.model.overhead +
                       (degree - 1) * std::max(options.model.interval(), options.model.overhead);
    const double bound = walks * hop + told;
    const std::string latency =
        setup.network ? joined(setup.network->times().latency, ",") : fmt::format("{}", options.model.latency);
    fmt::print("{} ranks{}, tree {}, {}, L={} o={} g={}: 2 log_{:.0f}(n){} = {:.1f} walks, bound {:.0f} steps\n",
               options.ranks, title.empty() ? "" : ", " + title, to_string(setup.plan.tree.spec()), options.algorithm,
               latency, options.model.overhead, options.model.interval(), degree,
               failures > 0 ? fmt::format(" + {:.0f}*{:.0f} + 2", failures, degree) : "", walks, bound);
    fmt::print("{:>10} {:>10} {:>10} {:>9}\n", "agreement", "latency", "of bound", "decided");
    for (std::size_t i = 0; i < timings.agreements.size(); ++i) {
        const AgreementTiming& timing = timings.agreements[i];
        fmt::print("{:>10} {:>10} {:>10.2f} {:>9}{}\n", i, timing.latency, bound > 0 ? timing.latency / bound : 0.0,
                   timing.decided, timing.agreed ? "" : "  NOT AGREED");
    }
    fmt::print(
        "messages {}, of these result requests {}, bytes of bodies {}, most sent by one rank {}, longest chain {}\n",
        timings.messages, timings.requests, timings.bytes, timings.most_sent, timings.longest_chain);
    if (setup.network)
        fmt::print("over up-links of leaves {}, of these over up-links of pods {}\n",
                   timings.by_level[1] + timings.by_level[2], timings.by_level[2]);
}

}  // namespace

int run_agree(int argc, char** argv) {
    Options options;
    CLI::App app(kDescription, "coppice-sim agree");
    app.footer(kFooter);
    add_options(app, options);
    if (const auto code = parse(app, argc, argv)) return *code;
    std::optional<PlacedRanks> placed;
    if (const auto reason = place(app, options, placed)) return refuse(*reason);
    if (options.failures >= options.ranks) return refuse("--failures: at least one rank has to survive");
    const AgreementAlgorithm algorithm = algorithm_of(options.algorithm);
    if ((options.failures > 0 || (placed && !placed->dead.empty())) && options.algorithm.starts_with("allreduce"))
        return refuse("--failures: an Allreduce survives none");
    if (const auto reason = reason_against_size(options.ranks * simulation::bytes_for_each_rank(algorithm), 1)) {
        return refuse(*reason);
    }
    auto spec = protocol::parse_agreement_tree(options.tree);
    if (!spec) return refuse(spec.error());
    const auto whereabouts = placed ? on_network(*placed, *spec) : in_blocks(options, *spec);
    if (!whereabouts) return refuse(whereabouts.error());
    const topology::Nodes* const hosts = whereabouts->hosts ? &*whereabouts->hosts : nullptr;
    auto tree = AgreementTree::make(*spec, options.ranks, hosts, {}, whereabouts->sites);
    if (!tree) return refuse(tree.error());
    const auto victims = draw_victims(options, *tree);
    if (!victims) return refuse("--victims: root, children, leaves, random, host, or ranks of the group");
    AgreementSetup setup{AgreementPlan{std::move(*tree), hosts, whereabouts->sites}};
    setup.plan.window = 1;
    setup.plan.max_value = 8;
    setup.plan.rebalance = *protocol::parse_rebalance(options.rebalance);
    setup.algorithm = algorithm;
    setup.model = options.model;
    setup.network = placed ? placed->network : nullptr;
    setup.position_of = whereabouts->position_of;
    setup.ranks_per_host = options.ranks_per_host;
    setup.agreements = options.agreements;
    setup.notice_after = options.notice_after;
    setup.notice_spread = options.notice_spread;
    setup.seed = options.seed;
    std::vector<std::uint32_t> dead = *victims;
    dead.insert(dead.end(), whereabouts->dead.begin(), whereabouts->dead.end());
    std::ranges::sort(dead);
    dead.erase(std::unique(dead.begin(), dead.end()), dead.end());
    if (dead.size() >= options.ranks) return refuse("at least one rank has to survive");
    for (const std::uint32_t victim : dead) {
        if (options.known) {
            setup.known.insert(victim);
        } else {
            setup.deaths.push_back({victim, options.at});
        }
    }
    const simulation::AgreementTimings timings = run_agreements(setup);
    print(options, placed ? placed->title : "", setup, timings);
    return std::ranges::all_of(timings.agreements, [](const AgreementTiming& timing) { return timing.agreed; })
               ? kFine
               : kFailed;
}

}  // namespace coppice::sim
