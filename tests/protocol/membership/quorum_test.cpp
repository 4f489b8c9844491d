// Which sides may go on, over all sets of the unreachable and the certainly dead in small groups.
#include <gtest/gtest.h>

#include <bit>

#include "protocol/membership/quorum.hpp"

namespace coppice::protocol {
namespace {

FailedSet set_of(std::uint32_t bits) {
    FailedSet set;
    for (std::uint32_t member = 0; member < 32; ++member)
        if ((bits >> member & 1) != 0) set.insert(member);
    return set;
}

bool goes_on(Quorum quorum, std::uint32_t members, std::uint32_t votes, std::uint32_t certain, bool halves = false) {
    const std::uint32_t all = (1U << members) - 1;
    return is_quorum(quorum, members, {.suspected = set_of(all & ~votes), .certain = set_of(certain)}, halves);
}

TEST(Quorum, MoreThanHalfOfThoseThatAreNotDeadForCertain) {
    EXPECT_TRUE(goes_on(Quorum::certain, 5, 0b11100, 0));
    EXPECT_FALSE(goes_on(Quorum::certain, 5, 0b00011, 0));
    EXPECT_TRUE(goes_on(Quorum::certain, 5, 0b00011, 0b11000));
    EXPECT_TRUE(goes_on(Quorum::certain, 3, 0b100, 0b011));
    EXPECT_FALSE(goes_on(Quorum::majority, 3, 0b100, 0b011));
    EXPECT_TRUE(goes_on(Quorum::any, 5, 0b10000, 0));
}

TEST(Quorum, AtHalfTheSideWithTheLowestOfTheRest) {
    EXPECT_TRUE(goes_on(Quorum::certain, 4, 0b0011, 0));
    EXPECT_FALSE(goes_on(Quorum::certain, 4, 0b1100, 0));
    EXPECT_TRUE(goes_on(Quorum::certain, 3, 0b010, 0b001));
    EXPECT_FALSE(goes_on(Quorum::certain, 3, 0b100, 0b001));
    EXPECT_TRUE(goes_on(Quorum::majority, 4, 0b0011, 0));
    EXPECT_FALSE(goes_on(Quorum::majority, 4, 0b1110 & 0b0110, 0));
}

// Three members and four that never speak.
TEST(Quorum, WhoNeverSpeaksCountsOnNeitherSide) {
    const FailedSet voiceless = set_of(0b1101001);
    for (const Quorum quorum : {Quorum::certain, Quorum::majority}) {
        EXPECT_TRUE(is_quorum(quorum, 7, {.suspected = voiceless, .certain = {}}, false, voiceless));
        EXPECT_TRUE(is_quorum(quorum, 7, {.suspected = set_of(0b1101011), .certain = {}}, false, voiceless));
        EXPECT_FALSE(is_quorum(quorum, 7, {.suspected = set_of(0b1101111), .certain = {}}, false, voiceless));
        // At half the side with the lowest of those that speak.
        const FailedSet two_speak = set_of(0b1111001);
        EXPECT_TRUE(is_quorum(quorum, 7, {.suspected = set_of(0b1111101), .certain = {}}, false, two_speak));
        EXPECT_FALSE(is_quorum(quorum, 7, {.suspected = set_of(0b1111011), .certain = {}}, false, two_speak));
    }
}

// The argument of quorum.hpp by brute force: two quorums that share nobody, each with the dead that it knows, of which
// none has followed the other. `with_votes`: what the dead have voted counts, too.
bool two_groups(Quorum quorum, std::uint32_t members, bool with_votes, bool halves) {
    const std::uint32_t all = 1U << members;
    for (std::uint32_t q = 1; q < all; ++q) {
        for (std::uint32_t c = 0; c < all; ++c) {
            if ((q & c) != 0 || !goes_on(quorum, members, q, c, halves)) continue;
            for (std::uint32_t later = 1; later < all; ++later) {
                for (std::uint32_t later_c = 0; later_c < all; ++later_c) {
                    if ((later & later_c) != 0 || (q & later) != 0) continue;
                    const bool are_found = (q & later_c) != 0 || (c & later) != 0;
                    if (with_votes && are_found) continue;
                    if (goes_on(quorum, members, later, later_c, halves)) return true;
                }
            }
        }
    }
    return false;
}

TEST(Quorum, TwoSidesNeverBothHaveOne) {
    for (const std::uint32_t members : {1U, 2U, 3U, 4U, 5U}) {
        EXPECT_FALSE(two_groups(Quorum::certain, members, true, false)) << members;
        EXPECT_FALSE(two_groups(Quorum::majority, members, false, false)) << members;
    }
    EXPECT_TRUE(two_groups(Quorum::certain, 2, false, false));
    EXPECT_TRUE(two_groups(Quorum::certain, 2, true, true));
    EXPECT_TRUE(two_groups(Quorum::any, 2, true, false));
}

}  // namespace
}  // namespace coppice::protocol
