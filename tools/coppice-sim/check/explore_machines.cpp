// coppice-sim explore stability, revocation, leaving: every schedule of the machines that stand beside a group's
// operations.
#include <fmt/format.h>

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "simulation/explore/departure_explorer.hpp"
#include "simulation/explore/revocation_explorer.hpp"
#include "simulation/explore/stability_explorer.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

using simulation::WalkResult;

constexpr std::uint32_t kMostRanks = 6;

constexpr const char* kAboutStability =
    R"(Walks every schedule of the counting of what is consumed, with the machine that ships: when each rank consumes,
when messages arrive, which ranks die when, when each survivor learns of it. Checks in every state that nothing is
stable that a live rank has not consumed, and in the end that all that go on have consumed everything and know that it
is stable; or, where ranks stay away, that the others are a window beyond them and are told by which rank they are held
up. A violation is printed as a shortest way to it.
)";

constexpr const char* kStabilityFooter =
    R"(Rules of --without: tell-stand-ins, repeat-reports, adopt-children, wait-for-children, pass-asks-on, pass-names-on.
Exit code: 0; 1 when a promise was broken or the states were too many; 2 bad options.

Examples:
  coppice-sim explore stability --ranks 3 --crashes 2
  coppice-sim explore stability --ranks 4 --hosts 2 --crashes 1 --stay
  coppice-sim explore stability --ranks 3 --away 2
  coppice-sim explore stability --ranks 3 --crashes 1 --without repeat-reports
)";

constexpr const char* kAboutRevocation =
    R"(Walks every schedule of a revocation, with the machine that ships: which ranks revoke and when, when pages are
read and messages arrive, which ranks die when, when each survivor learns of it, and when ranks leave. Checks in the end
that all living know of it when one that lives, or has left as it may, does, or a page of their node says so; and that
nobody needs patience to leave. A violation is printed as a shortest way to it.
)";

constexpr const char* kRevocationFooter =
    R"(Rules of --without: tell-again, wait-for-answers, pass-on, read-pages-of-the-dead, pass-over-the-departed.
Exit code: 0; 1 when a promise was broken or the states were too many; 2 bad options.

Examples:
  coppice-sim explore revocation --ranks 4 --crashes 2 --stay
  coppice-sim explore revocation --ranks 4 --hosts 2 --crashes 1 --revokers 1
  coppice-sim explore revocation --ranks 4 --crashes 2 --stay --farthest 1 --without tell-again
)";

constexpr const char* kAboutLeaving =
    R"(Walks every schedule of ranks that leave a group, with the machine that ships: which rank wants to leave when, what
arrives when, which rank dies, is taken for dead or gives up, and when each of the others learns of it. Checks that no
rank leaves in peace while a live one needs something of it, and in the end that all that want to leave have left unless
a live rank holds them up; or, with --all-leave, that they are told its name. A violation is printed as a shortest way
to it.
)";

constexpr const char* kLeavingFooter =
    R"(Rules of --without: ask-collectives, wait-for-sends, believe-farewells, answer-after-leaving,
farewell-in-peace-only, stay-for-answers, forget-names, pass-names-on, keep-names-from-their-source.
Exit code: 0; 1 when a promise was broken or the states were too many; 2 bad options.

Examples:
  coppice-sim explore leaving --ranks 3 --crashes 2
  coppice-sim explore leaving --ranks 3 --crashes 1 --asks 2 --farthest 0
  coppice-sim explore leaving --ranks 3 --crashes 1 --without believe-farewells
)";

struct Rule {
    const char* name;
    std::uint16_t bit;
};
constexpr Rule kStabilityRules[] = {
    {"tell-stand-ins", protocol::kStandInIsNotTold},
    {"repeat-reports", protocol::kReportIsNotRepeated},
    {"adopt-children", protocol::kChildrenOfTheDeadAreDropped},
    {"wait-for-children", protocol::kCountsOfChildrenAreTrusted},
    {"pass-asks-on", protocol::kAsksAreNotPassedOn},
    {"pass-names-on", protocol::kNamesAreNotPassedOn},
};
constexpr Rule kLeavingRules[] = {
    {"ask-collectives", protocol::kCollectivesAreNotAsked},
    {"wait-for-sends", protocol::kUnsentIsLost},
    {"believe-farewells", protocol::kFarewellsEndNoWait},
    {"answer-after-leaving", protocol::kTheDepartedAreSilent},
    {"farewell-in-peace-only", protocol::kFarewellWithoutPeace},
    {"stay-for-answers", protocol::kFarewellBeforeTheLastAnswer},
    {"forget-names", protocol::kNamesOfHoldersStay},
    {"pass-names-on", protocol::kHoldersAreNotPassedOn},
    {"keep-names-from-their-source", protocol::kNamesGoBack},
};
constexpr Rule kRevocationRules[] = {
    {"tell-again", protocol::kDeathsAreNotFollowed},
    {"wait-for-answers", protocol::kLeavesWithoutAnswers},
    {"pass-on", protocol::kHeardIsNotPassedOn},
    {"read-pages-of-the-dead", protocol::kPagesOfTheDeadAreUnread},
    {"pass-over-the-departed", protocol::kTheDepartedAreTold},
};

struct Options {
    std::uint32_t ranks = 3;
    std::uint32_t hosts = 0;
    std::uint32_t crashes = 1;
    std::vector<std::string> without;
    std::uint64_t max_states = 30'000'000;
};

void add_options(CLI::App& app, Options& options) {
    app.add_option("--ranks", options.ranks)->capture_default_str()->check(CLI::Range(1U, kMostRanks));
    app.add_option("--hosts", options.hosts, "ranks in blocks on so many hosts; 0: each rank is a node of its own")
        ->capture_default_str()
        ->check(CLI::Range(0U, kMostRanks));
    app.add_option("--crashes", options.crashes, "how many may die, at any time")->capture_default_str();
    app.add_option("--without", options.without, "rules that are taken away, to see what that breaks")->delimiter(',');
    app.add_option("--max-states", options.max_states, "give up beyond so many")->capture_default_str();
}

std::vector<std::uint32_t> nodes_of(const Options& options) {
    const std::uint32_t hosts = options.hosts == 0 ? options.ranks : std::min(options.hosts, options.ranks);
    std::vector<std::uint32_t> node_of;
    for (std::uint32_t rank = 0; rank < options.ranks; ++rank)
        node_of.push_back(rank * hosts / options.ranks);
    return node_of;
}

void add_stay(CLI::App& app, bool& stay) {
    app.add_flag("--stay", stay, "nobody leaves: fewer states");
}

std::optional<std::uint16_t> faults_of(const Options& options, std::span<const Rule> rules) {
    std::uint16_t faults = 0;
    for (const std::string& name : options.without) {
        const auto rule = std::ranges::find_if(rules, [&name](const Rule& known) { return name == known.name; });
        if (rule == rules.end()) return std::nullopt;
        faults = static_cast<std::uint16_t>(faults | rule->bit);
    }
    return faults;
}

std::optional<std::uint32_t> bits_of(const std::vector<std::uint32_t>& ranks, std::uint32_t limit) {
    std::uint32_t bits = 0;
    for (const std::uint32_t rank : ranks) {
        if (rank >= limit) return std::nullopt;
        bits |= 1U << rank;
    }
    return bits;
}

template <class Scenario>
int walk(const Options& options, const Scenario& scenario) {
    const auto start = std::chrono::steady_clock::now();
    const WalkResult result = explore(scenario);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    fmt::print("{} ranks, {} crashes: {} states, {} of them ends, {:.1f} s\n", options.ranks, options.crashes,
               result.states, result.ends, seconds.count());
    if (!result.violation.empty()) {
        fmt::print("{}\n{}:\n", result.violation, result.shortest ? "A shortest way there" : "A way there");
        for (const std::string& step : result.way)
            fmt::print("  {}\n", step);
        return kFailed;
    }
    fmt::print("{}\n",
               result.complete ? "every promise held" : "gave up: too many states; in those seen every promise held");
    return result.complete ? kFine : kFailed;
}

}  // namespace

int run_explore_stability(int argc, char** argv) {
    Options options;
    simulation::StabilityScenario scenario;
    std::vector<std::uint32_t> away;
    bool out_of_order = false;
    bool late = false;
    bool stay = false;
    CLI::App app(kAboutStability, "coppice-sim explore stability");
    app.footer(kStabilityFooter);
    add_options(app, options);
    add_stay(app, stay);
    app.add_option("--window", scenario.window)->capture_default_str()->check(CLI::IsMember({2, 4}));
    app.add_option("--broadcasts", scenario.broadcasts)->capture_default_str()->check(CLI::Range(1U, 12U));
    app.add_option("--consumed", scenario.consumed, "so many of them by everybody at the start, and none is stable")
        ->capture_default_str();
    app.add_option("--away", away, "ranks that consume nothing: 2,3")->delimiter(',');
    app.add_flag("--out-of-order", out_of_order, "messages between two ranks overtake each other");
    app.add_flag("--late", late, "a rank that has news looks at it at any time later");
    if (const auto code = parse(app, argc, argv)) return *code;
    const auto faults = faults_of(options, kStabilityRules);
    const auto bits = bits_of(away, options.ranks);
    if (!faults) return refuse("--without: there is no such rule");
    if (!bits) return refuse("--away: ranks of the group");
    if (options.crashes >= options.ranks) return refuse("--crashes: at least one rank has to survive");
    if (scenario.consumed > std::min(scenario.window, scenario.broadcasts))
        return refuse("--consumed: no more than the window and the broadcasts");
    scenario.node_of = nodes_of(options);
    scenario.crashes = options.crashes;
    scenario.away = *bits;
    scenario.away_at = scenario.consumed;
    scenario.flush = !stay;
    scenario.in_order = !out_of_order;
    scenario.in_rounds = !late;
    scenario.faults = static_cast<std::uint8_t>(*faults);
    scenario.max_states = options.max_states;
    return walk(options, scenario);
}

int run_explore_revocation(int argc, char** argv) {
    Options options;
    simulation::RevocationScenario scenario;
    std::vector<std::uint32_t> revokers{0};
    bool stay = false;
    CLI::App app(kAboutRevocation, "coppice-sim explore revocation");
    app.footer(kRevocationFooter);
    add_options(app, options);
    add_stay(app, stay);
    app.add_option("--revokers", revokers, "ranks that may revoke, at any time: 0,2")->delimiter(',');
    app.add_option("--farthest", scenario.farthest, "neighbour that a rank tells: 1, 2, 4; all by default");
    if (const auto code = parse(app, argc, argv)) return *code;
    const auto faults = faults_of(options, kRevocationRules);
    const auto bits = bits_of(revokers, options.ranks);
    if (!faults) return refuse("--without: there is no such rule");
    if (!bits) return refuse("--revokers: ranks of the group");
    if (options.crashes >= options.ranks) return refuse("--crashes: at least one rank has to survive");
    scenario.node_of = nodes_of(options);
    scenario.crashes = options.crashes;
    scenario.revokers = *bits;
    scenario.leave = !stay;
    scenario.faults = static_cast<std::uint8_t>(*faults);
    scenario.max_states = options.max_states;
    return walk(options, scenario);
}

int run_explore_leaving(int argc, char** argv) {
    Options options;
    simulation::DepartureScenario scenario;
    std::vector<std::uint32_t> patience;
    std::vector<std::uint32_t> asks;
    CLI::App app(kAboutLeaving, "coppice-sim explore leaving");
    app.footer(kLeavingFooter);
    add_options(app, options);
    app.add_flag("--all-leave", scenario.all_leave, "it is over only when all want to leave");
    app.add_flag("--slow", scenario.slow, "what is sent leaves a rank at any time later");
    app.add_flag("--fences", scenario.fences, "of the crashes: ranks are taken for dead that are not");
    app.add_option("--patience", patience, "ranks that may lose it, and give up: 0,2")->delimiter(',');
    app.add_option("--asks", asks, "ranks that have to ask others about the next group: 1,2")->delimiter(',');
    app.add_option("--farthest", scenario.farthest, "neighbour that a rank tells: 1, 2, 4; all by default");
    if (const auto code = parse(app, argc, argv)) return *code;
    const auto faults = faults_of(options, kLeavingRules);
    const auto impatient = bits_of(patience, options.ranks);
    const auto asking = bits_of(asks, options.ranks);
    if (!faults) return refuse("--without: there is no such rule");
    if (!impatient) return refuse("--patience: ranks of the group");
    if (!asking) return refuse("--asks: ranks of the group");
    if (options.crashes >= options.ranks) return refuse("--crashes: at least one rank has to survive");
    scenario.node_of = nodes_of(options);
    scenario.crashes = options.crashes;
    scenario.patience = *impatient;
    scenario.asks = *asking;
    scenario.faults = *faults;
    scenario.max_states = options.max_states;
    return walk(options, scenario);
}

}  // namespace coppice::sim
