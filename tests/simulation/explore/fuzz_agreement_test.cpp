#include <gtest/gtest.h>

#include "protocol/agreement/agreement.hpp"
#include "simulation/explore/agreement_fuzz.hpp"

namespace coppice::simulation {
namespace {

// So many seeds; their deaths and decisions.
FuzzOutcome expect_all_hold(const FuzzRange& range, std::uint64_t seeds) {
    FuzzOutcome sum;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        const FuzzOutcome outcome = fuzz_agreement(seed, range);
        sum.deaths += outcome.deaths;
        sum.decisions += outcome.decisions;
        EXPECT_EQ(outcome.violation, "") << "seed " << seed << ": " << outcome.scenario;
        if (!outcome.violation.empty()) break;
    }
    return sum;
}

TEST(Fuzz, RandomSchedulesOfUpTo64RanksKeepThePromises) {
    const FuzzOutcome sum = expect_all_hold({}, 4000);
    EXPECT_GT(sum.deaths, 10000U);
    EXPECT_GT(sum.decisions, 400000U);
}

TEST(Fuzz, SoDoThoseThatPublish) {
    const FuzzOutcome sum = expect_all_hold({.published = true}, 3000);
    EXPECT_GT(sum.deaths, 10000U);
    EXPECT_GT(sum.decisions, 300000U);
}

TEST(Fuzz, SmallGroupsAreDrivenIntoCorners) {
    expect_all_hold({.fewest_ranks = 3, .most_ranks = 7}, 20000);
    expect_all_hold({.fewest_ranks = 2, .most_ranks = 5, .published = true}, 20000);
}

TEST(Fuzz, TheSameSeedIsTheSameConversation) {
    const FuzzRange range;
    std::string first;
    std::string second;
    fuzz_agreement(42, range, [&first](const std::string& line) { first += line + "\n"; });
    fuzz_agreement(42, range, [&second](const std::string& line) { second += line + "\n"; });
    EXPECT_FALSE(first.empty());
    EXPECT_EQ(first, second);
}

TEST(Fuzz, FindsWhatTheRulesAsPrintedBreak) {
    const FuzzRange range{3, 6, protocol::kDecisionsFromParentOnly};
    std::uint32_t broken = 0;
    for (std::uint64_t seed = 1; seed <= 5000; ++seed)
        broken += fuzz_agreement(seed, range).violation.empty() ? 0 : 1;
    EXPECT_GT(broken, 0U);
}

}  // namespace
}  // namespace coppice::simulation
