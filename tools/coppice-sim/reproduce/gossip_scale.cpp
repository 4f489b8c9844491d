#include "reproduce/gossip_scale.hpp"

#include <cmath>

namespace coppice::sim {

using protocol::GossipKind;

const char* const kGossipRemarks =
    "GOS and OCG gossip as long as the equations choose for δ = 6.93·10⁻⁷; for CCG and FCG the time with the lowest "
    "mean latency among seven around the equations' choice is taken, as the paper aimed to minimize latency there. "
    "Latency is quiescence, until the last reception ends, for all of them. BIG and BFB are simulated, too, where the "
    "paper "
    "took formulas; BFB's deaths are noticed by everybody in the step in which they happen, the best that a detector "
    "can do, "
    "and those dead before are known from the start. Each process has one receive port, where the paper's analysis "
    "lets "
    "receptions overlap.";

double bfb_latency(double ranks, double restarts) {
    return 2 * (2 * kDaint.overhead + kDaint.latency) * std::ceil(std::log2(ranks)) * (1 + restarts);
}

void add_protocols(Study& study, double x, std::uint32_t ranks, std::uint32_t dead, std::uint64_t runs,
                   std::uint64_t seed) {
    const auto add = [&](const std::string& series, const Protocol& protocol, std::uint32_t below,
                         std::uint32_t above) {
        study.points.push_back({series, x,
                                Cell{.protocol = protocol,
                                     .ranks = ranks,
                                     .model = kDaint,
                                     .dead_count = dead,
                                     .first_seed = seed,
                                     .runs = runs},
                                below, above});
    };
    add("GOS", GossipProtocol{gossip_by_equations(GossipKind::gossip, ranks, kDaint, kDelta)}, 0, 0);
    add("OCG", GossipProtocol{gossip_by_equations(GossipKind::opportunistic, ranks, kDaint, kDelta)}, 0, 0);
    add("CCG", GossipProtocol{gossip_by_equations(GossipKind::checked, ranks, kDaint, kDelta)}, 5, 1);
    add("FCG", GossipProtocol{gossip_by_equations(GossipKind::failure_proof, ranks, kDaint, kDelta)}, 5, 1);
    add("BIG", BinomialGraphProtocol{}, 0, 0);
    add("BFB", BuntinasProtocol{}, 0, 0);
}

double inconsistency(const Results& r, const std::string& series, double x) {
    const Figures& figures = r.at(series, x);
    return 100 * static_cast<double>(figures.unreached) / static_cast<double>(figures.runs) / r.cell(series, x).ranks;
}

}  // namespace coppice::sim
