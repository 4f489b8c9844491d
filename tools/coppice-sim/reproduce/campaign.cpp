#include "reproduce/campaign.hpp"

#include <algorithm>

#include "reproduce/forecast.hpp"

namespace coppice::sim {
namespace {

// Parts of a few seconds: little is lost when one is interrupted.
constexpr std::uint64_t kRanksPerPart = 1U << 23;
constexpr std::uint64_t kMostPerPart = 5000;
// Broadcasts for each gossip time that is tried.
constexpr std::uint64_t kTuningRanks = 1U << 18;
constexpr std::uint64_t kMostTuning = 40;

std::uint64_t runs_of(const Cell& cell) {
    return cell.is_deterministic() ? 1 : cell.runs;
}

// Those that are stored are as long as they are there.
std::vector<Cell> parts_of(const Cell& cell, const Store& store) {
    const std::uint64_t most = std::clamp<std::uint64_t>(kRanksPerPart / cell.ranks, 1, kMostPerPart);
    std::vector<Cell> parts;
    Cell part = cell;
    for (std::uint64_t left = runs_of(cell); left > 0; left -= part.runs) {
        part.first_seed = cell.first_seed + (runs_of(cell) - left);
        part.runs = left;
        const std::uint64_t stored = store.longest(part);
        part.runs = stored == 0 ? std::min(most, left) : stored;
        parts.push_back(part);
    }
    return parts;
}

std::vector<Cell> candidates(const Point& point) {
    std::vector<Cell> cells;
    const auto* gossip = std::get_if<GossipProtocol>(&point.cell.protocol);
    if (gossip == nullptr || point.tune_below + point.tune_above == 0) return cells;
    const std::uint32_t step = point.cell.model.overhead;
    const std::uint32_t least = std::max(gossip->spec.limit, point.tune_below * step + step) - point.tune_below * step;
    for (std::uint32_t time = least; time <= gossip->spec.limit + point.tune_above * step; time += step) {
        Cell cell = point.cell;
        cell.dead_count = 0;
        std::get<GossipProtocol>(cell.protocol).spec.limit = time;
        cell.runs = std::min(cell.runs, std::clamp<std::uint64_t>(kTuningRanks / cell.ranks, 4, kMostTuning));
        cells.push_back(cell);
    }
    return cells;
}

std::uint64_t work_of(const Cell& cell) {
    return std::max<std::uint64_t>(1, cell.runs * cell.ranks / 1000);
}

std::uint64_t missing_work(const Cell& cell, const Store& store) {
    std::uint64_t work = 0;
    for (const Cell& part : parts_of(cell, store))
        work += store.find(part) == nullptr ? work_of(part) : 0;
    return work;
}

Results results_of(const std::vector<Point>& points, const std::vector<Figures>& sums) {
    Results results;
    for (std::size_t i = 0; i < points.size(); ++i) {
        Point point = points[i];
        point.cell.runs = sums[i].runs;
        results.add(point, sums[i]);
    }
    return results;
}

}  // namespace

std::uint64_t work_of(const Study& experiment, const Store& store) {
    std::uint64_t work = 0;
    for (const Point& point : experiment.points) {
        work += missing_work(point.cell, store);
        for (const Cell& candidate : candidates(point))
            work += missing_work(candidate, store);
    }
    return work;
}

std::uint64_t largest_bytes(const Study& experiment) {
    std::uint64_t largest = 0;
    for (const Point& point : experiment.points)
        largest = std::max(largest, bytes_needed(point.cell));
    return largest;
}

Campaign::Campaign(Store& store, const Pace& pace, std::uint64_t total_work)
    : store_(store), pace_(pace), progress_("thousand ranks' broadcasts", total_work) {
    const std::chrono::duration<double> time(60 * pace.minutes.value_or(0));
    if (pace.minutes) end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
}

tl::expected<std::optional<Figures>, std::string> Campaign::run_part(const Cell& part, bool at_any_time) {
    if (const Figures* stored = store_.find(part)) {
        worked_.reused += part.runs;
        return *stored;
    }
    if (!at_any_time && end_ && Clock::now() >= *end_) {
        worked_.left += part.runs;
        return std::nullopt;
    }
    auto figures = sim::run(part, pace_.threads);
    if (!figures) return tl::unexpected(figures.error());
    if (auto reason = store_.add(part, *figures)) return tl::unexpected(*reason);
    worked_.ran += part.runs;
    progress_.at(done_ += work_of(part));
    return std::move(*figures);
}

tl::expected<Figures, std::string> Campaign::run_cell(const Cell& cell) {
    Figures all;
    for (const Cell& part : parts_of(cell, store_)) {
        const auto figures = run_part(part, true);
        if (!figures) return tl::unexpected(figures.error());
        all.add(**figures);
    }
    return all;
}

tl::expected<Cell, std::string> Campaign::tuned(const Point& point) {
    Cell best = point.cell;
    double lowest = 0;
    for (const Cell& candidate : candidates(point)) {
        const auto figures = run_cell(candidate);
        if (!figures) return tl::unexpected(figures.error());
        const double latency = figures->of(Metric::quiescence).mean();
        if (lowest != 0 && latency >= lowest) continue;
        lowest = latency;
        best.protocol = candidate.protocol;
    }
    return best;
}

tl::expected<Results, std::string> Campaign::run(const Study& experiment, const Report& report) {
    struct Part {
        std::size_t point = 0;
        double share = 0;  // of its point's broadcasts, that come before it
        Cell cell;
    };
    Forecast forecast(experiment.name, pace_.threads, pace_.report);
    std::vector<Point> points = experiment.points;
    std::vector<Part> parts;
    for (std::size_t i = 0; i < points.size(); ++i) {
        const auto cell = tuned(points[i]);
        if (!cell) return tl::unexpected(cell.error());
        points[i].cell = *cell;
        forecast.expect(*cell, runs_of(*cell));
        for (const Cell& part : parts_of(*cell, store_)) {
            const auto before = static_cast<double>(part.first_seed - cell->first_seed);
            parts.push_back({i, before / static_cast<double>(runs_of(*cell)), part});
            if (const Figures* stored = store_.find(part)) forecast.ran_before(i, *stored);
        }
    }
    std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.share < b.share; });
    forecast.say();

    std::vector<Figures> sums(points.size());
    std::vector<bool> ended(points.size());  // what follows a part that was left out is left out, too
    Clock::time_point reported = Clock::now();
    for (const Part& part : parts) {
        const bool first = sums[part.point].runs == 0;
        if (ended[part.point]) {
            worked_.left += part.cell.runs;
            continue;
        }
        const bool stored = store_.find(part.cell) != nullptr;
        const auto figures = run_part(part.cell, first);
        if (!figures) return tl::unexpected(figures.error());
        ended[part.point] = !figures->has_value();
        if (!*figures) continue;
        sums[part.point].add(**figures);
        if (stored) continue;
        forecast.ran(part.point, **figures);
        forecast.say();
        if (part.share == 0 || Clock::now() - reported < pace_.report) continue;
        if (auto reason = report(results_of(points, sums))) return tl::unexpected(*reason);
        reported = Clock::now();
    }
    return results_of(points, sums);
}

}  // namespace coppice::sim
