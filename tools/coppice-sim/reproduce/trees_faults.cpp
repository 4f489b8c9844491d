
#include "reproduce/trees_faults.hpp"

namespace coppice::sim {
namespace {

using protocol::GossipKind;

}  // namespace

const char* const kFaultyRemarks =
    "The dead are drawn again for each broadcast, of all processes but the root; everybody else knows nothing of "
    "them. Optimized correction follows the repaired rule, up to 4 messages in each direction; the rule as printed "
    "leaves live processes out (`optimized-paper:D`). Gossip lasts as long as is best without failures, at all "
    "rates.";

std::uint32_t dead_at(double rate) {
    return static_cast<std::uint32_t>(rate / 100 * (kRanks - 1));
}

std::vector<Point> faulty_points(Scale scale, std::uint64_t seed, bool only_checked) {
    std::vector<Point> points;
    const std::uint64_t runs = PerScale<std::uint64_t>{64, 10'000, 100'000}.at(scale);
    const std::uint64_t fewer = PerScale<std::uint64_t>{12, 1'000, 100'000}.at(scale);
    for (const double rate : kRates) {
        Cell cell{.protocol = {}, .ranks = kRanks, .model = kModel, .dead_count = dead_at(rate), .first_seed = seed};
        for (const TreeName& tree : kTrees) {
            cell.protocol = TreeProtocol{tree.tree, "checked:synchronized"};
            cell.runs = runs;
            points.push_back({checked(tree.name), rate, cell});
            if (only_checked) continue;
            cell.protocol = TreeProtocol{tree.tree, "optimized:4"};
            cell.runs = fewer;
            points.push_back({optimized(tree.name), rate, cell});
        }
        if (only_checked) continue;
        // The time that is best without failures, as in Figure 7, whatever the rate.
        cell.protocol = GossipProtocol{gossip_by_equations(GossipKind::checked, kRanks, kModel, 1e-3)};
        cell.runs = fewer;
        points.push_back({kFaultyGossip, rate, cell, 5, 3});
    }
    return points;
}

std::vector<std::string> all_checked() {
    std::vector<std::string> names;
    for (const TreeName& tree : kTrees)
        names.push_back(checked(tree.name));
    return names;
}

std::vector<std::string> all_optimized() {
    std::vector<std::string> names;
    for (const TreeName& tree : kTrees)
        names.push_back(optimized(tree.name));
    return names;
}

double growth(const Results& r, const std::string& series, Metric metric) {
    return 100 * (r.mean(series, kMost, metric) / r.mean(series, kLeast, metric) - 1);
}

double deviation_ratio(const Results& r, const std::string& series, Metric metric) {
    return r.at(series, kMost).of(metric).deviation() / r.at(series, kLeast).of(metric).deviation();
}

}  // namespace coppice::sim
