// Table 1 of PPoPP'19: percentiles of the largest gap and of the correction time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "reproduce/trees_faults.hpp"

namespace coppice::sim {
namespace {

constexpr const char* kAll = "all trees, checked";
constexpr const char* kAllGaps = "all trees, gaps";

// g_max is known when the dissemination is over, and follows from the tree and the dead (simulation/tree_reach.hpp):
// many more broadcasts than can be corrected in the same time. With the same seed the gaps are those of the corrected
// one.
std::vector<Point> table1_points(Scale scale, std::uint64_t seed) {
    std::vector<Point> points = faulty_points(scale, seed, true);
    for (Point& point : points)
        point.cell.runs = PerScale<std::uint64_t>{64, 2'500, 100'000}.at(scale);
    for (const double rate : kRates) {
        Cell cell{.protocol = {}, .ranks = kRanks, .model = kModel, .dead_count = dead_at(rate), .first_seed = seed};
        cell.runs = PerScale<std::uint64_t>{2'500, 100'000, 100'000}.at(scale);
        for (const TreeName& tree : kTrees) {
            cell.protocol = TreeGaps{tree.tree};
            points.push_back({gaps_of(tree.name), rate, cell});
        }
    }
    return points;
}

struct Printed {
    double rate;
    std::array<double, 3> gap;  // 99 %, 99.9 %, max
    std::array<double, 3> correction;
};
constexpr std::array<Printed, 5> kTable1{{{0.01, {1, 2, 3}, {10, 12, 14}},
                                          {0.1, {2, 3, 6}, {12, 13, 16}},
                                          {1, {5, 7, 19}, {16, 19, 32}},
                                          {2, {8, 11, 35}, {19, 24, 56}},
                                          {4, {13, 20, 55}, {26, 34, 86}}}};

// Of each rate, over the four trees.
constexpr std::uint64_t kPrintedRuns = 400'000;

// How likely the largest of `runs` values is `value`, or farther out on its side; as `seen` has them. Beyond the largest that was seen
// the tail is taken to go on as it did from the 99.9 % percentile, equally many steps for each power of ten, and to hold less than the
// one value in all that would have come up in one series of two.
double chance_of_largest(const Histogram& seen, std::uint64_t value, std::uint64_t runs) {
    const auto share_from = [&seen](std::uint64_t least) {
        std::uint64_t times = 0;
        for (auto one = seen.values().lower_bound(least); one != seen.values().end(); ++one)
            times += one->second;
        return static_cast<double>(times) / static_cast<double>(seen.count());
    };
    const auto share_at_least = [&](std::uint64_t least) {
        if (least <= seen.most()) return share_from(least);
        const std::uint64_t rare = seen.percentile(0.999);
        const double steps = std::max(1.0, static_cast<double>(seen.most() - rare));
        const double each = std::log(share_from(rare) / share_from(seen.most())) / steps;
        const double goes_on = share_from(seen.most()) * std::exp(-each * static_cast<double>(least - seen.most()));
        return std::min(goes_on, std::log(2.0) / static_cast<double>(seen.count()));
    };
    const double all = static_cast<double>(runs);
    const double reaches = -std::expm1(-all * share_at_least(value));
    const double stays = std::exp(-all * share_at_least(value + 1));
    return std::min(1.0, 2 * std::min(reaches, stays));
}

void claim_percentiles(Study& e, const Printed& row, Metric metric, const std::array<double, 3>& printed,
                       const std::string& series) {
    const char* const name = metric == Metric::gap ? "g_max" : "L_SCC";
    // Ten broadcasts beyond the percentile, over the four trees together; a hundred where the tail is long: where the
    // two percentiles are five steps apart, ten leave an error of a step.
    const std::uint64_t beyond = printed[1] - printed[0] < 5 ? 10 : 100;
    const std::array<std::pair<double, std::uint64_t>, 2> shares{{{0.99, 100 * beyond}, {0.999, 1000 * beyond}}};
    for (std::size_t i = 0; i < shares.size(); ++i) {
        const auto [share, needed] = shares[i];
        e.claims.push_back(ours(
            "one step to either side: percentiles of whole numbers that were drawn, there as here",
            {fmt::format("At {} % failed, the {} % percentile of {} is {}.", row.rate, share * 100, name, printed[i]),
             "PPoPP'19 Table 1", fmt::format("{} % percentile", share * 100),
             [=, rate = row.rate, at = share](const Results& r) {
                 return std::optional(static_cast<double>(r.at(series, rate).of(metric).percentile(at)));
             },
             printed[i] - 1, printed[i] + 1, "", needed, series}));
    }
    e.claims.push_back(
        ours("a largest value is luck: of as many broadcasts one series in twenty has it farther out, on either side",
             {fmt::format("At {} % failed, the largest {} is {}.", row.rate, name, printed[2]), "PPoPP'19 Table 1",
              "chance of a largest as far out as this, or farther",
              [=, rate = row.rate, largest = static_cast<std::uint64_t>(printed[2])](const Results& r) {
                  return std::optional(chance_of_largest(r.at(series, rate).of(metric), largest, kPrintedRuns));
              },
              0.05, 1, "", kPrintedRuns, series}));
}

}  // namespace

Study table1(Scale scale, std::uint64_t seed) {
    Study e{.name = "table1",
            .title = "Cost of correction under failures, all trees together, 64K processes",
            .source = "PPoPP'19, Table 1",
            .axis = {"failed processes [%]", "category", "failed_percent"},
            .style = Style::line,
            .points = table1_points(scale, seed)};
    for (const Metric metric : {Metric::gap, Metric::correction}) {
        const std::string name = metric == Metric::gap ? "g_max" : "L_SCC [steps]";
        const std::string from = metric == Metric::gap ? kAllGaps : kAll;
        const auto only_all = [from](const std::string& series) { return series == from; };
        e.panels.push_back({"99 %", name, percentile_of(metric, 0.99), false, true, only_all});
        e.panels.push_back({"99.9 %", name, percentile_of(metric, 0.999), false, true, only_all});
        e.panels.push_back({"largest", name, percentile_of(metric, 1), false, true, only_all});
    }
    for (std::size_t panel = 0; panel < e.panels.size(); ++panel) {
        e.formulas.push_back({"printed",
                              [panel](double rate) -> std::optional<double> {
                                  for (const Printed& row : kTable1) {
                                      if (row.rate == rate)
                                          return panel < 3 ? row.gap[panel] : row.correction[panel - 3];
                                  }
                                  return std::nullopt;
                              },
                              panel});
    }
    for (const Printed& row : kTable1) {
        claim_percentiles(e, row, Metric::gap, row.gap, kAllGaps);
        claim_percentiles(e, row, Metric::correction, row.correction, kAll);
    }
    e.derive = [](Results& results) {
        results.merge(kAll, all_checked());
        std::vector<std::string> names;
        for (const TreeName& tree : kTrees)
            names.push_back(gaps_of(tree.name));
        results.merge(kAllGaps, names);
    };
    e.reading =
        "Percentiles of the largest gap and of the correction time over all four trees, with what the paper prints. "
        "\"What was "
        "run\" below says on how many broadcasts they rest.";
    e.remarks =
        std::string(kFaultyRemarks) +
        " g_max is taken from the tree and the dead, which is quick: it rests on more broadcasts than L_SCC, for which "
        "the machines are run, with the same seeds as far as they go. Where both were done the gaps are the same.";
    e.projects = true;
    return e;
}

}  // namespace coppice::sim
