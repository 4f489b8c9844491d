#include <gtest/gtest.h>

#include "protocol/agreement/agreement.hpp"
#include "simulation/explore/agreement_fuzz.hpp"

namespace coppice::simulation {
namespace {

TEST(Fuzz, RandomSchedulesOfUpTo64RanksKeepThePromises) {
    const FuzzRange range;
    std::uint64_t deaths = 0;
    std::uint64_t decisions = 0;
    for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
        const FuzzOutcome outcome = fuzz_agreement(seed, range);
        ASSERT_EQ(outcome.violation, "") << "seed " << seed << ": " << outcome.scenario;
        deaths += outcome.deaths;
        decisions += outcome.decisions;
    }
    EXPECT_GT(deaths, 10000U);
    EXPECT_GT(decisions, 400000U);
}

TEST(Fuzz, SoDoThoseThatPublish) {
    FuzzRange range;
    range.published = true;
    std::uint64_t deaths = 0;
    std::uint64_t decisions = 0;
    for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
        const FuzzOutcome outcome = fuzz_agreement(seed, range);
        ASSERT_EQ(outcome.violation, "") << "seed " << seed << ": " << outcome.scenario;
        deaths += outcome.deaths;
        decisions += outcome.decisions;
    }
    EXPECT_GT(deaths, 10000U);
    EXPECT_GT(decisions, 300000U);
    range.fewest_ranks = 2;
    range.most_ranks = 5;
    for (std::uint64_t seed = 1; seed <= 20000; ++seed) {
        const FuzzOutcome outcome = fuzz_agreement(seed, range);
        ASSERT_EQ(outcome.violation, "") << "seed " << seed << ": " << outcome.scenario;
    }
}

TEST(Fuzz, SmallGroupsAreDrivenIntoCorners) {
    const FuzzRange range{3, 7, 0};
    for (std::uint64_t seed = 1; seed <= 20000; ++seed) {
        const FuzzOutcome outcome = fuzz_agreement(seed, range);
        ASSERT_EQ(outcome.violation, "") << "seed " << seed << ": " << outcome.scenario;
    }
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
