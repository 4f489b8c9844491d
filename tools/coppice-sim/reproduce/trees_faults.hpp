// What Figures 8, 9 and 10 and Table 1 of PPoPP'19 have in common: 64K processes of which 0.01 % to 4 % are dead.
#pragma once

#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "reproduce/trees.hpp"

namespace coppice::sim {

inline constexpr std::array<double, 5> kRates{0.01, 0.1, 1, 2, 4};  // %
inline constexpr double kLeast = kRates.front();
inline constexpr double kMost = kRates.back();
inline constexpr const char* kFaultyGossip = "checked corrected gossip";
extern const char* const kFaultyRemarks;

std::uint32_t dead_at(double rate);
std::vector<Point> faulty_points(Scale scale, std::uint64_t seed, bool only_checked);

// Names of series, over the trees.
std::vector<std::string> all_checked();
std::vector<std::string> all_optimized();

// %, from the lowest to the highest rate
double growth(const Results& r, const std::string& series, Metric metric);
// Of standard deviations, of the highest rate over the lowest.
double deviation_ratio(const Results& r, const std::string& series, Metric metric);

// Least and largest figure over these series.
template <class F>
std::pair<double, double> range(const std::vector<std::string>& all, const F& figure) {
    double least = std::numeric_limits<double>::infinity();
    double most = -least;
    for (const std::string& series : all) {
        least = std::min(least, figure(series));
        most = std::max(most, figure(series));
    }
    return {least, most};
}

}  // namespace coppice::sim
