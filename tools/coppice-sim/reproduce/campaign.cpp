#include "reproduce/campaign.hpp"

#include <algorithm>

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

std::vector<Cell> parts_of(const Cell& cell) {
    const std::uint64_t most = std::clamp<std::uint64_t>(kRanksPerPart / cell.ranks, 1, kMostPerPart);
    std::vector<Cell> parts;
    for (std::uint64_t done = 0; done < runs_of(cell); done += most) {
        Cell part = cell;
        part.first_seed = cell.first_seed + done;
        part.runs = std::min(most, runs_of(cell) - done);
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
    for (const Cell& part : parts_of(cell))
        work += store.find(part) == nullptr ? work_of(part) : 0;
    return work;
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

Campaign::Campaign(Store& store, unsigned threads, std::uint64_t total_work, std::optional<double> minutes)
    : store_(store), threads_(threads), progress_("thousand ranks' broadcasts", total_work) {
    using namespace std::chrono;
    if (minutes) end_ = steady_clock::now() + duration_cast<steady_clock::duration>(duration<double>(60 * *minutes));
}

tl::expected<std::optional<Figures>, std::string> Campaign::run_part(const Cell& part, bool at_any_time) {
    if (const Figures* stored = store_.find(part)) {
        worked_.reused += part.runs;
        return *stored;
    }
    if (!at_any_time && end_ && std::chrono::steady_clock::now() >= *end_) {
        worked_.left += part.runs;
        return std::nullopt;
    }
    auto figures = sim::run(part, threads_);
    if (!figures) return tl::unexpected(figures.error());
    if (auto reason = store_.add(part, *figures)) return tl::unexpected(*reason);
    worked_.ran += part.runs;
    progress_.at(done_ += work_of(part));
    return std::move(*figures);
}

tl::expected<Figures, std::string> Campaign::run_cell(const Cell& cell) {
    Figures all;
    for (const Cell& part : parts_of(cell)) {
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

tl::expected<Results, std::string> Campaign::run(const Study& experiment) {
    struct Part {
        std::size_t point = 0;
        std::size_t number = 0;
        double share = 0;  // of its point's parts, that are done before it
        Cell cell;
    };
    std::vector<Point> points = experiment.points;
    std::vector<Part> parts;
    for (std::size_t i = 0; i < points.size(); ++i) {
        const auto cell = tuned(points[i]);
        if (!cell) return tl::unexpected(cell.error());
        points[i].cell = *cell;
        const std::vector<Cell> all = parts_of(*cell);
        for (std::size_t number = 0; number < all.size(); ++number)
            parts.push_back({i, number, static_cast<double>(number) / static_cast<double>(all.size()), all[number]});
    }
    std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.share < b.share; });

    std::vector<Figures> sums(points.size());
    for (const Part& part : parts) {
        const auto figures = run_part(part.cell, part.number == 0);
        if (!figures) return tl::unexpected(figures.error());
        if (*figures) sums[part.point].add(**figures);
    }
    Results results;
    for (std::size_t i = 0; i < points.size(); ++i) {
        points[i].cell.runs = sums[i].runs;
        results.add(points[i], std::move(sums[i]));
    }
    if (experiment.derive) experiment.derive(results);
    return results;
}

}  // namespace coppice::sim
