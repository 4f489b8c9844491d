
#include "reproduce/gossip_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace coppice::sim {
namespace {

using protocol::GossipKind;
using protocol::GossipSpec;

// Half a chance that all of 10^6 broadcasts are complete (§III.B).
const double kDelta = protocol::delta_for(0.5, 1e6);

}  // namespace

const char* const kPorts =
    "Each process has one receive port (LogP): when all gossip at once receptions queue up, and a gossip longer "
    "than needed delays the correction. The paper's analysis lets receptions overlap, so its curves rise less "
    "behind the best T.";

double reached_by(std::uint32_t time) {
    static const std::vector<double> reached = protocol::expected_reached({kRing, kRing, 1, 1}, 200);
    return reached[time + kUnit.latency + kUnit.overhead];
}

double total_time(GossipKind kind, double time) {
    const auto limit = static_cast<std::uint32_t>(time);
    const double reached = reached_by(limit);
    if (kind == GossipKind::failure_proof)
        return time + 4.0 * protocol::longest_chain(kRing, reached, 5, kDelta) + 1 - 13;
    const double longest = protocol::longest_gap(kRing, reached, kDelta);
    const double factor = kind == GossipKind::opportunistic ? 1 : 2;
    return time + 2 + 2 + factor * longest;
}

std::vector<Point> over_time(const std::string& series, GossipKind kind, std::uint32_t first, std::uint32_t last,
                             std::uint64_t runs, std::uint64_t seed) {
    std::vector<Point> points;
    for (std::uint32_t time = first; time <= last; ++time) {
        GossipSpec spec{.kind = kind, .failures = 1, .limit = time};
        // A few more than foreseen: a gap that is longer than foreseen is to show as a later coloring, not as nobody's.
        if (kind == GossipKind::opportunistic)
            spec.corrections = protocol::longest_gap(kRing, reached_by(time), kDelta) + 8;
        points.push_back(
            {series, static_cast<double>(time),
             Cell{.protocol = GossipProtocol{spec}, .ranks = kRing, .model = kUnit, .first_seed = seed, .runs = runs}});
    }
    return points;
}

Study over_gossip_time(const TimeFigure& figure, Scale scale, std::uint64_t seed) {
    Study e{.name = figure.name,
            .title = figure.title,
            .source = figure.source,
            .axis = {"gossip time T [steps]", "linear", "T"},
            .style = Style::points};
    const std::uint64_t runs = PerScale<std::uint64_t>{300, 20'000, 1'000'000}.at(scale);
    e.points = over_time(figure.series, figure.kind, figure.first, figure.last, runs, seed);
    e.panels = {{.y_label = "largest total time [steps]", .height = percentile_of(figure.metric, 1)}};
    e.formulas = {{figure.formula, [kind = figure.kind](double x) { return std::optional(total_time(kind, x)); }}};
    e.reading =
        "Dots: the longest of all broadcasts with this gossip time; line: what the equation foresees. The best "
        "gossip time is where both are lowest: shorter leaves long gaps to correct, longer gossips to those that "
        "know.";
    return e;
}

double largest_time(const TimeFigure& figure, const Results& results, double time) {
    return static_cast<double>(results.at(figure.series, time).of(figure.metric).most());
}

std::vector<Claim> best_time_claims(const TimeFigure& figure, double printed) {
    std::vector<double> least_at;  // every T with the least total
    double least = kInfinity;
    for (double time = figure.first; time <= figure.last; ++time) {
        const double total = total_time(figure.kind, time);
        if (total < least) least_at.clear();
        if (total <= least) least_at.push_back(time);
        least = std::min(least, total);
    }
    const std::string ties = least_at.size() == 1 ? std::string()
                                                  : fmt::format("the equation's total is the same at T = {} and {}",
                                                                least_at.front(), least_at.back());
    return {
        {.text = fmt::format("The approximation predicts T = {}.", printed),
         .where = figure.source,
         .measured = "shortest T with the equation's least total, and the one step more that the paper adds in all its "
                     "experiments (§III.B)",
         .measure = [first = least_at.front()](const Results&) { return std::optional(first + 1); },
         .least = printed,
         .most = printed,
         .remark = ties},
        {.text = fmt::format("… which is the optimal gossip time, T = {}.", printed),
         .where = figure.source,
         .measured = fmt::format("steps by which the largest time at T = {} exceeds the least at any T", printed),
         .measure =
             [figure, printed](const Results& r) {
                 double best = kInfinity;
                 for (const double x : r.xs(figure.series))
                     best = std::min(best, largest_time(figure, r, x));
                 return std::optional(largest_time(figure, r, printed) - best);
             },
         .least = 0,
         .most = 0,
         .remark = "the largest of many broadcasts is a matter of luck, and grows with their number",
         .runs_needed = 20'000}};
}

Claim difference_claim(const TimeFigure& figure, const char* text, double most) {
    return {text,
            figure.source,
            "largest difference in steps, at any T",
            [figure](const Results& r) {
                double largest = 0;
                for (const double x : r.xs(figure.series))
                    largest = std::max(largest, std::abs(largest_time(figure, r, x) - total_time(figure.kind, x)));
                return std::optional(largest);
            },
            0,
            most,
            "the largest of many broadcasts grows with their number; behind the best T receptions queue up at the one "
            "port of "
            "a process, which the equation does not count",
            20'000};
}

}  // namespace coppice::sim
