#include "reproduce/cell.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cmath>
#include <iterator>
#include <optional>
#include <stdexcept>

#include "protocol/baselines/names.hpp"
#include "simulation/broadcast_simulation.hpp"
#include "simulation/buntinas_simulation.hpp"
#include "simulation/gossip_simulation.hpp"
#include "simulation/reach.hpp"
#include "simulation/tree_reach.hpp"

namespace coppice::sim {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
    using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;  // Clang 14 does not find it by itself

// The tables of experiments are the program's own: what they name exists.
template <class T>
T known(tl::expected<T, std::string> value) {
    if (!value) throw std::logic_error(value.error());
    return std::move(*value);
}

simulation::BroadcastSetup setup_of(const Cell& cell, const TreeProtocol& protocol) {
    simulation::BroadcastSetup setup;
    setup.processes = cell.ranks;
    setup.tree = known(topology::parse_tree(protocol.tree));
    setup.correction = known(protocol::baselines::parse_correction(protocol.correction));
    setup.model = cell.model;
    setup.shortcuts = true;
    return setup;
}

simulation::GossipSetup setup_of(const Cell& cell, const GossipProtocol& protocol) {
    simulation::GossipSetup setup;
    setup.processes = cell.ranks;
    setup.spec = protocol.spec;
    setup.model = cell.model;
    setup.shortcuts = true;
    return setup;
}

simulation::BinomialGraphSetup setup_of(const Cell& cell, const BinomialGraphProtocol& protocol) {
    simulation::BinomialGraphSetup setup;
    setup.processes = cell.ranks;
    setup.model = cell.model;
    setup.directions = protocol.directions;
    return setup;
}

simulation::BuntinasSetup setup_of(const Cell& cell, const BuntinasProtocol& /*protocol*/) {
    return {cell.ranks, cell.model, {}};
}

simulation::FaultPlan faults_of(const Cell& cell) {
    simulation::FaultPlan faults;
    faults.dead_count = cell.dead_count;
    for (const std::uint32_t rank : cell.dead)
        faults.dead.push_back(Position{rank});
    faults.dying_count = cell.dying_count;
    faults.dying_until = cell.dying_until;
    if (const auto* buntinas = std::get_if<BuntinasProtocol>(&cell.protocol))
        faults.notice_after = buntinas->notice_after;
    return faults;
}

std::unique_ptr<simulation::Simulator> needs_none() {
    throw std::logic_error("this needs no simulator");
}

std::unique_ptr<simulation::Simulator> make(const Cell& cell) {
    return std::visit(
        Overloaded{[](const TreeGaps&) { return needs_none(); }, [](const TreeLeftOut&) { return needs_none(); },
                   [](const MembershipProtocol&) { return needs_none(); },
                   [](const ContentionProtocol&) { return needs_none(); },
                   [](const AgreementProtocol&) { return needs_none(); },
                   [&](const auto& protocol) { return known(make_simulator(setup_of(cell, protocol))); }},
        cell.protocol);
}

Figures gaps_of(const Cell& cell, const TreeGaps& protocol) {
    const auto tree = known(topology::Tree::make(known(topology::parse_tree(protocol.tree)), cell.ranks));
    const simulation::FaultPlan plan = faults_of(cell);
    simulation::TreeReach reach(tree);
    Figures figures;
    figures.runs = cell.runs;
    for (std::uint64_t run = 0; run < cell.runs; ++run)
        figures.of(Metric::gap).add(reach.gaps(plan.draw(cell.ranks, cell.first_seed + run).dead).largest);
    return figures;
}

Figures left_out_of(const Cell& cell, const TreeLeftOut& protocol) {
    const protocol::BroadcastPlan broadcast{
        known(topology::Tree::make(known(topology::parse_tree(protocol.tree)), cell.ranks)),
        known(protocol::baselines::parse_correction(protocol.correction))};
    const simulation::FaultPlan plan = faults_of(cell);
    simulation::Reach reach(broadcast);
    Figures figures;
    figures.runs = cell.runs;
    for (std::uint64_t run = 0; run < cell.runs; ++run) {
        const std::size_t left_out = reach.left_out(plan.draw(cell.ranks, cell.first_seed + run).dead).size();
        figures.incomplete += left_out == 0 ? 0 : 1;
        figures.unreached += left_out;
    }
    return figures;
}

Figures in_nanoseconds(double us) {
    Figures figures;
    figures.runs = 1;
    figures.of(Metric::quiescence).add(static_cast<std::uint64_t>(std::llround(1000 * us)));
    return figures;
}

Figures figures_of_agreements(const Cell& cell, const AgreementProtocol& protocol) {
    const auto spec = known(protocol::parse_agreement_tree(protocol.tree));
    std::vector<std::uint64_t> host_of(spec.within ? cell.ranks : 0);
    for (std::size_t rank = 0; rank < host_of.size(); ++rank)
        host_of[rank] = rank / protocol.ranks_per_host;
    const topology::Nodes hosts = topology::Nodes::by_host(host_of);
    auto tree = known(protocol::AgreementTree::make(spec, cell.ranks, spec.within ? &hosts : nullptr, {}));
    simulation::AgreementSetup setup{protocol::AgreementPlan{std::move(tree), spec.within ? &hosts : nullptr}};
    setup.plan.window = 1;
    setup.plan.max_value = 8;
    setup.plan.rebalance = protocol.rebalance;
    setup.algorithm = protocol.algorithm;
    setup.model = cell.model;
    setup.ranks_per_host = protocol.ranks_per_host;
    setup.agreements = protocol.agreements;
    setup.notice_after = protocol.notice_after;
    setup.notice_spread = protocol.notice_spread;
    setup.seed = cell.first_seed;
    simulation::Step next_death = protocol.dying_at;
    for (const auto& run : protocol.dying) {
        for (std::uint32_t rank = run.first; rank <= run.last; ++rank, next_death += protocol.apart)
            setup.deaths.push_back({rank, next_death});
    }
    const simulation::AgreementTimings timings = run_agreements(setup);
    std::uint64_t latency = 0;
    for (std::uint32_t i = 0; i < timings.agreements.size(); ++i) {
        if (protocol.measured == AgreementProtocol::kAll || protocol.measured == i)
            latency += timings.agreements[i].latency;
        if (!timings.agreements[i].agreed) throw std::logic_error("ranks have not agreed: " + cell.key());
    }
    Figures figures;
    figures.runs = 1;
    figures.of(Metric::quiescence).add(latency);
    figures.of(Metric::messages).add(timings.messages);
    return figures;
}

// Of what is not drawn by lot; nothing for all else.
std::optional<Figures> figures_without_lots(const Cell& cell) {
    if (const auto* gaps = std::get_if<TreeGaps>(&cell.protocol)) return gaps_of(cell, *gaps);
    if (const auto* left_out = std::get_if<TreeLeftOut>(&cell.protocol)) return left_out_of(cell, *left_out);
    if (const auto* membership = std::get_if<MembershipProtocol>(&cell.protocol))
        return in_nanoseconds(time_of_next_view(membership->setup).stable_us);
    if (const auto* agreement = std::get_if<AgreementProtocol>(&cell.protocol))
        return figures_of_agreements(cell, *agreement);
    if (const auto* contention = std::get_if<ContentionProtocol>(&cell.protocol)) {
        const std::uint32_t under_way = cell.ranks / (contention->children + 1) * contention->children;
        return in_nanoseconds(latency_under_contention_us(contention->network, under_way));
    }
    return std::nullopt;
}

std::string key_of(const simulation::MembershipNetwork& network) {
    return fmt::format("network {} L={} switch {}", static_cast<int>(network.kind), network.latency_us,
                       network.switch_us);
}

std::string listed(const std::vector<std::uint32_t>& ranks) {
    std::string list;
    for (const std::uint32_t rank : ranks)
        fmt::format_to(std::back_inserter(list), "{}{}", list.empty() ? "" : ",", rank);
    return list;
}

std::string key_of(const AgreementProtocol& agreement) {
    std::string dying;
    for (const auto& run : agreement.dying)
        fmt::format_to(std::back_inserter(dying), " {}-{}", run.first, run.last);
    return fmt::format("agreement {} of {}, tree {}, {} a host, algorithm {}, rebalance {}{}",
                       agreement.measured == AgreementProtocol::kAll ? "sum" : std::to_string(agreement.measured),
                       agreement.agreements, agreement.tree, agreement.ranks_per_host,
                       static_cast<int>(agreement.algorithm), static_cast<int>(agreement.rebalance),
                       dying.empty()
                           ? ""
                           : fmt::format(", dying at {}, {} apart, told after {} to {} more:{}", agreement.dying_at,
                                         agreement.apart, agreement.notice_after, agreement.notice_spread, dying));
}

double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

std::string Cell::key() const {
    const std::string name = std::visit(
        Overloaded{
            [](const TreeProtocol& tree) { return fmt::format("tree {} {}", tree.tree, tree.correction); },
            [](const TreeGaps& tree) { return "gaps of tree " + tree.tree; },
            [](const TreeLeftOut& tree) { return fmt::format("left out of tree {} {}", tree.tree, tree.correction); },
            [](const MembershipProtocol& membership) {
                return fmt::format("membership radix {} Ocp={} {} dead {}", 1U << membership.setup.radix_bits,
                                   membership.setup.compute_us, key_of(membership.setup.network),
                                   listed(membership.setup.dead));
            },
            [](const ContentionProtocol& contention) {
                return fmt::format("contention of parents with {} children, {}", contention.children,
                                   key_of(contention.network));
            },
            [](const AgreementProtocol& agreement) { return key_of(agreement); },
            [](const GossipProtocol& gossip) { return "gossip " + to_string(gossip.spec); },
            [](const BinomialGraphProtocol& graph) {
                const bool both = graph.directions == protocol::BinomialGraph::Directions::both;
                return std::string(both ? "binomial graph, both ways" : "binomial graph");
            },
            [](const BuntinasProtocol& buntinas) {
                return fmt::format("Buntinas, notices after {}", buntinas.notice_after);
            }},
        protocol);
    return fmt::format("{}, P={} L={} o={}, dead {}{}{}", name, ranks, model.latency, model.overhead, dead_count,
                       dead.empty() ? "" : " and " + listed(dead),
                       dying_count == 0 ? "" : fmt::format(", dying {} until {}", dying_count, dying_until));
}

std::string Cell::command() const {
    const auto* tree = std::get_if<TreeProtocol>(&protocol);
    if (tree == nullptr) return {};
    std::string line = fmt::format("coppice-sim broadcast --ranks {} --tree {} --correction {} -L {} -o {}", ranks,
                                   tree->tree, tree->correction, model.latency, model.overhead);
    if (dead_count != 0) line += fmt::format(" --failed-count {}", dead_count);
    if (!dead.empty()) line += " --failed " + listed(dead);
    return line + fmt::format(" --seed {} --runs {}", first_seed, runs);
}

bool Cell::is_deterministic() const {
    return dead_count + dying_count == 0 && !std::holds_alternative<GossipProtocol>(protocol);
}

std::uint64_t bytes_needed(const Cell& cell) {
    return std::visit(
        Overloaded{[&](const TreeGaps&) { return std::uint64_t{cell.ranks} / 2; },
                   [&](const TreeLeftOut&) { return std::uint64_t{cell.ranks} * 2; },
                   [](const MembershipProtocol& membership) { return simulation::bytes_needed(membership.setup); },
                   [](const ContentionProtocol&) { return std::uint64_t{0}; },
                   [&](const AgreementProtocol& agreement) {
                       return cell.ranks * simulation::bytes_for_each_rank(agreement.algorithm);
                   },
                   [&](const auto& protocol) { return simulation::bytes_needed(setup_of(cell, protocol)); }},
        cell.protocol);
}

tl::expected<Figures, std::string> run(const Cell& cell, unsigned threads) {
    const double before = cpu_seconds();
    if (auto figures = figures_without_lots(cell)) {
        figures->cpu_seconds = cpu_seconds() - before;
        return *figures;
    }
    simulation::Batch batch{.first_seed = cell.first_seed, .runs = cell.runs, .faults = faults_of(cell)};
    batch.threads = static_cast<unsigned>(std::min<std::uint64_t>(threads, cell.runs));
    std::unique_ptr<simulation::Simulator> first = make(cell);
    const auto correction_start = first->correction_start();
    Figures figures;
    std::string violation;
    simulation::run_batch(
        batch, [&] { return first ? std::move(first) : make(cell); },
        [&](std::uint64_t seed, const simulation::Faults& /*faults*/, auto&& result) {
            if (!result) {
                violation = fmt::format("{}\n{}", cell.key(), to_string(result.error(), 200));
                if (const std::string again = cell.command(); !again.empty())
                    violation += fmt::format("Again: {} (with --seed {} --runs 1)\n", again, seed);
                return false;
            }
            figures.add(*result, correction_start);
            return true;
        });
    if (!violation.empty()) return tl::unexpected(violation);
    figures.cpu_seconds = cpu_seconds() - before;
    return figures;
}

}  // namespace coppice::sim
