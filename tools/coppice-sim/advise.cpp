// coppice-sim advise: which broadcast suits a machine.
#include <fmt/format.h>

#include "advice_report.hpp"
#include "chunked.hpp"
#include "measured_network.hpp"
#include "memory.hpp"
#include "progress.hpp"
#include "simulation/advice.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

constexpr const char* kDescription =
    R"(Says which tree, correction and distance to use on a machine, or for how long to gossip instead: with what latency, how
many messages, and how likely a live rank is left out. Protocols are simulated a few times each; probabilities too small
for that are computed.
)";

constexpr const char* kFooter =
    R"(A broadcast is reliable enough when it reaches every live rank without being told which are dead. What the
figures rest on is printed with them. The first example is that of IPDPS'17, IV-C: TSUBAME 2.0, jobs of 12 hours. Exit
code: 0; 1 when a promise was broken; 2 bad options.

Examples:
  coppice-sim advise --ranks 4096 --latency 2 --overhead 1 --mtbf 18304 --job-hours 12 --reliability 0.5 --broadcasts 1e6
  coppice-sim advise --ranks 64 --measured logp.json --mtbf 18304 --job-hours 12 --reliability 0.9
  coppice-sim advise --ranks 65536 --mtbf 50000 --job-hours 24 --reliability 0.999999 --format json
)";

}  // namespace

int run_advise(int argc, char** argv) {
    simulation::Wishes wishes;
    double step_us = 1;
    std::string format = "table";
    CLI::App app(kDescription, "coppice-sim advise");
    app.footer(kFooter);
    app.add_option("--ranks,-P", wishes.ranks, "how many ranks, or hosts, have a place in the tree")
        ->required()
        ->check(CLI::Range(2U, kMaxProcesses));
    auto* latency = app.add_option("--latency,-L", wishes.model.latency, "L: steps on the wire");
    auto* overhead = app.add_option("--overhead,-o", wishes.model.overhead,
                                    "o: steps that a send takes its sender, and its receiver");
    auto* step = app.add_option("--step-us", step_us, "how long a step is, in microseconds");
    for (auto* const assumed : {latency, overhead, step})
        assumed->capture_default_str();
    std::string measured, level;
    auto* file = app.add_option("--measured", measured,
                                "L, o and the step as coppice-perf logp has measured them and written to this file")
                     ->excludes(latency)
                     ->excludes(overhead)
                     ->excludes(step);
    app.add_option("--level", level, "the level of that file that ranks, or hosts, have between them; the outermost")
        ->needs(file);
    app.add_option("--mtbf", wishes.mtbf_hours, "mean time between failures of one rank, in hours")->required();
    app.add_option("--job-hours", wishes.job_hours, "how long a job runs, in hours")->required();
    app.add_option("--reliability", wishes.reliability,
                   "the probability with which all broadcasts of a job reach every live rank: between 0 and 1")
        ->required();
    app.add_option("--broadcasts", wishes.broadcasts, "how many a job has: the reliability is that of all together")
        ->capture_default_str();
    ChunkedOptions chunked;
    chunked.add_to(app);
    app.add_option("--runs", wishes.runs,
                   "simulated broadcasts of each candidate, instead of a number that takes seconds")
        ->check(CLI::PositiveNumber);
    app.add_option("--seed", wishes.first_seed, "of the first run of each candidate")->capture_default_str();
    app.add_option("--format", format, "table or json")->capture_default_str()->check(CLI::IsMember({"table", "json"}));
    if (const auto code = parse(app, argc, argv)) return *code;

    if (!measured.empty()) {
        const auto network = read_measured_network(measured, level);
        if (!network) return refuse(network.error());
        wishes.model = network->model;
        step_us = network->step_us;
        if (format == "table")
            fmt::print("{}: {}; its o and g are a step of {:.3g} us\n", measured, network->level, step_us);
    }
    wishes.step_seconds = step_us * 1e-6;
    if (const auto reason = reason_against(wishes)) return refuse(*reason);
    if (const auto reason = reason_against_size(bytes_needed(wishes), 1)) return refuse(*reason);
    Progress progress("candidates", 0);
    const auto advice = simulation::advise(wishes, [&](std::size_t done, std::size_t all) { progress.at(done, all); });
    progress.clear();
    if (!advice) {
        fmt::print(stderr, "coppice-sim: {}\n", advice.error());
        return kFailed;
    }
    if (!chunked.given()) {
        for (const char* option : {"--chunk", "--gap-per-byte", "--ahead"})
            if (app.count(option) > 0) return refuse(fmt::format("{} is for a payload of --bytes", option));
    }
    std::vector<ChunkedOptions::Row> payload;
    if (chunked.given()) {
        auto rows = chunked.rows(wishes.ranks, wishes.model);
        if (!rows) return refuse(rows.error());
        payload = std::move(*rows);
    }
    fmt::print("{}", format == "json" ? advice_as_json(wishes, *advice, payload) : advice_as_text(wishes, *advice));
    if (format == "table" && !payload.empty()) {
        fmt::print("\nA payload of {} bytes, G={} a byte\n{}\n{}", chunked.bytes(),
                   payload.front().setup.model.gap_per_byte, chunked_advice(payload, step_us),
                   chunked_as_table(payload, chunked.bound(wishes.model)));
    }
    return kFine;
}

}  // namespace coppice::sim
