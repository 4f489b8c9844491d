// Broadcasts among real processes, nobody dying: what arrives, in every layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>

#include "integration/broadcasts.hpp"
#include "support/stopped.hpp"

namespace coppice::testing {
namespace {

const std::vector<Layout>& layouts() {
    static const std::vector<Layout> all{
        {"one_rank", 1, 1, {}},
        {"one_host", 5, 1, {}},
        {"flat_star", 6, 1, {{"COPPICE_HIERARCHY", "flat"}}},
        {"flat_opportunistic", 6, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_TREE", "binomial"}}},
        {"flat_checked_lame",
         7,
         1,
         {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "checked"}, {"COPPICE_TREE", "lame:2"}}},
        {"flat_optimized_kary",
         6,
         1,
         {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "optimized:2"}, {"COPPICE_TREE", "kary:3"}}},
        {"flat_ack",
         5,
         1,
         {{"COPPICE_TREE", "binomial"}, {"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "ack"}}},
        {"flat_none_chain",
         4,
         1,
         {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "none"}, {"COPPICE_TREE", "chain"}}},
        {"flat_synchronized",
         6,
         1,
         {{"COPPICE_TREE", "binomial"},
          {"COPPICE_HIERARCHY", "flat"},
          {"COPPICE_CORRECTION", "opportunistic:1:synchronized"}}},
        {"flat_delayed",
         6,
         1,
         {{"COPPICE_TREE", "binomial"}, {"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "delayed:100000"}}},
        {"flat_failure_proof",
         7,
         1,
         {{"COPPICE_TREE", "binomial"}, {"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "failure-proof:2"}}},
        {"flat_opportunistic_gossip", 6, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_ALGORITHM", "ocg"}}},
        {"flat_checked_gossip", 6, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_ALGORITHM", "ccg:3:rounds"}}},
        {"flat_failure_proof_gossip", 6, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_ALGORITHM", "fcg:1"}}},
        {"ucx_failure_proof",
         4,
         1,
         {{"COPPICE_TREE", "binomial"}, {"COPPICE_TRANSPORT", "ucx"}, {"COPPICE_CORRECTION", "failure-proof:1"}}},
        {"ucx", 4, 1, {{"COPPICE_TRANSPORT", "ucx"}}},
        {"tcp", 4, 1, {{"COPPICE_TRANSPORT", "tcp"}}},
        {"ucx_checked",
         4,
         1,
         {{"COPPICE_TREE", "binomial"}, {"COPPICE_TRANSPORT", "ucx"}, {"COPPICE_CORRECTION", "checked"}}},
        {"two_hosts", 6, 2, {}},
        {"three_hosts_checked", 7, 3, {{"COPPICE_TREE", "binomial"}, {"COPPICE_CORRECTION", "checked"}}},
        {"a_rank_a_host", 4, 4, {}},
        {"small_window", 5, 2, {{"COPPICE_TREE", "binomial"}, {"COPPICE_WINDOW", "2"}}},
        {"progress_thread", 4, 2, {{"COPPICE_PROGRESS_THREAD", "1"}}},
    };
    return all;
}

class EveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, EveryLayout, ::testing::ValuesIn(layouts()),
                         [](const auto& layout) { return std::string(layout.param.name); });

TEST_P(EveryLayout, EveryByteArrivesFromEveryRootInEverySize) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t number = 0;
        for (const std::size_t bytes : {0U, 1U, 8U, 40U, 41U, 255U, 256U, 511U, 512U, 1024U, 4097U, 8191U, 8192U}) {
            for (std::uint32_t root = 0; root < member.ranks; ++root)
                broadcast_and_check(member, number++, root, bytes);
        }
        for (; number < 600; ++number)
            broadcast_and_check(member, number, static_cast<std::uint32_t>(number % member.ranks), number);
        coppice_group_info_t info{};
        info.struct_size = sizeof info;
        COPPICE_CHECK(coppice_group_query(member.group, &info) == COPPICE_OK);
        COPPICE_CHECK(info.garbage == 0 && info.refused == 0);
        COPPICE_CHECK(member.failed().empty());
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, WindowsFullOfBroadcastsWithDifferentRootsAreInFlightAtOnce) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        coppice_group_info_t info{};
        info.struct_size = sizeof info;
        COPPICE_CHECK(coppice_group_query(member.group, &info) == COPPICE_OK);
        std::vector<std::vector<unsigned char>> buffers(info.window, std::vector<unsigned char>(300));
        std::vector<coppice_request_t*> requests(info.window);
        std::uint64_t number = 0;
        for (int round = 0; round < 10; ++round) {
            for (std::uint32_t i = 0; i < info.window; ++i) {
                const auto root = static_cast<std::uint32_t>((number + i) % member.ranks);
                if (root == member.rank) buffers[i] = payload_of(number + i, root, 300);
                coppice_status_t status = COPPICE_ERR_BUSY;
                while (status == COPPICE_ERR_BUSY) {
                    status = coppice_broadcast_nb(member.group, buffers[i].data(), 300, root, &requests[i]);
                }
                COPPICE_CHECK(status == COPPICE_OK);
            }
            for (std::uint32_t i = info.window; i > 0; --i) {  // the last one first: order of waiting is the caller's
                std::size_t received = 0;
                COPPICE_CHECK(coppice_request_wait(requests[i - 1], &received, kTimeout) == COPPICE_OK);
                COPPICE_CHECK(received == 300);
                const auto root = static_cast<std::uint32_t>((number + i - 1) % member.ranks);
                COPPICE_CHECK(buffers[i - 1] == payload_of(number + i - 1, root, 300));
                COPPICE_CHECK(coppice_request_free(requests[i - 1]) == COPPICE_OK);
            }
            number += info.window;
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, AViewShowsThePayloadUntilItIsReleased) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (std::uint64_t number = 0; number < 100; ++number) {
            const auto root = static_cast<std::uint32_t>(number % member.ranks);
            const std::size_t bytes = (number * 83) % 2000;
            const auto expected = payload_of(number, root, bytes);
            coppice_request_t* request = nullptr;
            coppice_status_t status = COPPICE_ERR_BUSY;
            while (status == COPPICE_ERR_BUSY) {
                status = coppice_broadcast_view_nb(member.group, expected.data(), bytes, root, &request);
            }
            COPPICE_CHECK(status == COPPICE_OK);
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
            const void* payload = nullptr;
            std::size_t size = 0;
            COPPICE_CHECK(coppice_request_view(request, &payload, &size) == COPPICE_OK);
            COPPICE_CHECK(size == bytes);
            COPPICE_CHECK(bytes == 0 || std::memcmp(payload, expected.data(), bytes) == 0);
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, AHeldViewHoldsUpTheWindowAndNothingElse) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        coppice_group_info_t info{};
        info.struct_size = sizeof info;
        COPPICE_CHECK(coppice_group_query(member.group, &info) == COPPICE_OK);
        const auto expected = payload_of(0, 0, 700);
        coppice_request_t* held = nullptr;
        COPPICE_CHECK(coppice_broadcast_view_nb(member.group, expected.data(), 700, 0, &held) == COPPICE_OK);
        COPPICE_CHECK(coppice_request_wait(held, nullptr, kTimeout) == COPPICE_OK);
        for (std::uint64_t number = 1; number < info.window; ++number)
            broadcast_and_check(member, number, 0, 700);
        const void* payload = nullptr;
        std::size_t size = 0;
        COPPICE_CHECK(coppice_request_view(held, &payload, &size) == COPPICE_OK);
        COPPICE_CHECK(size == 700 && std::memcmp(payload, expected.data(), 700) == 0);
        if (member.rank == 0) {  // every other rank still holds broadcast 0, and so does this one
            unsigned char byte = 0;
            coppice_request_t* refused = nullptr;
            COPPICE_CHECK(coppice_broadcast_nb(member.group, &byte, 1, 0, &refused) == COPPICE_ERR_BUSY);
        }
        COPPICE_CHECK(coppice_request_free(held) == COPPICE_OK);
        for (std::uint64_t number = info.window; number < 3 * info.window; ++number) {
            broadcast_and_check(member, number, 0, 700);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, RegisteredMemoryIsSentFromAndMayBeReusedAtOnce) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::vector<unsigned char> memory(kMaxPayload);
        COPPICE_CHECK(coppice_memory_register(member.group, memory.data(), memory.size()) == COPPICE_OK);
        COPPICE_CHECK(coppice_memory_register(member.group, memory.data() + 5, 10) == COPPICE_ERR_BUSY);
        for (std::uint64_t number = 0; number < 200; ++number) {
            const auto root = static_cast<std::uint32_t>(number % member.ranks);
            const std::size_t bytes = (number * 97) % kMaxPayload;
            const auto expected = payload_of(number, root, bytes);
            if (member.rank == root) std::ranges::copy(expected, memory.begin());
            COPPICE_CHECK(coppice_broadcast(member.group, memory.data(), member.rank == root ? bytes : memory.size(),
                                            root, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(std::equal(expected.begin(), expected.end(), memory.begin()));
            std::ranges::fill(memory, 0xaa);  // nobody may ever see this
        }
        COPPICE_CHECK(coppice_memory_deregister(member.group, memory.data()) == COPPICE_OK);
        COPPICE_CHECK(coppice_memory_deregister(member.group, memory.data()) == COPPICE_ERR_INVALID_ARGUMENT);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// Rank 1 is stopped, so that what its kernel does not take stays at the root, in the caller's memory.
TEST(Broadcast, MemoryThatABroadcastIsStillLeavingFromStaysRegistered) {
    enum Note : std::uint8_t { kJoined, kStopped, kRefused };
    constexpr std::uint64_t kMost = 64;
    Job job({.ranks = 2, .environment = {{"COPPICE_TRANSPORT", "tcp"}, {"COPPICE_WINDOW", "64"}}}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::vector<unsigned char> memory = payload_of(1, 0, kMaxPayload);
        const auto expected = memory;
        COPPICE_CHECK(coppice_memory_register(member.group, memory.data(), memory.size()) == COPPICE_OK);
        COPPICE_CHECK(coppice_broadcast(member.group, memory.data(), memory.size(), 0, nullptr, kTimeout) ==
                      COPPICE_OK);
        member.notes[kJoined].fetch_add(1);
        member.await_note(kStopped, 1);
        // It goes on when it has been refused, so it knows how many there are.
        const std::uint64_t most = member.rank == 0 ? kMost : member.notes[kRefused].load();
        std::vector<coppice_request_t*> requests;
        coppice_status_t given_back = COPPICE_OK;
        while (requests.size() < most && given_back == COPPICE_OK) {
            coppice_request_t*& request = requests.emplace_back(nullptr);
            COPPICE_CHECK(coppice_broadcast_nb(member.group, memory.data(), memory.size(), 0, &request) == COPPICE_OK);
            if (member.rank == 0 && coppice_request_test(request, nullptr) == COPPICE_IN_PROGRESS)
                given_back = coppice_memory_deregister(member.group, memory.data());
        }
        if (member.rank == 0) {
            COPPICE_CHECK(given_back == COPPICE_ERR_BUSY);
            COPPICE_CHECK(std::strstr(coppice_last_error(), "is still leaving from this memory") != nullptr);
            member.notes[kRefused] = requests.size();
        }
        for (coppice_request_t* request : requests) {
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        }
        COPPICE_CHECK(memory == expected);
        COPPICE_CHECK(coppice_memory_deregister(member.group, memory.data()) == COPPICE_OK);
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kJoined, 2));
    job.processes().signal(1, SIGSTOP);
    ASSERT_TRUE(await_stopped(job.processes(), 1));
    job.note(kStopped) = 1;
    EXPECT_TRUE(job.await_note(kRefused, 1));
    job.processes().signal(1, SIGCONT);
    EXPECT_EQ(job.finish(), "");
}

TEST(Broadcast, APayloadLargerThanTheBufferLeavesItUntouched) {
    Job job({.ranks = 3}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::vector<unsigned char> buffer(100, 0x11);
        if (member.rank == 0) {
            COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), 100, 0, nullptr, kTimeout) == COPPICE_OK);
        } else {
            std::vector<unsigned char> small(50, 0x22);
            std::size_t received = 0;
            COPPICE_CHECK(coppice_broadcast(member.group, small.data(), 50, 0, &received, kTimeout) ==
                          COPPICE_ERR_TRUNCATED);
            COPPICE_CHECK(received == 100);
            COPPICE_CHECK(std::ranges::all_of(small, [](unsigned char c) { return c == 0x22; }));
            COPPICE_CHECK(std::string(coppice_last_error()).find("100") != std::string::npos);
        }
        broadcast_and_check(member, 1, 1, 20);  // the next one is not disturbed
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
