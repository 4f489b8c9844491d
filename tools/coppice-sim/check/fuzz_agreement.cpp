// coppice-sim fuzz agreement: every seed is a group, a tree, a choice of deaths and a schedule of its own.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "check/seeds.hpp"
#include "simulation/explore/agreement_fuzz.hpp"
#include "simulation/explore/agreement_group.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

constexpr const char* kDescription =
    R"(Draws schedules of agreements, one for each seed: number of ranks, tree, window, operation, which ranks die when,
which notices it how late, and the order of all messages. Ends at the first one in which a promise is broken, and prints
it.
)";

constexpr const char* kFooter =
    R"(Exit code: 0; 1 when a promise was broken; 2 bad options.

Examples:
  coppice-sim fuzz agreement --seeds 100000 --ranks 3..64
  coppice-sim fuzz agreement --seeds 100000 --published
  coppice-sim fuzz agreement --seed 4711 --seeds 1 --verbose
)";

struct Totals {
    std::uint64_t events = 0;
    std::uint64_t messages = 0;
    std::uint64_t decisions = 0;
    std::uint64_t deaths = 0;
};

// "3..64", or one number.
std::optional<simulation::FuzzRange> parse_range(const std::string& text) {
    const std::size_t dots = text.find("..");
    const std::string low = text.substr(0, dots);
    const std::string high = dots == std::string::npos ? low : text.substr(dots + 2);
    const auto number = [](const std::string& digits) -> std::uint32_t {
        if (digits.empty() || digits.size() > 4 || digits.find_first_not_of("0123456789") != std::string::npos)
            return 0;
        return static_cast<std::uint32_t>(std::stoul(digits));
    };
    simulation::FuzzRange range;
    range.fewest_ranks = number(low);
    range.most_ranks = number(high);
    if (range.fewest_ranks < 1 || range.most_ranks < range.fewest_ranks ||
        range.most_ranks > simulation::AgreementGroup::kMostRanks) {
        return std::nullopt;
    }
    return range;
}

// One after the other, with every event.
int tell(std::uint64_t first, std::uint64_t seeds, const simulation::FuzzRange& range) {
    for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
        const auto outcome = fuzz_agreement(seed, range, [](const std::string& line) { fmt::print("{}\n", line); });
        const bool failed = !outcome.violation.empty();
        fmt::print("seed {}: {}: {} deaths, {}\n", seed, outcome.scenario, outcome.deaths,
                   failed ? outcome.violation : "every promise held");
        if (failed) return kFailed;
    }
    return kFine;
}

}  // namespace

int run_fuzz_agreement(int argc, char** argv) {
    std::uint64_t first = 1;
    std::uint64_t seeds = 10000;
    std::string ranks = "3..64";
    unsigned threads = std::max(1U, std::thread::hardware_concurrency());
    bool verbose = false;
    bool published = false;
    CLI::App app(kDescription, "coppice-sim fuzz agreement");
    app.footer(kFooter);
    app.add_option("--seeds", seeds, "how many")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--seed", first, "the first one")->capture_default_str();
    app.add_option("--ranks", ranks, "from..to, at most 64")->capture_default_str();
    app.add_option("--threads", threads, "how many at a time")->capture_default_str()->check(CLI::Range(1U, 1024U));
    app.add_flag("--published", published, "contributions are published in shared memory, as among ranks of one host");
    app.add_flag("--verbose,-v", verbose, "print every event");
    if (const auto code = parse(app, argc, argv)) return *code;
    auto range = parse_range(ranks);
    if (range) range->published = published;
    if (!range) return refuse(fmt::format("--ranks {}: a range like 3..64, at most 64", ranks));

    if (verbose) return tell(first, seeds, *range);
    Totals totals;
    const auto worst = first_failing_seed(
        first, seeds, threads, "schedules", [&](std::uint64_t seed) { return fuzz_agreement(seed, *range); },
        [&](std::uint64_t /*seed*/, const simulation::FuzzOutcome& outcome) {
            totals.events += outcome.events;
            totals.messages += outcome.messages;
            totals.decisions += outcome.decisions;
            totals.deaths += outcome.deaths;
            return !outcome.violation.empty();
        });
    if (worst) {
        const auto outcome =
            fuzz_agreement(*worst, *range, [](const std::string& line) { fmt::print(stderr, "  {}\n", line); });
        fmt::print(stderr,
                   "coppice-sim: seed {}: {}: {}\nAgain: coppice-sim fuzz agreement --ranks {} --seed {} --seeds 1 "
                   "--verbose{}\n",
                   *worst, outcome.scenario, outcome.violation, ranks, *worst, published ? " --published" : "");
        return kFailed;
    }
    fmt::print(
        "{} schedules, seeds {} to {}: {} events, {} messages, {} deaths, {} decisions by survivors: every promise "
        "held\n",
        seeds, first, first + seeds - 1, totals.events, totals.messages, totals.deaths, totals.decisions);
    return kFine;
}

}  // namespace coppice::sim
