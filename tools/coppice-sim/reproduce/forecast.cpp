#include "reproduce/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "progress.hpp"

namespace coppice::sim {
namespace {

// Six messages for each rank, 34 ns each (docs/simulator.md).
constexpr double kGuessedSecondsPerRank = 2e-7;
// Where no machine runs.
constexpr double kGuessedSecondsPerRankOfSets = 4e-9;
// An agreement's machines are made, and then agree once, or many times (docs/figures/era-2a.csv and era-4.csv).
constexpr double kGuessedSecondsPerAgreeingRank = 7e-6;
constexpr double kGuessedSecondsPerRankOfAnAgreement = 4e-7;
// Less says nothing of how many processors there are for us.
constexpr double kEnoughSeconds = 2;

double guessed_seconds_per_rank(const Protocol& protocol) {
    if (const auto* const agreement = std::get_if<AgreementProtocol>(&protocol))
        return kGuessedSecondsPerAgreeingRank + kGuessedSecondsPerRankOfAnAgreement * agreement->agreements;
    const bool no_machine = std::holds_alternative<TreeGaps>(protocol) || std::holds_alternative<TreeLeftOut>(protocol);
    return no_machine ? kGuessedSecondsPerRankOfSets : kGuessedSecondsPerRank;
}

}  // namespace

void Forecast::expect(const Cell& cell, std::uint64_t runs) {
    points_.push_back({.guess = guessed_seconds_per_rank(cell.protocol) * cell.ranks, .left = runs});
}

void Forecast::ran_before(std::size_t point, const Figures& figures) {
    Left& left = points_[point];
    left.left -= std::min(left.left, figures.runs);
    left.ran += figures.runs;
    left.cpu_seconds += figures.cpu_seconds;
}

void Forecast::ran(std::size_t point, const Figures& figures) {
    ran_before(point, figures);
    cpu_seconds_ += figures.cpu_seconds;
}

double Forecast::seconds_left() const {
    double seconds = 0;
    for (const Left& point : points_) {
        const double each = point.ran == 0 ? point.guess : point.cpu_seconds / static_cast<double>(point.ran);
        seconds += each * static_cast<double>(point.left);
    }
    const double passed = std::chrono::duration<double>(Clock::now() - start_).count();
    return seconds * (cpu_seconds_ < kEnoughSeconds ? 1.0 / threads_ : passed / cpu_seconds_);
}

std::uint64_t Forecast::broadcasts_left() const {
    std::uint64_t left = 0;
    for (const Left& point : points_)
        left += point.left;
    return left;
}

void Forecast::say() {
    const bool first = said_ == Clock::time_point{};
    const Clock::time_point now = Clock::now();
    const std::uint64_t left = broadcasts_left();
    if (left == 0 || (!first && now - said_ < every_)) return;
    said_ = now;
    const auto known = std::count_if(points_.begin(), points_.end(), [](const Left& point) { return point.ran != 0; });
    fmt::print(stderr, "{}: {} broadcasts to run at {} points, {}{}\n", name_, left, points_.size(),
               duration(seconds_left()),
               known == static_cast<std::ptrdiff_t>(points_.size())
                   ? ""
                   : fmt::format(" (guessed for {} points)", points_.size() - static_cast<std::size_t>(known)));
}

}  // namespace coppice::sim
