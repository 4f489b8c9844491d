// coppice-sim explore agreement: every schedule of a small group.
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <vector>

#include "memory.hpp"
#include "protocol/agreement/rebalance.hpp"
#include "simulation/explore/agreement_explorer.hpp"
#include "simulation/explore/explored_value.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

using protocol::AgreementPlan;
using protocol::AgreementTree;
using simulation::AgreementExploration;
using simulation::AgreementScenario;

constexpr const char* kDescription =
    R"(Walks every schedule of agreements in a small group, with the machines that ship: every order of calls, sends and
receptions, every crash point, every order in which survivors learn of a death. Checks in every state that all live
ranks have decided alike (Agreement), that decisions stay (Irrevocability) and contain the contribution of the rank that
decides (Participation), that no rank waits for one that it knows to be dead, that an agreed failed set holds no live
rank and every rank whose contribution is missing, that a failure counts as acknowledged if all contributors had done so
and only then, that no result is forgotten that may be asked for; and in every state in which nothing can happen any more that every live rank has decided (Termination). A violation is printed as a
shortest conversation that leads to it.
)";

constexpr const char* kFooter =
    R"(Rules of --printed, each in place of ours: down-from-parent-only, forget-late-contributors, requests-tell-of-elders,
hear-the-dead, mark-elders-silently, learn-from-nobody; all. docs/era.md tells their stories.
Exit code: 0; 1 when a promise was broken or the states were too many; 2 bad options.

Examples:
  coppice-sim explore agreement --ranks 4 --crashes 2
  coppice-sim explore agreement --ranks 3 --crashes 2 --agreements 2 --window 2 --tree chain
  coppice-sim explore agreement --ranks 3 --crashes 1 --window 1 --agreements 6
  coppice-sim explore agreement --ranks 3 --crashes 2 --published --tree star --agreements 2 --window 2
  coppice-sim explore agreement --ranks 3 --crashes 0 --published --tree star --suspicions 1
  coppice-sim explore agreement --ranks 5 --crashes 2 --tree binary --printed requests-tell-of-elders
)";

struct PrintedName {
    const char* name;
    std::uint8_t rule;
};
constexpr PrintedName kPrinted[] = {
    {"down-from-parent-only", protocol::kDecisionsFromParentOnly},
    {"forget-late-contributors", protocol::kForgetsLateContributors},
    {"requests-tell-of-elders", protocol::kRequestsTellOfElders},
    {"hear-the-dead", protocol::kHearsTheDead},
    {"mark-elders-silently", protocol::kMarksEldersSilently},
    {"learn-from-nobody", protocol::kLearnsFromNobody},
    {"all", 63},
};

struct Options {
    std::uint32_t ranks = 3;
    std::uint32_t crashes = 1;
    std::string tree = "all";
    std::uint32_t hosts = 2;
    std::uint32_t agreements = 1;
    std::uint32_t window = 1;
    std::string rebalance = "when-degenerated";
    std::string operation = "or";
    bool flush = false;
    bool acknowledge = false;
    bool published = false;
    std::uint32_t suspicions = 0;
    bool suspect_silently = false;
    std::vector<std::string> printed;
    std::uint64_t max_states = 0;
};

void add_options(CLI::App& app, Options& options) {
    app.add_option("--ranks", options.ranks)->capture_default_str()->check(CLI::Range(1U, simulation::kMostExplored));
    app.add_option("--crashes", options.crashes, "how many may die, at any time")->capture_default_str();
    app.add_option("--tree", options.tree,
                   "one tree, or all: binary, heap, binomial, kary:3, star, chain, bin/bin, bin/star")
        ->capture_default_str();
    app.add_option("--hosts", options.hosts,
                   "for trees of levels: rank r is on host r modulo HOSTS, two hosts are on a leaf switch, and two of "
                   "those in a pod")
        ->capture_default_str()
        ->check(CLI::Range(1U, simulation::kMostExplored));
    app.add_option("--agreements", options.agreements, "how many, one after the other or overlapping")
        ->capture_default_str()
        ->check(CLI::Range(1U, simulation::kMostAgreements - 1));
    app.add_option("--window", options.window, "how many a rank may have under way")
        ->capture_default_str()
        ->check(CLI::IsMember({1, 2, 4}));
    app.add_option("--rebalance", options.rebalance, "later agreements on trees without the agreed dead")
        ->capture_default_str()
        ->check(CLI::IsMember({"never", "when-degenerated", "always"}));
    app.add_option("--operation", options.operation, "on what ranks contribute; function: OR as the caller's own")
        ->capture_default_str()
        ->check(CLI::IsMember({"or", "and", "min", "max", "function"}));
    app.add_flag("--flush", options.flush, "a flush at the end, upon which ranks leave");
    app.add_flag("--acknowledge", options.acknowledge, "ranks acknowledge what they know before each agreement");
    app.add_flag("--published", options.published,
                 "contributions are published in shared memory, as on one host; the tree is that of recoveries");
    app.add_option("--suspicions", options.suspicions, "so many ranks are taken for dead by others, and live")
        ->capture_default_str();
    app.add_flag("--suspect-silently", options.suspect_silently,
                 "with --suspicions and --published: they are not told in shared memory, which breaks promises");
    app.add_option("--printed", options.printed, "a rule as the paper prints it")->delimiter(',');
    app.add_option("--max-states", options.max_states, "give up beyond so many; 0: as many as memory holds")
        ->capture_default_str();
}

std::optional<std::uint8_t> printed_rules(const Options& options) {
    std::uint8_t rules = 0;
    for (const std::string& name : options.printed) {
        bool known = false;
        for (const PrintedName& printed : kPrinted) {
            if (name != printed.name) continue;
            rules = static_cast<std::uint8_t>(rules | printed.rule);
            known = true;
        }
        if (!known) return std::nullopt;
    }
    return rules;
}

protocol::Operator operator_of(const std::string& name) {
    if (name == "and") return protocol::Operator::bit_and;
    if (name == "min") return protocol::Operator::min;
    if (name == "max") return protocol::Operator::max;
    return name == "function" ? protocol::Operator::user : protocol::Operator::bit_or;
}

// Eight bytes for each state in a table that is at most three quarters full and, while it doubles, there twice.
std::uint64_t states_that_fit() {
    constexpr std::uint64_t kUnknown = 100'000'000;
    const auto available = available_memory();
    return available ? *available / 10 * 9 / 32 : kUnknown;
}

int explore_tree(const Options& options, const std::string& name, std::uint8_t printed) {
    const auto spec = protocol::parse_agreement_tree(name);
    if (!spec) return refuse(spec.error());
    std::vector<std::uint64_t> host_of;
    for (std::uint32_t rank = 0; rank < options.ranks; ++rank)
        host_of.push_back(rank % options.hosts);
    const topology::Nodes hosts = topology::Nodes::by_host(host_of);
    std::vector<topology::Site> sites;
    for (std::uint32_t host = 0; host < hosts.count(); ++host)
        sites.push_back({.pod = host / 4, .leaf = host / 2});
    auto tree = AgreementTree::make(*spec, options.ranks, &hosts, {}, sites);
    if (!tree) return refuse(tree.error());
    AgreementScenario scenario{AgreementPlan{std::move(*tree), &hosts, sites}};
    scenario.plan.window = options.window;
    scenario.plan.max_value = options.published ? 8 : simulation::kExploredBytes;  // recoveries agree on a number
    scenario.plan.rebalance = *protocol::parse_rebalance(options.rebalance);
    scenario.plan.printed = printed;
    scenario.operation = operator_of(options.operation);
    scenario.agreements = options.agreements;
    scenario.flush = options.flush;
    scenario.crashes = options.crashes;
    scenario.acknowledge = options.acknowledge;
    scenario.published = options.published;
    scenario.suspicions = options.suspicions;
    scenario.suspects_silently = options.suspect_silently;
    scenario.max_states = options.max_states != 0 ? options.max_states : states_that_fit();

    const auto start = std::chrono::steady_clock::now();
    const AgreementExploration result = explore(scenario);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    fmt::print("{:<10} {:>12} {:>13} {:>8} {:>9} {:>9} {:>6} {:>7.1f}  {}\n", name, result.states, result.transitions,
               result.final_states, result.machine_states, result.messages, result.depth, seconds.count(),
               !result.violation.empty() ? "BROKEN"
               : result.complete         ? "all hold"
                                         : "gave up: too many states; what was seen holds");
    if (result.violation.empty()) return result.complete ? kFine : kFailed;
    fmt::print("\n{}\n{}:\n", result.violation, result.shortest ? "A shortest way there" : "A way there");
    for (const std::string& step : result.way)
        fmt::print("  {}\n", step);
    fmt::print("\n");
    return kFailed;
}

}  // namespace

int run_explore_agreement(int argc, char** argv) {
    Options options;
    CLI::App app(kDescription, "coppice-sim explore agreement");
    app.footer(kFooter);
    add_options(app, options);
    if (const auto code = parse(app, argc, argv)) return *code;
    const auto printed = printed_rules(options);
    if (!printed) return refuse("--printed: there is no such rule");
    if (options.crashes >= options.ranks) return refuse("--crashes: at least one rank has to survive");
    if (options.suspicions >= options.ranks - options.crashes) {
        return refuse("--suspicions: at least one rank has to survive unsuspected");
    }
    if (options.suspect_silently && (options.suspicions == 0 || !options.published)) {
        return refuse("--suspect-silently: only with --published and --suspicions");
    }
    std::vector<std::string> trees{options.tree};
    if (options.tree == "all") trees = {"binary", "heap", "binomial", "kary:3", "star", "chain", "bin/bin", "bin/star"};
    fmt::print("{} ranks, {} crashes, {}{} agreements{}, window {}\n", options.ranks, options.crashes,
               options.suspicions > 0 ? fmt::format("{} suspicions, ", options.suspicions) : "", options.agreements,
               options.flush ? " and a flush" : "", options.window);
    fmt::print("{:<10} {:>12} {:>13} {:>8} {:>9} {:>9} {:>6} {:>7}\n", "tree", "states", "transitions", "final",
               "machine", "messages", "depth", "seconds");
    int worst = kFine;
    for (const std::string& tree : trees) {
        const int code = explore_tree(options, tree, *printed);
        if (code == kBadOptions) return code;
        if (code != kFine) worst = code;
    }
    return worst;
}

}  // namespace coppice::sim
