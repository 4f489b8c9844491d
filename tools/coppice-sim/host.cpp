// coppice-sim host: what ranks of one host read of each other's caches when they publish, in one level and in two.
#include <fmt/format.h>
#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "engine/formation/inside.hpp"
#include "host_memory.hpp"
#include "protocol/agreement/agreement_tree.hpp"
#include "protocol/published/published_agreement.hpp"
#include "subcommand.hpp"
#include "topology/domains.hpp"
#include "transport/shm/layout.hpp"

namespace coppice::sim {
namespace {

namespace shm = transport::shm;

constexpr const char* kDescription =
    R"(Counts the cache lines that one agreement and one broadcast move between the cores of a machine, in one level and in two,
and says which of these the library takes there.
)";

constexpr const char* kFooter =
    R"(Ranks sit on the machine's cores, one each, or --ranks of them spread evenly. A domain is a shared cache, else a NUMA node.
Agreements are the library's: its machine, and its lines in memory. All contribute, then all look until they have decided; what
comes from memory for the first time is not counted. A broadcast is what a blocking call does on a host: the root's line is read
by all, each writes what it has consumed, and once in a window the root reads that.

Example:
  coppice-sim host --machine tests/data/two-sockets-128-cores.xml
)";

constexpr std::uint32_t kWindow = 8;  // COPPICE_AGREEMENT_WINDOW
constexpr std::uint32_t kBroadcastWindow = 32;
constexpr std::uint32_t kWarmUp = 4 * kWindow;
constexpr std::uint32_t kCounted = 8 * kWindow;

struct Options {
    std::string machine;
    std::uint32_t ranks = 0;
    std::size_t bytes = 8;
    std::string format = "table";
};

struct Machine {
    std::vector<std::string> places;  // of each core, as numa1/l3-9/core75
    std::vector<std::uint32_t> sockets;
};

struct TopologyEnd {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};

tl::expected<Machine, std::string> read_machine(const std::string& path) {
    if (access(path.c_str(), R_OK) != 0) return tl::unexpected(fmt::format("{}: {}", path, std::strerror(errno)));
    hwloc_topology_t made = nullptr;
    if (hwloc_topology_init(&made) != 0) return tl::unexpected(std::string("hwloc_topology_init failed"));
    const std::unique_ptr<hwloc_topology, TopologyEnd> topology(made);
    if (hwloc_topology_set_xml(made, path.c_str()) != 0 || hwloc_topology_load(made) != 0)
        return tl::unexpected(path + ": hwloc does not read this as a machine; lstopo --of xml writes such files");
    Machine machine;
    for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(made, HWLOC_OBJ_CORE, core)) != nullptr;) {
        machine.places.push_back(engine::inside_path(made, core));
        const hwloc_obj_t socket = hwloc_get_ancestor_obj_by_type(made, HWLOC_OBJ_PACKAGE, core);
        machine.sockets.push_back(socket == nullptr ? 0 : socket->logical_index);
    }
    if (machine.places.empty()) return tl::unexpected(path + ": a machine without cores");
    return machine;
}

// Per operation.
struct Row {
    std::string operation;
    std::string levels;
    double within_domain = 0;
    double within_socket = 0;
    double across_sockets = 0;
    double most_fetched = 0;
};

Row row_of(const char* operation, const char* levels, const Caches& caches, std::uint32_t count) {
    const auto each = [count](std::uint64_t sum) { return static_cast<double>(sum) / count; };
    return {operation,
            levels,
            each(caches.moved().within_domain),
            each(caches.moved().within_socket),
            each(caches.moved().across_sockets),
            each(caches.most_fetched())};
}

Row count_agreement(const std::vector<CorePlace>& places, const topology::Nodes* domains, std::size_t bytes) {
    const auto ranks = static_cast<std::uint32_t>(places.size());
    const std::uint32_t lines = 2 * kWindow;
    const protocol::AgreementPlan plan{
        .tree = *protocol::AgreementTree::make(*protocol::parse_agreement_tree("bin"), ranks, nullptr, {}),
        .window = kWindow};
    Caches caches(places);
    SharedRegions shared(ranks, lines);
    std::vector<std::unique_ptr<CountedContributions>> boards;
    std::vector<std::unique_ptr<protocol::PublishedAgreement>> machines;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        boards.push_back(std::make_unique<CountedContributions>(shared, caches, rank, ranks, lines));
        machines.push_back(std::make_unique<protocol::PublishedAgreement>(plan, Rank{rank}, *boards.back(), domains));
    }
    const std::vector<std::byte> value(bytes);
    const protocol::Operation bits{protocol::Operator::bit_or, protocol::Element::u8, nullptr, nullptr};
    for (std::uint64_t number = 0; number < kWarmUp + kCounted; ++number) {
        if (number == kWarmUp) caches.start_counting();
        for (const auto& machine : machines)
            machine->contribute(bits, value);
        for (bool all = false; !all;) {
            all = true;
            for (const auto& machine : machines) {
                if (!machine->decided(Sequence{number})) machine->look(false);
                all = all && machine->decided(Sequence{number});
            }
        }
    }
    return row_of("agreement", domains == nullptr ? "one" : "two", caches, kCounted);
}

// The calls of Broadcasts::at_once and Window::may_start, at the places that shm/layout.hpp gives lines and counts.
Row count_broadcast(const std::vector<CorePlace>& places, std::size_t bytes) {
    const auto ranks = static_cast<std::uint32_t>(places.size());
    const shm::Layout layout(kBroadcastWindow, ranks, ranks, 0);
    Caches caches(places);
    constexpr std::uint32_t kRoot = 0;
    for (std::uint32_t number = 0; number < 4 * kBroadcastWindow; ++number) {
        if (number == 2 * kBroadcastWindow) caches.start_counting();
        const std::size_t line = layout.lines_at + number % kBroadcastWindow * shm::kLineStride;
        for (std::uint32_t rank = 0; number % kBroadcastWindow == 0 && rank < ranks; ++rank)
            caches.read(kRoot, rank, offsetof(shm::PanelHeader, consumed), sizeof(std::uint64_t));
        caches.write(kRoot, line, sizeof(shm::Line) + bytes);
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            caches.read(rank, kRoot, line, sizeof(shm::Line) + bytes);
            caches.write(rank, offsetof(shm::PanelHeader, consumed), sizeof(std::uint64_t));
        }
    }
    return row_of("broadcast", "one", caches, 2 * kBroadcastWindow);
}

void print(const Options& options, const std::vector<Row>& rows) {
    if (options.format == "csv") {
        fmt::print("operation,levels,within_domain,within_socket,across_sockets,most_fetched\n");
        for (const Row& row : rows)
            fmt::print("{},{},{:.2f},{:.2f},{:.2f},{:.2f}\n", row.operation, row.levels, row.within_domain,
                       row.within_socket, row.across_sockets, row.most_fetched);
        return;
    }
    fmt::print("Cache lines moved, each time:\n\n{:<11}{:<8}{:>16}{:>16}{:>16}{:>18}\n", "", "levels", "within domains",
               "within sockets", "across sockets", "most by one rank");
    for (const Row& row : rows)
        fmt::print("{:<11}{:<8}{:>16.1f}{:>16.1f}{:>16.1f}{:>18.1f}\n", row.operation, row.levels, row.within_domain,
                   row.within_socket, row.across_sockets, row.most_fetched);
}

int run(const Options& options, const Machine& machine) {
    const auto cores = static_cast<std::uint32_t>(machine.places.size());
    const std::uint32_t ranks = options.ranks == 0 ? std::min(cores, kMostOnHost) : options.ranks;
    std::vector<std::string> places;
    std::vector<std::string> names;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        places.push_back(machine.places[std::uint64_t{rank} * cores / ranks]);
        names.emplace_back(topology::domain_in(places.back()));
    }
    // A core that shares nothing while others do is alone.
    const bool some_share = std::ranges::any_of(names, [](const std::string& name) { return !name.empty(); });
    for (std::uint32_t rank = 0; some_share && rank < ranks; ++rank)
        if (names[rank].empty()) names[rank] = places[rank];
    const topology::Nodes domains = topology::Nodes::by_host(std::span<const std::string>(names));
    std::vector<CorePlace> where;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
        where.push_back({domains.node_of(Rank{rank}), machine.sockets[std::uint64_t{rank} * cores / ranks]});
    const bool two = ranks <= cores && topology::domains_of(places).has_value();
    if (options.format == "table")
        fmt::print("{}: {} cores, {} ranks on them in {} {}\n\n", options.machine, cores, ranks, domains.count(),
                   domains.count() == 1 ? "domain" : "domains");
    std::vector<Row> rows{count_broadcast(where, options.bytes), count_agreement(where, nullptr, options.bytes)};
    if (domains.count() > 1) rows.push_back(count_agreement(where, &domains, options.bytes));
    print(options, rows);
    if (options.format == "table")
        fmt::print("\nThe library takes {} for agreements of these ranks{}.\n", two ? "two levels" : "one level",
                   ranks > cores ? ", which take turns on cores" : "");
    return kFine;
}

}  // namespace

int run_host(int argc, char** argv) {
    Options options;
    CLI::App app(kDescription, "coppice-sim host");
    app.footer(kFooter);
    app.add_option("--machine", options.machine, "a file of hwloc's, as lstopo --of xml writes it")->required();
    app.add_option("--ranks", options.ranks, "so many, 2 to 512; as many as cores if not given")
        ->check(CLI::Range(2U, kMostOnHost));
    app.add_option("--size,-s", options.bytes, "bytes of the value, and of the payload")
        ->capture_default_str()
        ->check(CLI::Range(std::size_t{0}, std::size_t{protocol::AgreementPlan::kMaxValue}));
    app.add_option("--format", options.format, "table or csv")
        ->capture_default_str()
        ->check(CLI::IsMember({"table", "csv"}));
    if (const auto code = parse(app, argc, argv)) return *code;
    const auto machine = read_machine(options.machine);
    if (!machine) return refuse("--machine: " + machine.error());
    return run(options, *machine);
}

}  // namespace coppice::sim
