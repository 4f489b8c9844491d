// What IPDPS'17 claims of corrected gossip as a whole: Figure 1 and Corollary 1.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "simulation/gossip_simulation.hpp"

namespace coppice::simulation {
namespace {

GossipSetup setup_of(const std::string& spec, std::uint32_t processes, Step latency, double delta) {
    GossipSetup setup;
    setup.processes = processes;
    setup.spec = *protocol::parse_gossip(spec);
    setup.delta = delta;
    setup.model.latency = latency;
    return setup;
}

// Figure 1: L = O = 1, n = N = 1,024: how many gossip reaches, and the longest run of others, which 99 % of all gossips do not
// exceed. Equations 1 and 2 foresee both; "a rough approximation".
TEST(Figure1, WhomGossipReachesAndTheLongestRunThatItLeavesAreThoseOfTheEquations) {
    for (const std::uint32_t time : {14U, 18U, 22U, 26U}) {
        SCOPED_TRACE(time);
        const auto simulator = make_simulator(setup_of("gos:" + std::to_string(time), 1024, 1, 0.01)).value();
        double reached = 0;
        std::vector<std::uint32_t> longest;
        for (std::uint64_t seed = 1; seed <= 400; ++seed) {
            const Outcome outcome = simulator->run({}, seed).value();
            reached += outcome.reached / 400.0;
            longest.push_back(outcome.gaps.largest);
        }
        std::ranges::sort(longest);
        const double expected = protocol::expected_reached({1024, 1024, 1, 1}, time + 2).back();
        EXPECT_NEAR(reached / expected, 1, 0.06);
        const double foreseen = protocol::longest_gap(1024, expected, 0.01);
        EXPECT_NEAR(longest[395], foreseen, std::max(1.0, 0.15 * foreseen));
    }
}

// "By selecting T and C accordingly, OCG can be adjusted to be weakly consistent or strongly consistent with high
// probability": T and the corrections chosen for δ reach all of n, or all but log n of them, but with probability δ.
TEST(Corollary1, OcgIsAsConsistentAsItsTimesAreChosenFor) {
    for (const double delta : {0.2, 0.02, 1e-6}) {
        SCOPED_TRACE(delta);
        const auto simulator = make_simulator(setup_of("ocg", 512, 2, delta)).value();
        std::uint32_t strongly = 0;
        std::uint32_t weakly = 0;
        constexpr std::uint32_t kRuns = 2000;
        for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
            const std::size_t unreached = simulator->run({}, seed).value().unreached.size();
            strongly += unreached == 0 ? 1U : 0U;
            weakly += static_cast<double>(unreached) <= std::log2(512) ? 1U : 0U;
        }
        EXPECT_GE(strongly, (1 - delta) * kRuns - 3 * std::sqrt(delta * kRuns));
        EXPECT_EQ(weakly, kRuns);
    }
}

}  // namespace
}  // namespace coppice::simulation
