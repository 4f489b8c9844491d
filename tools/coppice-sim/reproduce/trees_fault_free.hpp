// What Figures 6, 7 and 14 of PPoPP'19 have in common: every broadcast at every size, nobody fails.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reproduce/trees.hpp"

namespace coppice::sim {

inline constexpr const char* kCheckedGossip = "checked corrected gossip";
inline constexpr const char* kOpportunisticGossip = "opportunistic corrected gossip";
extern const char* const kFaultFreeRemarks;

std::vector<Point> fault_free_points(Scale scale, std::uint64_t seed);

inline bool is_gossip(const std::string& series) {
    return series.find("gossip") != std::string::npos;
}

// The largest size at which a series was run.
inline double largest(const Results& r, const std::string& series) {
    return r.xs(series).back();
}

// Largest and least of a figure over the trees.
template <class F>
std::pair<double, double> range_over_trees(const F& figure) {
    double least = std::numeric_limits<double>::infinity();
    double most = -least;
    for (const TreeName& tree : kTrees) {
        const double value = figure(tree.name);
        least = std::min(least, value);
        most = std::max(most, value);
    }
    return {least, most};
}

}  // namespace coppice::sim
