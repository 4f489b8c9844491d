// coppice-sim broadcast: runs of one setup under drawn faults.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <thread>

#include "chunked.hpp"
#include "memory.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "setup_options.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

constexpr const char* kDescription =
    "Runs broadcasts on a LogP clock. Times are steps from the root's first send. Every run is checked: one in which "
    "the\n"
    "protocol does not keep what it promises ends the program with the conversation.\n";

constexpr const char* kFooter =
    R"(Run i has the seed SEED + i: the same seed draws the same faults, whatever --runs and --threads are.
Formats: table, how the figures are distributed; csv, a row for each run; json, an object for each run, one per line.
Exit code: 0; 1 when a promise was broken; 2 bad options.

Examples:
  coppice-sim broadcast --ranks 65536 --tree lame:2 --correction checked:synchronized --faults 1% --runs 1000 --threads 2
  coppice-sim broadcast --ranks 1024 --tree optimal --correction optimized:4 --latency 3 --overhead 1 --format json
  coppice-sim broadcast --ranks 48 --tree kary:4 --correction optimized-paper:4 --failed 3,8,9,10
  coppice-sim broadcast --ranks 4096 --algorithm ocg --reliability 0.999999 --faults 1% --runs 1000
  coppice-sim broadcast --ranks 4096 --algorithm fcg:1 --gossip-time 32 --dying-count 1 --runs 1000
  coppice-sim broadcast --network fattree:64 --placement ours --dead-leaf 17 --runs 20
  coppice-sim broadcast --network fattree:16:2:4 --placement leaf-by-leaf --correction checked --latencies 1,3,3
  coppice-sim broadcast --ranks 16 --bytes 64M --gap-per-byte 0.0008
  coppice-sim broadcast --ranks 256 --correction checked --dying 3@12,17@40 --notice-after 20 --conversation
)";

struct Options {
    SetupOptions setup;
    ChunkedOptions chunked;
    std::uint64_t runs = 1;
    std::uint64_t seed = 1;
    unsigned threads = std::max(1U, std::thread::hardware_concurrency());
    std::string format = "table";
    bool conversation = false;
};

int print_conversation(const Experiment& experiment, std::uint64_t seed) {
    const auto simulator = experiment.make();
    const simulation::Faults faults = experiment.faults.draw(experiment.ranks, seed);
    for (simulation::Event event : simulator->conversation(faults, seed, SIZE_MAX)) {
        event.from.value = experiment.rank_at(event.from);
        event.to.value = experiment.rank_at(event.to);
        fmt::print("{}\n", to_string(event));
    }
    return kFine;
}

int run(const Options& options, const Experiment& experiment) {
    Heading heading{.experiment = &experiment, .first_seed = options.seed};
    // Made once to be asked for names and, being the same for all, handed to the first thread.
    std::unique_ptr<simulation::Simulator> first = experiment.make();
    heading.kinds = first->kinds();
    heading.correction_start = first->correction_start();
    const std::unique_ptr<Report> report = make_report(options.format, heading);
    Progress progress("runs", options.runs);

    int code = kFine;
    std::uint64_t done = 0;
    simulation::run_batch(
        {.first_seed = options.seed, .runs = options.runs, .threads = options.threads, .faults = experiment.faults},
        [&] { return first ? std::move(first) : experiment.make(); },
        [&](std::uint64_t seed, const simulation::Faults& /*faults*/, auto&& result) {
            if (!result) {
                progress.clear();
                fmt::print(stderr, "coppice-sim: {}Again: coppice-sim broadcast {} --seed {} --runs 1\n",
                           to_string(result.error(), 200), options.setup.command_line(), seed);
                code = kFailed;
                return false;
            }
            report->add(seed, *result);
            progress.at(++done);
            return true;
        });
    progress.clear();
    report->finish();
    return code;
}

int run_in_chunks(const Options& options) {
    constexpr std::array<std::string_view, 9> kKnown{"--ranks", "--latency", "--overhead",     "--gap",   "--bytes",
                                                     "--chunk", "--ahead",   "--gap-per-byte", "--format"};
    if (const std::string other = options.setup.given_besides(kKnown); !other.empty())
        return refuse(other + " says nothing about a payload that goes in chunks (--bytes)");
    const simulation::LogP model = options.setup.model();
    const auto rows = options.chunked.rows(options.setup.ranks(), model);
    if (!rows) return refuse(rows.error());
    for (const ChunkedOptions::Row& row : *rows) {
        if (row.outcome.is_everywhere) continue;
        fmt::print(stderr, "coppice-sim: {} in chunks of {} leaves some rank without chunks\n",
                   to_string(row.setup.shape), row.setup.chunk);
        return kFailed;
    }
    fmt::print("{}", options.format == "table" ? chunked_as_table(*rows, options.chunked.bound(model))
                                               : chunked_as_lines(*rows, options.format == "csv"));
    return kFine;
}

}  // namespace

int run_broadcast(int argc, char** argv) {
    Options options;
    CLI::App app(kDescription, "coppice-sim broadcast");
    app.footer(kFooter);
    options.setup.add_to(app);
    options.setup.add_faults_to(app);
    options.setup.add_network_to(app);
    options.chunked.add_to(app);
    app.add_option("--runs", options.runs, "how many")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--seed", options.seed, "of the first run")->capture_default_str();
    app.add_option("--threads", options.threads, "how many runs at a time")
        ->capture_default_str()
        ->check(CLI::Range(1U, 1024U));
    app.add_option("--format", options.format, "table, csv or json")
        ->capture_default_str()
        ->check(CLI::IsMember(std::vector<std::string>(kFormats.begin(), kFormats.end())));
    app.add_flag("--conversation", options.conversation, "print what is sent and received in the first run instead");
    if (const auto code = parse(app, argc, argv)) return *code;

    if (options.chunked.given()) return run_in_chunks(options);
    for (const char* option : {"--chunk", "--gap-per-byte", "--ahead"})
        if (app.count(option) > 0) return refuse(fmt::format("{} is for a payload of --bytes", option));
    const auto experiment = options.setup.experiment();
    if (!experiment) return refuse(experiment.error());
    options.threads = static_cast<unsigned>(std::min<std::uint64_t>(options.threads, options.runs));
    if (const auto reason = reason_against_size(experiment->bytes, options.threads)) return refuse(*reason);
    return options.conversation ? print_conversation(*experiment, options.seed) : run(options, *experiment);
}

}  // namespace coppice::sim
