#include "options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <utility>

#include "base/duration.hpp"
#include "bootstrap/launcher_protocol.hpp"
#include "hosts.hpp"

namespace coppice::run {
namespace {

constexpr std::uint64_t kLongest = 30ULL * 24 * 3600 * 1'000'000'000;

constexpr const char* kDescription =
    "Starts the ranks of a parallel program on this machine, and kills or stops some of them if told to.\n"
    "\n"
    "  coppice-run -n N [options] PROGRAM [ARGS...]\n";

constexpr const char* kFooter =
    R"(Times are numbers with a unit: 500us, 300ms, 1.5s, 2m. Those of --kill, --kill-host, --kill-leaf, --stop, --cut and --join count from the moment
when all ranks have found each other (their first exchange is done), or from the start when no rank has called for
an exchange within 2 s. "start+TIME" counts from the start in any case, "joined+TIME" from the first exchange
however late it is.

Exit code: 0 when every rank that was not killed on purpose exited with 0; else that of the first rank that
failed (128 + signal if a signal ended it). What a rank exits with while its host is cut off does not count, nor on the side
with fewer ranks (of two equal ones, on that without the lowest) while hosts are cut in two sides. Once that has lasted for more
than 2 s it never counts: the others may have gone on without this rank, and it may hear so when the cut is mended. But some process has to end with 0 then.
With --respawn, --spares or --join a process that no group has taken in does not count either, but some process has to end with 0.
2: bad options. 124: --timeout. 126, 127: PROGRAM cannot be run.

Examples:
  coppice-run -n 8 ./program --its-own options
  coppice-run -n 8 --kill 3@300ms --kill 5@400ms ./program
  coppice-run -n 4 --stop 2@1s+500ms --timeout 60 --tag-output ./program
  coppice-run -n 8 --respawn --kill 3@500ms ./program
  coppice-run -n 6 --spares 2 --kill 2@2s ./program
  coppice-run -n 4 --join 4@500ms ./program
  coppice-run -n 8 --hosts 4 ./program
  coppice-run -n 8 --hosts 4 --kill-host 2@500ms ./program
  coppice-run -n 16 --hosts 8 --leaves 4 --kill-leaf 2@500ms ./program
  coppice-run -n 16 --hosts 8 --leaves 4 --count-links ./program
  coppice-run -n 8 --hosts 4 --cut 2@1s --cut 3@2s+500ms ./program
  coppice-run -n 5 --hosts 5 --cut 0,1/2,3,4@1s+500ms ./program
  coppice-run -n 8 --devices mlx5_0,mlx5_1 ./program
)";

// Numbers without a unit are in `bare`, if they may have none. Longer than kLongest is no time.
std::optional<std::uint64_t> parse_duration(std::string_view text, std::string_view bare = {}) {
    const auto duration_ns = parse_duration_ns(text, bare);
    return duration_ns && *duration_ns <= kLongest ? duration_ns : std::nullopt;
}

template <class Number>
bool parse_number(std::string_view text, Number& number) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    return code == std::errc{} && end == text.data() + text.size();
}

// "0,1". Returns what is wrong with it.
std::string parse_side(std::string_view text, HostSet& side, const HostSet& other_side) {
    for (std::size_t start = 0; start <= text.size();) {
        const std::string_view digits = text.substr(start, text.find(',', start) - start);
        std::uint32_t host = 0;
        if (!parse_number(digits, host)) return fmt::format("'{}' is no host", digits);
        if (host >= kMaxHosts) return fmt::format("host {} is outside of 0…{}", host, kMaxHosts - 1);
        if (side[host] || other_side[host]) return fmt::format("host {} is named twice", host);
        side.set(host);
        start += digits.size() + 1;
    }
    return {};
}

// What stands before the '@' of an option. Returns what is wrong with it, if that can be said.
std::optional<std::string> parse_target(std::string_view text, Fault& fault) {
    const auto slash = text.find('/');
    if (fault.kind != Fault::Kind::cut || slash == std::string_view::npos)
        return parse_number(text, fault.rank) ? std::nullopt : std::optional<std::string>("");
    fault.kind = Fault::Kind::part;
    std::string reason = parse_side(text.substr(0, slash), fault.side, fault.other_side);
    if (reason.empty()) reason = parse_side(text.substr(slash + 1), fault.other_side, fault.side);
    return reason.empty() ? std::nullopt : std::optional(reason);
}

std::string parse_fault(const std::string& text, Fault::Kind kind, Fault& fault) {
    const bool kill = kind == Fault::Kind::kill;
    const char* option = kill ? "--kill" : kind == Fault::Kind::stop ? "--stop" : "--cut";
    const char* form = kill                        ? "RANK@TIME, as in --kill 3@300ms"
                       : kind == Fault::Kind::stop ? "RANK@TIME or RANK@TIME+DURATION, as in --stop 3@300ms+1s"
                                                   : "HOST@TIME or HOSTS/HOSTS@TIME, perhaps with +DURATION, as in "
                                                     "--cut 2@1s+500ms or --cut 0,1/2,3,4@1s";
    fault.kind = kind;
    const auto at = text.find('@');
    const auto wrong = at == std::string::npos ? std::optional<std::string>("")
                                               : parse_target(std::string_view(text).substr(0, at), fault);
    if (wrong) {
        return fmt::format("{} {}: {}{}expected {}", option, text, *wrong, wrong->empty() ? "" : "; ", form);
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

// "4@500ms", of --join.
std::string parse_join(const std::string& text, LateStart& join) {
    Fault fault;
    if (!parse_fault(text, Fault::Kind::kill, fault).empty() || fault.rank == 0)
        return fmt::format("--join {}: expected K@TIME, as in --join 4@500ms", text);
    if (fault.rank > bootstrap::kMaxLauncherRanks)
        return fmt::format("--join {}: more than the {} processes that are possible", text,
                           bootstrap::kMaxLauncherRanks);
    join = {.count = fault.rank, .at_ns = fault.at_ns, .origin = fault.origin};
    return {};
}

// What came of --respawn, --spares and --join.
std::string check_late(const Options& options) {
    if (!options.admits()) return {};
    const char* const option = options.respawns ? "--respawn" : options.spares > 0 ? "--spares" : "--join";
    if (!options.devices.empty())
        return fmt::format("{}: processes are started late on this host or on simulated ones, not with --devices",
                           option);
    if (std::uint64_t{options.ranks} + options.late_numbers() > bootstrap::kMaxLauncherRanks)
        return fmt::format("{}: {} processes are more than the {} that are possible", option,
                           std::uint64_t{options.ranks} + options.late_numbers(), bootstrap::kMaxLauncherRanks);
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

// The death of a host, or of a leaf, is that of all its ranks, one right after the other. `what` is "host" or "leaf".
std::string add_kills(std::string_view what, const std::vector<std::string>& texts, Options& options) {
    const bool is_leaf = what == "leaf";
    const std::uint32_t hosts = std::max(options.hosts, 1U);
    const std::uint32_t count = is_leaf ? options.leaves : hosts;
    for (const std::string& text : texts) {
        Fault fault;
        if (const auto reason = parse_fault(text, Fault::Kind::kill, fault); !reason.empty()) {
            return fmt::format("--kill-{} {}: expected {}@TIME, as in --kill-{} 2@500ms", what, text,
                               is_leaf ? "LEAF" : "HOST", what);
        }
        const std::uint32_t dead = std::exchange(fault.rank, 0);
        if (count == 0) return fmt::format("--kill-leaf {}: there are no leaves without --leaves", text);
        if (dead >= count) return fmt::format("--kill-{}: {} {} is outside of 0…{}", what, what, dead, count - 1);
        for (; fault.rank < options.ranks; ++fault.rank) {
            const std::uint32_t host = place_in_blocks(fault.rank, options.ranks, hosts).host;
            if ((is_leaf ? leaf_of(host, hosts, count) : host) == dead) options.faults.push_back(fault);
        }
    }
    return {};
}

std::string check_leaves(const Options& options) {
    if (options.leaves == 0) return options.count_links ? "--count-links: there are no links without --leaves" : "";
    if (options.hosts == 0)
        return fmt::format("--leaves {}: there are no hosts to put on them without --hosts", options.leaves);
    if (!options.devices.empty()) return "--leaves: hosts that are RDMA devices have no bridges of the launcher's";
    if (options.hosts % options.leaves != 0)
        return fmt::format("--leaves {}: {} hosts do not divide into {} leaves", options.leaves, options.hosts,
                           options.leaves);
    return {};
}

std::string check_cut(const Fault& fault, const Options& options) {
    if (options.hosts == 0) return "--cut: there are no cables without simulated hosts (--hosts)";
    if (!options.devices.empty()) return "--cut: hosts that are RDMA devices have no cables of the launcher's";
    if (fault.kind == Fault::Kind::cut) {
        if (fault.rank < options.hosts) return {};
        return fmt::format("--cut: host {} is outside of 0…{}", fault.rank, options.hosts - 1);
    }
    if (options.leaves > 0) return "--cut: hosts on several leaves (--leaves) can't be cut in two sides";
    const HostSet named = fault.side | fault.other_side;
    for (std::uint32_t host = 0; host < kMaxHosts; ++host) {
        if (named[host] == (host < options.hosts)) continue;
        if (named[host]) return fmt::format("--cut: host {} is outside of 0…{}", host, options.hosts - 1);
        return fmt::format("--cut: host {} is on neither side of {}/{}", host, list_hosts(fault.side),
                           list_hosts(fault.other_side));
    }
    return {};
}

std::string check(const Options& options) {
    if (auto reason = check_leaves(options); !reason.empty()) return reason;
    if (auto reason = check_late(options); !reason.empty()) return reason;
    const std::uint32_t numbers = options.ranks + options.late_numbers();
    for (const Fault& fault : options.faults) {
        if (fault.kind == Fault::Kind::cut || fault.kind == Fault::Kind::part) {
            if (auto reason = check_cut(fault, options); !reason.empty()) return reason;
        } else if (fault.rank >= numbers) {
            return fmt::format("{} rank {} is outside of 0…{}",
                               fault.kind == Fault::Kind::kill ? "--kill:" : "--stop:", fault.rank, numbers - 1);
        }
    }
    if (options.hosts > options.ranks) {
        return fmt::format("--hosts {}: there are only {} ranks to put on them", options.hosts, options.ranks);
    }
    return {};
}

}  // namespace

std::uint32_t Options::members_at_the_end() const {
    const auto may_cost_places = [](const Fault& fault) {
        const bool is_cut = fault.kind == Fault::Kind::cut || fault.kind == Fault::Kind::part;
        return is_cut && fault.duration_ns.value_or(UINT64_MAX) > kHarmlessCutNs;
    };
    if (std::ranges::any_of(faults, may_cost_places)) return 0;
    const std::uint32_t members = ranks + late_numbers() - spares;
    std::map<std::uint32_t, std::uint32_t> kills;
    for (const Fault& fault : faults)
        if (fault.kind == Fault::Kind::kill) ++kills[fault.rank];
    const auto dead = static_cast<std::uint32_t>(
        std::ranges::count_if(kills, [this](const auto& rank) { return rank.second > respawns.value_or(0); }));
    return members - std::min(members, dead) + std::min(dead, spares);
}

HostSet Options::far_side() const {
    HostSet far;
    for (const Fault& fault : faults) {
        if (fault.kind != Fault::Kind::part) continue;
        const HostSet side = fault.side[0] ? fault.other_side : fault.side;
        if (far.any() && side != far) return {};
        far = side;
    }
    return far;
}

std::string describe_too_late(const Fault& fault) {
    const std::string when = format_duration(fault.at_ns);
    if (fault.kind == Fault::Kind::part) {
        return fmt::format("all ranks had ended before hosts {} could be cut off from {} at {}", list_hosts(fault.side),
                           list_hosts(fault.other_side), when);
    }
    if (fault.kind == Fault::Kind::cut) {
        return fmt::format("all ranks had ended before host {} could be cut off at {}", fault.rank, when);
    }
    return fmt::format("rank {} had ended before it could be {} at {}", fault.rank,
                       fault.kind == Fault::Kind::kill ? "killed" : "stopped", when);
}

std::string list_hosts(const HostSet& hosts) {
    std::string list;
    for (std::uint32_t host = 0; host < kMaxHosts; ++host) {
        if (hosts[host]) list += fmt::format("{}{}", list.empty() ? "" : ",", host);
    }
    return list;
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
    std::vector<std::string> leaf_kills;
    std::string operations;
    std::vector<std::string> stops;
    std::vector<std::string> cuts;
    std::string respawns;
    std::vector<std::string> joins;
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
    app.add_option("--kill-leaf", leaf_kills, "SIGKILL all ranks below that leaf bridge at that time (may be repeated)")
        ->allow_extra_args(false)
        ->type_name("LEAF@TIME");
    app.add_option("--stop", stops,
                   "SIGSTOP that rank, and continue it after the duration, or when all others have ended")
        ->allow_extra_args(false)
        ->type_name("RANK@TIME[+DURATION]");
    app.add_option(
           "--cut", cuts,
           "cut that simulated host off the network, or the hosts before the slash (0,1/2,3) off those behind it, "
           "and repair that after the duration, or never (may be repeated)")
        ->allow_extra_args(false)
        ->type_name("HOST[S/HOSTS]@TIME[+DURATION]");
    auto* const respawn =
        app.add_flag("--respawn", respawns,
                     "start ranks that were killed again, as they were, to join the group that they were in; =TIMES: "
                     "each so often at most")
            ->type_name("[=TIMES]");
    app.add_option("--spares", options.spares, "start K processes more, which wait until the group takes them in")
        ->check(CLI::Range(1U, bootstrap::kMaxLauncherRanks))
        ->type_name("K");
    app.add_option("--join", joins, "start K processes more at that time, which join the group (may be repeated)")
        ->allow_extra_args(false)
        ->type_name("K@TIME");
    app.add_option("--hosts", options.hosts, "spread the ranks, in blocks, over H simulated hosts (network namespaces)")
        ->check(CLI::Range(1U, kMaxHosts))
        ->type_name("H");
    app.add_option("--leaves", options.leaves,
                   "join the simulated hosts, in blocks, by L bridges, and these by one above; L divides H")
        ->check(CLI::Range(1U, kMaxHosts))
        ->type_name("L");
    auto* const count_links =
        app.add_flag(
               "--count-links", operations,
               "tell at the end how many packets went over each leaf's up-link; =N: and how many that is for each "
               "of N operations")
            ->type_name("[=N]");
    app.add_option("--devices", devices,
                   "tell hosts apart by RDMA device instead: ranks of host k use the k-th of these (default with "
                   "--hosts: COPPICE_RUN_DEVICES)")
        ->type_name("D,D...");
    app.add_option("--timeout", timeout, "end everything after S seconds (or a time with a unit) and exit with 124")
        ->type_name("S");
    app.add_flag("--tag-output", options.tag_output, "begin every line that rank R prints with [R]");
    app.add_option("--bind", bind,
                   "core (default): pin rank R to core R mod cores, a process that is started late where the fewest "
                   "are; none: do not")
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
    if (respawn->count() > 0) {
        std::uint32_t times = UINT32_MAX;
        if (respawns != "true" && (!parse_number(respawns, times) || times == 0))
            return bad(fmt::format("--respawn={}: expected how often at most, as in --respawn=3", respawns));
        options.respawns = times;
    }
    for (const std::string& text : joins) {
        if (const auto reason = parse_join(text, options.joins.emplace_back()); !reason.empty()) return bad(reason);
    }
    if (const auto reason = choose_devices(devices, options); !reason.empty()) return bad(reason);
    for (const auto& [texts, kind] : {std::pair{&kills, Fault::Kind::kill}, std::pair{&stops, Fault::Kind::stop},
                                      std::pair{&cuts, Fault::Kind::cut}}) {
        for (const auto& text : *texts) {
            Fault fault;
            if (const auto reason = parse_fault(text, kind, fault); !reason.empty()) return bad(reason);
            options.faults.push_back(fault);
        }
    }
    options.count_links = count_links->count() > 0;
    const bool are_given = options.count_links && operations != "true";  // as CLI11 has it
    if (are_given && (!parse_number(operations, options.operations) || options.operations == 0))
        return bad(
            fmt::format("--count-links={}: expected a number of operations, as in --count-links=5000", operations));
    if (const auto reason = add_kills("host", host_kills, options); !reason.empty()) return bad(reason);
    if (const auto reason = add_kills("leaf", leaf_kills, options); !reason.empty()) return bad(reason);
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
