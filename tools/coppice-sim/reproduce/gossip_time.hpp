// What Figures 1, 3, 5 and 9 of IPDPS'17 have in common: N = 1,024, L = O = 1, over the gossip time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reproduce/catalogue.hpp"

namespace coppice::sim {

inline constexpr simulation::LogP kUnit{.latency = 1, .overhead = 1};
inline constexpr std::uint32_t kRing = 1024;

// c(T + L + O): how many gossip until T reaches.
double reached_by(std::uint32_t time);
// The totals of Equations 3, 4 and 5, for a given T.
double total_time(protocol::GossipKind kind, double time);
std::vector<Point> over_time(const std::string& series, protocol::GossipKind kind, std::uint32_t first,
                             std::uint32_t last, std::uint64_t runs, std::uint64_t seed);

struct TimeFigure {
    const char* name;
    const char* title;
    const char* source;
    protocol::GossipKind kind;
    const char* series;
    Metric metric;
    std::uint32_t first;
    std::uint32_t last;
    const char* formula;
};

extern const char* const kPorts;

Study over_gossip_time(const TimeFigure& figure, Scale scale, std::uint64_t seed);
// That T is what the equation prefers, and that no other T is better in the simulation.
std::vector<Claim> best_time_claims(const TimeFigure& figure, double printed);
// |largest simulated − equation|, at all T.
Claim difference_claim(const TimeFigure& figure, const char* text, double most);
// The largest time of all broadcasts with this T.
double largest_time(const TimeFigure& figure, const Results& results, double time);

}  // namespace coppice::sim
