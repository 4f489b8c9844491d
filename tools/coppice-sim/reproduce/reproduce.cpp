// coppice-sim reproduce: the papers' figures and tables, with what the papers say of them.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "files.hpp"
#include "memory.hpp"
#include "reproduce/campaign.hpp"
#include "reproduce/output.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

constexpr const char* kDescription =
    "Runs the experiments behind the papers' figures and tables again, and compares what the papers say with what came "
    "out.\n";

constexpr const char* kFooter =
    R"(Writes, for each experiment, NAME.csv, NAME.svg, NAME.png and NAME.md, a page that goes through the claims; for all,
also summary.md. Goes on where it stopped when DIR is half done: what was run is in DIR/runs.jsonl. Says at the start, and
again each minute, how long it will take, and writes NAME.csv as far as it is. NAME.runs.jsonl has a line for each point:
copied to the runs.jsonl of another directory, it is where the same command goes on there.
Exit code: 0, also when a claim does not hold; 1 when a protocol broke a promise or something could not be written or
drawn; 2 bad options.

Examples:
  coppice-sim reproduce fig8 --out figures --quick
  coppice-sim reproduce table1 --out figures --threads 2
  coppice-sim reproduce table1 --out figures --full --minutes 90
  coppice-sim reproduce all --out figures
)";

struct Options {
    std::string what;
    std::string out;
    bool quick = false;
    bool full = false;
    bool no_plots = false;
    std::optional<double> minutes;
    std::uint64_t seed = 1;
    unsigned report_every = 60;
    unsigned threads = std::max(1U, std::thread::hardware_concurrency());

    Pace pace() const { return {threads, minutes, std::chrono::seconds(report_every)}; }
    Scale scale() const { return quick ? Scale::quick : full ? Scale::full : Scale::normal; }
    Written written() const {
        std::string scale = quick ? " --quick" : full ? " --full" : "";
        if (minutes) scale += fmt::format(" --minutes {}", *minutes);
        return {scale, threads};
    }
};

int fail(const std::string& sentence) {
    fmt::print(stderr, "coppice-sim: {}\n", sentence);
    return kFailed;
}

class Reproduction {
  public:
    Reproduction(const Options& options, Store& store) : options_(options), store_(store), directory_(options.out) {}

    int run(const std::vector<std::string>& names) {
        std::vector<Study> experiments;
        for (const std::string& name : names)
            experiments.push_back(make_study(name, options_.scale(), options_.seed));
        std::uint64_t bytes = 0;
        std::uint64_t work = 0;
        for (const Study& experiment : experiments) {
            bytes = std::max(bytes, largest_bytes(experiment));
            work += work_of(experiment, store_);
        }
        if (const auto reason = reason_against_size(bytes, options_.threads)) return refuse(*reason);

        Campaign campaign(store_, options_.pace(), work);
        for (const Study& experiment : experiments) {
            auto results = campaign.run(experiment, [&](const Results& so_far) {
                campaign.clear_progress();
                return write_points(experiment, so_far);
            });
            campaign.clear_progress();
            if (!results) return fail(results.error());
            if (const auto reason = write(experiment, std::move(*results))) return fail(*reason);
        }
        fmt::print("{} broadcasts run, {} read from {}\n", campaign.worked().ran, campaign.worked().reused,
                   (directory_ / "runs.jsonl").string());
        if (campaign.worked().left != 0)
            fmt::print("{} broadcasts left out: the time was over; the same command goes on\n", campaign.worked().left);
        if (names.size() > 1) {
            if (const auto reason = write_file(directory_ / "summary.md", overview_of(lines_))) return fail(*reason);
        }
        if (options_.no_plots) return kFine;
        const auto reason = draw_plots(plots_);
        return reason ? fail(*reason) : kFine;
    }

  private:
    std::filesystem::path path(const Study& experiment, const char* ending) const {
        return directory_ / (experiment.name + ending);
    }

    // What a run that is killed leaves behind for people, and for another directory's runs.jsonl.
    std::optional<std::string> write_points(const Study& experiment, Results results) {
        if (auto reason = write_file(path(experiment, ".runs.jsonl"), Store::text_of(results.parts()))) return reason;
        if (experiment.derive) experiment.derive(results);
        return write_file(path(experiment, ".csv"), csv_of(experiment, results));
    }

    std::optional<std::string> write(const Study& experiment, Results results) {
        if (auto reason = write_points(experiment, results)) return reason;
        if (experiment.derive) experiment.derive(results);
        std::vector<Judgement> judgements;
        for (const Claim& claim : experiment.claims)
            judgements.push_back(judge(claim, results));
        const std::filesystem::path plot = path(experiment, ".plot.json");
        const std::filesystem::path page = path(experiment, ".md");
        if (auto reason = write_file(plot, plot_of(experiment, results))) return reason;
        if (auto reason = write_file(page, summary_of(experiment, results, judgements, options_.written())))
            return reason;
        plots_.push_back(plot);
        fmt::print("{}: {}; {}\n", experiment.name, count_of(judgements), page.string());
        if (experiment.projects) fmt::print("{}: {}\n", experiment.name, projection_of(results, options_.threads));
        std::fflush(stdout);
        lines_.push_back({experiment.name, experiment.title, experiment.source, std::move(judgements)});
        return std::nullopt;
    }

    const Options& options_;
    Store& store_;
    std::filesystem::path directory_;
    std::vector<Line> lines_;  // of experiments that run() keeps
    std::vector<std::filesystem::path> plots_;
};

}  // namespace

int run_reproduce(int argc, char** argv) {
    Options options;
    CLI::App app(kDescription, "coppice-sim reproduce");
    app.footer(kFooter);
    std::string known;
    for (const std::string& name : known_experiments())
        known += name + ", ";
    known += "all";
    app.add_option("what", options.what, "what to reproduce: " + known)->required();
    app.add_option("--out", options.out, "the directory to write to; made where it is missing")->required();
    auto* quick = app.add_flag("--quick", options.quick, "few broadcasts: minutes for all, good for CI");
    app.add_flag("--full", options.full, "as many as the papers, of gossip at many ranks fewer: hours for each")
        ->excludes(quick);
    app.add_option("--minutes", options.minutes,
                   "begin nothing new after so long, but a few broadcasts for each point, and report on what there is")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--report-every", options.report_every,
                   "seconds after which it is said again how long it will take, and NAME.csv written")
        ->capture_default_str();
    app.add_flag("--no-plots", options.no_plots, "do not draw");
    app.add_option("--seed", options.seed, "of the first broadcast of each point")->capture_default_str();
    app.add_option("--threads", options.threads, "how many broadcasts at a time")
        ->capture_default_str()
        ->check(CLI::Range(1U, 1024U));
    if (const auto code = parse(app, argc, argv)) return *code;

    std::vector<std::string> names = known_experiments();
    if (options.what != "all") {
        if (std::find(names.begin(), names.end(), options.what) == names.end())
            return refuse(fmt::format("\"{}\" cannot be reproduced; known are: {}", options.what, known));
        names = {options.what};
    }
    const auto store = Store::open(options.out);
    if (!store) return fail(store.error());
    return Reproduction(options, **store).run(names);
}

}  // namespace coppice::sim
