// Figure 7 of PPoPP'19: when all is quiet, without failures.
#include <algorithm>
#include <cmath>

#include "reproduce/trees_fault_free.hpp"

namespace coppice::sim {

Study fig7(Scale scale, std::uint64_t seed) {
    Study e{.name = "fig7",
            .title = "Quiescence latency without failures",
            .source = "PPoPP'19, Figure 7",
            .axis = {"processes", "log2", "ranks"},
            .style = Style::ribbon,
            .points = fault_free_points(scale, seed)};
    e.panels = {{.y_label = "quiescence latency [steps]",
                 .height = mean_of(Metric::quiescence),
                 .from_zero = true,
                 .shows = [](const std::string& series) {
                     return series.find("4-ary") == std::string::npos &&
                            series.find(", one message") == std::string::npos &&
                            (series.find(',') != std::string::npos || series == kCheckedGossip);
                 }}};
    e.claims = {
        {"Independent of the tree type, checked correction lasts 8 time steps.", "PPoPP'19 §4.1",
         "correction time, the farthest from 8",
         [](const Results& r) {
             double farthest = 8;
             for (const TreeName& tree : kTrees) {
                 for (const double x : r.xs(checked(tree.name))) {
                     const double lasts = r.mean(checked(tree.name), x, Metric::correction);
                     if (std::abs(lasts - 8) > std::abs(farthest - 8)) farthest = lasts;
                 }
             }
             return std::optional(farthest);
         },
         8, 8},
        {"The latency of the 4-ary tree lies between the binomial and the Lamé tree.", "PPoPP'19 §4.1",
         "share of sizes from 256 on where it does, with checked correction",
         [](const Results& r) {
             double between = 0;
             double all = 0;
             for (const double x : r.xs(checked("4-ary"))) {
                 if (x < 256) continue;
                 const double latency = r.mean(checked("4-ary"), x, Metric::quiescence);
                 ++all;
                 if (latency <= r.mean(checked("binomial"), x, Metric::quiescence) &&
                     latency >= r.mean(checked("Lamé 2"), x, Metric::quiescence))
                     ++between;
             }
             return std::optional(between / all);
         },
         1, 1},
        {"Opportunistic corrected gossip is generally slower than checked corrected gossip.", "PPoPP'19 §4.1",
         "share of sizes where it is",
         [](const Results& r) {
             double slower = 0;
             const auto xs = r.xs(kCheckedGossip);
             for (const double x : xs)
                 slower += r.mean(kOpportunisticGossip, x, Metric::quiescence) >=
                                   r.mean(kCheckedGossip, x, Metric::quiescence)
                               ? 1
                               : 0;
             return std::optional(slower / static_cast<double>(xs.size()));
         },
         0.5, 1,
         "by half a step to two it is faster here. The paper's gossip time is the shortest that left nobody out in "
         "10^5 "
         "broadcasts of 64K processes; ours is the shortest for each size, and where it is longer so is the latency"},
        ours("lower than the corrected binomial tree's",
             {"Gossip shows low latency.", "PPoPP'19 §4.1",
              "checked corrected gossip over the checked binomial tree, largest size",
              [](const Results& r) {
                  const double x = largest(r, kCheckedGossip);
                  return std::optional(r.mean(kCheckedGossip, x, Metric::quiescence) /
                                       r.mean(checked("binomial"), x, Metric::quiescence));
              },
              0, 1}),
        ours("small: less than the correction of a tree lasts",
             {"The latency of gossip shows small statistical variation even without failures.", "PPoPP'19 §4.1",
              "largest 5 % to 95 % range in steps, from 1024 processes on",
              [](const Results& r) {
                  double most = 0;
                  for (const double x : r.xs(kCheckedGossip)) {
                      if (x < 1024) continue;
                      const Histogram& latency = r.at(kCheckedGossip, x).of(Metric::quiescence);
                      most = std::max(most, static_cast<double>(latency.percentile(0.95) - latency.percentile(0.05)));
                  }
                  return std::optional(most);
              },
              0, 8}),
        ours("effectively: to the nearest quarter, both ways",
             {"With acknowledgements the tree has to be traversed twice, effectively doubling the latency.",
              "PPoPP'19 §5", "acknowledged over plain tree at 65536, the farthest from 2",
              [](const Results& r) {
                  const auto ratio = [&](const std::string& tree) {
                      return r.mean(acknowledged(tree), kRanks, Metric::quiescence) /
                             r.mean(tree, kRanks, Metric::quiescence);
                  };
                  const auto [least, most] = range_over_trees(ratio);
                  return std::optional(std::abs(least - 2) > std::abs(most - 2) ? least : most);
              },
              1.75, 2.25,
              "that of the 4-ary tree, where a process takes longer to send to its four children than their "
              "acknowledgements take to arrive; in the other trees acknowledgements cost 95 % to 100 % more"}),
        {"Our solution achieves a latency reduction of 50 %.", "PPoPP'19 abstract",
         "largest reduction of quiescence latency in %, corrected against acknowledged tree at 65536",
         [](const Results& r) {
             const auto reduction = [&](const std::string& tree) {
                 const double best = std::min(r.mean(checked(tree), kRanks, Metric::quiescence),
                                              r.mean(optimized(tree), kRanks, Metric::quiescence));
                 return 100 * (1 - best / r.mean(acknowledged(tree), kRanks, Metric::quiescence));
             };
             return std::optional(range_over_trees(reduction).second);
         },
         45, 55,
         "the paper does not say against which scheme; in coloring latency (Figure 14) trees with and without "
         "acknowledgements are equal"},
    };
    e.reading =
        "Dashed: corrected trees; solid: trees with acknowledgements; the ribbon spans the 5 % to 95 % percentiles "
        "of checked corrected gossip.";
    e.remarks = kFaultFreeRemarks;
    return e;
}

}  // namespace coppice::sim
