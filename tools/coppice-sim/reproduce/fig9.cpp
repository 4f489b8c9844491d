// Figure 9 of PPoPP'19: messages under failures.
#include <algorithm>
#include <cmath>

#include "reproduce/trees_faults.hpp"

namespace coppice::sim {

Study fig9(Scale scale, std::uint64_t seed) {
    Study e{.name = "fig9",
            .title = "Messages per process under failures, 64K processes",
            .source = "PPoPP'19, Figure 9",
            .axis = {"failed processes [%]", "category", "failed_percent"},
            .style = Style::whiskers,
            .points = faulty_points(scale, seed, false)};
    e.panels = {{.y_label = "messages per process", .height = messages_per_rank, .from_zero = true}};
    e.claims = {
        {"With more faults, the number of messages drops for all types of collectives.", "PPoPP'19 §4.3",
         "largest change from 0.01 % to 4 %, in %",
         [](const Results& r) {
             return std::optional(range(r.series(), [&](const std::string& series) {
                                      return growth(r, series, Metric::messages);
                                  }).second);
         },
         -100, 0},
        {"… and the variation in messages per process grows.", "PPoPP'19 §4.3",
         "least ratio of standard deviations, 4 % over 0.01 %, over the trees with checked correction",
         [](const Results& r) {
             return std::optional(range(all_checked(), [&](const std::string& series) {
                                      return deviation_ratio(r, series, Metric::messages);
                                  }).first);
         },
         1},
        ours("significantly: by a fifth at least",
             {"Corrected trees still maintain a significantly lower number of messages than corrected gossip.",
              "PPoPP'19 §4.3", "least ratio at any rate, gossip over the tree that sends most",
              [](const Results& r) {
                  double least = 1e9;
                  for (const double rate : kRates) {
                      const double most = std::max(
                          range(all_checked(), [&](const std::string& s) { return r.messages_per_rank(s, rate); })
                              .second,
                          range(all_optimized(), [&](const std::string& s) {
                              return r.messages_per_rank(s, rate);
                          }).second);
                      least = std::min(least, r.messages_per_rank(kFaultyGossip, rate) / most);
                  }
                  return std::optional(least);
              },
              1.2}),
        ours("very little: less than a hundredth",
             {"A small number of faults has very little impact on the number of messages.", "PPoPP'19 §4.3",
              "change at 0.01 % against the fault-free 6 − 1/P (checked), the largest in %",
              [](const Results& r) {
                  const double fault_free = 6 - 1.0 / kRanks;
                  return std::optional(range(all_checked(), [&](const std::string& s) {
                                           return 100 * std::abs(r.messages_per_rank(s, kLeast) / fault_free - 1);
                                       }).second);
              },
              0, 1}),
    };
    e.reading =
        "Mean and 5 % to 95 % percentiles. Fewer messages at higher rates are no merit: ranks that the "
        "dissemination leaves out take no part in the correction.";
    e.remarks = kFaultyRemarks;
    return e;
}

}  // namespace coppice::sim
