// coppice-sim explore membership: every schedule of views in a small group.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "simulation/explore/membership_explorer.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

using protocol::Quorum;
using simulation::MembershipScenario;

constexpr const char* kAbout =
    R"(Walks every schedule of membership, with the machine that ships: who calls for the next view when, who joins, leaves,
dies, is started again or is cut off, what arrives when, and when each of the others learns of it. Checks that no two
views have one number, that each has its holder in it and follows the one before, that nobody is excluded who was not
cut off, that deaths which a witness saw cost nobody the quorum, and that in the end all have the views that they want,
or are told why not. A violation is printed as a shortest way to it.
)";

constexpr const char* kFooter =
    R"(Rules of --without: bound-votes, ask-first, carry-on, dead-votes, dead-promises, follow-one-root, quorum,
half-with-the-lowest, install-when-stable, tell-orphans, tell-late-orphans, answer-the-late, number-views,
acks-with-names, welcome-when-stable, incarnations, scan-on, pass-requests-on, send-views-along, tell-new-roots, tell-leavers;
with --consents also mind-consents, consent-alike, wait-for-callers, dead-consents, tell-leaves, drop-void-consents;
with --hosts tell-certainty.
Rules of --printed, as the paper has them: views-without-numbers, acks-without-list, root-forgets, two-roots,
welcome-first, same-identity.
Exit code: 0; 1 when a promise was broken or the states were too many; 2 bad options.

Examples:
  coppice-sim explore membership --ranks 4 --crashes 2 --joins 1
  coppice-sim explore membership --ranks 3 --joins 1 --cuts 1 --quorum majority
  coppice-sim explore membership --ranks 3 --joins 1 --cuts 1 --without bound-votes
  coppice-sim explore membership --ranks 2 --joins 1 --crashes 1 --printed welcome-first
  coppice-sim explore membership --engine --host-tree 2 --ranks 3 --joins 2 --crashes 1
)";

struct Rule {
    const char* name;
    std::uint32_t bits;
};

constexpr Rule kRules[] = {
    {"bound-votes", protocol::kVotesAreForgotten},
    {"ask-first", protocol::kNewRootsDoNotAsk},
    {"carry-on", protocol::kFoundVotesAreIgnored},
    {"dead-votes", protocol::kTheDeadDoNotVote},
    {"dead-promises", protocol::kTheDeadPromiseNothing},
    {"follow-one-root", protocol::kEveryRootIsFollowed},
    {"quorum", protocol::kQuorumIsNotAsked},
    {"half-with-the-lowest", protocol::kHalvesAreEnough},
    {"install-when-stable", protocol::kInstallsOnHearing},
    {"tell-orphans", protocol::kOrphansAreNotTold},
    {"tell-late-orphans", protocol::kLateOrphansAreNotTold},
    {"answer-the-late", protocol::kTheLateAreNotAnswered},
    {"number-views", protocol::kViewsHaveNoNumbers},
    {"acks-with-names", protocol::kAcksNameNothing},
    {"welcome-when-stable", protocol::kWelcomeFirst},
    {"incarnations", protocol::kSeatsHaveNoIncarnations},
    {"scan-on", protocol::kJoinersDoNotScan},
    {"pass-requests-on", protocol::kRequestsAreNotPassedOn},
    {"send-views-along", protocol::kViewsAreNotSentAlong},
    {"tell-new-roots", protocol::kNewRootsAreNotTold},
    {"tell-leavers", protocol::kLeaversAreNotTold},
    {"mind-consents", protocol::kConsentsAreForgotten},
    {"consent-alike", protocol::kConsentsNeedNotBeAlike},
    {"wait-for-callers", protocol::kCallersAreNotWaitedFor},
    {"dead-consents", protocol::kTheDeadDoNotConsent},
    {"tell-leaves", protocol::kConsentsBringNoLeaves},
    {"drop-void-consents", protocol::kVoidConsentsAreKept},
    {"tell-certainty", protocol::kCertaintyIsKept},
};

constexpr Rule kPrinted[] = {
    {"views-without-numbers", protocol::kViewsHaveNoNumbers | protocol::kInstallsOnHearing},
    {"acks-without-list", protocol::kAcksNameNothing},
    {"root-forgets", protocol::kNewRootsDoNotAsk},
    {"two-roots", protocol::kEveryRootIsFollowed},
    {"welcome-first", protocol::kWelcomeFirst},
    {"same-identity", protocol::kSeatsHaveNoIncarnations},
};

// Nothing where one is unknown.
std::optional<std::uint32_t> bits_of(const std::vector<std::string>& names, std::span<const Rule> rules) {
    std::uint32_t bits = 0;
    for (const std::string& name : names) {
        const auto rule = std::ranges::find_if(rules, [&name](const Rule& known) { return name == known.name; });
        if (rule == rules.end()) return std::nullopt;
        bits |= rule->bits;
    }
    return bits;
}

int walk(const MembershipScenario& scenario) {
    const auto start = std::chrono::steady_clock::now();
    const simulation::MembershipExploration explored = explore(scenario);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const simulation::WalkResult& result = explored.walk;
    fmt::print("{} ranks, {} joins, {} crashes, {} cuts, {} views: {} states, {} of them ends, {:.1f} s\n",
               scenario.ranks, scenario.joins + scenario.rejoins, scenario.crashes, scenario.cuts, scenario.views,
               result.states, result.ends, seconds.count());
    if (!result.violation.empty()) {
        fmt::print("{}\n{}, {} steps:\n", result.violation, result.shortest ? "A shortest way there" : "A way there",
                   result.way.size());
        for (const std::string& step : result.way)
            fmt::print("  {}\n", step);
        return kFailed;
    }
    fmt::print("{}\n",
               result.complete ? "every promise held" : "gave up: too many states; in those seen every promise held");
    return result.complete ? kFine : kFailed;
}

}  // namespace

int run_explore_membership(int argc, char** argv) {
    MembershipScenario scenario;
    std::uint32_t radix = 2;
    std::string quorum = "certain";
    std::vector<std::string> without;
    std::vector<std::string> printed;
    CLI::App app(kAbout, "coppice-sim explore membership");
    app.footer(kFooter);
    app.add_option("--ranks", scenario.ranks, "members at first")->capture_default_str()->check(CLI::Range(1U, 6U));
    app.add_option("--crashes", scenario.crashes, "how many may die, at any time; newcomers too")
        ->capture_default_str();
    app.add_option("--joins", scenario.joins, "processes that ask to join")->capture_default_str();
    app.add_option("--rejoins", scenario.rejoins, "the first member that dies is started again, for its old seat")
        ->capture_default_str()
        ->check(CLI::Range(0U, 1U));
    app.add_option("--leaves", scenario.leaves, "how many may want to leave, at any time")->capture_default_str();
    app.add_option("--farewells", scenario.farewells,
                   "how many members that have voted for nothing may go, and say so to all that they reach")
        ->capture_default_str();
    app.add_option("--cuts", scenario.cuts, "1: all are parted into two sides, any two, at any time")
        ->capture_default_str()
        ->check(CLI::Range(0U, 1U));
    app.add_option("--views", scenario.views, "how many each caller wants")
        ->capture_default_str()
        ->check(CLI::Range(1U, 3U));
    app.add_option("--radix", radix, "children of a member")->capture_default_str()->check(CLI::IsMember({2, 4, 8}));
    app.add_option("--capacity", scenario.capacity, "most seats; no bound by default");
    app.add_option("--quorum", quorum)->capture_default_str()->check(CLI::IsMember({"certain", "majority", "any"}));
    app.add_option("--hosts", scenario.hosts,
                   "member p is on host p modulo this, and only those on its host ever know for certain that it is "
                   "dead; 0: all do")
        ->capture_default_str();
    app.add_option(
           "--host-tree", scenario.host_tree,
           "the tree has two levels over so many hosts, as in the engine: member p on host p modulo this, below the "
           "lowest of its host; 0: one level")
        ->capture_default_str();
    bool engine = false;
    app.add_flag("--engine", engine,
                 "as the engine runs it: --consents, --introduced, a radix of 16, and newcomers that never speak");
    app.add_flag("--called", scenario.called, "all but rank 0 want their views at once: fewer states");
    app.add_flag("--late-witness", scenario.late_witness, "a death is suspected first, and certain later");
    app.add_flag("--unwitnessed", scenario.unwitnessed, "no death is ever certain");
    app.add_flag("--false-farewells", scenario.false_farewells, "members that have voted, too, say that they have not");
    app.add_flag("--reports", scenario.reports, "members tell the root of deaths that they notice");
    app.add_flag("--consents", scenario.consents, "members say at once what they would propose, as in the engine");
    app.add_flag("--introduced", scenario.introduced, "all members are told of each newcomer, as in the engine");
    app.add_flag("--differing", scenario.differing, "members offer different things with it");
    app.add_flag("--talk", scenario.talk, "members send each other users' messages in each view");
    app.add_option("--without", without, "rules that are taken away, to see what that breaks")->delimiter(',');
    app.add_option("--printed", printed, "rules as the paper has them, to see what that breaks")->delimiter(',');
    app.add_option("--max-states", scenario.max_states, "give up beyond so many")->capture_default_str();
    if (const auto code = parse(app, argc, argv)) return *code;
    if (engine && app.count("--radix") > 0) return refuse("--radix: with --engine it is 16");
    const auto missing = bits_of(without, kRules);
    const auto as_printed = bits_of(printed, kPrinted);
    if (!missing) return refuse("--without: there is no such rule");
    if (!as_printed) return refuse("--printed: there is no such rule");
    const std::uint32_t processes = scenario.ranks + scenario.joins + scenario.rejoins;
    if (processes > MembershipScenario::kMostProcesses)
        return refuse(fmt::format("at most {} processes, newcomers counted", MembershipScenario::kMostProcesses));
    scenario.radix_bits = engine ? 4 : radix == 2 ? 1 : radix == 4 ? 2 : 3;
    scenario.consents = scenario.consents || engine;
    scenario.introduced = scenario.introduced || engine;
    scenario.newcomers_go = engine;
    scenario.quorum = quorum == "certain" ? Quorum::certain : quorum == "majority" ? Quorum::majority : Quorum::any;
    scenario.faults = *missing | *as_printed;
    return walk(scenario);
}

}  // namespace coppice::sim
