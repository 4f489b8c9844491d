// Large payloads where a chunk is damaged on its way, a rank dies between two chunks, or a caller makes a mistake.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;
constexpr std::size_t kChunk = 8192;
// One in a small message, one in a large one, one in several.
constexpr std::size_t kChunkSizes[] = {kChunk, 64 * 1024, 256 * 1024};

// `patience`: so long that nobody is left because it is slow, and what comes in vain does so by a death. Where a chunk is damaged that
// another rank lacks as well it is what ends their waiting for each other.
JobOptions with_chunks(const Layout& layout, std::size_t chunk, const char* patience) {
    JobOptions options = layout.job();
    options.environment["COPPICE_PAYLOAD_PATIENCE"] = patience;
    options.environment["COPPICE_PAYLOAD_CHUNK"] = std::to_string(chunk);
    return options;
}

// Shared by all ranks of a job.
enum Note : std::uint8_t { kDamaged, kAgain, kTaken, kSentByOthers, kReady };

void note_counts(const Member& member, std::uint32_t root) {
    const coppice_group_counts_t counts = member.counts();
    member.notes[kDamaged] += counts.chunks_damaged;
    member.notes[kAgain] += counts.chunks_again;
    member.notes[kTaken] += counts.chunks;
    if (member.rank != root) member.notes[kSentByOthers] += counts.chunks_sent;
}

coppice_status_t receive(Member& member, std::uint64_t number, std::size_t bytes, std::uint32_t root) {
    const auto expected = payload_of(number, root, bytes);
    std::vector<unsigned char> buffer = member.rank == root ? expected : std::vector<unsigned char>(bytes, 0xee);
    const coppice_status_t status = coppice_broadcast(member.group, buffer.data(), bytes, root, nullptr, kTimeout);
    if (status == COPPICE_OK) COPPICE_CHECK(buffer == expected);
    return status;
}

const std::vector<Layout>& networks() {
    static const std::vector<Layout> all{
        {"one_host", 4, 1, {{"COPPICE_TRANSPORT", "tcp"}}},
        {"rank_a_host", 4, 4, {}},
        {"two_hosts", 5, 2, {}},
        {"two_ranks", 2, 2, {}},  // there is no other rank that has the chunk
    };
    return all;
}

class EveryNetwork : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Networks, EveryNetwork, ::testing::ValuesIn(networks()),
                         [](const auto& layout) { return std::string(layout.param.name); });

// The one that asked for it takes it from another rank, and nothing wrong is delivered or passed on.
TEST_P(EveryNetwork, AChunkThatIsDamagedOnItsWayIsFetchedAgain) {
    constexpr std::uint64_t kChunks = 40;
    for (const std::size_t chunk : kChunkSizes) {
        for (const int damaged : {1, 2, 23, 40}) {
            JobOptions options = with_chunks(GetParam(), chunk, "500ms");
            options.environment["COPPICE_FAULTS"] = "damage:" + std::to_string(damaged) + "@0";
            Job job(options, [chunk](Member& member) {
                COPPICE_CHECK(member.join() == COPPICE_OK);
                COPPICE_CHECK(receive(member, 1, kChunks * chunk, 0) == COPPICE_OK);
                note_counts(member, 0);
                member.leave();
            });
            ASSERT_EQ(job.finish(), "") << damaged << " of " << chunk;
            EXPECT_EQ(job.note(kDamaged), 1U) << damaged << " of " << chunk;
            EXPECT_EQ(job.note(kTaken), kChunks * (job.ranks() - 1)) << damaged << " of " << chunk;
        }
    }
}

// The root's 60th is of the last payload, behind all that the first one cost.
TEST_P(EveryNetwork, DamagedChunksFromSeveralRanksAreFetchedAgain) {
    JobOptions options = with_chunks(GetParam(), kChunk, "500ms");
    options.environment["COPPICE_FAULTS"] = "damage:3,damage:60";
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (std::uint64_t number = 0; number < 3; ++number)
            COPPICE_CHECK(receive(member, number, 20 * kChunk + 77, 0) == COPPICE_OK);
        note_counts(member, 0);
        member.leave();
    });
    ASSERT_EQ(job.finish(), "");
    EXPECT_GE(job.note(kDamaged), 2U);
    EXPECT_EQ(job.note(kTaken), 3U * 21U * (job.ranks() - 1));
}

// Ranks that took their chunks from the dead one go on where it ended, from another one: of each at most one chunk comes again.
void expect_one_chunk_again_at_most(const Layout& layout, std::size_t chunk, std::uint32_t victim, int step) {
    constexpr std::uint64_t kChunks = 64;
    bool killed = true;
    for (int message = 3; killed; message += step) {
        ASSERT_LT(message, 1200) << "a broadcast of 64 chunks does not take so many messages";
        JobOptions options = with_chunks(layout, chunk, "10m");
        options.environment["COPPICE_FAULTS"] = faults_at("kill-after", message, {victim});
        Job job(options, [chunk](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            COPPICE_CHECK(receive(member, 1, kChunks * chunk, 0) == COPPICE_OK);
            note_counts(member, 0);
            member.leave();
        });
        const std::string what = std::string(layout.name) + ", " + options.environment["COPPICE_FAULTS"];
        ASSERT_EQ(job.finish([&](std::uint32_t rank) { return rank == victim; }), "") << what;
        killed = job.ending(victim).killed_by(SIGKILL);
        // In a pipeline one rank takes from each, and the ranks of a host from its leader.
        const std::uint64_t orphans = layout.ranks / layout.hosts > 1 && layout.hosts > 1 ? 2 : 1;
        ASSERT_LE(job.note(kAgain), orphans) << what;
        ASSERT_EQ(job.note(kDamaged), 0U) << what;
        ASSERT_GE(job.note(kTaken), kChunks * (layout.ranks - 2)) << what;
    }
}

TEST(Payloads, ADeathBetweenTwoChunksCostsEachOrphanOneChunkAtMost) {
    const std::vector<Layout> layouts{
        {"flat", 4, 1, {{"COPPICE_HIERARCHY", "flat"}}}, {"rank_a_host", 4, 4, {}}, {"two_a_host", 6, 3, {}}};
    for (const Layout& layout : layouts)
        for (const std::uint32_t victim : {1U, 2U})
            ASSERT_NO_FATAL_FAILURE(expect_one_chunk_again_at_most(layout, kChunk, victim, 11));
}

// It dies between two messages, so also in the middle of a chunk that goes in several.
TEST(Payloads, SoDoesADeathInTheMiddleOfALargeChunk) {
    const Layout layout{"two_a_host", 6, 3, {}};
    for (const std::size_t chunk : {std::size_t{64} * 1024, std::size_t{256} * 1024})
        for (const std::uint32_t victim : {1U, 2U})
            ASSERT_NO_FATAL_FAILURE(expect_one_chunk_again_at_most(layout, chunk, victim, 13));
}

// A chain ends at sixteen hosts. Beyond, two take their chunks from each.
class ManyHosts : public ::testing::Test {
  protected:
    static constexpr std::uint32_t kHosts = 20;
    static constexpr std::uint64_t kChunks = 32;

    static void broadcast(Job& job, const std::function<bool(std::uint32_t)>& doomed) {
        ASSERT_EQ(job.finish(doomed), "");
        EXPECT_EQ(job.note(kDamaged), 0U);
    }
    static std::unique_ptr<Job> job(const std::string& faults) {
        JobOptions options = with_chunks({"many_hosts", kHosts, kHosts, {}}, kChunk, "10m");
        options.environment["COPPICE_FAULTS"] = faults;
        return std::make_unique<Job>(options, [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            COPPICE_CHECK(receive(member, 1, kChunks * kChunk, 0) == COPPICE_OK);
            // Nothing is sent any more when all have come here.
            COPPICE_CHECK(coppice_barrier(member.group, kTimeout) != COPPICE_ERR_TIMEOUT);
            note_counts(member, 0);
            member.leave();
        });
    }
};

TEST_F(ManyHosts, TakeTheirChunksDownATree) {
    const auto all = job("");
    ASSERT_NO_FATAL_FAILURE(broadcast(*all, {}));
    EXPECT_EQ(all->note(kTaken), kChunks * (kHosts - 1));
    EXPECT_EQ(all->note(kSentByOthers), kChunks * (kHosts - 1 - 2)) << "the root sends each to two";
    EXPECT_EQ(all->note(kAgain), 0U);
}

TEST_F(ManyHosts, LoseNothingByADeathInTheTree) {
    for (const std::uint32_t victim : {1U, 7U}) {
        for (const std::uint64_t chunk : {std::uint64_t{1}, kChunks / 2, kChunks}) {
            const std::string fault = faults_at("kill-at-chunk", static_cast<int>(chunk), {victim});
            SCOPED_TRACE(fault);
            const auto all = job(fault);
            ASSERT_NO_FATAL_FAILURE(broadcast(*all, [&](std::uint32_t rank) { return rank == victim; }));
            EXPECT_TRUE(all->ending(victim).killed_by(SIGKILL));
            EXPECT_EQ(all->note(kTaken), kChunks * (kHosts - 2));
            EXPECT_LE(all->note(kAgain), 2U) << "one for each orphan";
        }
    }
}

// Parts of a chunk are put together from one source alone. So a rank that is left for the next one before it can have sent a chunk,
// round after round, gets more time.
TEST(Payloads, ASourceThatTakesLongerThanRanksArePatientIsEnough) {
    for (const std::size_t chunk : {kChunk, std::size_t{256} * 1024}) {
        const Layout layout{"flat", 3, 1, {{"COPPICE_HIERARCHY", "flat"}}};
        JobOptions options = with_chunks(layout, chunk, "1ms");
        options.environment["COPPICE_FAULTS"] = "delay:0:20000,delay:1:20000,delay:2:20000";
        Job job(options, [chunk](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            COPPICE_CHECK(receive(member, 1, 4 * chunk + 1, 0) == COPPICE_OK);
            member.leave();
        });
        ASSERT_EQ(job.finish(), "") << chunk;
    }
}

// -------------------------------------------------------------------------------------------------------- mistakes ---

const std::vector<Layout>& layouts() {
    static const std::vector<Layout> all{
        {"one_host", 4, 1, {}},
        {"flat", 4, 1, {{"COPPICE_HIERARCHY", "flat"}}},
        {"two_hosts", 5, 2, {}},
        {"tcp", 4, 1, {{"COPPICE_TRANSPORT", "tcp"}}},
    };
    return all;
}

class EveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, EveryLayout, ::testing::ValuesIn(layouts()),
                         [](const auto& layout) { return std::string(layout.param.name); });

// Also a room in which the descriptor would lie.
TEST_P(EveryLayout, ARoomOfAnySizeIsLeftAloneWhereItIsTooSmallAndTheOthersAreServed) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        constexpr std::size_t kBytes = 5 * kChunk + 3;
        const std::vector<std::size_t> rooms{0, 1, 15, 16, 17, kChunk, kBytes - 1, kBytes, kBytes + 1, 2 * kBytes};
        for (std::uint64_t number = 0; number < rooms.size(); ++number) {
            const auto root = static_cast<std::uint32_t>(number % member.ranks);
            const auto expected = payload_of(number, root, kBytes);
            const std::size_t room = rooms[(number + member.rank) % rooms.size()];
            std::vector<unsigned char> buffer =
                member.rank == root ? expected : std::vector<unsigned char>(2 * kBytes, 0xee);
            std::size_t received = 12345;
            const coppice_status_t status =
                coppice_broadcast(member.group, room == 0 && member.rank != root ? nullptr : buffer.data(),
                                  member.rank == root ? kBytes : room, root, &received, kTimeout);
            if (member.rank == root || room >= kBytes) {
                COPPICE_CHECK(status == COPPICE_OK && received == kBytes);
                COPPICE_CHECK(std::ranges::equal(expected, std::span(buffer).first(kBytes)));
            } else {
                COPPICE_CHECK(status == COPPICE_ERR_TRUNCATED);
            }
            const std::size_t written = member.rank == root ? buffer.size() : room >= kBytes ? kBytes : 0;
            COPPICE_CHECK(std::ranges::count(std::span(buffer).subspan(written), 0xee) ==
                          static_cast<std::ptrdiff_t>(buffer.size() - written));
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// So many bytes more this process may map; 0: as many as it likes.
void limit_memory(std::size_t more) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit{};
    COPPICE_CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = more == 0 ? limit.rlim_max : pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + more;
    COPPICE_CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

// A rank that others would take their chunks from has none, and says so to its caller; it takes part in what comes after.
TEST_P(EveryLayout, ARankWithoutMemoryForAPayloadIsToldAndTheOthersAreServed) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        constexpr std::size_t kBytes = std::size_t{24} << 20;
        const auto expected = payload_of(1, 0, kBytes);
        std::vector<unsigned char> buffer = member.rank == 0 ? expected : std::vector<unsigned char>(kBytes, 0xee);
        COPPICE_CHECK(receive(member, 0, 10, 0) == COPPICE_OK);
        if (member.rank == 1) limit_memory(std::size_t{16} << 20);
        // Nobody has sent before rank 1 has no memory.
        if (member.rank == 1) member.notes[kReady] = 1;
        member.await_note(kReady, 1);
        const coppice_status_t status = coppice_broadcast(member.group, buffer.data(), kBytes, 0, nullptr, kTimeout);
        COPPICE_CHECK(status == (member.rank == 1 ? COPPICE_ERR_NO_MEMORY : COPPICE_OK));
        if (member.rank == 1) {
            COPPICE_CHECK(std::string(coppice_last_error()).find(std::to_string(kBytes)) != std::string::npos);
            COPPICE_CHECK(std::ranges::count(buffer, 0xee) == static_cast<std::ptrdiff_t>(kBytes));
        } else {
            COPPICE_CHECK(buffer == expected);
        }
        COPPICE_CHECK(receive(member, 2, 10, 0) == COPPICE_OK);
        COPPICE_CHECK(receive(member, 3, 5 * kChunk, 0) == COPPICE_OK);
        if (member.rank == 1) {
            limit_memory(0);
            member.notes[kReady] = 2;
        }
        member.await_note(kReady, 2);  // a payload that came sooner would find no memory either
        COPPICE_CHECK(receive(member, 4, kBytes, 0) == COPPICE_OK);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// The next one may be of any size, and of another root.
TEST_P(EveryLayout, ARootWithoutMemoryIsToldAndHasStartedNothing) {
    JobOptions options = GetParam().job();
    options.environment["COPPICE_PAYLOAD_WINDOW"] =
        "1M";  // memory that its host reads has no room for it, once there is some
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        constexpr std::size_t kBytes = std::size_t{24} << 20;
        constexpr std::uint64_t kMoreThanTheWindow = 40;
        std::uint64_t number = 0;
        std::uint64_t failed = 0;
        for (const std::uint32_t next : {0U, 1U}) {
            for (const std::size_t bytes : {std::size_t{10}, 3 * kChunk}) {
                if (member.rank == 0) {
                    std::vector<unsigned char> payload = payload_of(1, 0, kBytes);
                    limit_memory(std::size_t{16} << 20);
                    for (int i = 0; i < 2; ++i)
                        COPPICE_CHECK(coppice_broadcast(member.group, payload.data(), kBytes, 0, nullptr, kTimeout) ==
                                      COPPICE_ERR_NO_MEMORY);
                    limit_memory(0);
                    member.notes[kReady] += 1;
                }
                member.await_note(kReady, ++failed);  // what came of another root before would be a mismatch
                COPPICE_CHECK(receive(member, ++number, bytes, next) == COPPICE_OK);
                for (std::uint64_t i = 0; i < kMoreThanTheWindow; ++i)
                    COPPICE_CHECK(receive(member, ++number, i % 8 == 0 ? 3 * kChunk : 10, 0) == COPPICE_OK);
            }
        }
        COPPICE_CHECK(receive(member, ++number, kBytes, 0) == COPPICE_OK);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// A root's payload is what its buffer held when the request ended, which it does in the call.
TEST_P(EveryLayout, TwoBroadcastsOutOfOneBufferAreTwoPayloads) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        constexpr std::size_t kBytes = 30 * kChunk + 5;
        const std::vector<std::vector<unsigned char>> expected{payload_of(1, 0, kBytes), payload_of(2, 0, kBytes)};
        std::vector<std::vector<unsigned char>> received(2, std::vector<unsigned char>(kBytes));
        std::vector<unsigned char> out_of(kBytes);
        std::vector<coppice_request_t*> requests(2);
        for (std::size_t i = 0; i < 2; ++i) {
            if (member.rank == 0) out_of = expected[i];
            std::vector<unsigned char>& buffer = member.rank == 0 ? out_of : received[i];
            COPPICE_CHECK(coppice_broadcast_nb(member.group, buffer.data(), kBytes, 0, &requests[i]) == COPPICE_OK);
            if (member.rank == 0) COPPICE_CHECK(coppice_request_test(requests[i], nullptr) == COPPICE_OK);
        }
        std::ranges::fill(out_of, 0x11);
        for (coppice_request_t* request : requests) {
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        }
        if (member.rank != 0) COPPICE_CHECK(received == expected);
        COPPICE_CHECK(std::ranges::count(out_of, 0x11) == static_cast<std::ptrdiff_t>(kBytes));
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
