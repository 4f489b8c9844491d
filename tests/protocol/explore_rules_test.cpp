// What the corrections promise without any detector, by exhaustive search over all orders of messages: with any members
// dead from the start, and gaps that the rule covers, every live member gets the payload.
#include <gtest/gtest.h>

#include <bit>

#include "explore_broadcast.hpp"
#include "protocol/baselines/names.hpp"

namespace coppice::protocol::testing {
namespace {

// Positions that get no tree message because they or an ancestor are dead.
std::uint8_t uncolored_by_tree(const topology::Tree& tree, std::uint8_t dead) {
    std::uint8_t uncolored = dead;
    for (std::uint32_t position = 1; position < tree.processes(); ++position) {  // parents come first
        const std::uint32_t parent = tree.parent(Position{position})->value;
        if ((uncolored >> parent & 1) != 0) uncolored = static_cast<std::uint8_t>(uncolored | 1U << position);
    }
    return uncolored;
}

std::uint32_t longest_gap(std::uint8_t uncolored, std::uint32_t processes) {
    std::uint32_t longest = 0;
    std::uint32_t run = 0;
    for (std::uint32_t step = 0; step < 2 * processes; ++step) {
        run = (uncolored >> (step % processes) & 1) != 0 ? run + 1 : 0;
        longest = std::max(longest, run);
    }
    return longest;
}

struct Rule {
    const char* correction;
    std::uint32_t processes;
    std::uint32_t least_dead;  // fewer dead members mean more orders than can be searched here
};

std::ostream& operator<<(std::ostream& out, const Rule& rule) {
    return out << rule.correction << ", P=" << rule.processes << ", at least " << rule.least_dead << " dead";
}

class Promise : public ::testing::TestWithParam<Rule> {};

TEST_P(Promise, EveryOrderColorsAllLiveMembersWhileGapsAreCovered) {
    const Rule rule = GetParam();
    const CorrectionSpec correction = *baselines::parse_correction(rule.correction);
    const bool any = correction.kind == CorrectionKind::checked || correction.kind == CorrectionKind::delayed;
    const std::uint32_t covered = any                          ? rule.processes
                                  : correction.one_directional ? correction.distance
                                                               : 2 * correction.distance;
    std::uint64_t states = 0;
    std::uint32_t dead_sets = 0;
    for (const char* shape : {"binomial", "kary:2", "kary:4", "lame:2", "chain", "star"}) {
        const topology::Tree tree = *topology::Tree::make(*topology::parse_tree(shape), rule.processes);
        for (std::uint32_t mask = 0; mask < 1U << rule.processes; mask += 2) {
            const auto dead = static_cast<std::uint8_t>(mask);
            if (static_cast<std::uint32_t>(std::popcount(dead)) < rule.least_dead) continue;
            if (longest_gap(uncolored_by_tree(tree, dead), rule.processes) > covered) continue;
            SCOPED_TRACE(std::string(shape).append(", dead ").append(std::to_string(mask)));
            Scenario scenario(BroadcastPlan{tree, correction, Nanoseconds{1}});
            scenario.dead = dead;
            scenario.detection = false;
            scenario.must_color_all = true;
            const Exploration result = Explorer(scenario).run();
            states += result.states;
            ++dead_sets;
            ASSERT_TRUE(result.complete);
            ASSERT_EQ(result.violation, "");
        }
    }
    EXPECT_GT(dead_sets, 0U);
    std::cout << rule << ": " << dead_sets << " trees with dead sets, " << states << " states\n";
}

INSTANTIATE_TEST_SUITE_P(
    AllOrders, Promise,
    ::testing::Values(Rule{"opportunistic:1", 4, 0}, Rule{"opportunistic:1", 5, 1}, Rule{"opportunistic:2", 6, 3},
                      Rule{"opportunistic:3", 8, 5}, Rule{"optimized:1", 4, 0}, Rule{"optimized:2", 4, 0},
                      Rule{"optimized:1", 5, 1}, Rule{"optimized:2", 5, 1}, Rule{"optimized:2", 6, 3},
                      Rule{"optimized:3", 6, 3}, Rule{"optimized:2", 7, 4}, Rule{"optimized:3", 7, 4},
                      Rule{"optimized:2", 8, 5}, Rule{"optimized:3", 8, 5}, Rule{"optimized:4", 8, 5},
                      Rule{"opportunistic:2:one-directional", 5, 1}, Rule{"optimized:2:one-directional", 5, 1},
                      Rule{"optimized:3:one-directional", 6, 3}, Rule{"optimized:3:one-directional", 7, 4},
                      Rule{"optimized:4:one-directional", 8, 5}, Rule{"checked", 4, 1}, Rule{"checked", 5, 2},
                      Rule{"checked", 6, 3}, Rule{"checked", 8, 5}, Rule{"checked:synchronized", 4, 1},
                      Rule{"checked:synchronized", 6, 3}, Rule{"opportunistic:1:synchronized", 5, 1},
                      Rule{"optimized:2:synchronized", 6, 3}, Rule{"delayed:1", 4, 1}, Rule{"delayed:1", 5, 2},
                      Rule{"delayed:1:synchronized", 4, 1}, Rule{"delayed:1:synchronized", 6, 3}));

// The search has teeth: it finds the flaw of the printed rule, from three messages a side on, in a group of eight.
TEST(PrintedRule, IsNotLiveFromThreeMessagesASide) {
    std::uint32_t broken = 0;
    for (const char* shape : {"binomial", "kary:2", "kary:4", "lame:2", "chain"}) {
        const topology::Tree tree = *topology::Tree::make(*topology::parse_tree(shape), 8);
        for (std::uint32_t dead = 0; dead < 256; dead += 2) {
            if (std::popcount(dead) < 5) continue;
            Scenario scenario(BroadcastPlan{tree, *baselines::parse_correction("optimized-paper:3")});
            scenario.dead = static_cast<std::uint8_t>(dead);
            scenario.detection = false;
            scenario.must_color_all = true;
            scenario.max_states = 3000000;
            if (!Explorer(scenario).run().violation.empty()) ++broken;
        }
    }
    EXPECT_GT(broken, 0U);
    std::cout << "the printed rule breaks with " << broken << " dead sets\n";
}

}  // namespace
}  // namespace coppice::protocol::testing
