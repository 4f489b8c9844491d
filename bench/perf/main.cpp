// coppice-perf: perftest-style figures of Coppice's operations between the processes of a job.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "coppice/coppice.h"
#include "perf/agree.hpp"
#include "perf/broadcast.hpp"
#include "perf/latency.hpp"
#include "perf/logp.hpp"
#include "perf/session.hpp"
#include "perf/shrink.hpp"
#include "perf/views.hpp"
#include "transport/registry.hpp"

namespace {

std::vector<std::string> transport_names() {
    std::vector<std::string> names;
    for (const auto* one : coppice::transport::registered())
        names.emplace_back(one->name);
    return names;
}

void add_group_options(CLI::App& app, perf::GroupSettings& group) {
    app.add_option("--tree", group.tree, "tree between positions (a wrong name lists the known ones)");
    app.add_option("--algorithm", group.algorithm, "tree; ocg, ccg or fcg:F to compare");
    app.add_option("--correction", group.correction, "correction on the ring (a wrong name lists the known ones)");
    app.add_option("--hierarchy", group.hierarchy, "host: positions are hosts; flat: every rank is one");
    app.add_option("--window", group.window, "how many broadcasts may be under way, a power of two")
        ->check(CLI::Range(2, 1024));
    app.add_option("--timeout", group.timeout_s, "seconds that any one step may take")
        ->check(CLI::Range(0.001, 1e6))
        ->capture_default_str();
}

// --for, which may end it before as many are done as `count` says, or `most_by_time` where that is not given.
void add_time(CLI::App& command, double& for_s, CLI::Option* count, const char* name, std::uint64_t& number,
              std::uint64_t most_by_time) {
    command
        .add_option("--for", for_s,
                    fmt::format("measure for so long, as 15s, 500ms or 2m, then stop at all ranks alike (at most {}, "
                                "unless {} says how many)",
                                most_by_time, name))
        ->transform(CLI::AsNumberWithUnit(
            std::map<std::string, double>{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}, {"m", 60.0}, {"h", 3600.0}}))
        ->check(CLI::Range(1e-6, 1e6))
        ->type_name("TIME");
    command.callback([&for_s, count, &number, most_by_time] {
        if (for_s > 0 && count->count() == 0) number = most_by_time;
    });
}

// -n and --for.
template <class Settings>
void add_length(CLI::App& command, Settings& settings, const char* what, std::uint64_t most) {
    auto* iterations = command.add_option("-n,--iters", settings.iterations, what)
                           ->check(CLI::Range(std::uint64_t{1}, most))
                           ->capture_default_str();
    add_time(command, settings.for_s, iterations, "-n", settings.iterations, perf::kMostByTime);
}

CLI::App* add_broadcast(CLI::App& app, perf::BroadcastSettings& settings) {
    CLI::App* command = app.add_subcommand("broadcast", "broadcasts, one after the other");
    auto* size = command->add_option("-s,--size", settings.bytes, "payload in bytes, or with K, M or G: 64M")
                     ->transform(CLI::AsSizeValue(false))
                     ->capture_default_str();
    command->add_flag("-a,--all", settings.all_sizes, "all sizes: 1, 2, 4 ... 8M")->excludes(size);
    add_length(*command, settings, "broadcasts measured per size", std::uint64_t{1} << 32);
    command->add_option("-w,--warmup", settings.warmup, "broadcasts before that, per size")
        ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 32))
        ->capture_default_str();
    command->add_option("--root", settings.root, "a rank, or \"rotate\": another one each time")->capture_default_str();
    command->add_flag("--verify", settings.verify, "check every byte of every broadcast at every rank");
    command->add_flag("--view", settings.view, "receive views instead of copies");
    command->add_flag("--rewrite", settings.rewrites,
                      "the root writes its payload anew before each broadcast, so that no receiver has it in a cache");
    command->add_flag("--allocated", settings.allocated,
                      "send from memory of the library's (coppice_memory_allocate), anew for each broadcast");
    command->add_flag("--back-to-back", settings.back_to_back, "no barrier between two broadcasts; prints the rate");
    command->add_flag(
        "--staggered", settings.staggered,
        "ranks call one after the other, so that nobody waits inside the library (to count instructions)");
    command->add_flag("--count", settings.count,
                      "count per rank and broadcast what the network device was given to do (verbs)");
    command->add_option("--dead", settings.dead, "these ranks kill themselves before the run")->delimiter(',');
    command->add_option("--metric", settings.metric, "done, osu or both")
        ->check(CLI::IsMember({"done", "osu", "both"}))
        ->capture_default_str();
    command->add_option("--out_json", settings.json_file, "write all figures to this file, too");
    return command;
}

CLI::App* add_latency(CLI::App& app, const char* name, const char* what, perf::LatencySettings& settings) {
    CLI::App* command = app.add_subcommand(name, what);
    command->add_option("-s,--size", settings.bytes, "payload in bytes")
        ->check(CLI::Range(0, 8192))
        ->capture_default_str();
    add_length(*command, settings, "round trips measured", 10'000'000);
    command->add_option("-w,--warmup", settings.warmup, "round trips before that")
        ->check(CLI::Range(0, 10'000'000))
        ->capture_default_str();
    command->add_option("--transport", settings.transport, coppice::transport::registered_names())
        ->check(CLI::IsMember(transport_names()))
        ->capture_default_str();
    return command;
}

CLI::App* add_logp(CLI::App& app, perf::LogpSettings& settings) {
    CLI::App* command = app.add_subcommand("logp", "latency, overhead and gap of each level between the job's ranks");
    command->add_option("-n,--iters", settings.iterations, "messages in a row of each round, for the gap")
        ->check(CLI::Range(100, 10'000'000))
        ->capture_default_str();
    auto* rounds = command->add_option("--rounds", settings.rounds, "rounds, of which medians and spread are told")
                       ->check(CLI::Range(1, 10'000))
                       ->capture_default_str();
    add_time(*command, settings.for_s, rounds, "--rounds", settings.rounds, perf::kMostRoundsByTime);
    command->add_option("--out_json", settings.json_file,
                        "write the figures to this file, too: for coppice-sim advise");
    return command;
}

CLI::App* add_agree(CLI::App& app, perf::GroupSettings& group, perf::AgreeSettings& settings) {
    CLI::App* command = app.add_subcommand("agree", "agreements, one after the other");
    command->add_option("--tree", group.agreement_tree,
                        "along which contributions travel; not given: on one host they are published");
    command->add_option("-s,--size", settings.bytes, "the value's bytes")->capture_default_str();
    add_length(*command, settings, "agreements measured", std::uint64_t{1} << 32);
    command->add_option("-w,--warmup", settings.warmup, "agreements before that")
        ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 32))
        ->capture_default_str();
    command->add_option("--resident", settings.resident, "private memory of each rank, as 1M or 1G")
        ->transform(CLI::AsSizeValue(false));
    auto* victims = command->add_option("--victims", settings.victims,
                                        "these ranks kill themselves instead of calling the agreement of --at");
    victims->delimiter(',');
    command->add_option("--at", settings.at, "the measured agreement, from 0, that --victims do not live to see")
        ->needs(victims);
    command
        ->add_flag("--silent", settings.silent,
                   "--victims keep quiet first, until the others go on without them: for COPPICE_DETECTION_BOUND")
        ->needs(victims);
    command->add_flag("--back-to-back", settings.back_to_back, "no barrier between two agreements");
    command->add_option("--out_json", settings.json_file, "write all figures to this file, too");
    return command;
}

CLI::App* add_shrink(CLI::App& app, perf::ShrinkSettings& settings) {
    CLI::App* command = app.add_subcommand("shrink", "groups of the survivors, each made of the one before");
    add_length(*command, settings, "shrinks measured", std::uint64_t{1} << 32);
    command->add_option("-w,--warmup", settings.warmup, "shrinks before that")
        ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 32))
        ->capture_default_str();
    auto* victims = command->add_option("--victims", settings.victims,
                                        "these ranks kill themselves, and an agreement finds that out, before the "
                                        "shrink of --at");
    victims->delimiter(',');
    command->add_option("--at", settings.at, "the measured shrink, from 0, that leaves --victims out")->needs(victims);
    command->add_option("--out_json", settings.json_file, "write all figures to this file, too");
    return command;
}

CLI::App* add_views(CLI::App& app, const char* name, const char* what, perf::ViewSettings& settings) {
    CLI::App* command = app.add_subcommand(name, what);
    add_length(*command, settings, "rounds of agreement at least", std::uint64_t{1} << 32);
    return command;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Measures the operations of Coppice. Run it under coppice-run, or another launcher.", "coppice-perf");
    app.set_version_flag("--version", std::string("coppice-perf ") + coppice_version());
    app.fallthrough();
    perf::GroupSettings group;
    perf::BroadcastSettings broadcast;
    perf::AgreeSettings agree;
    perf::ShrinkSettings shrink;
    add_group_options(app, group);
    const CLI::App* broadcast_command = add_broadcast(app, broadcast);
    perf::LatencySettings put, send;
    put.one_sided = true;
    const CLI::App* put_command =
        add_latency(app, "put_lat", "a transport's writes, back and forth between two ranks", put);
    const CLI::App* send_command =
        add_latency(app, "send_lat", "a transport's sends, back and forth between two ranks", send);
    perf::LogpSettings logp;
    const CLI::App* logp_command = add_logp(app, logp);
    const CLI::App* agree_command = add_agree(app, group, agree);
    const CLI::App* shrink_command = add_shrink(app, shrink);
    perf::ViewSettings stabilize, join;
    const CLI::App* stabilize_command = add_views(
        app, "stabilize", "groups without ranks that die, and with those that come in their places", stabilize);
    const CLI::App* join_command = add_views(app, "join", "newcomers, from their call to their first agreement", join);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? perf::kExitOk : perf::kExitUsage;
    }
    if (broadcast_command->parsed()) return perf::run_broadcast(group, broadcast);
    if (put_command->parsed()) return perf::run_latency(put, group.timeout_s);
    if (send_command->parsed()) return perf::run_latency(send, group.timeout_s);
    if (logp_command->parsed()) return perf::run_logp(logp, group.timeout_s);
    if (agree_command->parsed()) return perf::run_agree(group, agree);
    if (shrink_command->parsed()) return perf::run_shrink(group, shrink);
    if (stabilize_command->parsed()) return perf::run_views(group, stabilize, "stabilize");
    if (join_command->parsed()) return perf::run_views(group, join, "join");

    if (auto failure = perf::check_settings(group)) {
        fmt::print(stderr, "coppice-perf: {}\n", failure->message);
        return failure->exit_code;
    }
    fmt::print(
        stderr,
        "coppice-perf: say what to measure: broadcast, agree, shrink, stabilize, join, logp, put_lat or send_lat (see "
        "--help)\n");
    return perf::kExitUsage;
}
