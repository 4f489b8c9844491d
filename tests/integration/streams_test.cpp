// Rows of broadcasts: what a root sends may stay with it for what it sends next, and arrives all the same.
#include <gtest/gtest.h>

#include <cstdlib>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

class Streams : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, Streams, ::testing::ValuesIn(ways_to_be_connected(5)),
                         [](const auto& layout) { return std::string(layout.param.name); });

// What a root broadcasts in a row may stay with it until it broadcasts again, or does not.
TEST_P(Streams, ARootThatStopsInARowOfBroadcastsReachesAll) {
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const std::uint64_t others = member.ranks - 1;
        std::uint64_t total = 0;
        for (std::uint64_t row = 1; row <= 24; ++row) {
            for (std::uint64_t i = 0; i < row; ++i, ++total) {
                std::uint64_t payload = member.rank == 0 ? total : UINT64_MAX;
                COPPICE_CHECK(coppice_broadcast(member.group, &payload, sizeof payload, 0, nullptr, kDeadlineNs) ==
                              COPPICE_OK);
                COPPICE_CHECK(payload == total);
            }
            if (member.rank != 0) member.notes[0].fetch_add(1);
            member.await_note(0, row * others);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(Streams, WhatARootHasBroadcastInARowArrivesThoughItEndsWithoutAWord) {
    constexpr std::uint64_t kRow = 12;
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        // So that connections are there: what waits for one would end with the process.
        coppice_status_t status = coppice_barrier(member.group, kDeadlineNs);
        COPPICE_CHECK(status == COPPICE_OK);
        for (std::uint64_t number = 0; number < 2 * kRow; ++number) {
            std::uint64_t payload = member.rank == 0 ? number : UINT64_MAX;
            status = coppice_broadcast(member.group, &payload, sizeof payload, 0, nullptr, kDeadlineNs);
            if (status != COPPICE_OK) throw CheckFailed(coppice_last_error());
            COPPICE_CHECK(payload == number);
            if (number + 1 != kRow) continue;
            COPPICE_CHECK(coppice_barrier(member.group, kDeadlineNs) == COPPICE_OK);
            // Or the root would be gone before others are through it.
            if (member.rank != 0) member.notes[0].fetch_add(1);
            if (member.rank == 0) member.await_note(0, member.ranks - 1);
        }
        if (member.rank == 0) std::exit(0);
        member.leave();
    });
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
}

}  // namespace
}  // namespace coppice::testing
