// What a shortcut of gossip computes is what the machines do, figure for figure.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

#include "protocol/baselines/names.hpp"
#include "simulation/faults.hpp"
#include "simulation/gossip_simulation.hpp"
#include "simulation/random.hpp"
#include "simulation/shortcut.hpp"
#include "simulation/shortcut_simulator.hpp"

namespace coppice::simulation {
namespace {

using protocol::GossipKind;

constexpr std::uint64_t kRuns = 25;

std::string describe(const GossipSetup& setup, std::size_t dead, std::uint64_t seed) {
    return "seed " + std::to_string(seed) + ": " + to_string(setup.spec) + ", P " + std::to_string(setup.processes) +
           ", L " + std::to_string(setup.model.latency) + ", o " + std::to_string(setup.model.overhead) + ", dead " +
           std::to_string(dead);
}

std::unique_ptr<Shortcut> shortcut_of(const GossipSetup& setup) {
    const protocol::GossipModel model{setup.processes, setup.processes, setup.model.latency, setup.model.overhead};
    if (setup.spec.kind != GossipKind::failure_proof) return make_shortcut(gossip_plan(setup).value(), setup.model);
    return make_shortcut(
        protocol::make_failure_proof_gossip_plan(setup.spec, model, setup.delta, 0, Nanoseconds{0}).value(),
        setup.model);
}

// Sizes of all magnitudes, small ones most often; gossip for a few steps, or for many.
GossipSetup draw_setup(GossipKind kind, Random& random) {
    GossipSetup setup;
    setup.processes = 2 + random.below(1U << (2 + random.below(10)));
    setup.model.overhead = 1 + (random.one_in(3) ? random.below(4) : 0);
    setup.model.latency = setup.model.overhead * random.below(random.one_in(8) ? 40 : 7);
    const std::uint32_t hop = 2 + setup.model.latency / setup.model.overhead;
    setup.spec = {.kind = kind, .failures = 1 + (random.one_in(3) ? random.below(4) : 0)};
    setup.spec.limit = setup.model.overhead * (1 + random.below(hop * (2 + random.below(12))));
    setup.spec.corrections = 1 + random.below(random.one_in(8) ? setup.processes : 20);
    return setup;
}

std::uint32_t draw_dead(std::uint32_t processes, Random& random) {
    if (random.one_in(3)) return 0;
    const std::uint32_t most = random.one_in(4) ? processes - 1 : (processes - 1) / (1 + random.below(40));
    return random.below(most + 1);
}

struct Compared {
    std::uint64_t setups = 0;  // for which there was a shortcut
    std::uint64_t runs = 0;    // that it did not leave to the machines
    std::uint64_t left_out = 0;
};

// For so many seeds, each with a setup of its own.
Compared compare(std::uint64_t seeds, const std::function<GossipSetup(Random&)>& draw) {
    Compared compared;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        Random random(seed);
        const GossipSetup setup = draw(random);
        const auto shortcut = shortcut_of(setup);
        if (!shortcut) continue;
        const auto machines = make_simulator(setup).value();
        // One after the other by the same one, which is to forget the run before.
        for (std::uint64_t run = 0; run < kRuns; ++run) {
            const Faults faults =
                FaultPlan{.dead_count = draw_dead(setup.processes, random)}.draw(setup.processes, seed + run);
            const Outcome* const found = shortcut->run(faults.dead, run);
            if (found == nullptr) continue;
            const auto outcome = machines->run(faults, run);
            if (!outcome || *found != *outcome) {
                ADD_FAILURE() << describe(setup, faults.dead.size(), seed) << ", run " << run
                              << (outcome ? "" : to_string(outcome.error()));
                return compared;
            }
            ++compared.runs;
            compared.left_out += outcome->unreached.empty() ? 0 : 1;
        }
        ++compared.setups;
    }
    return compared;
}

TEST(GossipShortcut, OfGossipAloneIsWhatTheMachinesDo) {
    const Compared compared = compare(400, [](Random& random) { return draw_setup(GossipKind::gossip, random); });
    EXPECT_EQ(compared.setups, 400U);
    EXPECT_EQ(compared.runs, 400 * kRuns);
}

TEST(GossipShortcut, OfOpportunisticCorrectionIsWhatTheMachinesDo) {
    const Compared compared =
        compare(400, [](Random& random) { return draw_setup(GossipKind::opportunistic, random); });
    EXPECT_GT(compared.setups, 250U);
    EXPECT_EQ(compared.runs, compared.setups * kRuns);
    EXPECT_GT(compared.left_out, 1000U);
}

TEST(GossipShortcut, OfCheckedCorrectionIsWhatTheMachinesDo) {
    const Compared compared = compare(800, [](Random& random) { return draw_setup(GossipKind::checked, random); });
    EXPECT_EQ(compared.setups, 800U);
    EXPECT_GT(compared.runs, 400 * kRuns);
}

TEST(GossipShortcut, OfFailureProofCorrectionIsWhatTheMachinesDo) {
    const Compared compared =
        compare(800, [](Random& random) { return draw_setup(GossipKind::failure_proof, random); });
    EXPECT_GT(compared.setups, 600U);
    EXPECT_GT(compared.runs, 400 * kRuns);
}

// The broadcasts of PPoPP'19, Figure 8, and of IPDPS'17, Figures 3, 5 and 9.
TEST(GossipShortcut, AtTheSizesOfThePapersIsWhatTheMachinesDo) {
    struct Case {
        const char* gossip;
        std::uint32_t processes;
        Step latency;
        std::uint32_t dead;
        std::uint64_t runs;
    };
    for (const Case& one :
         {Case{"ccg:38", 65536, 2, 6, 2}, Case{"ccg:38", 65536, 2, 2621, 2}, Case{"ocg:18:26", 1024, 1, 0, 40},
          Case{"ocg:32:9", 1024, 1, 0, 40}, Case{"ccg:18", 1024, 1, 0, 40}, Case{"ccg:34", 1024, 1, 0, 40},
          Case{"fcg:1:20", 1024, 1, 0, 40}, Case{"fcg:1:36", 1024, 1, 0, 40}}) {
        const GossipSetup setup{.processes = one.processes,
                                .spec = protocol::baselines::parse_gossip(one.gossip).value(),
                                .model = {.latency = one.latency, .overhead = 1},
                                .options = {}};
        const auto shortcut = shortcut_of(setup);
        ASSERT_NE(shortcut, nullptr);
        const auto machines = make_simulator(setup).value();
        for (std::uint64_t seed = 1; seed <= one.runs; ++seed) {
            const Faults faults = FaultPlan{.dead_count = one.dead}.draw(setup.processes, seed);
            const Outcome* const found = shortcut->run(faults.dead, seed);
            ASSERT_NE(found, nullptr) << describe(setup, one.dead, seed);
            ASSERT_EQ(*found, machines->run(faults, seed).value()) << describe(setup, one.dead, seed);
        }
    }
}

TEST(GossipShortcut, IsThereForWhatItKnowsOnly) {
    const auto is_there = [](const char* gossip, const LogP& model) {
        return shortcut_of({.processes = 100,
                            .spec = protocol::baselines::parse_gossip(gossip).value(),
                            .model = model,
                            .options = {}}) != nullptr;
    };
    const LogP model{.latency = 4, .overhead = 2};
    EXPECT_TRUE(is_there("ccg:20", model));
    EXPECT_TRUE(is_there("fcg:4:20", model));
    EXPECT_FALSE(is_there("ccg:20:rounds", model));
    EXPECT_FALSE(is_there("fcg:1:20:rounds", model));
    EXPECT_FALSE(is_there("ccg:21", model));
    EXPECT_FALSE(is_there("ocg:20:99", model));
    EXPECT_FALSE(is_there("gos:20", {.latency = 3, .overhead = 2}));
    EXPECT_FALSE(is_there("gos:20", {.latency = 4, .overhead = 2, .gap = 4}));
    EXPECT_FALSE(is_there("gos:20", {.latency = 4, .overhead = 2, .overlap = false}));
    EXPECT_FALSE(is_there("ccg:20", {.latency = 4, .overhead = 2, .one_sided_ring = true}));
}

// Where the root alone is left it goes round all of the ring, or cries SOS.
TEST(GossipShortcut, LeavesToTheMachinesWhatItDoesNotKnow) {
    for (const char* gossip : {"ccg:1", "fcg:1:1"}) {
        GossipSetup setup;
        setup.processes = 50;
        setup.spec = protocol::baselines::parse_gossip(gossip).value();
        const auto machines = make_simulator(setup).value();
        const Faults faults = FaultPlan{.dead_count = 47}.draw(setup.processes, 1);
        ASSERT_EQ(shortcut_of(setup)->run(faults.dead, 1), nullptr);
        setup.shortcuts = true;
        const auto simulator = make_simulator(setup).value();
        ASSERT_NE(dynamic_cast<ShortcutSimulator*>(simulator.get()), nullptr);
        EXPECT_EQ(simulator->run(faults, 1).value(), machines->run(faults, 1).value());
        EXPECT_EQ(simulator->run({}, ShortcutSimulator::kCompared).value(),
                  machines->run({}, ShortcutSimulator::kCompared).value());
        EXPECT_EQ(simulator->correction_start(), machines->correction_start());
        EXPECT_EQ(simulator->kinds(), machines->kinds());
    }
}

}  // namespace
}  // namespace coppice::simulation
