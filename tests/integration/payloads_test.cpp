// Payloads above what one message carries, between real processes: they arrive whole or not at all, whichever rank dies between two chunks.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "integration/job.hpp"
#include "support/stopped.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;
constexpr std::size_t kChunk = 8192;

const std::vector<Layout>& layouts() {
    static const std::vector<Layout> all{
        {"one_host", 4, 1, {}},
        {"flat", 4, 1, {{"COPPICE_HIERARCHY", "flat"}}},
        {"two_hosts", 5, 2, {}},
        {"tcp", 4, 1, {{"COPPICE_TRANSPORT", "tcp"}}},
        {"ucx", 3, 1, {{"COPPICE_TRANSPORT", "ucx"}}},
        {"two_ranks", 2, 2, {}},  // there is no other rank to take a chunk from
        {"flat_failure_proof", 4, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "failure-proof:1"}}},
    };
    return all;
}

class EveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, EveryLayout, ::testing::ValuesIn(layouts()),
                         [](const auto& layout) { return std::string(layout.param.name); });

TEST_P(EveryLayout, PayloadsOfEverySizeArriveFromEveryRoot) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t number = 0;
        for (const std::size_t bytes :
             {kChunk, kChunk + 1, 2 * kChunk, std::size_t{100'001}, (std::size_t{3} << 20) + 1}) {
            for (std::uint32_t root = 0; root < member.ranks; ++root, ++number) {
                const auto expected = payload_of(number, root, bytes);
                std::vector<unsigned char> buffer =
                    member.rank == root ? expected : std::vector<unsigned char>(bytes + 1, 0xee);
                std::size_t received = 0;
                COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), buffer.size(), root, &received,
                                                kTimeout) == COPPICE_OK);
                COPPICE_CHECK(received == bytes);
                COPPICE_CHECK(std::ranges::equal(expected, std::span(buffer).first(bytes)));
                COPPICE_CHECK(buffer.size() == bytes || buffer.back() == 0xee);
            }
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, LargeAndSmallOnesGoOnBesideEachOther) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        constexpr std::uint64_t kUnderWay = 6;
        const auto bytes_of = [](std::uint64_t number) {
            return number % 2 == 0 ? std::size_t{200'000} + number : number;
        };
        for (std::uint64_t first = 0; first < 4 * kUnderWay; first += kUnderWay) {
            std::vector<coppice_request_t*> requests(kUnderWay);
            std::vector<std::vector<unsigned char>> payloads(kUnderWay);
            for (std::uint64_t i = 0; i < kUnderWay; ++i) {
                const auto root = static_cast<std::uint32_t>((first + i) % member.ranks);
                payloads[i] = payload_of(first + i, root, bytes_of(first + i));
                COPPICE_CHECK(coppice_broadcast_view_nb(member.group, payloads[i].data(), payloads[i].size(), root,
                                                        &requests[i]) == COPPICE_OK);
            }
            for (std::uint64_t i = 0; i < kUnderWay; ++i) {
                COPPICE_CHECK(coppice_request_wait(requests[i], nullptr, kTimeout) == COPPICE_OK);
                const void* view = nullptr;
                std::size_t bytes = 0;
                COPPICE_CHECK(coppice_request_view(requests[i], &view, &bytes) == COPPICE_OK);
                COPPICE_CHECK(
                    std::ranges::equal(payloads[i], std::span(static_cast<const unsigned char*>(view), bytes)));
                COPPICE_CHECK(coppice_request_free(requests[i]) == COPPICE_OK);
            }
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, ABufferThatIsTooSmallIsLeftAloneAndTheOthersAreServed) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (std::uint64_t number = 0; number < 4; ++number) {
            const auto expected = payload_of(number, 0, 5 * kChunk);
            std::vector<unsigned char> buffer =
                member.rank == 0 ? expected : std::vector<unsigned char>(expected.size(), 0xee);
            const bool is_narrow = member.rank == 1;
            std::size_t received = 0;
            const coppice_status_t status = coppice_broadcast(
                member.group, buffer.data(), buffer.size() - (is_narrow ? 1 : 0), 0, &received, kTimeout);
            COPPICE_CHECK(status == (is_narrow ? COPPICE_ERR_TRUNCATED : COPPICE_OK));
            if (!is_narrow) COPPICE_CHECK(buffer == expected);
            if (is_narrow)
                COPPICE_CHECK(std::ranges::count(buffer, 0xee) == static_cast<std::ptrdiff_t>(buffer.size()));
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// A root's chunk size goes with its payload; what is asked for ahead and how long a silence lasts concerns the rank that asks.
TEST_P(EveryLayout, EachRankMayHaveItsOwnChunksAndAskForAsManyAsItLikes) {
    JobOptions options = GetParam().job();
    options.environment["COPPICE_EAGER"] = "1000";
    options.environment["COPPICE_PAYLOAD_CHUNK"] = "8K";
    options.of_rank[0] = {{"COPPICE_PAYLOAD_CHUNK", "1K"}, {"COPPICE_PAYLOAD_AHEAD", "1024"}};
    options.of_rank[1] = {{"COPPICE_PAYLOAD_CHUNK", "3000"}, {"COPPICE_PAYLOAD_AHEAD", "1"}};
    if (options.ranks > 2) options.of_rank[2] = {{"COPPICE_PAYLOAD_PATIENCE", "10s"}};
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t number = 0;
        std::uint64_t expected_chunks = 0;
        for (std::uint32_t root = 0; root < member.ranks; ++root) {
            for (const std::size_t bytes : {1000, 1001, 1025, 8192, 8193, 300'000}) {
                const auto expected = payload_of(++number, root, bytes);
                std::vector<unsigned char> buffer =
                    member.rank == root ? expected : std::vector<unsigned char>(bytes, 0xee);
                COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), bytes, root, nullptr, kTimeout) ==
                              COPPICE_OK);
                COPPICE_CHECK(buffer == expected);
                const std::size_t chunk = root == 0 ? 1024 : root == 1 ? 3000 : kChunk;
                if (bytes > 1000 && member.rank != root) expected_chunks += (bytes + chunk - 1) / chunk;
            }
        }
        const coppice_group_counts_t counts = member.counts();
        COPPICE_CHECK(counts.chunks == expected_chunks);
        COPPICE_CHECK(counts.chunks_damaged == 0);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// In as many messages as each wire takes for a chunk, which a relay's may not be the root's.
TEST_P(EveryLayout, ChunksOfAnySizeArrive) {
    for (const char* const chunk : {"1K", "12345", "64K", "200000", "1M"}) {
        JobOptions options = GetParam().job();
        options.environment["COPPICE_PAYLOAD_CHUNK"] = chunk;
        Job job(options, [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            std::uint64_t number = 0;
            for (const std::size_t bytes : {std::size_t{8193}, std::size_t{131'073}, (std::size_t{3} << 20) + 1}) {
                const auto root = static_cast<std::uint32_t>(number % member.ranks);
                const auto expected = payload_of(++number, root, bytes);
                std::vector<unsigned char> buffer = member.rank == root ? expected : std::vector<unsigned char>(bytes);
                COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), bytes, root, nullptr, kTimeout) ==
                              COPPICE_OK);
                COPPICE_CHECK(buffer == expected);
            }
            member.leave();
        });
        ASSERT_EQ(job.finish(), "") << chunk;
    }
}

TEST_P(EveryLayout, EveryPayloadMayGoInChunks) {
    JobOptions options = GetParam().job();
    options.environment["COPPICE_EAGER"] = "0";
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (std::uint64_t number = 0; number < 20; ++number) {
            const auto root = static_cast<std::uint32_t>(number % member.ranks);
            const std::size_t bytes = number * number * number;
            const auto expected = payload_of(number, root, bytes);
            std::vector<unsigned char> buffer = member.rank == root ? expected : std::vector<unsigned char>(bytes);
            COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), bytes, root, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(buffer == expected);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// Notes the outcome of each broadcast: 1 for OK, 2 for ROOT_FAILED. What was written to a buffer that is not called good is a part of the
// payload, from its start.
void sing(Member& member, std::uint64_t count, std::size_t bytes) {
    for (std::uint64_t number = 0; number < count; ++number) {
        const auto expected = payload_of(number, 0, bytes);
        std::vector<unsigned char> buffer = member.rank == 0 ? expected : std::vector<unsigned char>(bytes, 0xee);
        const coppice_status_t status = coppice_broadcast(member.group, buffer.data(), bytes, 0, nullptr, kTimeout);
        if (status == COPPICE_OK) {
            COPPICE_CHECK(buffer == expected);
        } else {
            COPPICE_CHECK(status == COPPICE_ERR_ROOT_FAILED);
            const std::size_t written = std::ranges::mismatch(buffer, expected).in1 - buffer.begin();
            COPPICE_CHECK(written < bytes);
            COPPICE_CHECK(
                std::ranges::all_of(std::span(buffer).subspan(written), [](auto byte) { return byte == 0xee; }));
        }
        member.notes[member.rank * count + number] = status == COPPICE_OK ? 1 : 2;
    }
}

// SIGKILL after each message that the victim sends, until it sends no more: all survivors get all of it, or all are told.
void kill_at_every_message(const Layout& layout, std::uint32_t victim) {
    constexpr std::uint64_t kCount = 2;
    constexpr std::size_t kBytes = 3 * kChunk + 5;
    bool killed = true;
    for (int message = 1; killed; ++message) {
        ASSERT_LT(message, 200) << "two broadcasts of four chunks do not take so many messages";
        JobOptions options = layout.job();
        const std::string fault = faults_at("kill-after", message, {victim});
        options.environment["COPPICE_FAULTS"] = fault;
        Job job(
            options,
            [&](Member& member) {
                COPPICE_CHECK(member.join() == COPPICE_OK);
                sing(member, kCount, kBytes);
                member.leave();
            },
            layout.ranks * kCount);
        ASSERT_EQ(job.finish([&](std::uint32_t rank) { return rank == victim; }), "") << fault;
        killed = job.ending(victim).killed_by(SIGKILL);
        for (std::uint64_t number = 0; number < kCount; ++number) {
            std::set<std::uint64_t> outcomes;
            for (std::uint32_t rank = 0; rank < job.ranks(); ++rank)
                if (!killed || rank != victim) outcomes.insert(job.note(rank * kCount + number));
            ASSERT_EQ(outcomes.size(), 1U) << fault << ": survivors differ about broadcast " << number;
            ASSERT_TRUE((killed && victim == 0) || *outcomes.begin() == 1U)
                << fault << ": a live root's payload is lost";
        }
    }
}

TEST_P(EveryLayout, ARootMayDieAtEveryMessage) {
    kill_at_every_message(GetParam(), 0);
}
TEST_P(EveryLayout, ARankThatOthersTakeChunksFromMayDieAtEveryMessage) {
    kill_at_every_message(GetParam(), GetParam().ranks > 3 && GetParam().hosts > 1 ? 3 : 1);
}

// The others find it silent, and take their chunks elsewhere.
TEST(Payloads, AStoppedRankHoldsUpNobodyButItself) {
    constexpr std::size_t kHave = 0;
    Layout layout{"flat", 4, 1, {{"COPPICE_HIERARCHY", "flat"}}};
    Job job(layout.job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        if (member.rank == 1) COPPICE_CHECK(raise(SIGSTOP) == 0);
        const auto expected = payload_of(0, 0, std::size_t{1} << 20);
        std::vector<unsigned char> buffer = member.rank == 0 ? expected : std::vector<unsigned char>(expected.size());
        COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), buffer.size(), 0, nullptr, kTimeout) ==
                      COPPICE_OK);
        COPPICE_CHECK(buffer == expected);
        member.notes[kHave].fetch_add(1);
        member.leave();
    });
    EXPECT_TRUE(job.await_note(kHave, 3));
    EXPECT_TRUE(await_stopped(job.processes(), 1));
    job.processes().signal(1, SIGCONT);
    EXPECT_EQ(job.finish(), "");
}

// No other rank has heard of the second broadcast, and each calls when its root is dead. They have mapped its memory for the first one.
TEST(Payloads, ARootThatDiesWhenAllOfItIsShownHasHarmedNobody) {
    enum : std::uint8_t { kShown, kGone };
    const Layout layout{"one_host", 4, 1, {{"COPPICE_PROGRESS_THREAD", "0"}}};
    Job job(layout.job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        auto expected = payload_of(0, 0, std::size_t{1} << 20);
        std::vector<unsigned char> first = expected;
        COPPICE_CHECK(coppice_broadcast(member.group, first.data(), first.size(), 0, nullptr, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_barrier(member.group, kTimeout) == COPPICE_OK);
        std::ranges::reverse(expected);
        if (member.rank == 0) {
            std::vector<unsigned char> payload = expected;
            COPPICE_CHECK(coppice_broadcast(member.group, payload.data(), payload.size(), 0, nullptr, kTimeout) ==
                          COPPICE_OK);
            member.notes[kShown] = 1;
            for (;;)
                pause();
        }
        member.await_note(kGone, 1);
        member.await_failed(1);
        std::vector<unsigned char> buffer(expected.size());
        COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), buffer.size(), 0, nullptr, kTimeout) ==
                      COPPICE_OK);
        COPPICE_CHECK(buffer == expected);
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kShown, 1));
    job.kill(0, true);
    job.note(kGone) = 1;
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
}

// The root serves nobody before its next call.
TEST(Payloads, ADeadlineNamesTheRankThatTheNextChunkWasAskedOf) {
    enum : std::uint8_t { kTimedOut };
    const Layout layout{"two_ranks", 2, 1, {{"COPPICE_TRANSPORT", "tcp"}, {"COPPICE_PROGRESS_THREAD", "0"}}};
    Job job(layout.job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const auto expected = payload_of(0, 0, std::size_t{1} << 20);
        std::vector<unsigned char> buffer = member.rank == 0 ? expected : std::vector<unsigned char>(expected.size());
        COPPICE_CHECK(coppice_barrier(member.group, kTimeout) == COPPICE_OK);  // they are connected
        coppice_request_t* request = nullptr;
        COPPICE_CHECK(coppice_broadcast_nb(member.group, buffer.data(), buffer.size(), 0, &request) == COPPICE_OK);
        if (member.rank == 0) {
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
            member.await_note(kTimedOut, 1);
        } else {
            std::string text;
            while (text.find("chunks are here") == std::string::npos) {
                COPPICE_CHECK(coppice_request_wait(request, nullptr, 100'000'000) == COPPICE_ERR_TIMEOUT);
                text = coppice_last_error();
            }
            COPPICE_CHECK(text.find(" chunks are here, the next is asked of rank 0") != std::string::npos);
            member.notes[kTimedOut] = 1;
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
        }
        COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        COPPICE_CHECK(buffer == expected);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

std::uint64_t memory_for_shown() {
    for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const std::string target = std::filesystem::read_symlink(descriptor.path(), gone);
        struct stat file {};
        if (target.find("coppice-bulk") != std::string::npos && stat(descriptor.path().c_str(), &file) == 0)
            return static_cast<std::uint64_t>(file.st_blocks) * 512;
    }
    return 0;
}

// And what it took is given back, but for what the window keeps for the next ones.
TEST(Payloads, ALargerOneThanTheWindowIsShownToItsHostToo) {
    enum : std::uint8_t { kSent };
    constexpr std::size_t kWindow = std::size_t{1} << 20;
    const Layout layout{"one_host", 4, 1, {{"COPPICE_PAYLOAD_WINDOW", "1M"}}};
    Job job(layout.job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (const std::size_t bytes : {20 * kWindow + 5, std::size_t{40'000}, 7 * kWindow}) {
            const auto expected = payload_of(bytes, 0, bytes);
            std::vector<unsigned char> buffer = member.rank == 0 ? expected : std::vector<unsigned char>(bytes);
            COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), bytes, 0, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(buffer == expected);
            if (member.rank == 0)
                member.await("the memory is given back", [] { return memory_for_shown() <= kWindow + 4096; });
        }
        member.notes[kSent] += member.counts().chunks_sent;
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
    EXPECT_EQ(job.note(kSent), 0U);
}

TEST(Payloads, TheWindowCountsBytesAndALargerOneGoesAlone) {
    Layout layout{"flat", 3, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_PAYLOAD_WINDOW", "64K"}}};
    constexpr std::size_t kTried = 0;
    Job job(layout.job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const std::vector<unsigned char> payload(40'000, 7);
        std::vector<unsigned char> room(payload);
        coppice_request_t* first = nullptr;
        coppice_request_t* second = nullptr;
        if (member.rank != 0)
            member.await_note(kTried, 1);  // nobody has consumed the first one before the second is tried
        COPPICE_CHECK(coppice_broadcast_nb(member.group, room.data(), room.size(), 0, &first) == COPPICE_OK);
        if (member.rank == 0) {
            COPPICE_CHECK(coppice_broadcast_nb(member.group, room.data(), room.size(), 0, &second) == COPPICE_ERR_BUSY);
            COPPICE_CHECK(second == nullptr);
            const std::string text = coppice_last_error();
            COPPICE_CHECK(text.find("40000 bytes are more than there is room for") != std::string::npos);
            COPPICE_CHECK(text.find("rank 1") != std::string::npos || text.find("rank 2") != std::string::npos);
            member.notes[kTried] = 1;
        }
        COPPICE_CHECK(coppice_request_wait(first, nullptr, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_request_free(first) == COPPICE_OK);
        for (const std::size_t bytes : {std::size_t{40'000}, std::size_t{300'000}, std::size_t{40'000}}) {
            const auto expected = payload_of(bytes, 0, bytes);
            std::vector<unsigned char> buffer = member.rank == 0 ? expected : std::vector<unsigned char>(bytes);
            COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), bytes, 0, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(buffer == expected);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// Rank 1 begins the second one while rank 0, the root of the first, is late; it has the second before it calls.
TEST(Payloads, TheWindowCountsThePayloadsBeforeOneNotThoseBehindIt) {
    const Layout layout{"flat", 3, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_PAYLOAD_WINDOW", "64K"}}};
    Job job(layout.job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        if (member.rank == 0) member.await("the second one comes", [&] { return member.counts().chunks > 0; });
        std::array<std::vector<unsigned char>, 2> expected, buffers;
        std::array<coppice_request_t*, 2> requests{};
        for (const std::uint32_t number : {0U, 1U}) {
            expected[number] = payload_of(number, number, 40'000);
            auto& buffer = buffers[number];
            buffer = member.rank == number ? expected[number] : std::vector<unsigned char>(40'000);
            COPPICE_CHECK(coppice_broadcast_nb(member.group, buffer.data(), buffer.size(), number, &requests[number]) ==
                          COPPICE_OK);
        }
        for (coppice_request_t* const request : requests) {
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        }
        COPPICE_CHECK(buffers == expected);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
