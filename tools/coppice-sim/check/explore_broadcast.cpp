// coppice-sim explore broadcast: every schedule of one corrected broadcast in a small group.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "protocol/baselines/names.hpp"
#include "simulation/explore/broadcast_explorer.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

constexpr const char* kDescription =
    R"(Walks every schedule of one broadcast in a small group, with the machine that ships: every order of sends and
receptions, every crash point, every order in which survivors learn of a death. Checks that a verdict (the root failed)
is never given while somebody live has the payload, and that in the end everybody live has a result and is through; with
--reach-all, that everybody live has the payload.
)";

constexpr const char* kFooter =
    R"(Exit code: 0; 1 when a promise was broken or the states were too many; 2 bad options.

Examples:
  coppice-sim explore broadcast --ranks 4 --crashes 2 --correction checked
  coppice-sim explore broadcast --ranks 6 --tree star --correction optimized:3 --failed 2,4 --no-notice --reach-all
  coppice-sim explore broadcast --ranks 8 --correction optimized-paper:3 --failed 2,3,4,5,6 --no-notice --reach-all
)";

struct Options {
    std::uint32_t ranks = 4;
    std::uint32_t crashes = 1;
    std::string tree = "binomial";
    std::string correction = "opportunistic:1";
    std::vector<std::uint32_t> failed;
    bool known = false;
    bool no_notice = false;
    bool reach_all = false;
    std::uint64_t max_states = 100'000'000;
};

}  // namespace

int run_explore_broadcast(int argc, char** argv) {
    Options options;
    CLI::App app(kDescription, "coppice-sim explore broadcast");
    app.footer(kFooter);
    app.add_option("--ranks", options.ranks)->capture_default_str()->check(CLI::Range(1U, simulation::kMaxExplored));
    app.add_option("--crashes", options.crashes, "how many may die, at any time")->capture_default_str();
    app.add_option("--tree", options.tree,
                   "not the star that groups take: under it a live root leaves nothing to correct")
        ->capture_default_str();
    app.add_option("--correction", options.correction, "as for coppice-sim broadcast; the default reaches least far")
        ->capture_default_str();
    app.add_option("--failed", options.failed, "dead before the start: 2,4")->delimiter(',');
    app.add_flag("--known", options.known, "and everybody knows");
    app.add_flag("--no-notice", options.no_notice, "deaths are never noticed; nobody dies on the way then");
    app.add_flag("--reach-all", options.reach_all, "everybody live has to get the payload");
    app.add_option("--max-states", options.max_states, "give up beyond so many")->capture_default_str();
    if (const auto code = parse(app, argc, argv)) return *code;
    const auto spec = topology::parse_tree(options.tree);
    if (!spec) return refuse(spec.error());
    const auto correction = protocol::baselines::parse_correction(options.correction);
    if (!correction) return refuse(correction.error());
    auto tree = topology::Tree::make(*spec, options.ranks);
    if (!tree) return refuse(tree.error());

    simulation::BroadcastScenario scenario(protocol::BroadcastPlan{std::move(*tree), *correction});
    for (const std::uint32_t position : options.failed) {
        if (position == 0 || position >= options.ranks) return refuse("--failed: positions from 1 on, of the group");
        scenario.dead = static_cast<std::uint8_t>(scenario.dead | 1U << position);
    }
    scenario.dead_are_known = options.known;
    scenario.detection = !options.no_notice;
    scenario.crashes = options.no_notice ? 0 : options.crashes;
    scenario.must_color_all = options.reach_all;
    scenario.max_states = options.max_states;
    simulation::BroadcastSubject subject(scenario);
    const simulation::Exploration result = explore_for_shortest(subject, scenario);
    fmt::print(
        "{} ranks, tree {}, {}, {} crashes: {} states, {} final; everybody has the payload in {}, the root is given "
        "up in {}\n",
        options.ranks, options.tree, options.correction, scenario.crashes, result.states, result.final_states,
        result.all_colored, result.verdicts);
    if (!result.violation.empty()) {
        fmt::print("{}{}\n", result.shortest ? "A shortest way to: " : "A way to: ", result.violation);
        return kFailed;
    }
    fmt::print("{}\n",
               result.complete ? "every promise held" : "gave up: too many states; in those seen every promise held");
    return result.complete ? kFine : kFailed;
}

}  // namespace coppice::sim
