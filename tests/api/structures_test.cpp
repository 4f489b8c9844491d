// Structures that grow: programs that were built against another version of the library.
#include "api/structures.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace coppice::api {
namespace {

struct Options {
    std::size_t struct_size;
    std::uint64_t first;
    std::uint64_t added;
};
constexpr Options kDefaults{sizeof(Options), 1, 2};
constexpr std::size_t kFirstRelease = COPPICE_SIZE_THROUGH(Options, first);

TEST(Structures, AnOlderProgramGetsTheDefaultOfWhatItDoesNotKnow) {
    const Options older{kFirstRelease, 7, 99};  // 99 stands for whatever lies behind its structure
    const auto given = options_given(&older, kDefaults, kFirstRelease, "call", "INIT");
    ASSERT_TRUE(given);
    EXPECT_EQ(given->first, 7U);
    EXPECT_EQ(given->added, 2U);
}

TEST(Structures, ANewerProgramIsServedWithWhatThisLibraryKnows) {
    const struct {
        Options known{sizeof(Options) + sizeof(std::uint64_t), 7, 8};
        std::uint64_t unknown = 9;
    } newer;
    const auto given = options_given(&newer.known, kDefaults, kFirstRelease, "call", "INIT");
    ASSERT_TRUE(given);
    EXPECT_EQ(given->first, 7U);
    EXPECT_EQ(given->added, 8U);
}

TEST(Structures, NoOptionsAreTheDefaults) {
    const auto given = options_given<Options>(nullptr, kDefaults, kFirstRelease, "call", "INIT");
    ASSERT_TRUE(given);
    EXPECT_EQ(given->first, 1U);
    EXPECT_EQ(given->added, 2U);
}

TEST(Structures, OneThatWasNotInitialisedIsRefused) {
    const Options wrong{kFirstRelease - 1, 7, 8};
    const auto given = options_given(&wrong, kDefaults, kFirstRelease, "call", "INIT");
    ASSERT_FALSE(given);
    EXPECT_EQ(given.error().status, COPPICE_ERR_INVALID_ARGUMENT);
    EXPECT_NE(given.error().message.find("call: options.struct_size"), std::string::npos);
    EXPECT_NE(given.error().message.find("INIT"), std::string::npos);
}

TEST(Structures, NothingIsAnsweredBehindWhatTheCallerHasRoomFor) {
    Options older{kFirstRelease, 0, 99};
    ASSERT_TRUE(give_answer(Options{0, 7, 8}, &older, kFirstRelease, "call", "type"));
    EXPECT_EQ(older.struct_size, kFirstRelease);
    EXPECT_EQ(older.first, 7U);
    EXPECT_EQ(older.added, 99U);

    struct {
        Options known{sizeof(Options) + sizeof(std::uint64_t), 0, 0};
        std::uint64_t unknown = 99;
    } newer;
    ASSERT_TRUE(give_answer(Options{0, 7, 8}, &newer.known, kFirstRelease, "call", "type"));
    EXPECT_EQ(newer.known.struct_size, sizeof newer);
    EXPECT_EQ(newer.known.added, 8U);
    EXPECT_EQ(newer.unknown, 99U);

    Options wrong{0, 0, 0};
    EXPECT_FALSE(give_answer(Options{0, 7, 8}, &wrong, kFirstRelease, "call", "type"));
}

}  // namespace
}  // namespace coppice::api
