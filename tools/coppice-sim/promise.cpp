// coppice-sim promise: how often unnoticed deaths leave a live rank waiting for a notice.
#include <fmt/format.h>

#include <algorithm>

#include "memory.hpp"
#include "progress.hpp"
#include "protocol/baselines/names.hpp"
#include "protocol/names.hpp"
#include "simulation/faults.hpp"
#include "simulation/random.hpp"
#include "simulation/reach.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

constexpr const char* kDescription =
    R"(Says how often somebody waits for the notice of a death: in how many of the ways in which so many ranks can be dead before
a broadcast, unknown to everybody, its tree and correction leave a live rank out. Computed by the predicates of
docs/corrections.md, which are what the machines do.
)";

constexpr const char* kFooter =
    R"(Dead sets are drawn by seeds from --seed on, every set without the root equally likely; where there are no more than --runs,
each counts once and the figure is exact. A rank is what has a place in the tree: a host where its ranks stand in for each other.
Exit code: 0; 2 bad options.

Examples:
  coppice-sim promise --ranks 64 --dead 4 --runs 1000000
  coppice-sim promise --ranks 16,64,1024 --dead 1,2,3,4,8 --correction opportunistic:1,optimized:2,checked --format csv
)";

struct Options {
    std::vector<std::uint32_t> ranks{64};
    std::vector<std::uint32_t> dead{3};
    std::vector<std::string> corrections{std::string(protocol::kDefaultCorrection)};
    std::string tree = "auto";
    std::uint64_t runs = 100'000;
    std::uint64_t seed = 1;
    std::string format = "table";
};

struct Count {
    std::uint64_t sets = 0;
    bool exact = false;
    std::uint64_t waiting = 0;  // sets with somebody left out
    std::uint64_t left_out = 0;
    std::size_t most = 0;

    void add(std::size_t many) {
        ++sets;
        waiting += many != 0 ? 1 : 0;
        left_out += many;
        most = std::max(most, many);
    }
};

// How many sets of `dead` among `others`; `most` if more.
std::uint64_t sets_of(std::uint64_t others, std::uint64_t dead, std::uint64_t most) {
    std::uint64_t sets = 1;
    for (std::uint64_t i = 1; i <= std::min(dead, others - dead); ++i) {
        if (sets > (most + 1) * i / (others - i + 1) + 1) return most + 1;
        sets = sets * (others - i + 1) / i;
    }
    return std::min(sets, most + 1);
}

// The next set in order; false after the last.
bool advance(std::vector<Position>& dead, std::uint32_t ranks) {
    for (std::size_t i = dead.size(); i-- > 0;) {
        if (dead[i].value + (dead.size() - i) == ranks) continue;
        ++dead[i].value;
        for (std::size_t next = i + 1; next < dead.size(); ++next)
            dead[next].value = dead[next - 1].value + 1;
        return true;
    }
    return false;
}

Count count(const protocol::BroadcastPlan& plan, std::uint32_t dead_count, const Options& options) {
    const std::uint32_t ranks = plan.tree.processes();
    simulation::Reach reach(plan);
    Count counted;
    counted.exact = sets_of(ranks - 1, dead_count, options.runs) <= options.runs;
    if (counted.exact) {
        std::vector<Position> dead;
        for (std::uint32_t position = 1; position <= dead_count; ++position)
            dead.push_back(Position{position});
        do {
            counted.add(reach.left_out(dead).size());
        } while (advance(dead, ranks));
        return counted;
    }
    for (std::uint64_t run = 0; run < options.runs; ++run) {
        simulation::Random random(options.seed + run);
        counted.add(reach.left_out(simulation::choose_positions(ranks, dead_count, random)).size());
    }
    return counted;
}

void print_heading(const Options& options) {
    if (options.format == "csv") {
        fmt::print("ranks,tree,correction,dead,sets,exact,waiting_sets,share,left_out,most_left_out\n");
        return;
    }
    fmt::print("Nobody knows of the dead. Somebody waits for a notice in so many of their sets:\n\n");
    fmt::print("{:>8}  {:<12} {:<26} {:>5}  {:>11} {:>12} {:>12}  {}\n", "ranks", "tree", "correction", "dead", "share",
               "of sets", "", "most left out");
}

void print(const Options& options, const protocol::BroadcastPlan& plan, std::uint32_t dead, const Count& counted) {
    const double share = static_cast<double>(counted.waiting) / static_cast<double>(counted.sets);
    const std::string tree = to_string(plan.tree.spec());
    const std::string correction = to_string(plan.correction);
    if (options.format == "csv") {
        fmt::print("{},{},{},{},{},{},{},{:.3g},{},{}\n", plan.tree.processes(), tree, correction, dead, counted.sets,
                   counted.exact ? "yes" : "no", counted.waiting, share, counted.left_out, counted.most);
        return;
    }
    fmt::print("{:>8}  {:<12} {:<26} {:>5}  {:>10.3g}% {:>12} {:>12}  {}\n", plan.tree.processes(), tree, correction,
               dead, 100 * share, fmt::format("{}/{}", counted.waiting, counted.sets), counted.exact ? "all" : "drawn",
               counted.most);
}

int run(const Options& options) {
    for (const std::string& name : options.corrections) {
        const auto correction = protocol::baselines::parse_correction(name);
        if (!correction) return refuse(correction.error());
    }
    if (options.tree != "auto") {
        const auto tree = topology::parse_tree(options.tree);
        if (!tree) return refuse(tree.error());
    }
    print_heading(options);
    Progress progress("rows", options.ranks.size() * options.corrections.size() * options.dead.size());
    std::uint64_t rows = 0;
    for (const std::uint32_t ranks : options.ranks) {
        const topology::TreeSpec spec =
            options.tree == "auto" ? topology::automatic_tree(ranks) : *topology::parse_tree(options.tree);
        auto tree = topology::Tree::make(spec, ranks);
        if (!tree) return refuse(tree.error());
        for (const std::string& name : options.corrections) {
            const protocol::BroadcastPlan plan{*tree, *protocol::baselines::parse_correction(name)};
            for (const std::uint32_t dead : options.dead) {
                if (dead < ranks) {
                    const Count counted = count(plan, dead, options);
                    progress.clear();
                    print(options, plan, dead, counted);
                }
                progress.at(++rows);
            }
        }
    }
    return kFine;
}

}  // namespace

int run_promise(int argc, char** argv) {
    Options options;
    CLI::App app(kDescription, "coppice-sim promise");
    app.footer(kFooter);
    app.add_option("--ranks,-P", options.ranks, "how many ranks; several, separated by commas")
        ->capture_default_str()
        ->delimiter(',')
        ->check(CLI::Range(1U, kMaxProcesses));
    app.add_option("--dead", options.dead, "how many of them are dead, the root excepted; several, too")
        ->capture_default_str()
        ->delimiter(',')
        ->check(CLI::Range(0U, kMaxProcesses));
    app.add_option("--correction", options.corrections,
                   "one or several, as for broadcast; what groups take if none is given")
        ->capture_default_str()
        ->delimiter(',');
    app.add_option("--tree", options.tree, "as for broadcast, or auto: as groups choose it by the number of positions")
        ->capture_default_str();
    app.add_option("--runs", options.runs, "how many sets are drawn where there are more")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
    app.add_option("--seed", options.seed, "of the first")->capture_default_str();
    app.add_option("--format", options.format, "table or csv")
        ->capture_default_str()
        ->check(CLI::IsMember({"table", "csv"}));
    if (const auto code = parse(app, argc, argv)) return *code;
    return run(options);
}

}  // namespace coppice::sim
