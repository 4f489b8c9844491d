// coppice-sim fuzz membership: every seed is a group, its newcomers, its deaths and a schedule of its own.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "check/seeds.hpp"
#include "simulation/explore/membership_fuzz.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

constexpr std::uint32_t kMostRanks = 1024;

constexpr const char* kDescription =
    R"(Draws schedules of membership, one for each seed: how many members, the radix, the quorum, how many views, which
processes join, leave, die, are started again or are cut off and when, which of the others learns of it how late, and the
order of all messages. Ends at the first one in which a promise is broken, and prints it.
)";

constexpr const char* kFooter =
    R"(Exit code: 0; 1 when a promise was broken; 2 bad options.

Examples:
  coppice-sim fuzz membership --seeds 100000 --ranks 3..64
  coppice-sim fuzz membership --seed 4711 --seeds 1 --verbose
)";

// "3..64", or one number.
std::optional<simulation::MembershipFuzzRange> parse_range(const std::string& text) {
    const std::size_t dots = text.find("..");
    const std::string low = text.substr(0, dots);
    const std::string high = dots == std::string::npos ? low : text.substr(dots + 2);
    const auto number = [](const std::string& digits) -> std::uint32_t {
        if (digits.empty() || digits.size() > 4 || digits.find_first_not_of("0123456789") != std::string::npos)
            return 0;
        return static_cast<std::uint32_t>(std::stoul(digits));
    };
    simulation::MembershipFuzzRange range;
    range.fewest_ranks = number(low);
    range.most_ranks = number(high);
    if (range.fewest_ranks < 1 || range.most_ranks < range.fewest_ranks || range.most_ranks > kMostRanks)
        return std::nullopt;
    return range;
}

// One after the other, with every event.
int tell(std::uint64_t first, std::uint64_t seeds, const simulation::MembershipFuzzRange& range) {
    for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
        const auto outcome = fuzz_membership(seed, range, [](const std::string& line) { fmt::print("{}\n", line); });
        const bool failed = !outcome.violation.empty();
        fmt::print("seed {}: {}: {} deaths, {}\n", seed, outcome.scenario, outcome.deaths,
                   failed ? outcome.violation : "every promise held");
        if (failed) return kFailed;
    }
    return kFine;
}

struct Totals {
    std::uint64_t events = 0;
    std::uint64_t messages = 0;
    std::uint64_t deaths = 0;
    std::uint64_t joined = 0;
};

}  // namespace

int run_fuzz_membership(int argc, char** argv) {
    std::uint64_t first = 1;
    std::uint64_t seeds = 10000;
    std::string ranks = "3..64";
    unsigned threads = std::max(1U, std::thread::hardware_concurrency());
    bool verbose = false;
    CLI::App app(kDescription, "coppice-sim fuzz membership");
    app.footer(kFooter);
    app.add_option("--seeds", seeds, "how many")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--seed", first, "the first one")->capture_default_str();
    app.add_option("--ranks", ranks, "members at first, from..to, at most 1024")->capture_default_str();
    app.add_option("--threads", threads, "how many at a time")->capture_default_str()->check(CLI::Range(1U, 1024U));
    app.add_flag("--verbose,-v", verbose, "print every event");
    if (const auto code = parse(app, argc, argv)) return *code;
    const auto range = parse_range(ranks);
    if (!range) return refuse(fmt::format("--ranks {}: a range like 3..64, at most {}", ranks, kMostRanks));

    if (verbose) return tell(first, seeds, *range);
    Totals totals;
    const auto worst = first_failing_seed(
        first, seeds, threads, "schedules", [&](std::uint64_t seed) { return fuzz_membership(seed, *range); },
        [&](std::uint64_t /*seed*/, const simulation::MembershipFuzzOutcome& outcome) {
            totals.events += outcome.events;
            totals.messages += outcome.messages;
            totals.deaths += outcome.deaths;
            totals.joined += outcome.joined;
            return !outcome.violation.empty();
        });
    if (worst) {
        const auto outcome =
            fuzz_membership(*worst, *range, [](const std::string& line) { fmt::print(stderr, "  {}\n", line); });
        fmt::print(stderr,
                   "coppice-sim: seed {}: {}: {}\nAgain: coppice-sim fuzz membership --ranks {} --seed {} --seeds 1 "
                   "--verbose\n",
                   *worst, outcome.scenario, outcome.violation, ranks, *worst);
        return kFailed;
    }
    fmt::print(
        "{} schedules, seeds {} to {}: {} events, {} messages, {} deaths, {} newcomers taken in: every promise held\n",
        seeds, first, first + seeds - 1, totals.events, totals.messages, totals.deaths, totals.joined);
    return kFine;
}

}  // namespace coppice::sim
