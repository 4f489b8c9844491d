// Figure 14 of PPoPP'19: when everybody has the payload, without failures.
#include <algorithm>
#include <cmath>

#include "reproduce/trees_fault_free.hpp"

namespace coppice::sim {

Study fig14(Scale scale, std::uint64_t seed) {
    Study e{.name = "fig14",
            .title = "Coloring latency without failures",
            .source = "PPoPP'19, Figure 14 (Appendix B)",
            .axis = {"processes", "log2", "ranks"},
            .style = Style::ribbon,
            .points = fault_free_points(scale, seed)};
    e.panels = {{.y_label = "coloring latency [steps]",
                 .height = mean_of(Metric::coloring),
                 .from_zero = true,
                 .shows = [](const std::string& series) {
                     return series.find("4-ary") == std::string::npos &&
                            series.find(", one message") == std::string::npos &&
                            (series.find(',') != std::string::npos || is_gossip(series));
                 }}};
    e.claims = {
        {"All are colored when the last process receives a tree message; there is no difference between corrected and "
         "acknowledged trees.",
         "PPoPP'19 Appendix B", "largest difference of coloring latency in steps, checked against acknowledged",
         [](const Results& r) {
             double most = 0;
             for (const TreeName& tree : kTrees) {
                 for (const double x : r.xs(checked(tree.name))) {
                     most = std::max(most, std::abs(r.mean(checked(tree.name), x, Metric::coloring) -
                                                    r.mean(acknowledged(tree.name), x, Metric::coloring)));
                 }
             }
             return std::optional(most);
         },
         0, 0},
        ours("much: by half", {"Coloring happens much faster than quiescence.", "PPoPP'19 Appendix B",
                               "least ratio at 65536, quiescence over coloring, over the acknowledged trees",
                               [](const Results& r) {
                                   return std::optional(range_over_trees([&](const std::string& tree) {
                                                            return r.mean(acknowledged(tree), kRanks,
                                                                          Metric::quiescence) /
                                                                   r.mean(acknowledged(tree), kRanks, Metric::coloring);
                                                        }).first);
                               },
                               1.5}),
        {"Corrected gossip usually finishes full coloring only during correction.", "PPoPP'19 Appendix B",
         "mean coloring latency less the start of the correction, in steps, largest size",
         [](const Results& r) {
             const double x = largest(r, kCheckedGossip);
             const Figures& figures = r.at(kCheckedGossip, x);
             const double start = figures.of(Metric::quiescence).mean() - figures.of(Metric::correction).mean();
             return std::optional(figures.of(Metric::coloring).mean() - start);
         },
         0},
        {"Opportunistic correction may speed up coloring, and a binomial tree benefits the most.", "PPoPP'19 §4.1",
         "steps that overlapped optimized correction gains at 65536: binomial less the best other tree",
         [](const Results& r) {
             const auto gain = [&](const std::string& tree) {
                 return r.mean(tree, kRanks, Metric::coloring) - r.mean(optimized(tree), kRanks, Metric::coloring);
             };
             return std::optional(gain("binomial") - std::max({gain("4-ary"), gain("Lamé 2"), gain("optimal")}));
         },
         0},
    };
    e.reading =
        "As Figure 7, but when the last process has the payload and not when all is quiet: acknowledgements make no "
        "difference here.";
    e.remarks = kFaultFreeRemarks;
    return e;
}

}  // namespace coppice::sim
