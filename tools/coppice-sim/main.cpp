// coppice-sim: the protocols on a LogP clock, without a wire.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <exception>
#include <string_view>
#include <utility>

#include "subcommand.hpp"

namespace coppice::sim {
namespace {

// As --help groups them.
constexpr const char* kMachine = "For a machine and a job";
constexpr const char* kCheck = "To look for broken promises";
constexpr const char* kPapers = "The papers again";

constexpr std::array kSubcommands{
    Subcommand{kMachine, "broadcast", "run broadcasts under faults and print what they cost", run_broadcast},
    Subcommand{kMachine, "agree", "run agreements under faults and print what they cost", run_agree},
    Subcommand{kMachine, "membership", "how long a group takes for its next view", run_membership},
    Subcommand{kMachine, "advise", "which tree, correction and distance to use on a machine", run_advise},
    Subcommand{kMachine, "promise", "how often deaths that nobody has noticed leave somebody waiting", run_promise},
    Subcommand{kMachine, "placement", "what dead switches of a fat tree leave uncolored, and where", run_placement},
    Subcommand{kMachine, "host", "what ranks of one host read of each other's caches", run_host},
    Subcommand{kMachine, "timeline", "draw one broadcast as a picture", run_timeline},
    Subcommand{kCheck, "world", "whole ranks of the library, with random programs and fates", run_world},
    Subcommand{kCheck, "explore broadcast", "every schedule of one broadcast in a small group", run_explore_broadcast},
    Subcommand{kCheck, "explore agreement", "every schedule of agreements in a small group", run_explore_agreement},
    Subcommand{kCheck, "explore stability", "every schedule of counting what is consumed", run_explore_stability},
    Subcommand{kCheck, "explore revocation", "every schedule of a revocation", run_explore_revocation},
    Subcommand{kCheck, "explore leaving", "every schedule of leaving a group", run_explore_leaving},
    Subcommand{kCheck, "explore membership", "every schedule of a group's views", run_explore_membership},
    Subcommand{kCheck, "fuzz broadcast", "random broadcasts, until a promise is broken", run_fuzz_broadcast},
    Subcommand{kCheck, "fuzz agreement", "random schedules of agreements, until a promise is broken",
               run_fuzz_agreement},
    Subcommand{kCheck, "fuzz membership", "random schedules of views, until a promise is broken", run_fuzz_membership},
    Subcommand{kPapers, "reproduce", "the papers' figures and tables, and whether what they say holds", run_reproduce},
    Subcommand{kPapers, "models", "the papers' model and one-sided ring messages in one plot", run_models},
};

void print_usage(std::FILE* out) {
    fmt::print(out,
               "Runs Coppice's protocols on a LogP clock: what they cost, and what they survive.\n\n"
               "  coppice-sim SUBCOMMAND [options]\n");
    const char* group = nullptr;
    for (const Subcommand& subcommand : kSubcommands) {
        if (std::exchange(group, subcommand.group) != subcommand.group) fmt::print(out, "\n{}:\n", subcommand.group);
        fmt::print(out, "  {:<18} {}\n", subcommand.words, subcommand.summary);
    }
    fmt::print(out,
               "\nEach has its own --help. Exit codes: 0 fine, 1 a promise was broken, 2 bad options.\n\n"
               "Examples:\n"
               "  coppice-sim broadcast --ranks 65536 --tree lame:2 --correction checked:synchronized --faults 1% "
               "--runs 100\n"
               "  coppice-sim broadcast --ranks 64 --failed 1,2,3,17\n"
               "  coppice-sim advise --ranks 4096 --mtbf 18304 --job-hours 12 --reliability 0.999999\n"
               "  coppice-sim promise --ranks 64 --dead 4 --runs 1000000\n"
               "  coppice-sim placement --network fattree:64 --dead-leaves all --dead-pods all\n"
               "  coppice-sim fuzz broadcast --seeds 10000\n"
               "  coppice-sim explore agreement --ranks 4 --crashes 2\n"
               "  coppice-sim explore membership --ranks 4 --crashes 2 --joins 1\n"
               "  coppice-sim fuzz agreement --seeds 100000 --ranks 3..64\n"
               "  coppice-sim fuzz membership --seeds 100000 --ranks 3..64\n"
               "  coppice-sim world --ranks 8 --hosts 3 --seeds 100000\n");
}

int dispatch(int argc, char** argv) {
    const std::string_view first = argc > 1 ? argv[1] : "";
    if (first == "--help" || first == "-h") {
        print_usage(stdout);
        return kFine;
    }
    if (first == "--version") {
        fmt::print("coppice-sim {}\n", COPPICE_PROJECT_VERSION);
        return kFine;
    }
    std::string known;
    for (const Subcommand& subcommand : kSubcommands) {
        known += known.empty() ? "" : ", ";
        known += subcommand.words;
        const std::string_view words = subcommand.words;
        const std::size_t blank = words.find(' ');
        if (first != words.substr(0, blank)) continue;
        if (blank == std::string_view::npos) return subcommand.run(argc - 1, argv + 1);
        if (argc > 2 && words.substr(blank + 1) == argv[2]) return subcommand.run(argc - 2, argv + 2);
    }
    if (argc < 2) return refuse("which subcommand? Known are: " + known);
    std::string given(first);
    if (argc > 2 && argv[2][0] != '-') given.append(" ").append(argv[2]);
    return refuse("\"" + given + "\" is no subcommand; known are: " + known);
}

}  // namespace

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
    app.get_formatter()->column_width(34);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        fmt::print("{}", app.help());
        return kFine;
    } catch (const CLI::ParseError& error) {
        return refuse(error.what());
    }
    return std::nullopt;
}

int refuse(const std::string& sentence) {
    fmt::print(stderr, "coppice-sim: {}\ncoppice-sim: see coppice-sim --help\n", sentence);
    return kBadOptions;
}

}  // namespace coppice::sim

int main(int argc, char** argv) {
    try {
        return coppice::sim::dispatch(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "coppice-sim: {}\n", error.what());
        return coppice::sim::kFailed;
    }
}
