// coppice-perf: perftest-style figures of Coppice's operations between the processes of a job.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "coppice/coppice.h"
#include "perf/broadcast.hpp"
#include "perf/session.hpp"

namespace {

void add_group_options(CLI::App& app, perf::GroupSettings& group) {
    app.add_option("--tree", group.tree, "tree between positions (a wrong name lists the known ones)");
    app.add_option("--correction", group.correction, "correction on the ring (a wrong name lists the known ones)");
    app.add_option("--hierarchy", group.hierarchy, "host: positions are hosts; flat: every rank is one");
    app.add_option("--window", group.window, "how many broadcasts may be under way, a power of two")
        ->check(CLI::Range(2, 1024));
    app.add_option("--timeout", group.timeout_s, "seconds that any one step may take")
        ->check(CLI::Range(0.001, 1e6))
        ->capture_default_str();
}

CLI::App* add_broadcast(CLI::App& app, perf::BroadcastSettings& settings) {
    CLI::App* command = app.add_subcommand("broadcast", "broadcasts, one after the other");
    auto* size = command->add_option("-s,--size", settings.bytes, "payload in bytes")->capture_default_str();
    command->add_flag("-a,--all", settings.all_sizes, "all sizes: 1, 2, 4 ... the largest payload")->excludes(size);
    command->add_option("-n,--iters", settings.iterations, "broadcasts measured per size")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32))
        ->capture_default_str();
    command->add_option("-w,--warmup", settings.warmup, "broadcasts before that, per size")
        ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 32))
        ->capture_default_str();
    command->add_option("--root", settings.root, "a rank, or \"rotate\": another one each time")->capture_default_str();
    command->add_flag("--verify", settings.verify, "check every byte of every broadcast at every rank");
    command->add_flag("--view", settings.view, "receive views instead of copies");
    command->add_flag("--back-to-back", settings.back_to_back, "no barrier between two broadcasts; prints the rate");
    command->add_flag(
        "--staggered", settings.staggered,
        "ranks call one after the other, so that nobody waits inside the library (to count instructions)");
    command->add_option("--dead", settings.dead, "these ranks kill themselves before the run")->delimiter(',');
    command->add_option("--metric", settings.metric, "done, osu or both")
        ->check(CLI::IsMember({"done", "osu", "both"}))
        ->capture_default_str();
    command->add_option("--out_json", settings.json_file, "write all figures to this file, too");
    return command;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Measures the operations of Coppice. Run it under coppice-run.", "coppice-perf");
    app.set_version_flag("--version", std::string("coppice-perf ") + coppice_version());
    app.fallthrough();
    perf::GroupSettings group;
    perf::BroadcastSettings broadcast;
    add_group_options(app, group);
    const CLI::App* broadcast_command = add_broadcast(app, broadcast);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? perf::kExitOk : perf::kExitUsage;
    }
    if (broadcast_command->parsed()) return perf::run_broadcast(group, broadcast);

    if (auto failure = perf::check_settings(group)) {
        fmt::print(stderr, "coppice-perf: {}\n", failure->message);
        return failure->exit_code;
    }
    fmt::print(stderr, "coppice-perf: say what to measure: broadcast (see --help)\n");
    return perf::kExitUsage;
}
