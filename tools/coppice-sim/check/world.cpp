// coppice-sim world: every seed is a job of whole ranks, with a program and a fate of its own.
#include "simulation/world/explore.hpp"

#include <fmt/format.h>

#include <chrono>

#include "subcommand.hpp"

namespace coppice::sim {
namespace {

constexpr const char* kDescription =
    R"(Runs whole ranks of the library in this process, from the calls of coppice.h down to what a transport is asked for: on a clock of
its own, over wires and host memory of its own, from one seed. Each seed draws a program and what happens to its ranks, hosts and
wires; what the calls returned is held against the promises. Ends at the first seed that breaks one, with the shortest
program that is found to do so, and what its ranks were told, sent and stored.
)";

constexpr const char* kFooter =
    R"(Exit code: 0; 1 when a promise was broken; 2 bad options.

Examples:
  coppice-sim world --ranks 8 --hosts 3 --seeds 100000
  coppice-sim world --ranks 2..16 --seed 4711 --seeds 1 --verbose
)";

void print(const std::string& line) {
    fmt::print("{}\n", line);
}

void print(const world::Drawn& drawn) {
    fmt::print("{}\n", world::describe(drawn));
    for (const world::Step& step : drawn.program.steps)
        fmt::print("{}\n", world::describe(step));
}

int report(std::uint64_t seed, const world::Drawn& drawn, const world::Outcome& outcome, bool shorten) {
    for (const promises::Violation& violation : outcome.violations)
        fmt::print("seed {}: {}: {}\n", seed, violation.promise, violation.what);
    const world::Drawn shortest = shorten ? world::shorten(drawn, outcome.violations.front().promise) : drawn;
    print(shortest);
    world::Transcript transcript;
    const world::Outcome again = world::run(shortest, transcript);
    for (const std::string& line : transcript.lines())
        print(line);
    for (const promises::Violation& violation : again.violations)
        fmt::print("seed {}: {}: {}\n", seed, violation.promise, violation.what);
    return kFailed;
}

bool parse_range(const std::string& text, world::Bounds& bounds) {
    unsigned least = 0;
    unsigned most = 0;
    int used = 0;
    if (std::sscanf(text.c_str(), "%u..%u%n", &least, &most, &used) != 2 ||
        static_cast<std::size_t>(used) != text.size()) {
        if (std::sscanf(text.c_str(), "%u%n", &least, &used) != 1 || static_cast<std::size_t>(used) != text.size())
            return false;
        most = least;
    }
    bounds.fewest_ranks = least;
    bounds.most_ranks = most;
    return least >= 1 && least <= most && most <= world::kMostRanks;
}

}  // namespace

int run_world(int argc, char** argv) {
    std::uint64_t first = 1;
    std::uint64_t seeds = 1000;
    std::string ranks = "2..16";
    world::Bounds bounds;
    bool verbose = false;
    bool no_deaths = false;
    bool go_on = false;
    bool as_drawn = false;
    CLI::App app(kDescription, "coppice-sim world");
    app.footer(kFooter);
    app.add_option("--ranks", ranks, "how many, or from..to, at most 64")->capture_default_str();
    app.add_option("--hosts", bounds.hosts, "that they run on; 0: drawn")->capture_default_str();
    app.add_option("--seeds", seeds, "how many")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--seed", first, "the first one")->capture_default_str();
    app.add_flag("--no-deaths", no_deaths, "nobody dies");
    app.add_flag("--joins,!--no-joins", bounds.joins,
                 "in a quarter of the worlds processes come later, and dead ones are started again (the default)");
    app.add_flag("--cuts,!--no-cuts", bounds.cuts,
                 "in a quarter of the worlds the network between hosts is cut, for good or for a while (the default)");
    app.add_flag("--silence", bounds.silence,
                 "in half of the worlds silence is evidence, and ranks stop for about as long");
    app.add_flag("--go-on", go_on, "print a line for each seed that breaks a promise, and go on");
    app.add_flag("--as-drawn", as_drawn, "do not look for a shorter program");
    app.add_flag("--verbose,-v", verbose, "print each program, and what happens");
    if (const auto code = parse(app, argc, argv)) return *code;
    if (!parse_range(ranks, bounds))
        return refuse(fmt::format("--ranks {}: a number, or a range like 2..16, at most 64", ranks));
    bounds.kills = !no_deaths;

    const auto begin = std::chrono::steady_clock::now();
    std::uint64_t calls = 0;
    std::uint64_t deaths = 0;
    std::uint64_t broken = 0;
    for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
        const world::Drawn drawn = world::draw(seed, bounds);
        if (verbose) print(drawn);
        const world::Outcome outcome =
            world::run(drawn, verbose ? world::Tell([](const std::string& line) { print(line); }) : world::Tell());
        calls += outcome.calls;
        deaths += outcome.deaths;
        if (outcome.violations.empty()) continue;
        ++broken;
        if (!go_on) return report(seed, drawn, outcome, !as_drawn);
        fmt::print("seed {}: {}: {}\n", seed, outcome.violations.front().promise, outcome.violations.front().what);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    fmt::print("{} worlds, seeds {} to {}: {} calls, {} deaths, in {:.1f} s: {}\n", seeds, first, first + seeds - 1,
               calls, deaths, took.count(),
               broken == 0 ? "every promise held" : fmt::format("{} broke a promise", broken));
    return broken == 0 ? kFine : kFailed;
}

}  // namespace coppice::sim
