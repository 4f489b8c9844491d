#include "reproduce/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace coppice::sim {

void Results::add(const Point& point, Figures figures) {
    if (std::find(names_.begin(), names_.end(), point.series) == names_.end()) names_.push_back(point.series);
    points_[{point.series, point.x}] = {point.cell, std::move(figures)};
}

void Results::merge(const std::string& series, const std::vector<std::string>& parts) {
    for (const double x : xs(parts.front())) {
        Point point{.series = series, .x = x, .cell = cell(parts.front(), x)};
        Figures all;
        for (const std::string& part : parts)
            all.add(at(part, x));
        point.cell.runs = all.runs;
        add(point, std::move(all));
    }
}

const Figures& Results::at(const std::string& series, double x) const {
    const auto found = points_.find({series, x});
    if (found == points_.end()) throw std::logic_error(fmt::format("no point {} of \"{}\"", x, series));
    return found->second.figures;
}

const Cell& Results::cell(const std::string& series, double x) const {
    at(series, x);
    return points_.at({series, x}).cell;
}

double Results::messages_per_rank(const std::string& series, double x) const {
    return mean(series, x, Metric::messages) / cell(series, x).ranks;
}

std::vector<double> Results::xs(const std::string& series) const {
    std::vector<double> xs;
    for (const auto& [key, entry] : points_) {
        if (key.first == series) xs.push_back(key.second);
    }
    return xs;
}

std::vector<std::pair<Cell, const Figures*>> Results::parts() const {
    std::vector<std::pair<Cell, const Figures*>> parts;
    for (const auto& [key, entry] : points_)
        parts.emplace_back(entry.cell, &entry.figures);
    return parts;
}

std::uint64_t Results::least_runs(const std::string& series) const {
    std::uint64_t least = UINT64_MAX;
    for (const auto& [key, entry] : points_) {
        if ((series.empty() || key.first == series) && !entry.cell.is_deterministic())
            least = std::min(least, entry.figures.runs);
    }
    return least;
}

Judgement judge(const Claim& claim, const Results& results) {
    Judgement judgement{.claim = &claim, .figure = {}, .verdict = Verdict::not_comparable, .why = {}};
    if (claim.measure) judgement.figure = claim.measure(results);
    if (!judgement.figure) {
        judgement.why = claim.remark;
    } else if (const std::uint64_t runs = results.least_runs(claim.rests_on); claim.runs_needed > runs) {
        judgement.why = fmt::format("needs {} broadcasts for each point, these were {}", claim.runs_needed, runs);
    } else {
        const bool holds = *judgement.figure >= claim.least && *judgement.figure <= claim.most;
        judgement.verdict = holds ? Verdict::holds : Verdict::does_not_hold;
    }
    return judgement;
}

}  // namespace coppice::sim
