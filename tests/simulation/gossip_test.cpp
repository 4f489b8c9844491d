// Gossip, corrected gossip and the binomial graph on a LogP clock (IPDPS'17 §III and IV), and the figures of two
// independent models: the papers' own simulator, and a Monte-Carlo of Algorithms 1 to 3.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "gossip_sample.hpp"
#include "protocol/baselines/binomial_graph.hpp"
#include "protocol/gossip_broadcast.hpp"
#include "simulation/broadcast_simulation.hpp"
#include "simulation/simulation.hpp"

namespace coppice::simulation {
namespace {

using protocol::GossipKind;
using protocol::parse_gossip;

// -------------------------------------------------------------------------------------------- the independent model

struct Reference {
    const char* spec;
    std::uint32_t dead;
    std::uint32_t runs;
    double coloring;
    double quiescence;
    double messages;
};

// N = 4096, L = 2, O = 1, one receive port per member. Times in µs, which are steps here.
constexpr Reference kReferences[] = {
    {"gos:50", 0, 2000, 39.093, 71.629, 95386.7},    {"ocg:31:5", 0, 20000, 38.404, 45.900, 38642.1},
    {"ccg:26", 0, 3000, 37.917, 48.834, 22740.6},    {"ccg:29", 0, 3000, 37.475, 44.957, 31799.0},
    {"ccg:31", 0, 3000, 38.396, 46.088, 38766.8},    {"ccg:33", 0, 3000, 40.008, 49.788, 46570.2},
    {"fcg:1:26", 0, 3000, 38.407, 66.654, 42565.6},  {"fcg:1:32", 0, 3000, 39.081, 53.697, 63122.2},
    {"fcg:1:33", 0, 3000, 40.008, 55.350, 67171.4},  {"fcg:0:27", 0, 3000, 38.684, 53.878, 29931.0},
    {"fcg:0:32", 0, 3000, 39.092, 49.605, 46754.5},  {"gos:50", 3, 2000, 39.115, 71.559, 95301.1},
    {"ocg:31:5", 3, 20000, 38.430, 45.883, 38584.8}, {"ccg:26", 3, 3000, 37.944, 48.894, 22709.6},
    {"ccg:31", 3, 3000, 38.428, 46.101, 38724.2},    {"ccg:33", 3, 3000, 40.017, 49.746, 46505.5},
    {"fcg:1:26", 3, 3000, 38.626, 66.881, 42533.8},  {"fcg:1:32", 3, 3000, 39.099, 53.760, 63069.7},
    {"fcg:0:32", 3, 3000, 39.091, 49.637, 46713.0},
};

// Four standard errors of the difference of two means of samples with one spread.
void expect_same_mean(const Statistics& ours, double theirs, std::uint32_t their_runs, const char* what) {
    const double error = std::sqrt(ours.variance() / ours.count + ours.variance() / their_runs);
    // What their figures were rounded to, on top.
    EXPECT_NEAR(ours.mean(), theirs, 4 * error + 0.05) << what;
}

TEST(IndependentModel, HasTheSameMeansWithinTheirStandardErrors) {
    for (const Reference& reference : kReferences) {
        SCOPED_TRACE(std::string(reference.spec) + ", dead: " + std::to_string(reference.dead));
        const FaultPlan faults{.dead_count = reference.dead};
        const Sample ours = sample(setup_of(reference.spec, 4096), faults, 100);
        expect_same_mean(ours.coloring, reference.coloring, reference.runs, "coloring");
        expect_same_mean(ours.quiescence, reference.quiescence, reference.runs, "quiescence");
        expect_same_mean(ours.messages, reference.messages, reference.runs, "messages");
        EXPECT_EQ(ours.unreached.sum, 0);
    }
}

// How many members gossip reaches, as the papers' own simulator has it (20 runs each), against Equation 1.
TEST(Equation1, GivesTheParticipantsOfThePapersSimulator) {
    struct Row {
        std::uint32_t processes;
        std::uint32_t time;
        double participants;
    };
    constexpr Row kRows[] = {{1024, 22, 465.1},   {1024, 24, 683.0},  {1024, 26, 875.95}, {1024, 28, 984.6},
                             {4096, 26, 1737.55}, {4096, 28, 2594.4}, {4096, 30, 3388.7}, {4096, 33, 3990.65}};
    for (const Row& row : kRows) {
        const auto reached = protocol::expected_reached({row.processes, row.processes, 2, 1}, row.time);
        EXPECT_NEAR(reached[row.time] / row.participants, 1, 0.03) << row.processes << " " << row.time;
    }
}

// -------------------------------------------------------------------------------------------------- Figures 3, 5, 9

// "observed a maximal difference of only one time-step" between Equation 3 and the slowest of the runs.
TEST(Figure3, OcgTakesAsLongAsEquation3Says) {
    for (const std::uint32_t time : {22U, 24U, 26U}) {
        SCOPED_TRACE(time);
        const double reached = protocol::expected_reached({1024, 1024, 1, 1}, time + 2)[time + 2];
        const std::uint32_t gap = protocol::longest_gap(1024, reached, kDelta);
        const std::uint64_t total = time + 2 + (2 + gap);
        const Sample ocg =
            sample(setup_of("ocg:" + std::to_string(time) + ":" + std::to_string(gap), 1024, 1), {}, 1000);
        EXPECT_EQ(ocg.unreached.sum, 0);
        EXPECT_LE(ocg.coloring.largest, static_cast<double>(total + 1));
        EXPECT_GE(ocg.coloring.largest, static_cast<double>(total) - 5);
    }
}

struct LastCorrection : Onlooker {
    Step arrives = 0;
    const LogP* model = nullptr;

    template <class Message>
    bool sent(Step now, Position /*sender*/, const Message& message, bool /*sender_colored*/) {
        if (is_correction(message.kind)) arrives = now + 2 * model->overhead + model->latency;
        return true;
    }
};

// When the last correction arrives, in the slowest of the runs. L = O = 1, and corrections are written into their
// receivers' memory, so that none waits for another and for the rest of the gossip: the equations leave that out.
template <class Machine, class Plan>
Step slowest(const Plan& plan, std::uint32_t processes, std::uint32_t runs) {
    const LogP model{.latency = 1, .one_sided_ring = true};
    Simulation<Machine, LastCorrection> simulation(model, processes);
    Step slowest = 0;
    for (std::uint64_t seed = 1; seed <= runs; ++seed) {
        LastCorrection last;
        last.model = &model;
        const auto make = [&plan, seed](Position position, const protocol::FailedSet& failed) {
            return Machine(plan, position, 0, failed, position.value == 0, seed);
        };
        const Outcome& outcome = simulation.run({}, make, last);
        EXPECT_TRUE(outcome.unreached.empty()) << seed;
        slowest = std::max(slowest, last.arrives);
    }
    return slowest;
}

// Equation 4 foresees when the last member knows that it is not needed any more: "a maximal difference of only two
// time-steps".
TEST(Figure5, CcgTakesNoLongerThanEquation4SaysButForTwoSteps) {
    for (const std::uint32_t time : {21U, 23U, 25U}) {
        SCOPED_TRACE(time);
        const double reached = protocol::expected_reached({1024, 1024, 1, 1}, time + 2)[time + 2];
        const std::uint32_t total = time + 2 + (2 + 2 * protocol::longest_gap(1024, reached, kDelta));
        const auto plan = gossip_plan(setup_of("ccg:" + std::to_string(time), 1024, 1)).value();
        const Step lasted = slowest<protocol::Gossip>(plan, 1024, 1000);
        EXPECT_LE(lasted, total + 2);
        EXPECT_GE(lasted + 10, total);
    }
}

TEST(Figure9, FcgTakesNoLongerThanEquation5Says) {
    for (const std::uint32_t time : {21U, 24U, 27U}) {
        SCOPED_TRACE(time);
        const double reached = protocol::expected_reached({1024, 1024, 1, 1}, time + 2)[time + 2];
        const std::uint32_t total = time + 4 * protocol::longest_chain(1024, reached, 5, kDelta) + 1 - 13;
        const protocol::GossipModel model{1024, 1024, 1, 1};
        const auto plan = protocol::make_failure_proof_gossip_plan(*parse_gossip("fcg:1:" + std::to_string(time)),
                                                                   model, kDelta, 0, Nanoseconds{0});
        const Step lasted = slowest<protocol::FailureProofGossip>(plan.value(), 1024, 500);
        EXPECT_LE(lasted, total);
        EXPECT_GE(lasted + 20, total);
    }
}

// ------------------------------------------------------------------------------------------------------------ rounds

// Virtual time is the clock's when a hop costs as many rounds as it takes steps.
TEST(Rounds, ColorTheMembersThatTimeColorsWhenAHopCostsAsManyAsItTakes) {
    GossipSetup by_time = setup_of("gos:20", 1000);
    GossipSetup by_rounds = setup_of("gos:20:rounds", 1000);
    by_rounds.hop = 3;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const Outcome a = *make_simulator(by_time).value()->run({}, seed);
        const Outcome b = *make_simulator(by_rounds).value()->run({}, seed);
        EXPECT_EQ(a.messages, b.messages);
        EXPECT_EQ(a.unreached, b.unreached);
        EXPECT_EQ(a.coloring_latency, b.coloring_latency);
        EXPECT_EQ(a.quiescence_latency, b.quiescence_latency);
    }
}

TEST(Rounds, TheEquationsChooseEnoughOfThemWhateverAHopCosts) {
    for (const std::uint32_t hop : {0U, 1U, 3U, 8U}) {
        for (const char* name : {"ocg:rounds", "ccg:rounds", "fcg:1:rounds", "gos:rounds"}) {
            SCOPED_TRACE(name + std::to_string(hop));
            GossipSetup setup = setup_of(name, 1024);
            setup.hop = hop;
            const Sample one = sample(setup, {}, 100);
            EXPECT_EQ(one.unreached.sum, 0);
        }
    }
}

// Everybody colored takes part in opportunistic correction, so that far fewer rounds do: here so few that gossip alone
// leaves a tenth of the members out.
TEST(AsEngine, OpportunisticCorrectionClosesGapsOfAnyLength) {
    const auto plan = protocol::make_gossip_broadcast_plan(*parse_gossip("ocg:8:4:rounds"), 1024, 0, kDelta).value();
    BroadcastSetup setup;
    setup.processes = 1024;
    setup.tree = plan.tree.spec();
    setup.correction = plan.correction;
    setup.gossip = plan.gossip;
    const auto simulator = make_simulator(setup).value();
    std::uint32_t longest = 0;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        const auto outcome = simulator->run({}, seed);
        ASSERT_TRUE(outcome) << to_string(outcome.error(), 20);
        EXPECT_TRUE(outcome->unreached.empty()) << seed;
        longest = std::max(longest, outcome->gaps.largest);
    }
    EXPECT_GT(longest, 4U);
}

// -------------------------------------------------------------------------------------------------------------- deaths

// "One process dying online": FCG is as fast as ever, and nobody calls for help.
TEST(OnlineFailure, LeavesFcgAsItIs) {
    const FaultPlan one{.dying_count = 1, .dying_until = 50};
    const Sample fcg = sample(setup_of("fcg:1:32", 4096), one, 200);
    EXPECT_EQ(fcg.unreached.sum, 0);
    EXPECT_NEAR(fcg.quiescence.mean(), 53.711, 0.5);
    EXPECT_NEAR(fcg.messages.mean() / 63108, 1, 0.005);
}

// CCG promises nothing then. If the dead one has stopped the neighbour on one side and not yet spoken to the one on the
//     other
// side, the latter hears from nobody there and goes all round the ring.
TEST(OnlineFailure, MayLeadCcgRoundTheRing) {
    const FaultPlan one{.dying_count = 1, .dying_until = 25};
    const Sample ccg = sample(setup_of("ccg:12", 64), one, 10000);
    const Sample nobody_dies = sample(setup_of("ccg:12", 64), {}, 10000);
    EXPECT_GT(ccg.quiescence.largest, 100);
    EXPECT_LT(nobody_dies.quiescence.largest, 100);
}

TEST(FailureProof, AllOrNoneForManyGroupsAndDeaths) {
    for (const std::uint32_t failures : {1U, 2U, 4U}) {
        for (const std::uint32_t processes : {12U, 40U, 333U}) {
            for (const char* rounds : {"", ":rounds"}) {
                const std::string spec =
                    "fcg:" + std::to_string(failures) + ":" + std::to_string(4 + processes / 40) + rounds;
                SCOPED_TRACE(spec + " " + std::to_string(processes));
                const FaultPlan faults{.dead_rate = 0.05, .dying_count = failures, .dying_until = 60};
                const Sample one = sample(setup_of(spec, processes), faults, 300);
                EXPECT_EQ(one.unreached.sum, 0);
            }
        }
    }
}

// Corollary 3: any number of members may die before or during the gossip, and f after it.
TEST(Corollary3, AnyNumberOfDeathsBeforeTheCorrectionChangesNothing) {
    std::uint32_t all = 0;
    std::uint32_t none = 0;
    for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
        SCOPED_TRACE(seed);
        GossipSetup setup = setup_of(seed % 2 == 0 ? "fcg:1:12" : "fcg:2:9", 40);
        const std::uint32_t failures = setup.spec.failures;
        const Step begin = setup.spec.limit + 3;
        FaultPlan early{.dying_count = 1 + static_cast<std::uint32_t>(seed % 30), .dying_until = begin - 1};
        Faults faults = early.draw(40, seed);
        if (seed % 3 == 0) faults.dying.push_back({Position{0}, static_cast<Step>(seed % begin)});
        FaultPlan late{.dying_count = failures, .dying_until = 60};
        for (const Death& death : late.draw(40, seed + 100000).dying)
            faults.dying.push_back({death.position, begin + death.at});
        // The simulator itself counts all deaths on the way alike, and promises nothing for so many.
        const auto outcome = make_simulator(setup).value()->run(faults, seed);
        ASSERT_TRUE(outcome) << to_string(outcome.error(), 20);
        ASSERT_TRUE(outcome->unreached.empty() || outcome->reached == 0) << outcome->reached;
        (outcome->reached == 0 ? none : all) += 1;
    }
    EXPECT_GT(none, 10U);
    EXPECT_GT(all, 1000U);
}

TEST(BinomialGraph, WithstandsLog2PMinusOneDeathsAnywhereAnyTime) {
    for (const std::uint32_t processes : {7U, 64U, 1000U}) {
        const auto big = make_simulator(BinomialGraphSetup{processes, {}, {}}).value();
        FaultPlan faults;
        const std::uint32_t withstood = protocol::BinomialGraph::degree(processes) - 1;
        faults.dead_count = withstood / 2;
        faults.dying_count = withstood - faults.dead_count;
        faults.dying_until = 40;
        EXPECT_EQ(sample(*big, faults, 300).unreached.sum, 0);
    }
}

// T^BIG = (2O + L)·log2 P + O·log2 P, for powers of two; no later for others.
TEST(BinomialGraph, TakesAsLongAsThePaperSays) {
    for (const std::uint32_t degree : {1U, 3U, 6U, 10U, 13U}) {
        for (const Step latency : {1U, 2U, 5U}) {
            BinomialGraphSetup setup{1U << degree, {}, {}};
            setup.model.latency = latency;
            const Outcome outcome = *make_simulator(setup).value()->run({}, 1);
            EXPECT_LE(outcome.coloring_latency, (2 + latency) * degree);
            EXPECT_EQ(outcome.quiescence_latency, (2 + latency) * degree + degree + latency + 1);
        }
    }
}

TEST(Setups, ThatCannotBeAreRefused) {
    GossipSetup certain = setup_of("ccg", 8);
    certain.delta = 0;
    EXPECT_FALSE(make_simulator(certain).has_value());
    GossipSetup clockless = setup_of("ccg", 8);
    clockless.model.overhead = 0;
    EXPECT_FALSE(make_simulator(clockless).has_value());
    EXPECT_EQ(gossip_plan(setup_of("ocg", 4096))->spec.limit, 31U);
    EXPECT_EQ(gossip_plan(setup_of("ocg", 4096))->spec.corrections, 5U);
    // Less gossip leaves longer gaps.
    EXPECT_EQ(gossip_plan(setup_of("ocg:29", 4096))->spec.corrections, 7U);
    EXPECT_EQ(gossip_plan(setup_of("ocg:29:2", 4096))->spec.corrections, 2U);
    EXPECT_EQ(gossip_plan(setup_of("ccg:29", 4096))->spec.corrections, 0U);
}

}  // namespace
}  // namespace coppice::simulation
