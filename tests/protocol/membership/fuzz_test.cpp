// Random schedules of membership beyond the explorer's sizes.
#include <gtest/gtest.h>

#include "protocol/membership/membership.hpp"
#include "simulation/explore/membership_fuzz.hpp"

namespace coppice::simulation {
namespace {

TEST(FuzzMembership, KeepsItsPromises) {
    std::uint64_t joined = 0;
    for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
        const MembershipFuzzOutcome outcome = fuzz_membership(seed, {});
        ASSERT_EQ(outcome.violation, "") << "seed " << seed << ": " << outcome.scenario;
        joined += outcome.joined;
    }
    EXPECT_GT(joined, 1000U);
}

TEST(FuzzMembership, ASeedIsASchedule) {
    std::string first;
    std::string second;
    fuzz_membership(7, {}, [&first](const std::string& line) { first.append(line).append("\n"); });
    fuzz_membership(7, {}, [&second](const std::string& line) { second.append(line).append("\n"); });
    EXPECT_FALSE(first.empty());
    EXPECT_EQ(first, second);
}

// The one rule whose absence no group that was searched to the end misses.
TEST(FuzzMembership, AnAcknowledgementHasToNameWhatItIsFor) {
    std::uint64_t missed = 0;
    for (std::uint64_t seed = 1; seed <= 20'000 && missed == 0; ++seed) {
        const MembershipFuzzOutcome outcome =
            fuzz_membership(seed, {.fewest_ranks = 3, .most_ranks = 8, .faults = protocol::kAcksNameNothing});
        if (!outcome.violation.empty()) missed = seed;
    }
    EXPECT_NE(missed, 0U);
}

}  // namespace
}  // namespace coppice::simulation
