#include "options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "base/duration.hpp"
#include "bootstrap/launcher_protocol.hpp"
#include "hosts.hpp"

namespace coppice::run {
namespace {

constexpr std::uint64_t kLongest = 30ULL * 24 * 3600 * 1'000'000'000;
constexpr std::uint32_t kMaxHosts = 250;

constexpr const char* kDescription =
    "Starts the ranks of a parallel program on this machine, and kills or stops some of them if told to.\n"
    "\n"
    "  coppice-run -n N [options] PROGRAM [ARGS...]\n";

constexpr const char* kFooter =
    R"(Times are numbers with a unit: 500us, 300ms, 1.5s, 2m. Those of --kill, --kill-host, --stop and --cut count from the moment when
all ranks have found each other (their first exchange is done), or from the start when no rank has called for
an exchange within 2 s. "start+TIME" counts from the start in any case, "joined+TIME" from the first exchange
however late it is.

Exit code: 0 when every rank that was not killed on purpose exited with 0; else that of the first rank that
failed (128 + signal if a signal ended it). What a rank exits with while its host is cut off does not count.
2: bad options. 124: --timeout. 126, 127: PROGRAM cannot be run.

Examples:
  coppice-run -n 8 ./program --its-own options
  coppice-run -n 8 --kill 3@300ms --kill 5@400ms ./program
  coppice-run -n 4 --stop 2@1s+500ms --timeout 60 --tag-output ./program
  coppice-run -n 8 --hosts 4 ./program
  coppice-run -n 8 --hosts 4 --kill-host 2@500ms ./program
  coppice-run -n 8 --hosts 4 --cut 2@1s --cut 3@2s+500ms ./program
  coppice-run -n 8 --devices mlx5_0,mlx5_1 ./program
)";

// Numbers without a unit are in `bare`, if they may have none. Longer than kLongest is no time.
std::optional<std::uint64_t> parse_duration(std::string_view text, std::string_view bare = {}) {
    const auto duration_ns = parse_duration_ns(text, bare);
    return duration_ns && *duration_ns <= kLongest ? duration_ns : std::nullopt;
}

std::string parse_fault(const std::string& text, Fault::Kind kind, Fault& fault) {
    const bool kill = kind == Fault::Kind::kill;
    const char* option = kill ? "--kill" : kind == Fault::Kind::stop ? "--stop" : "--cut";
    const char* form = kill                        ? "RANK@TIME, as in --kill 3@300ms"
                       : kind == Fault::Kind::stop ? "RANK@TIME or RANK@TIME+DURATION, as in --stop 3@300ms+1s"
                                                   : "HOST@TIME or HOST@TIME+DURATION, as in --cut 2@1s+500ms";
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
    if (const auto plus = when.find('+'); plus != std::string_view::npos && !kill) {
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

// Which RDMA device stands for which host. `text` is the option's; without it the environment's counts, with --hosts.
std::string choose_devices(std::string text, Options& options) {
    const char* preset = std::getenv("COPPICE_RUN_DEVICES");
    const bool asked = !text.empty();
    if (!asked && options.hosts > 0 && preset != nullptr) text = preset;
    while (!text.empty()) {
        const auto comma = std::min(text.find(','), text.size());
        if (comma == 0) return fmt::format("--devices: an empty name before '{}'", text);
        options.devices.push_back(text.substr(0, comma));
        text.erase(0, comma + 1);
    }
    const auto count = static_cast<std::uint32_t>(options.devices.size());
    if (asked && options.hosts == 0) options.hosts = std::min(count, options.ranks);
    if (count > 0 && options.hosts > count) {
        return fmt::format("--hosts {}: there are only {} RDMA devices to tell them apart by ({})", options.hosts,
                           count,
                           asked ? "--devices" : "COPPICE_RUN_DEVICES; empty it to have network namespaces instead");
    }
    return {};
}

// A host's death is that of all its ranks, one right after the other.
std::string add_host_kills(const std::vector<std::string>& texts, Options& options) {
    for (const std::string& text : texts) {
        Fault fault;
        if (const auto reason = parse_fault(text, Fault::Kind::kill, fault); !reason.empty()) {
            return fmt::format("--kill-host {}: expected HOST@TIME, as in --kill-host 2@500ms", text);
        }
        const std::uint32_t hosts = std::max(options.hosts, 1U);
        const std::uint32_t host = std::exchange(fault.rank, 0);
        if (host >= hosts) return fmt::format("--kill-host: host {} is outside of 0…{}", host, hosts - 1);
        for (; fault.rank < options.ranks; ++fault.rank) {
            if (place_in_blocks(fault.rank, options.ranks, hosts).host == host) options.faults.push_back(fault);
        }
    }
    return {};
}

std::string check_cut(const Fault& fault, const Options& options) {
    if (options.hosts == 0) return "--cut: there are no cables without simulated hosts (--hosts)";
    if (!options.devices.empty()) return "--cut: hosts that are RDMA devices have no cables of the launcher's";
    if (fault.rank < options.hosts) return {};
    return fmt::format("--cut: host {} is outside of 0…{}", fault.rank, options.hosts - 1);
}

std::string check(const Options& options) {
    for (const Fault& fault : options.faults) {
        if (fault.kind == Fault::Kind::cut) {
            if (auto reason = check_cut(fault, options); !reason.empty()) return reason;
        } else if (fault.rank >= options.ranks) {
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

std::string describe_too_late(const Fault& fault) {
    const std::string when = format_duration(fault.at_ns);
    if (fault.kind == Fault::Kind::cut) {
        return fmt::format("all ranks had ended before host {} could be cut off at {}", fault.rank, when);
    }
    return fmt::format("rank {} had ended before it could be {} at {}", fault.rank,
                       fault.kind == Fault::Kind::kill ? "killed" : "stopped", when);
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
    std::vector<std::string> host_kills;
    std::vector<std::string> stops;
    std::vector<std::string> cuts;
    std::string devices;
    std::string timeout;
    std::string bind = "core";
    app.add_option("-n,--ranks", options.ranks, "how many ranks to start")
        ->required()
        ->check(CLI::Range(1U, bootstrap::kMaxLauncherRanks))
        ->type_name("N");
    app.add_option("--kill", kills, "SIGKILL that rank at that time (may be repeated)")
        ->allow_extra_args(false)
        ->type_name("RANK@TIME");
    app.add_option("--kill-host", host_kills, "SIGKILL all ranks of that simulated host at that time (may be repeated)")
        ->allow_extra_args(false)
        ->type_name("HOST@TIME");
    app.add_option("--stop", stops,
                   "SIGSTOP that rank, and continue it after the duration, or when all others have ended")
        ->allow_extra_args(false)
        ->type_name("RANK@TIME[+DURATION]");
    app.add_option("--cut", cuts,
                   "cut that simulated host off the network, and repair its cable after the duration, or never (may be "
                   "repeated)")
        ->allow_extra_args(false)
        ->type_name("HOST@TIME[+DURATION]");
    app.add_option("--hosts", options.hosts, "spread the ranks, in blocks, over H simulated hosts (network namespaces)")
        ->check(CLI::Range(1U, kMaxHosts))
        ->type_name("H");
    app.add_option("--devices", devices,
                   "tell hosts apart by RDMA device instead: ranks of host k use the k-th of these (default with "
                   "--hosts: COPPICE_RUN_DEVICES)")
        ->type_name("D,D...");
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
    if (const auto reason = choose_devices(devices, options); !reason.empty()) return bad(reason);
    for (const auto& [texts, kind] : {std::pair{&kills, Fault::Kind::kill}, std::pair{&stops, Fault::Kind::stop},
                                      std::pair{&cuts, Fault::Kind::cut}}) {
        for (const auto& text : *texts) {
            Fault fault;
            if (const auto reason = parse_fault(text, kind, fault); !reason.empty()) return bad(reason);
            options.faults.push_back(fault);
        }
    }
    if (const auto reason = add_host_kills(host_kills, options); !reason.empty()) return bad(reason);
    if (!timeout.empty()) {
        options.timeout_ns = parse_duration(timeout, "s");
        if (!options.timeout_ns || *options.timeout_ns == 0) {
            return bad(fmt::format("--timeout {}: expected seconds, or a time with a unit as in 90s or 2m", timeout));
        }
    }
    if (const auto reason = check(options); !reason.empty()) return bad(reason);
    return {std::move(options), 0};
}

}  // namespace coppice::run
