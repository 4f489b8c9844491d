// coppice-sim models: the papers' model, in which a ring message costs its receiver o, and one-sided ring messages, as
// RDMA writes are, in one plot.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "files.hpp"
#include "memory.hpp"
#include "progress.hpp"
#include "protocol/baselines/names.hpp"
#include "reproduce/catalogue.hpp"
#include "reproduce/output.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

constexpr const char* kDescription =
    R"(Compares the papers' model, in which a ring message costs its receiver o, with one-sided ring messages, which cost it
nothing, as an RDMA write does: when all is quiet, when everybody has the payload, and how many messages that takes, over
the number of ranks.
)";

constexpr const char* kFooter =
    R"(Writes models.csv, models.plot.json, models.svg and models.png.
Exit code: 0; 1 when a promise was broken or something could not be written or drawn; 2 bad options.

Examples:
  coppice-sim models --out figures
  coppice-sim models --tree optimal:1,5 --latency 5 --corrections checked,optimized:2 --faults 1% --runs 50 --out figures
)";

struct Options {
    std::string out;
    std::string tree = "lame:2";
    std::vector<std::string> corrections{"checked:synchronized", "optimized:4", "opportunistic:4"};
    simulation::LogP model{};
    std::uint32_t most_ranks = 16384;
    std::string rate = "0%";
    std::uint64_t runs = 20;
    std::uint64_t seed = 1;
    unsigned threads = std::max(1U, std::thread::hardware_concurrency());
    bool no_plots = false;
};

Study study_of(const Options& options, double rate) {
    Study study{.name = "models",
                .title = fmt::format("{}, L = {}, o = {}, {} dead", options.tree, options.model.latency,
                                     options.model.overhead, options.rate),
                .source = "ring messages as in the papers and one-sided",
                .axis = {"ranks", "log2", "ranks"},
                .style = Style::line};
    for (const std::string& correction : options.corrections) {
        for (const bool one_sided : {false, true}) {
            for (std::uint32_t ranks = 64; ranks <= options.most_ranks; ranks *= 4) {
                Cell cell{.protocol = TreeProtocol{options.tree, correction},
                          .ranks = ranks,
                          .model = options.model,
                          .dead_count = static_cast<std::uint32_t>(rate * (ranks - 1)),
                          .first_seed = options.seed};
                cell.model.one_sided_ring = one_sided;
                cell.runs = cell.is_deterministic() ? 1 : options.runs;
                study.points.push_back({correction + (one_sided ? ", one-sided" : ", as in the papers"),
                                        static_cast<double>(ranks), std::move(cell)});
            }
        }
    }
    study.panels = {
        {.y_label = "quiet after [steps]", .height = mean_of(Metric::quiescence, false)},
        {.y_label = "colored after [steps]", .height = mean_of(Metric::coloring, false)},
        {.y_label = "messages per rank",
         .height = [](const Figures& figures, const Cell& cell) { return Height{messages_per_rank(figures, cell).y}; },
         .from_zero = true}};
    return study;
}

// The curves of one correction have one color; those of one-sided messages are dashed.
std::string with_dashes(const std::string& plot) {
    auto json = nlohmann::ordered_json::parse(plot);
    for (auto& panel : json["panels"]) {
        for (auto& curve : panel["curves"])
            curve["dashed"] = curve["label"].get<std::string>().ends_with(", one-sided");
    }
    return json.dump(1) + "\n";
}

int fail(const std::string& sentence) {
    fmt::print(stderr, "coppice-sim: {}\n", sentence);
    return kFailed;
}

void print(const Results& results) {
    fmt::print("{:<40}{:>8}{:>10}{:>10}{:>12}\n", "", "ranks", "colored", "quiet", "msgs/rank");
    for (const std::string& series : results.series()) {
        for (const double x : results.xs(series)) {
            fmt::print("{:<40}{:>8.0f}{:>10.1f}{:>10.1f}{:>12.3f}\n", series, x,
                       results.mean(series, x, Metric::coloring), results.mean(series, x, Metric::quiescence),
                       results.messages_per_rank(series, x));
        }
    }
}

int run(const Options& options, const Study& study) {
    Results results;
    Progress progress("points", study.points.size());
    std::uint64_t done = 0;
    for (const Point& point : study.points) {
        auto figures = run(point.cell, options.threads);
        if (!figures) return fail(figures.error());
        results.add(point, std::move(*figures));
        progress.at(++done);
    }
    progress.clear();
    print(results);
    std::error_code error;
    const std::filesystem::path directory(options.out);
    std::filesystem::create_directories(directory, error);
    if (error) return fail(fmt::format("{} could not be made: {}", options.out, error.message()));
    const std::filesystem::path plot = directory / "models.plot.json";
    if (const auto reason = write_file(directory / "models.csv", csv_of(study, results))) return fail(*reason);
    if (const auto reason = write_file(plot, with_dashes(plot_of(study, results)))) return fail(*reason);
    if (options.no_plots) return kFine;
    const auto reason = draw_plots({plot});
    return reason ? fail(*reason) : kFine;
}

}  // namespace

int run_models(int argc, char** argv) {
    Options options;
    CLI::App app(kDescription, "coppice-sim models");
    app.footer(kFooter);
    app.add_option("--out", options.out, "the directory to write to; made where it is missing")->required();
    app.add_option("--tree", options.tree)->capture_default_str();
    app.add_option("--corrections", options.corrections)->delimiter(',')->capture_default_str();
    app.add_option("--latency,-L", options.model.latency, "L: steps on the wire")->capture_default_str();
    app.add_option("--overhead,-o", options.model.overhead, "o: steps that a send takes its sender, and its receiver")
        ->capture_default_str();
    app.add_option("--max-ranks", options.most_ranks, "from 64 ranks on, four times as many at each point, up to this")
        ->capture_default_str()
        ->check(CLI::Range(64U, kMaxProcesses));
    app.add_option("--faults", options.rate, "this share of the ranks but the root is dead from the start")
        ->capture_default_str();
    app.add_option("--runs", options.runs, "at each point, if ranks are dead")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--seed", options.seed, "of the first run")->capture_default_str();
    app.add_option("--threads", options.threads, "how many runs at a time")
        ->capture_default_str()
        ->check(CLI::Range(1U, 1024U));
    app.add_flag("--no-plots", options.no_plots, "do not draw");
    if (const auto code = parse(app, argc, argv)) return *code;

    const auto rate = simulation::parse_rate(options.rate);
    if (!rate) return refuse("--faults " + rate.error());
    if (const auto reason = reason_against(options.model)) return refuse(*reason);
    if (const auto tree = topology::parse_tree(options.tree); !tree) return refuse(tree.error());
    for (const std::string& correction : options.corrections) {
        if (const auto known = protocol::baselines::parse_correction(correction); !known) return refuse(known.error());
    }
    const Study study = study_of(options, *rate);
    std::uint64_t bytes = 0;
    for (const Point& point : study.points)
        bytes = std::max(bytes, bytes_needed(point.cell));
    if (const auto reason = reason_against_size(bytes, options.threads)) return refuse(*reason);
    return run(options, study);
}

}  // namespace coppice::sim
