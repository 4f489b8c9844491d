// Figure 6 of PPoPP'19: messages without failures.
#include <algorithm>
#include <cmath>

#include "reproduce/trees_fault_free.hpp"

namespace coppice::sim {

Study fig6(Scale scale, std::uint64_t seed) {
    Study e{.name = "fig6",
            .title = "Average number of messages per process without failures",
            .source = "PPoPP'19, Figure 6",
            .axis = {"processes", "log2", "ranks"},
            .style = Style::line,
            .points = fault_free_points(scale, seed)};
    e.panels = {{.y_label = "messages per process", .height = messages_per_rank, .from_zero = true}};
    e.claims = {
        {"With synchronized checked correction all trees behave the same: each process sends 5 correction messages.",
         "PPoPP'19 §4.1", "correction messages per process, the farthest from 5",
         [](const Results& r) {
             double farthest = 5;
             for (const TreeName& tree : kTrees) {
                 for (const double x : r.xs(checked(tree.name))) {
                     const double sent = (r.mean(checked(tree.name), x, Metric::messages) - (x - 1)) / x;
                     if (std::abs(sent - 5) > std::abs(farthest - 5)) farthest = sent;
                 }
             }
             return std::optional(farthest);
         },
         5, 5},
        ours("the figure prints no numbers: what could be told apart in it",
             {"For the trees, the average number of messages does not depend on the number of processes.",
              "PPoPP'19 §4.1", "largest spread over sizes from 256 on, in % (checked and optimized)",
              [](const Results& r) {
                  const auto spread = [&r](const std::string& series) {
                      double least = 1e9;
                      double most = 0;
                      for (const double x : r.xs(series)) {
                          if (x < 256) continue;
                          least = std::min(least, r.messages_per_rank(series, x));
                          most = std::max(most, r.messages_per_rank(series, x));
                      }
                      return 100 * (most / least - 1);
                  };
                  return std::optional(range_over_trees([&](const std::string& tree) {
                                           return std::max(spread(checked(tree)), spread(optimized(tree)));
                                       }).second);
              },
              0, 5,
              "exactly constant with checked correction; optimized correction depends a little on the last level"}),
        ours("significantly: by a fifth at least",
             {"Corrected trees require significantly fewer messages than corrected gossip.", "PPoPP'19 §4.1",
              "least ratio, gossip over tree with checked correction, any size from 256 on",
              [](const Results& r) {
                  double least = 1e9;
                  for (const double x : r.xs(kCheckedGossip)) {
                      if (x < 256) continue;
                      const double tree = range_over_trees([&](const std::string& name) {
                                              return r.messages_per_rank(checked(name), x);
                                          }).second;
                      least = std::min({least, r.messages_per_rank(kCheckedGossip, x) / tree,
                                        r.messages_per_rank(kOpportunisticGossip, x) / tree});
                  }
                  return std::optional(least);
              },
              1.2}),
        {"… with up to six times fewer messages than existing schemes.", "PPoPP'19 abstract",
         "largest ratio, gossip over a tree with one correction message",
         [](const Results& r) {
             double most = 0;
             for (const double x : r.xs(kOpportunisticGossip)) {
                 const double tree = r.messages_per_rank("binomial, one message", x);
                 most = std::max({most, r.messages_per_rank(kCheckedGossip, x) / tree,
                                  r.messages_per_rank(kOpportunisticGossip, x) / tree});
             }
             return std::optional(most);
         },
         5.5, 6.5,
         "the paper does not say between which two; these are the ones farthest apart in the figure, and a gossip two "
         "steps "
         "longer than the equations choose would give six"},
        {"Optimized opportunistic correction sends at most as many messages as checked correction.", "PPoPP'19 §4.1",
         "most messages per process that it sends more",
         [](const Results& r) {
             double most = -1e9;
             for (const TreeName& tree : kTrees) {
                 for (const double x : r.xs(checked(tree.name))) {
                     most = std::max(most, r.messages_per_rank(optimized(tree.name), x) -
                                               r.messages_per_rank(checked(tree.name), x));
                 }
             }
             return std::optional(most);
         },
         -1e9, 0,
         "our rule is the repaired one, which relies on fewer neighbours than the printed one and so sends more; the "
         "printed "
         "one (optimized-paper:4) sends no more than checked correction on any of the trees, but leaves live processes "
         "out"},
        ours("P − 1 tree messages and as many acknowledgements are 2 − 2/P, with one correction by everybody 2 − 1/P",
             {"A broadcast with acknowledgements, or with one correction message in one direction, sends two messages "
              "per "
              "process.",
              "PPoPP'19 §4.1", "messages per process from 256 processes on, the farthest from 2",
              [](const Results& r) {
                  double farthest = 2;
                  for (const double x : r.xs("binomial, one message")) {
                      if (x < 256) continue;
                      for (const std::string& series :
                           {acknowledged("binomial"), std::string("binomial, one message")}) {
                          const double sent = r.messages_per_rank(series, x);
                          if (std::abs(sent - 2) > std::abs(farthest - 2)) farthest = sent;
                      }
                  }
                  return std::optional(farthest);
              },
              2 - 2.0 / 256, 2}),
        ours("negligible: less than from one curve of the figure to the next",
             {"Despite the stochastic nature of corrected gossip, variation in the average number of messages was "
              "negligible.",
              "PPoPP'19 §4.1", "largest 5 % to 95 % range, in % of the mean, from 1024 processes on",
              [](const Results& r) {
                  double most = 0;
                  for (const double x : r.xs(kCheckedGossip)) {
                      if (x < 1024) continue;
                      const Histogram& sent = r.at(kCheckedGossip, x).of(Metric::messages);
                      most = std::max(
                          most, 100 * static_cast<double>(sent.percentile(0.95) - sent.percentile(0.05)) / sent.mean());
                  }
                  return std::optional(most);
              },
              0, 10}),
    };
    e.reading =
        "A horizontal line means that the load of a process does not grow with the system. Trees alone send (P − "
        "1)/P messages, with acknowledgements two, with checked correction six; gossip needs more and grows.";
    e.remarks = kFaultFreeRemarks;
    return e;
}

}  // namespace coppice::sim
