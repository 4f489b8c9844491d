// What a shortcut computes is what the machines do, figure for figure.
#include "simulation/shortcut.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "simulation/broadcast_simulation.hpp"
#include "simulation/faults.hpp"
#include "simulation/random.hpp"
#include "simulation/shortcut_simulator.hpp"

namespace coppice::simulation {
namespace {

constexpr std::array<const char*, 10> kTrees{
    "binomial",       "kary:4",      "lame:2", "optimal:1,2", "binomial:inorder",
    "kary:3:inorder", "kary:2:heap", "chain",  "star",        "lame:3:inorder"};

protocol::BroadcastPlan plan_of(const BroadcastSetup& setup) {
    protocol::BroadcastPlan plan{topology::Tree::make(setup.tree, setup.processes).value(), setup.correction};
    if (plan.correction.synchronized) {
        plan.correction_start = setup.correction_start
                                    ? Nanoseconds{*setup.correction_start}
                                    : protocol::dissemination_end(plan.tree, setup.model.latency, setup.model.overhead);
    }
    return plan;
}

std::string describe(const BroadcastSetup& setup, std::size_t dead, std::uint64_t seed) {
    return "seed " + std::to_string(seed) + ": " + to_string(setup.tree) + " " + to_string(setup.correction) + ", P " +
           std::to_string(setup.processes) + ", L " + std::to_string(setup.model.latency) + ", o " +
           std::to_string(setup.model.overhead) + ", dead " + std::to_string(dead);
}

// Sizes of all magnitudes, small ones most often; few dead, some, or nearly all.
BroadcastSetup draw_setup(Random& random) {
    BroadcastSetup setup;
    setup.processes = 2 + random.below(1U << (2 + random.below(11)));
    setup.tree = *topology::parse_tree(kTrees[random.below(kTrees.size())]);
    setup.model.overhead = 1 + random.below(4);
    setup.model.latency = random.below(random.one_in(8) ? 40 : 7);
    return setup;
}

std::uint32_t draw_dead(std::uint32_t processes, Random& random) {
    const std::uint32_t most = random.one_in(4) ? processes - 1 : (processes - 1) / (1 + random.below(40));
    return random.below(most + 1);
}

// How many of so many seeds a shortcut was there for.
std::uint64_t compare(std::uint64_t seeds, const std::function<void(BroadcastSetup&, Random&)>& draw_correction) {
    std::uint64_t compared = 0;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        Random random(seed);
        BroadcastSetup setup = draw_setup(random);
        draw_correction(setup, random);
        const protocol::BroadcastPlan plan = plan_of(setup);
        const auto shortcut = make_shortcut(plan, setup.model);
        if (!shortcut) continue;
        const auto machines = make_simulator(setup).value();
        // One after the other by the same one, which is to forget the run before.
        for (std::uint64_t run = 0; run < 25; ++run) {
            const Faults faults =
                FaultPlan{.dead_count = draw_dead(setup.processes, random)}.draw(setup.processes, seed + run);
            const auto outcome = machines->run(faults, seed);
            if (!outcome) {
                ADD_FAILURE() << to_string(outcome.error());
                return compared;
            }
            if (*shortcut->run(faults.dead, seed) != *outcome) {
                ADD_FAILURE() << describe(setup, faults.dead.size(), seed);
                return compared;
            }
        }
        ++compared;
    }
    return compared;
}

TEST(Shortcut, OfCheckedCorrectionIsWhatTheMachinesDo) {
    const auto compared = compare(400, [](BroadcastSetup& setup, Random& random) {
        setup.correction = *protocol::parse_correction("checked:synchronized");
        if (!random.one_in(10)) return;
        const auto tree = topology::Tree::make(setup.tree, setup.processes).value();
        const auto end = protocol::dissemination_end(tree, setup.model.latency, setup.model.overhead);
        setup.correction_start = static_cast<Step>(end.value) + random.below(20);
    });
    EXPECT_GT(compared, 250U);
}

TEST(Shortcut, OfOpportunisticCorrectionIsWhatTheMachinesDo) {
    const auto compared = compare(400, [](BroadcastSetup& setup, Random& random) {
        const std::string distance = std::to_string(1 + random.below(random.one_in(3) ? 8 : 4));
        const char* rule = random.one_in(4) ? "opportunistic:" : "optimized:";
        setup.correction = *protocol::parse_correction(rule + distance);
    });
    EXPECT_GT(compared, 250U);
}

// The broadcasts of PPoPP'19, Figure 8.
TEST(Shortcut, AtTheSizeOfThePaperIsWhatTheMachinesDo) {
    for (const char* tree : {"binomial", "kary:4", "lame:2", "optimal:1,2"}) {
        for (const char* correction : {"checked:synchronized", "optimized:4"}) {
            BroadcastSetup setup{.processes = 65536, .tree = *topology::parse_tree(tree)};
            setup.correction = *protocol::parse_correction(correction);
            const protocol::BroadcastPlan plan = plan_of(setup);
            const auto shortcut = make_shortcut(plan, setup.model);
            ASSERT_NE(shortcut, nullptr);
            const auto machines = make_simulator(setup).value();
            for (const std::uint32_t dead : {0U, 6U, 65U, 655U, 1310U, 2621U}) {
                const Faults faults = FaultPlan{.dead_count = dead}.draw(setup.processes, 4711 + dead);
                const auto outcome = machines->run(faults, 1);
                ASSERT_TRUE(outcome) << to_string(outcome.error());
                ASSERT_EQ(*shortcut->run(faults.dead, 1), *outcome) << describe(setup, dead, 4711 + dead);
            }
        }
    }
}

// One that is wrong.
class Liar final : public Shortcut {
  public:
    Liar(Shortcut& honest, std::function<void(Outcome&)> lie) : honest_(honest), lie_(std::move(lie)) {}

    const Outcome* run(std::span<const Position> dead, std::uint64_t seed) override {
        outcome_ = *honest_.run(dead, seed);
        lie_(outcome_);
        return &outcome_;
    }

  private:
    Shortcut& honest_;
    std::function<void(Outcome&)> lie_;
    Outcome outcome_;
};

class Comparison : public testing::Test {
  protected:
    Comparison() {
        setup_.correction = *protocol::parse_correction("checked:synchronized");
        plan_ = std::make_unique<protocol::BroadcastPlan>(plan_of(setup_));
        honest_ = make_shortcut(*plan_, setup_.model);
        machines_ = make_simulator(setup_).value();
    }

    ShortcutSimulator simulator_with(std::function<void(Outcome&)> lie, Promise promise = {}) {
        promise.lemma3_start = machines_->correction_start();
        return {std::make_unique<Liar>(*honest_, std::move(lie)),
                setup_.model,
                setup_.processes,
                machines_->correction_start(),
                [promise](const Faults&) { return promise; },
                [this] { return make_simulator(setup_).value(); }};
    }

    BroadcastSetup setup_{.processes = 1000, .tree = *topology::parse_tree("lame:2")};
    std::unique_ptr<protocol::BroadcastPlan> plan_;
    std::unique_ptr<Shortcut> honest_;
    std::unique_ptr<Simulator> machines_;
    Faults faults_{.dead = {Position{3}, Position{500}}};
};

TEST_F(Comparison, FindsAWrongShortcutAtOneSeedOfMany) {
    ShortcutSimulator simulator = simulator_with([](Outcome& outcome) { ++outcome.messages; });
    const auto found = simulator.run(faults_, ShortcutSimulator::kCompared);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().what, "the shortcut's outcome is not that of the machines");
    EXPECT_FALSE(found.error().conversation.empty());
    EXPECT_EQ(simulator.run(faults_, 1)->messages, machines_->run(faults_, 1)->messages + 1);
}

TEST_F(Comparison, IsMadeWheneverAPromiseIsBroken) {
    ShortcutSimulator simulator = simulator_with([](Outcome& outcome) { outcome.quiescence_latency += 100; });
    EXPECT_FALSE(simulator.run(faults_, 1));
}

TEST_F(Comparison, IsMadeWhenSomebodyIsLeftOutWhoMayNotBe) {
    const auto lie = [](Outcome& outcome) { outcome.unreached = {Position{7}}; };
    EXPECT_TRUE(simulator_with(lie).run(faults_, 1));
    EXPECT_FALSE(simulator_with(lie, {.covers = kAnyGap}).run(faults_, 1));
    EXPECT_FALSE(simulator_with(lie, {.all_or_none = true}).run(faults_, 1));
}

TEST_F(Comparison, LeavesDeathsOnTheWayAndNoticesToTheMachines) {
    ShortcutSimulator simulator = simulator_with([](Outcome& outcome) { outcome = {}; });
    faults_.dying = {{Position{7}, 5}};
    EXPECT_EQ(simulator.run(faults_, 1).value(), machines_->run(faults_, 1).value());
    faults_ = {.dead = {Position{3}}, .notice_after = 0};
    EXPECT_EQ(simulator.run(faults_, 1).value(), machines_->run(faults_, 1).value());
}

TEST_F(Comparison, OfWhatIsRightFindsNothing) {
    setup_.shortcuts = true;
    const auto simulator = make_simulator(setup_).value();
    EXPECT_NE(dynamic_cast<ShortcutSimulator*>(simulator.get()), nullptr);
    EXPECT_EQ(simulator->run(faults_, ShortcutSimulator::kCompared).value(), machines_->run(faults_, 1).value());
    EXPECT_EQ(simulator->correction_start(), machines_->correction_start());
    EXPECT_EQ(simulator->kinds(), machines_->kinds());
}

}  // namespace
}  // namespace coppice::simulation
