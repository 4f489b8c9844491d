// Which broadcasts of a root leave together.
#include "engine/collectives/broadcast/stream.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace coppice::engine {
namespace {

// Broadcasts that begin so many nanoseconds after the one before: 's' for one that may stay, '.' for one that leaves.
std::string fates(const std::vector<std::uint64_t>& gaps) {
    Stream stream;
    std::uint64_t now = 1'000'000'000;
    std::string all;
    for (const std::uint64_t gap : gaps)
        all += stream.may_stay(now += gap) ? 's' : '.';
    return all;
}

TEST(Stream, BroadcastsNowAndThenLeaveAtOnce) {
    EXPECT_EQ(fates(std::vector<std::uint64_t>(40, Stream::kCloseNs)), std::string(40, '.'));
}

TEST(Stream, TheFirstOnesOfARowLeaveAtOnceAndTheOthersTogether) {
    const std::string together = std::string(Stream::kMostTogether - 1, 's') + '.';
    EXPECT_EQ(fates(std::vector<std::uint64_t>(Stream::kLeast + 2 * Stream::kMostTogether, 1)),
              std::string(Stream::kLeast, '.') + together + together);
}

TEST(Stream, NoneStaysLongerThanThat) {
    std::vector<std::uint64_t> gaps(Stream::kLeast, 1);
    gaps.insert(gaps.end(), 6, Stream::kLongestNs / 5);  // the sixth begins kLongestNs after the first that stays
    EXPECT_EQ(fates(gaps), std::string(Stream::kLeast, '.') + "sssss.");
}

TEST(Stream, ARowThatIsBrokenBeginsAnew) {
    std::vector<std::uint64_t> gaps(Stream::kLeast + 2, 1);
    gaps.push_back(Stream::kCloseNs);
    gaps.insert(gaps.end(), Stream::kLonger * Stream::kLeast, 1);
    const std::string leave(Stream::kLeast, '.');
    EXPECT_EQ(fates(gaps), leave + "ss" + std::string(Stream::kLonger * Stream::kLeast, '.') + "s");
}

// The others wait for such messages until the progress thread has looked: of many broadcasts a few.
TEST(Stream, AProgramThatWaitsByItsOwnMeansAfterSomeBroadcastsKeepsAlmostNothingBack) {
    for (const std::size_t together : {1U, 2U, 10U}) {
        Stream stream;
        std::uint64_t now = 1'000'000'000;
        std::size_t waits = 0;
        constexpr std::size_t kRounds = 2000;
        for (std::size_t round = 0; round < kRounds; ++round) {
            bool stays = false;
            for (std::size_t i = 0; i < together; ++i)
                stays = stream.may_stay(now += 100);
            if (stays) ++waits;
            now += stays ? 50'000 : 5'000;  // what stays makes the wait long
        }
        EXPECT_LE(waits, kRounds / 100) << together << " at a time";
    }
}

// What stays has left when the wait begins.
TEST(Stream, AProgramThatWaitsByTheLibraryAfterSomeBroadcastsHasThemLeaveTogether) {
    Stream stream;
    std::uint64_t now = 1'000'000'000;
    for (int round = 0; round < 100; ++round) {
        std::string row;
        for (int i = 0; i < 12; ++i)
            row += stream.may_stay(now += 100) ? 's' : '.';
        EXPECT_EQ(row, "....ssssssss") << round;
        stream.let_go();
        now += 50'000;
    }
}

TEST(Stream, ALongRowAfterSuchAProgramLeavesTogetherAgain) {
    const auto leave = [](std::uint32_t count) { return std::string(count, '.'); };
    const std::string batch = std::string(Stream::kMostTogether - 1, 's') + '.';
    const std::string too_soon = leave(Stream::kLeast) + "s";
    std::vector<std::uint64_t> gaps;
    std::string all;
    for (const std::string& row : {too_soon, leave(Stream::kLonger * Stream::kLeast) + batch,
                                   leave(Stream::kLonger * Stream::kLeast / 2) + batch + batch, too_soon}) {
        gaps.push_back(Stream::kCloseNs);
        gaps.insert(gaps.end(), row.size() - 1, 1);
        all += row;
    }
    EXPECT_EQ(fates(gaps), all);
}

// A root that waits for room in the window has not been away.
TEST(Stream, TimeWithinTheCallDoesNotCount) {
    Stream stream;
    std::uint64_t now = 1'000'000'000;
    for (std::uint32_t i = 0; i < Stream::kLeast; ++i) {
        EXPECT_FALSE(stream.may_stay(now));
        stream.ended(now += 1'000'000);
    }
    EXPECT_TRUE(stream.may_stay(now + 1));
}

}  // namespace
}  // namespace coppice::engine
