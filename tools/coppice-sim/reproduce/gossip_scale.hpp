// What the table and the curves of Figure 7 of IPDPS'17 have in common: corrected gossip against other broadcasts,
// L = 2, O = 1.
#pragma once

#include <string>

#include "reproduce/catalogue.hpp"

namespace coppice::sim {

inline constexpr simulation::LogP kDaint{.latency = 2, .overhead = 1};
// Half a chance that all of 10^6 broadcasts are complete (§III.B).
inline const double kDelta = protocol::delta_for(0.5, 1e6);
extern const char* const kGossipRemarks;

// What the paper says of BFB (§IV.B): down and up a binomial tree, again after each failure on the way.
double bfb_latency(double ranks, double restarts);

// Adds GOS, OCG, CCG, FCG, BIG and BFB at x, with so many of `ranks` dead from before the start.
void add_protocols(Study& study, double x, std::uint32_t ranks, std::uint32_t dead, std::uint64_t runs,
                   std::uint64_t seed);

// Live members left out, in % of all.
double inconsistency(const Results& r, const std::string& series, double x);

}  // namespace coppice::sim
