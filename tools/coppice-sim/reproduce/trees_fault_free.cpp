
#include "reproduce/trees_fault_free.hpp"

#include <algorithm>

namespace coppice::sim {
namespace {

using protocol::GossipKind;

constexpr double kNoneIn100k = 1e-5;  // gossip time: nobody left out in 10^5 broadcasts

}  // namespace

const char* const kFaultFreeRemarks =
    "The gossip time of checked corrected gossip is the one with the lowest mean quiescence latency among nine "
    "around what the equations choose, as the paper chose it empirically; that of opportunistic corrected gossip "
    "follows from the equations (nobody left out in 10^5 broadcasts, eight corrections a process), where the paper "
    "searched with 10^5 simulations.";

std::vector<Point> fault_free_points(Scale scale, std::uint64_t seed) {
    std::vector<Point> points;
    const std::uint32_t most = PerScale<std::uint32_t>{16384, 65536, 131072}.at(scale);
    const std::uint32_t most_trees = std::max(most, kRanks);
    const auto factor = PerScale<std::uint32_t>{4, 2, 2}.at(scale);
    for (std::uint32_t ranks = 16; ranks <= most_trees; ranks *= factor) {
        const auto add = [&](const std::string& series, const Protocol& protocol, std::uint64_t runs,
                             std::uint32_t below, std::uint32_t above) {
            points.push_back(
                {series, static_cast<double>(ranks),
                 Cell{.protocol = protocol, .ranks = ranks, .model = kModel, .first_seed = seed, .runs = runs}, below,
                 above});
        };
        for (const TreeName& tree : kTrees) {
            add(tree.name, TreeProtocol{tree.tree, "none"}, 1, 0, 0);
            add(checked(tree.name), TreeProtocol{tree.tree, kChecked}, 1, 0, 0);
            add(optimized(tree.name), TreeProtocol{tree.tree, "optimized:4"}, 1, 0, 0);
            add(acknowledged(tree.name), TreeProtocol{tree.tree, "ack"}, 1, 0, 0);
        }
        // As the paper has it: ours does not correct the root and its children, which have the payload.
        add("binomial, one message", TreeProtocol{"binomial", "opportunistic-paper:1:one-directional"}, 1, 0, 0);
        if (ranks > most || ranks < 64) continue;
        const std::uint64_t runs = std::clamp<std::uint64_t>(
            (PerScale<std::uint64_t>{1U << 18, 1U << 23, 1U << 26}.at(scale)) / ranks, 10, 10000);
        const auto time = gossip_by_equations(GossipKind::checked, ranks, kModel, 1e-3);
        add(kCheckedGossip, GossipProtocol{time}, runs, 5, 3);
        // The shortest gossip that leaves, in 10^5 broadcasts, no gap that 4 messages to each side do not close.
        protocol::GossipSpec spec{.kind = GossipKind::opportunistic, .corrections = 8};
        const protocol::GossipModel model{ranks, ranks, kModel.latency, kModel.overhead};
        const auto reached = protocol::expected_reached(model, 200);
        for (spec.limit = 1; protocol::probability_of_longer_gap(
                                 ranks, reached[spec.limit + kModel.latency + kModel.overhead], 8) >= kNoneIn100k;)
            ++spec.limit;
        add(kOpportunisticGossip, GossipProtocol{spec}, runs, 0, 0);
    }
    return points;
}

}  // namespace coppice::sim
