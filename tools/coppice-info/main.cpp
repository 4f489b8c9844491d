// coppice-info: what is here, what was chosen, and why.
//
// Alone it tells of this machine. Under a launcher it forms the group that a program would form, and the lowest live
// rank tells which transport each peer would be reached by.
#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/host.hpp"
#include "bootstrap/choose.hpp"
#include "engine/addresses/copying.hpp"
#include "engine/context.hpp"
#include "engine/formation/formation.hpp"
#include "engine/read_network.hpp"
#include "engine/whereabouts.hpp"
#include "inside.hpp"
#include "topology.hpp"
#include "transport/crc32c.hpp"
#include "transport/registry.hpp"

extern char** environ;

namespace {

using coppice::Rank;
using nlohmann::ordered_json;
namespace engine = coppice::engine;
namespace transport = coppice::transport;

ordered_json describe_build() {
    return {{"version", COPPICE_VERSION},
            {"compiler", fmt::format("{} {}", COPPICE_COMPILER, __VERSION__)},
            {"optimized", COPPICE_OPTIMIZED},
            {"max_payload_bytes", engine::kMaxBroadcast},
            {"payload_bytes_in_one_message", transport::kMaxPayload}};
}

// The threads, cores, caches and NUMA nodes that hwloc sees, and how many of them this process may use; `within`: how they lie.
ordered_json describe_machine(ordered_json& within) {
    ordered_json machine;
    hwloc_topology_t topology = nullptr;
    if (hwloc_topology_init(&topology) != 0) return {{"error", "hwloc_topology_init failed"}};
    if (hwloc_topology_load(topology) == 0) {
        const auto count = [&](hwloc_obj_type_t type) { return hwloc_get_nbobjs_by_type(topology, type); };
        machine = {{"packages", count(HWLOC_OBJ_PACKAGE)},
                   {"numa_nodes", count(HWLOC_OBJ_NUMANODE)},
                   {"l3_caches", count(HWLOC_OBJ_L3CACHE)},
                   {"cores", count(HWLOC_OBJ_CORE)},
                   {"threads", count(HWLOC_OBJ_PU)}};
        within = coppice::info::describe_inside(topology, true);
    } else {
        machine = {{"error", "hwloc could not read this machine's topology"}};
    }
    hwloc_topology_destroy(topology);
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) machine["threads_allowed"] = CPU_COUNT(&allowed);
    return machine;
}

std::string text_of(const ordered_json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
}

// Each is made as for a group of two ranks, and says what it found.
ordered_json describe_transport(const engine::Settings& settings, const engine::TransportChoice& choice) {
    ordered_json line{{"name", choice.transport->name}, {"allowed", choice.allowed}};
    const auto made = choice.maker->make({.window = settings.window,
                                          .host = settings.host,
                                          .admitted = transport::Admission::of(choice.maker->addresses(), {})});
    line["usable"] = made.has_value();
    line["publishes"] = choice.transport->within_host && settings.hierarchy == engine::Hierarchy::host;
    if (!made) {
        line["why"] = made.error().message;
        return line;
    }
    const transport::Capabilities& can = made->transport->capabilities();
    line["why"] = choice.allowed ? "" : "COPPICE_TRANSPORT leaves it out";
    line["one_sided_writes"] = can.native_write;
    line["inline_bytes"] = can.inline_size;
    line["eager_bytes"] = can.eager_size;
    for (const transport::Fact& fact : made->transport->facts())
        std::visit([&](const auto& value) { line[std::string(fact.name)] = value; }, fact.value);
    return line;
}

// What only some transports tell, as text: "device: rxe0:1, gid index: 1".
std::string facts_of(const ordered_json& wire) {
    static const std::vector<std::string> kCommon{"name", "allowed",          "usable",       "publishes",
                                                  "why",  "one_sided_writes", "inline_bytes", "eager_bytes"};
    std::string text;
    for (const auto& [name, value] : wire.items()) {
        if (std::ranges::find(kCommon, name) != kCommon.end()) continue;
        std::string words = name;
        std::ranges::replace(words, '_', ' ');
        const std::string shown = value.is_boolean() ? (value.get<bool>() ? "yes" : "no") : text_of(value);
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", words, shown.empty() ? "no" : shown);
    }
    return text;
}

ordered_json describe_transports(const engine::Settings& settings) {
    ordered_json all = ordered_json::array();
    for (const engine::TransportChoice& choice : settings.transports)
        all.push_back(describe_transport(settings, choice));
    return all;
}

ordered_json describe_settings(const engine::SettingTexts& texts) {
    ordered_json all = ordered_json::array();
    for (const coppice::SettingInfo& info : engine::known_settings()) {
        all.push_back({{"variable", info.variable},
                       {"value", texts.text(info.variable)},
                       {"from", coppice::to_string(texts.source(info.variable))},
                       {"default", info.default_value},
                       {"meaning", info.description}});
    }
    return all;
}

// Variables that look like ours and are not: most likely a typo, and silently without effect.
std::vector<std::string> unknown_variables() {
    std::vector<std::string> unknown;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const std::string_view name = text.substr(0, text.find('='));
        if (!name.starts_with("COPPICE_")) continue;
        const auto known = engine::known_settings();
        const auto launcher = engine::launcher_variables();
        if (std::ranges::find(known, name, &coppice::SettingInfo::variable) == known.end() &&
            std::ranges::find(launcher, name) == launcher.end()) {
            unknown.emplace_back(name);
        }
    }
    return unknown;
}

// What the ranks know of the switches above their hosts.
struct Knowledge {
    std::optional<std::pair<std::uint32_t, std::uint32_t>>
        different_files{};                  // ranks that have read different ones for COPPICE_TOPOLOGY
    std::optional<std::uint32_t> silent{};  // a rank that knows none
    std::optional<std::uint32_t> knowing{};
};

coppice::Result<Knowledge> switches_known(const engine::Settings& settings, coppice::bootstrap::Bootstrap& exchange,
                                          std::uint64_t deadline) {
    std::string file;
    if (settings.switches.empty() && !settings.topology.empty()) {
        const auto text = engine::network_text(settings.topology);
        if (text) file = fmt::format("{:08x}", transport::crc32c(std::as_bytes(std::span(*text))));
    }
    const auto path = engine::own_switches(settings, false);
    // Nobody tells nothing: that would be a rank that is gone.
    constexpr std::byte kSilent{'-'};
    const std::string told = (path && !path->empty() ? '+' : '-') + file;
    const auto all = exchange.allgather(std::as_bytes(std::span(told)), deadline);
    if (!all) return tl::unexpected(all.error());
    Knowledge known;
    std::optional<std::uint32_t> first;  // that has a file
    for (std::uint32_t rank = 0; rank < all->size(); ++rank) {
        const auto& its = (*all)[rank];
        if (its.empty()) continue;
        auto& whether = its[0] == kSilent ? known.silent : known.knowing;
        if (!whether) whether = rank;
        if (its.size() == 1) continue;
        if (!first) first = rank;
        if (!known.different_files &&
            !std::ranges::equal(std::span((*all)[*first]).subspan(1), std::span(its).subspan(1)))
            known.different_files = std::pair(*first, rank);
    }
    return known;
}

// Empty where broadcasts go by switches, or nobody knows any.
std::string why_not_by_switches(const Knowledge& known, const engine::Settings& settings, std::uint32_t leaves) {
    if (leaves > 0 || !known.knowing) return {};
    if (known.silent)
        return fmt::format("rank {} knows no switches above its host; rank {} does", *known.silent, *known.knowing);
    if (!settings.places()) return "only trees with optimized or opportunistic correction go by switches";
    return "all are below one leaf switch, or each below one of its own";
}

// The group that a program would form here, seen from this rank.
coppice::Result<ordered_json> describe_group(const engine::SettingTexts& texts, bool& speaks) {
    auto context = engine::Context::create(texts, false);
    if (!context) return tl::unexpected(context.error());
    const engine::Settings& settings = (*context)->settings();
    const std::uint64_t deadline = coppice::deadline_after(coppice::real_clock(), settings.start_timeout_ns);
    auto exchange = coppice::bootstrap::choose(nullptr, nullptr, Rank(0), 0, settings.bootstrap, deadline);
    if (!exchange) return tl::unexpected(exchange.error());
    const auto known = switches_known(settings, **exchange, deadline);
    if (!known) return tl::unexpected(known.error());
    auto group = engine::form_group(**context, settings, **exchange, nullptr, deadline);
    if (!group) return tl::unexpected(group.error());
    const engine::Members& members = (*group)->members();
    const Rank self = members.self();
    speaks = true;
    for (std::uint32_t r = 0; r < self.value; ++r)
        speaks = speaks && members.failed(Rank(r));
    ordered_json peers = ordered_json::array();
    for (std::uint32_t r = 0; r < members.ranks(); ++r) {
        const engine::Link link = (*group)->core().around().router().to(Rank(r));
        const char* self_or_dead = Rank(r) == self ? "self" : "none (dead)";
        peers.push_back({{"rank", r},
                         {"position", members.node_of(Rank(r)).value},
                         {"transport", link ? link.name() : self_or_dead}});
    }
    ordered_json described{
        {"rank", self.value},           {"ranks", members.ranks()},          {"positions", members.nodes()},
        {"leaves", (*group)->leaves()}, {"agreement", settings.agreement()}, {"peers", peers}};
    if (const auto& two = known->different_files) described["ranks_with_different_files"] = {two->first, two->second};
    if (const std::string why = why_not_by_switches(*known, settings, (*group)->leaves()); !why.empty())
        described["why_not_by_switches"] = why;
    if (settings.keeps_pmix_session)
        described["launcher_tells_of_deaths"] = (*group)->core().around().router().transport_set()->heeds_reports();
    // How many addresses it has got from the launcher, and copied from others.
    if (const engine::Copying* const copying = (*group)->core().around().router().transport_set()->copying()) {
        const engine::Copying::Counts& counts = copying->counts();
        described["addresses"] = {{"fetched", counts.fetched}, {"of_host", counts.of_host}, {"copied", counts.copied}};
    }
    coppice::Deadline patience(coppice::real_clock(), settings.start_timeout_ns);
    constexpr engine::Awaited kLeaving{.kind = coppice::status::Kind::leaving};
    (*context)->wait(
        **group, patience, [&] { return (*group)->drained(); }, kLeaving);
    (*context)->wait(
        **group, patience, [&] { return (*group)->depart(); }, kLeaving);
    return described;
}

// Which switches are above this host: each source that is asked, in that order.
ordered_json describe_switches(const std::vector<engine::Whereabouts>& found) {
    ordered_json all = ordered_json::array();
    for (const engine::Whereabouts& one : found)
        all.push_back({{"source", one.source}, {"path", one.path}, {"how", one.how}, {"why_not", one.why_not}});
    return all;
}

void print_switches(const ordered_json& switches) {
    fmt::print("Switches above this host\n");
    for (const auto& one : switches) {
        const std::string path = one["path"];
        const std::string how = one["how"];
        fmt::print("  {:<20} {}{}\n", one["source"].get<std::string>(),
                   path.empty() ? "none: " + one["why_not"].get<std::string>() : path,
                   path.empty() || how.empty() ? "" : ", " + how);
    }
}

// Who can say that a death is certain, and what is given up where nobody can.
ordered_json describe_quorum(const engine::Settings& settings) {
    using coppice::protocol::Quorum;
    if (settings.quorum == Quorum::any)
        return {{"setting", "any"},
                {"witness", "none is asked"},
                {"gives_up", "both sides of a network that is cut go on"}};
    const char* const as_majority =
        "where most ranks have died or are cut off, those that are left end with COPPICE_ERR_NO_QUORUM; of half of "
        "them those without the "
        "lowest rank";
    if (settings.quorum == Quorum::majority)
        return {{"setting", "majority"}, {"witness", "none is asked: the dead count"}, {"gives_up", as_majority}};
    const char* const witness = std::getenv("COPPICE_WITNESS");
    if (witness != nullptr && *witness != '\0') {
        return {{"setting", "certain"},
                {"witness",
                 "coppice-run, for the end of every rank's process; and the kernel of each host, for ranks that others "
                 "share it with"},
                {"gives_up",
                 "ranks that lose more than half of those that live by a cut end with COPPICE_ERR_NO_QUORUM, or half "
                 "of them with the lowest rank"}};
    }
    const bool is_seen = settings.hierarchy == engine::Hierarchy::host && settings.allows_within_host();
    if (!is_seen) {
        return {{"setting", "certain"},
                {"witness", "none: ranks of a host share no memory (COPPICE_TRANSPORT, COPPICE_HIERARCHY)"},
                {"gives_up", as_majority}};
    }
    return {{"setting", "certain"},
            {"witness",
             "the kernel of each host, for ranks that others share it with; none for a host that is lost as a whole, "
             "unless "
             "the program brings one"},
            {"gives_up",
             "ranks that lose more than half of the rest with whole hosts end with COPPICE_ERR_NO_QUORUM, or half of "
             "it with the lowest "
             "rank: of two ranks on two hosts, rank 0 killed, rank 1"}};
}

void print_fields(const char* title, const ordered_json& fields) {
    fmt::print("{}\n", title);
    for (const auto& [name, value] : fields.items())
        fmt::print("  {:<18} {}\n", name, text_of(value));
}

void print_text(const ordered_json& info) {
    print_fields("Coppice", info["build"]);
    for (const char* name : {"host", "bootstrap"})
        fmt::print("  {:<18} {}\n", name, info[name].get<std::string>());
    print_fields("Machine (hwloc)", info["machine"]);
    print_switches(info["switches"]);
    if (!info["within_host"].is_null()) coppice::info::print_inside(info["within_host"]);
    fmt::print("Transports\n");
    for (const auto& wire : info["transports"]) {
        const bool usable = wire["usable"];
        fmt::print(
            "  {:<5} {}{}\n", wire["name"].get<std::string>(), usable ? "usable" : "not usable: ",
            usable ? (wire["allowed"] ? "" : ", but left out by COPPICE_TRANSPORT") : wire["why"].get<std::string>());
        if (!usable) continue;
        fmt::print("        one-sided writes: {}, inline: {} B, eager: {} B, publishes within a host: {}\n",
                   wire["one_sided_writes"].get<bool>() ? "yes" : "no", wire["inline_bytes"].get<std::size_t>(),
                   wire["eager_bytes"].get<std::size_t>(), wire["publishes"].get<bool>() ? "yes" : "no");
        if (const std::string facts = facts_of(wire); !facts.empty()) fmt::print("        {}\n", facts);
    }
    print_fields("Who goes on without the others (COPPICE_QUORUM)", info["quorum"]);
    fmt::print("Settings (value, where it came from, meaning)\n");
    std::size_t longest = 0;
    for (const auto& setting : info["settings"])
        longest = std::max(longest, setting["variable"].get<std::string>().size());
    for (const auto& setting : info["settings"]) {
        fmt::print("  {:<{}} {:<18} {:<12} {}\n", setting["variable"].get<std::string>(), longest,
                   fmt::format("\"{}\"", setting["value"].get<std::string>()), setting["from"].get<std::string>(),
                   setting["meaning"].get<std::string>());
    }
    for (const auto& name : info["unknown_variables"]) {
        fmt::print("  {} is set, but no setting of Coppice has that name\n", name.get<std::string>());
    }
    if (!info.contains("group")) return;
    const auto& group = info["group"];
    fmt::print("Group: {} ranks at {} positions, {}\n", group["ranks"].get<unsigned>(),
               group["positions"].get<unsigned>(), group["agreement"].get<std::string>());
    if (const auto leaves = group["leaves"].get<unsigned>(); leaves > 0)
        fmt::print("  broadcasts go by {} leaf switches\n", leaves);
    if (group.contains("why_not_by_switches"))
        fmt::print("  Note: hosts stand in the order of their ranks, whatever switches are above them: {}\n",
                   group["why_not_by_switches"].get<std::string>());
    if (group.contains("ranks_with_different_files")) {
        const auto& ranks = group["ranks_with_different_files"];
        fmt::print(
            "  Note: ranks {} and {} have read different files of COPPICE_TOPOLOGY; where they differ, hosts are "
            "placed wrongly\n",
            ranks[0].get<unsigned>(), ranks[1].get<unsigned>());
    }
    if (group.contains("launcher_tells_of_deaths")) {
        fmt::print("  deaths of which the launcher tells are heeded: {}\n",
                   group["launcher_tells_of_deaths"].get<bool>() ? "yes, by PMIx" : "no");
    }
    for (const auto& peer : group["peers"]) {
        fmt::print("  rank {:<5} position {:<5} {}\n", peer["rank"].get<unsigned>(), peer["position"].get<unsigned>(),
                   peer["transport"].get<std::string>());
    }
}

int run(bool as_json) {
    const engine::SettingTexts texts;
    const auto settings = engine::parse(texts);
    if (!settings) {
        std::cerr << "coppice-info: " << settings.error().message << '\n';
        return 2;
    }
    const auto launcher = coppice::bootstrap::launcher_here(settings->bootstrap);
    if (!launcher) {
        std::cerr << "coppice-info: " << launcher.error().message << '\n';
        return 2;
    }
    const auto switches = engine::look_for_switches_here(*settings);
    if (!switches) {  // perhaps at this rank alone
        const char* const rank = std::getenv("COPPICE_RANK");
        const std::string whose = rank == nullptr ? std::string() : fmt::format("rank {}: ", rank);
        std::cerr << "coppice-info: " << whose << switches.error().message << '\n';
        return 2;
    }
    ordered_json within;
    ordered_json machine = describe_machine(within);
    ordered_json info{{"build", describe_build()},
                      {"host", coppice::host_identity(settings->host)},
                      {"bootstrap", launcher->value_or("none: no launcher has started this process")},
                      {"machine", std::move(machine)},
                      {"within_host", std::move(within)},
                      {"switches", describe_switches(*switches)},
                      {"transports", describe_transports(*settings)},
                      {"quorum", describe_quorum(*settings)},
                      {"settings", describe_settings(texts)},
                      {"unknown_variables", unknown_variables()}};
    bool speaks = true;  // of all ranks that run this, the lowest live one
    if (*launcher) {
        auto group = describe_group(texts, speaks);
        if (!group) {
            std::cerr << "coppice-info: " << group.error().message << '\n';
            return 1;
        }
        info["group"] = std::move(*group);
    }
    if (!speaks) return 0;
    if (as_json) {
        std::cout << info.dump(2) << '\n';
    } else {
        print_text(info);
    }
    return 0;
}

// A file alone: it says nothing of this machine but where it is in it.
int run_topology(const std::string& path, bool as_json) {
    const engine::SettingTexts texts;
    const auto settings = engine::parse(texts);
    if (!settings) {
        std::cerr << "coppice-info: " << settings.error().message << '\n';
        return 2;
    }
    const auto topology = coppice::info::describe_topology(path, engine::own_names(*settings));
    if (!topology) {
        std::cerr << "coppice-info: " << topology.error() << '\n';
        return 2;
    }
    if (as_json) {
        std::cout << ordered_json{{"topology", *topology}}.dump(2, ' ', false, ordered_json::error_handler_t::replace)
                  << '\n';
    } else {
        coppice::info::print_topology(*topology);
    }
    return 0;
}

// What a file says of another machine.
int run_machine(const std::string& path, bool as_json) {
    const auto inside = coppice::info::describe_machine_file(path);
    if (!inside) {
        std::cerr << "coppice-info: " << inside.error() << '\n';
        return 2;
    }
    if (as_json) {
        std::cout << ordered_json{{"within_host", *inside}}.dump(2) << '\n';
    } else {
        coppice::info::print_inside(*inside);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{
        "Tells what Coppice finds on this machine, which transports are usable and why, and which settings are in "
        "effect. Under a launcher it also tells which transport reaches each rank."};
    bool as_json = false;
    app.add_flag("--json", as_json, "print JSON");
    std::string topology;
    app.add_option("--topology", topology,
                   "instead, tell which leaf switches and pods this file knows: of ibnetdiscover, Slurm's "
                   "topology.conf, or lines of "
                   "HOST LEAF [POD]");
    std::string machine;
    app.add_option("--machine", machine,
                   "instead, tell which NUMA nodes, shared caches and cores this file of hwloc's has (lstopo --of xml)")
        ->excludes("--topology");
    app.set_version_flag("--version", std::string(COPPICE_VERSION));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    try {
        if (!machine.empty()) return run_machine(machine, as_json);
        return topology.empty() ? run(as_json) : run_topology(topology, as_json);
    } catch (const std::exception& error) {
        std::cerr << "coppice-info: " << error.what() << '\n';
        return 1;
    }
}
