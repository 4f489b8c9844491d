// coppice-status: what the processes of a job do and wait for, seen from another terminal. It reads pages that they show
// (src/status/), so it stops nobody, and works as well when they hang or are stopped.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "base/host.hpp"
#include "dump.hpp"
#include "elsewhere.hpp"
#include "report.hpp"

namespace {

using coppice::show::Everything;
using coppice::show::Problem;
using coppice::show::Seen;

// Exit codes, as in coppice-status(1).
constexpr int kShown = 0, kNothing = 1, kUsage = 2, kUnreadable = 3;

struct Options {
    std::string target;
    bool all = false;
    bool json = false;
    bool metrics = false;
    bool dump = false;
    bool everywhere = false;
    coppice::show::Elsewhere elsewhere{.reach = "ssh -o BatchMode=yes -o ConnectTimeout=5"};
    double patience = 10;
    double watch = 0;
};

std::optional<pid_t> pid_of(const std::string& target) {
    pid_t pid = 0;
    const char* const end = target.data() + target.size();
    const auto [at, error] = std::from_chars(target.data(), end, pid);
    return error == std::errc() && at == end && pid > 0 ? std::optional(pid) : std::nullopt;
}

// A process, the jobs of those that it has started (a launcher's ranks, also those that have ended), or a job by its name.
std::set<std::string> select(Everything& all, const std::string& target) {
    const auto pid = pid_of(target);
    std::set<std::string> jobs{target};
    if (pid) jobs.insert(fmt::format("coppice-run-{}", *pid));
    for (const Seen& seen : all.pages)
        if (pid && std::ranges::find(seen.ancestors, *pid) != seen.ancestors.end()) jobs.insert(seen.page.job);
    const auto is_meant = [&](const Seen& seen) {
        return jobs.contains(seen.page.job) || (!seen.ended && pid == seen.pid);
    };
    std::erase_if(all.pages, [&](const Seen& seen) { return !is_meant(seen); });
    std::erase_if(all.problems, [&](const Problem& problem) { return pid != problem.pid; });
    for (const Seen& seen : all.pages)
        jobs.insert(seen.page.job);
    return jobs;
}

// What this host shows, and, if that was asked for, the others that its pages name.
Everything look(const Options& options) {
    Everything all = coppice::show::gather();
    std::set<std::string> jobs;
    if (!options.target.empty()) jobs = select(all, options.target);
    if (!options.everywhere) return all;
    coppice::show::add_others(options.elsewhere, all);
    if (!options.target.empty())
        std::erase_if(all.pages, [&](const Seen& seen) { return !jobs.contains(seen.page.job); });
    return all;
}

// Why there is nothing to show, in words.
int say_nothing(const Everything& all, const std::string& target) {
    const auto pid = target.empty() ? std::nullopt : pid_of(target);
    const auto say = [](const std::string& text, int code) {
        std::cerr << "coppice-status: " << text << '\n';
        return code;
    };
    if (pid) {
        const auto process = coppice::status::look_at(*pid);
        if (!process) return say(fmt::format("there is no process {} here", *pid), kNothing);
        const auto pages = coppice::status::pages_of(*pid);
        if (!pages && pages.error().trouble == coppice::status::Trouble::forbidden) {
            return say(fmt::format("process {} can't be looked into: it is user {}'s, and this is user {} ({})", *pid,
                                   process->user, geteuid(), pages.error().message),
                       kUnreadable);
        }
        return say(fmt::format("process {} shows no page: it has no Coppice context, or COPPICE_STATUS=0", *pid),
                   kNothing);
    }
    const std::string hidden =
        all.hidden == 0 ? "" : fmt::format("; {} processes of other users can't be looked into", all.hidden);
    const std::string which = target.empty() ? "no process here" : fmt::format("no process here of job {}", target);
    return say(fmt::format("{} uses Coppice{}", which, hidden), kNothing);
}

int show_once(const Options& options, std::string& text) {
    const Everything all = look(options);
    if (options.json) {
        text = coppice::show::as_json(all).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
    } else {
        text = options.metrics ? coppice::show::as_metrics(all) : coppice::show::as_text(all);
    }
    if (all.pages.empty() && all.problems.empty()) return say_nothing(all, options.target);
    return all.problems.empty() ? kShown : kUnreadable;
}

// False: nobody reads it any more.
bool print(const std::string& text) {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

int run(const Options& options) {
    if (options.dump)
        return print(coppice::show::dump(coppice::show::gather(coppice::show::Bytes::kept))) ? kShown : kUnreadable;
    const bool redraws = options.watch > 0 && !options.json && !options.metrics && isatty(STDOUT_FILENO) != 0;
    for (;;) {
        std::string text;
        const int code = show_once(options, text);
        if (redraws) text.insert(0, "\x1b[H\x1b[2J");
        if (!print(text)) return kUnreadable;
        if (options.watch <= 0) return code;
        std::this_thread::sleep_for(std::chrono::duration<double>(options.watch));
    }
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{
        "Shows what the processes of a job that use Coppice do and wait for, and why: their groups, which ranks have "
        "failed, operations under way and the ranks that hold them up. It stops nobody, and works when they hang."};
    Options options;
    app.add_option("target", options.target,
                   "a process (its pid), a launcher (the pid of coppice-run, mpirun …) or the name of a job; without "
                   "it, every process of this user on this host")
        ->option_text("[PID|JOB]");
    app.add_flag("--all", options.all, "every process of this user on this host (the default)");
    app.add_flag("--json", options.json, "print JSON");
    app.add_flag("--prometheus", options.metrics, "print metrics in the text format of Prometheus")->excludes("--json");
    app.add_option("--watch", options.watch, "again every so many seconds (2), until it is ended")
        ->expected(0, 1)
        ->default_str("2")
        ->check(CLI::Range(0.05, 86400.0));
    app.add_flag("--everywhere", options.everywhere,
                 "also the other hosts of the jobs that are found, by what their ranks know");
    app.add_option("--on", options.elsewhere.hosts, "also these hosts, and those that their ranks know")
        ->delimiter(',')
        ->option_text("HOST,HOST...");
    app.add_option("--reach", options.elsewhere.reach,
                   "how to run a command on another host: its name and the command are put behind this")
        ->envname("COPPICE_STATUS_REACH")
        ->option_text("COMMAND");
    app.add_option("--patience", options.patience, "how many seconds a host has to answer (10)")
        ->option_text("SECONDS")
        ->check(CLI::Range(0.1, 3600.0));
    app.add_flag("--dump", options.dump, "print pages as bytes, for this tool on another host")
        ->excludes("--json", "--prometheus", "--watch", "--everywhere", "--on");
    app.set_version_flag("--version", std::string(COPPICE_VERSION));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kUsage;
    }
    if (options.all && !options.target.empty()) {
        std::cerr << "coppice-status: --all and " << options.target << " exclude each other\n";
        return kUsage;
    }
    for (const std::string& host : options.elsewhere.hosts) {
        if (coppice::is_host_name(host)) continue;
        std::cerr << "coppice-status: --on: '" << host << "' is no name of a host\n";
        return kUsage;
    }
    options.everywhere = options.everywhere || !options.elsewhere.hosts.empty();
    options.elsewhere.patience = std::chrono::milliseconds(static_cast<std::int64_t>(options.patience * 1000));
    if (app.count("--watch") > 0 && options.watch <= 0) options.watch = 2;
    try {
        return run(options);
    } catch (const std::exception& error) {
        std::cerr << "coppice-status: " << error.what() << '\n';
        return kUnreadable;
    }
}
