// Figure 1b of PPoPP'19: how positions are numbered matters.
#include <fmt/format.h>

#include <array>

#include "reproduce/trees.hpp"

namespace coppice::sim {
namespace {

constexpr std::array<std::uint32_t, 3> kSizes{1024, 8192, 65536};

std::string of_size(const char* numbering, std::uint32_t ranks) {
    return fmt::format("{}, P = {}", numbering, ranks);
}

}  // namespace

Study fig1b(Scale scale, std::uint64_t seed) {
    Study e{.name = "fig1b",
            .title = "Correction time of in-order and interleaved binomial trees",
            .source = "PPoPP'19, Figure 1b",
            .axis = {"failed processes", "linear", "failed"},
            .style = Style::line};
    const std::uint64_t runs = PerScale<std::uint64_t>{60, 2000, 20000}.at(scale);
    for (const std::uint32_t ranks : kSizes) {
        for (const char* numbering : {"in-order", "interleaved"}) {
            const std::string tree = numbering[1] == 'n' && numbering[2] == '-' ? "binomial:inorder" : "binomial";
            for (const std::uint32_t failed : {0U, 1U, 2U, 3U, 5U}) {
                e.points.push_back({of_size(numbering, ranks), static_cast<double>(failed),
                                    Cell{.protocol = TreeProtocol{tree, kChecked},
                                         .ranks = ranks,
                                         .model = kModel,
                                         .dead_count = failed,
                                         .first_seed = seed,
                                         .runs = runs}});
            }
        }
    }
    // The root's child with the largest subtree.
    e.points.push_back({"in-order, first child failed", 1,
                        Cell{.protocol = TreeProtocol{"binomial:inorder", kChecked},
                             .ranks = kRanks,
                             .model = kModel,
                             .dead = {kRanks / 2},
                             .first_seed = seed}});
    e.panels = {{.y_label = "mean correction time [steps]",
                 .height = mean_of(Metric::correction, false),
                 .log_y = true,
                 .shows = [](const std::string& series) { return series != "in-order, first child failed"; }}};
    const std::string in_order = of_size("in-order", kRanks);
    const std::string interleaved = of_size("interleaved", kRanks);
    e.claims = {
        {"Without faults, the correction phase would take 8 time steps.", "PPoPP'19 §1",
         "longest correction without faults",
         [](const Results& r) {
             double most = 0;
             for (const std::string& series : r.series()) {
                 if (r.has(series, 0)) most = std::max(most, r.mean(series, 0, Metric::correction));
             }
             return std::optional(most);
         },
         8, 8},
        {"The expected correction time of an interleaved tree increases slightly with the faults, but in this case "
         "does not exceed 10.5 steps.",
         "PPoPP'19 §1", "largest mean correction time of interleaved trees",
         [](const Results& r) {
             double most = 0;
             for (const std::uint32_t ranks : kSizes) {
                 for (const double failed : r.xs(of_size("interleaved", ranks)))
                     most = std::max(most, r.mean(of_size("interleaved", ranks), failed, Metric::correction));
             }
             return std::optional(most);
         },
         8, 10.5},
        {"The expected correction time of an in-order tree grows with the absolute number of faults.", "PPoPP'19 §1",
         "mean with 5 failed over mean with 1, P = 65536",
         [in_order](const Results& r) {
             return std::optional(r.mean(in_order, 5, Metric::correction) / r.mean(in_order, 1, Metric::correction));
         },
         1, std::numeric_limits<double>::infinity(),
         "the mean rests on rare, very long corrections: few broadcasts scatter", 2000, in_order},
        {"… and takes even longer for the larger trees.", "PPoPP'19 §1", "mean with 5 failed, P = 65536 over P = 1024",
         [in_order](const Results& r) {
             return std::optional(r.mean(in_order, 5, Metric::correction) /
                                  r.mean(of_size("in-order", 1024), 5, Metric::correction));
         },
         1, std::numeric_limits<double>::infinity(), "", 2000, in_order},
        {"A single failure close to the root of an in-order tree may take orders of magnitude longer to correct than "
         "on average.",
         "PPoPP'19 §1", "root's first child failed, over the mean with 1 failed",
         [in_order](const Results& r) {
             return std::optional(r.mean("in-order, first child failed", 1, Metric::correction) /
                                  r.mean(in_order, 1, Metric::correction));
         },
         100},
    };
    e.reading =
        "Each curve is a numbering at one size. Interleaved trees stay at 8 to 10.5 steps whatever the size; "
        "in-order trees climb with faults and size. The vertical axis is logarithmic.";
    e.remarks =
        "The figure's own axis is lost in the copy of the paper at hand: numbers of failed processes and sizes are "
        "chosen here.";
    return e;
}

}  // namespace coppice::sim
