// Groups of 64K ranks, of which this process is one. The others are made up: their greetings and addresses are copies
// of this one's, so that nothing but what grows with the ranks is tested, and no connection to them comes to anything.
#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "api/support.hpp"

namespace coppice::testing {
namespace {

constexpr std::uint32_t kRanks = 65536;

struct Others {
    std::uint32_t ranks = kRanks;
    bool (*dead)(std::uint32_t rank) = nullptr;
    int calls = 0;
};

// A call has 512 bytes of each rank: a header, whose fourth word is the sender, and what is said. What does not fit comes in another one.
int exchange_for_all(void* argument, const void* mine, std::size_t bytes, void* all) {
    Others& others = *static_cast<Others*>(argument);
    const int call = others.calls++;
    for (std::uint32_t rank = 0; rank < others.ranks; ++rank) {
        char* const piece = static_cast<char*>(all) + rank * bytes;
        if (others.dead(rank)) {
            std::memset(piece, 0, bytes);
            continue;
        }
        std::memcpy(piece, mine, bytes);
        if (bytes == 512) std::memcpy(piece + 3 * sizeof rank, &rank, sizeof rank);
        if (call == 0 && rank != 0) {
            const std::string host = std::to_string(100000 + rank);  // as long as ours
            std::string text(piece, bytes);
            const std::size_t at = text.find("myhost");
            if (at == std::string::npos) return 1;
            std::copy(host.begin(), host.end(), piece + at);
        }
    }
    return 0;
}

void form(Others& others, std::uint32_t hosts) {
    const Variable host("COPPICE_HOST", "myhost");
    coppice_context_t* context = nullptr;
    ASSERT_EQ(coppice_context_create(nullptr, &context), COPPICE_OK) << coppice_last_error();
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.exchange = exchange_for_all;
    options.exchange_argument = &others;
    options.size = others.ranks;
    coppice_group_t* group = nullptr;
    ASSERT_EQ(coppice_group_create(context, &options, &group), COPPICE_OK) << coppice_last_error();
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    ASSERT_EQ(coppice_group_query(group, &info), COPPICE_OK);
    EXPECT_EQ(info.size, others.ranks);
    EXPECT_EQ(info.hosts, hosts);
    std::vector<std::uint32_t> failed(others.ranks);
    std::size_t count = 0;
    ASSERT_EQ(coppice_group_failed(group, failed.data(), failed.size(), &count), COPPICE_OK);
    failed.resize(count);
    std::vector<std::uint32_t> expected;
    for (std::uint32_t rank = 0; rank < others.ranks; ++rank) {
        if (others.dead(rank)) expected.push_back(rank);
    }
    EXPECT_EQ(failed, expected);
    EXPECT_EQ(coppice_group_destroy(group, 0), COPPICE_OK) << coppice_last_error();
    EXPECT_EQ(coppice_context_destroy(context), COPPICE_OK) << coppice_last_error();
}

TEST(LargeGroup, Of64KRanksIsFormed) {
    Others others{.dead = [](std::uint32_t) { return false; }};
    form(others, kRanks);
}

TEST(LargeGroup, IsFormedThoughEverySecondRankIsDead) {
    Others others{.dead = [](std::uint32_t rank) { return rank % 2 == 1; }};
    form(others, kRanks / 2);
}

TEST(LargeGroup, IsFormedOfTheOnlySurvivor) {
    Others others{.dead = [](std::uint32_t rank) { return rank != 0; }};
    form(others, 1);
}

}  // namespace
}  // namespace coppice::testing
