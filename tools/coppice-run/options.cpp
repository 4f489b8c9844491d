#include "options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <utility>

#include "bootstrap/launcher_protocol.hpp"

namespace coppice::run {
namespace {

constexpr std::uint64_t kLongest = 30ULL * 24 * 3600 * 1'000'000'000;
constexpr std::uint32_t kMaxHosts = 250;

constexpr const char* kDescription =
    "Starts the ranks of a parallel program on this machine, and kills or stops some of them if told to.\n"
    "\n"
    "  coppice-run -n N [options] PROGRAM [ARGS...]\n";

constexpr const char* kFooter =
    R"(Times are numbers with a unit: 500us, 300ms, 1.5s, 2m. Those of --kill and --stop count from the moment when
all ranks have found each other (their first exchange is done), or from the start when no rank has called for
an exchange within 2 s. "start+TIME" counts from the start in any case, "joined+TIME" from the first exchange
however late it is.

Exit code: 0 when every rank that was not killed on purpose exited with 0; else that of the first rank that
failed (128 + signal if a signal ended it). 2: bad options. 124: --timeout. 126, 127: PROGRAM cannot be run.

Examples:
  coppice-run -n 8 ./program --its-own options
  coppice-run -n 8 --kill 3@300ms --kill 5@400ms ./program
  coppice-run -n 4 --stop 2@1s+500ms --timeout 60 --tag-output ./program
  coppice-run -n 8 --hosts 4 ./program
)";

std::string parse_fault(const std::string& text, Fault::Kind kind, Fault& fault) {
    const char* option = kind == Fault::Kind::kill ? "--kill" : "--stop";
    const std::string form = kind == Fault::Kind::kill ? "RANK@TIME, as in --kill 3@300ms"
                                                       : "RANK@TIME or RANK@TIME+DURATION, as in --stop 3@300ms+1s";
    fault.kind = kind;
    const auto at = text.find('@');
    const char* rank_end = text.data() + (at == std::string::npos ? 0 : at);
    const auto [end, code] = std::from_chars(text.data(), rank_end, fault.rank);
    if (at == std::string::npos || code != std::errc{} || end != rank_end) {
        return fmt::format("{} {}: expected {}", option, text, form);
    }
    std::string_view when = std::string_view(text).substr(at + 1);
    if (when.starts_with("start+")) {
        fault.origin = Fault::Origin::start;
        when.remove_prefix(6);
    } else if (when.starts_with("joined+")) {
        fault.origin = Fault::Origin::joined;
        when.remove_prefix(7);
    }
    if (const auto plus = when.find('+'); plus != std::string_view::npos && kind == Fault::Kind::stop) {
        fault.duration_ns = parse_duration(when.substr(plus + 1));
        if (!fault.duration_ns)
            return fmt::format("{} {}: '{}' is no duration; expected {}", option, text, when.substr(plus + 1), form);
        when = when.substr(0, plus);
    }
    const auto time = parse_duration(when);
    if (!time) return fmt::format("{} {}: '{}' is no time; expected {}", option, text, when, form);
    fault.at_ns = *time;
    return {};
}

ParseResult bad(const std::string& reason) {
    fmt::print(stderr, "coppice-run: {}\ncoppice-run: see coppice-run --help\n", reason);
    return {std::nullopt, 2};
}

// What was not parsed as an option: PROGRAM and what follows; or an unknown option before it.
std::string take_command(std::vector<std::string> rest, std::vector<std::string>& command) {
    if (!rest.empty() && rest.front() == "--") {
        rest.erase(rest.begin());
    } else if (!rest.empty() && rest.front().size() > 1 && rest.front().front() == '-') {
        return fmt::format("unknown option '{}' (options of the program go after PROGRAM)", rest.front());
    }
    if (rest.empty() || rest.front().empty()) return "no PROGRAM given: what should be started?";
    command = std::move(rest);
    return {};
}

std::string check(const Options& options) {
    for (const Fault& fault : options.faults) {
        if (fault.rank >= options.ranks) {
            return fmt::format("{} rank {} is outside of 0…{}",
                               fault.kind == Fault::Kind::kill ? "--kill:" : "--stop:", fault.rank, options.ranks - 1);
        }
    }
    if (options.hosts > options.ranks) {
        return fmt::format("--hosts {}: there are only {} ranks to put on them", options.hosts, options.ranks);
    }
    return {};
}

}  // namespace

std::optional<std::uint64_t> parse_duration(std::string_view text) {
    double number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (code != std::errc{} || !(number >= 0)) return std::nullopt;
    const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
    constexpr std::pair<std::string_view, double> kUnits[] = {{"ns", 1},   {"us", 1e3},   {"ms", 1e6},  {"s", 1e9},
                                                              {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}};
    if (unit.empty() && number == 0) return 0;
    for (const auto& [name, factor] : kUnits) {
        if (unit != name) continue;
        const double result = number * factor;
        if (!(result <= static_cast<double>(kLongest))) return std::nullopt;
        return static_cast<std::uint64_t>(result + 0.5);
    }
    return std::nullopt;
}

std::string format_duration(std::uint64_t duration_ns) {
    const auto microseconds = static_cast<double>(duration_ns / 1000);
    if (duration_ns < 1'000'000) return fmt::format("{} us", duration_ns / 1000);
    if (duration_ns < 1'000'000'000) return fmt::format("{:.6g} ms", microseconds / 1e3);
    return fmt::format("{:.9g} s", microseconds / 1e6);
}

ParseResult parse_options(int argc, char** argv) {
    CLI::App app(kDescription, "coppice-run");
    app.footer(kFooter);
    app.prefix_command();
    app.set_version_flag("--version", "coppice-run " COPPICE_PROJECT_VERSION);
    app.get_formatter()->column_width(36);

    Options options;
    std::vector<std::string> kills;
    std::vector<std::string> stops;
    std::string timeout;
    std::string bind = "core";
    app.add_option("-n,--ranks", options.ranks, "how many ranks to start")
        ->required()
        ->check(CLI::Range(1U, bootstrap::kMaxLauncherRanks))
        ->type_name("N");
    app.add_option("--kill", kills, "SIGKILL that rank at that time (may be repeated)")
        ->allow_extra_args(false)
        ->type_name("RANK@TIME");
    app.add_option("--stop", stops,
                   "SIGSTOP that rank, and continue it after the duration, or when all others have ended")
        ->allow_extra_args(false)
        ->type_name("RANK@TIME[+DURATION]");
    app.add_option("--hosts", options.hosts, "spread the ranks, in blocks, over H simulated hosts (network namespaces)")
        ->check(CLI::Range(1U, kMaxHosts))
        ->type_name("H");
    app.add_option("--timeout", timeout, "end everything after S seconds (or a time with a unit) and exit with 124")
        ->type_name("S");
    app.add_flag("--tag-output", options.tag_output, "begin every line that rank R prints with [R]");
    app.add_option("--bind", bind, "core (default): pin rank R to core R mod cores; none: do not")
        ->check(CLI::IsMember({"core", "none"}))
        ->type_name("core|none");

    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& wish) {
        app.exit(wish, std::cout, std::cerr);
        return {std::nullopt, 0};
    } catch (const CLI::ParseError& error) {
        // An unknown option is the likelier mistake than the missing one that it hides.
        const auto rest = app.remaining();
        std::vector<std::string> command;
        const std::string unknown = rest.empty() ? std::string() : take_command(rest, command);
        return bad(unknown.empty() ? std::string(error.what()) : unknown);
    }
    if (const auto reason = take_command(app.remaining(), options.command); !reason.empty()) return bad(reason);
    options.bind_to_cores = bind == "core";
    for (const auto& [texts, kind] : {std::pair{&kills, Fault::Kind::kill}, std::pair{&stops, Fault::Kind::stop}}) {
        for (const auto& text : *texts) {
            Fault fault;
            if (const auto reason = parse_fault(text, kind, fault); !reason.empty()) return bad(reason);
            options.faults.push_back(fault);
        }
    }
    if (!timeout.empty()) {
        options.timeout_ns = parse_duration(timeout);
        if (!options.timeout_ns) options.timeout_ns = parse_duration(timeout + "s");
        if (!options.timeout_ns || *options.timeout_ns == 0) {
            return bad(fmt::format("--timeout {}: expected seconds, or a time with a unit as in 90s or 2m", timeout));
        }
    }
    if (const auto reason = check(options); !reason.empty()) return bad(reason);
    return {std::move(options), 0};
}

}  // namespace coppice::run
