// Large payloads between hosts with RDMA devices of their own, read out of the memory of ranks that are stopped, and by ranks that are killed. In the
// guest.
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "hosts.hpp"

namespace coppice::testing {
namespace {

constexpr std::size_t kChunk = 16 * 1024;
constexpr std::uint64_t kChunks = 96;
constexpr std::size_t kBytes = kChunk * kChunks + 77;

enum Note : std::uint8_t { kInTheMiddle, kComplete, kGo, kDone, kTaken, kRead, kSentByRoot };

// A rank on each device, in a chain: each takes its chunks from the one before it. `slow` makes no progress outside of its calls, and asks
// for few chunks at a time.
JobOptions chain(std::uint32_t ranks, std::uint32_t slow, const std::string& transport = "verbs") {
    const auto names = devices();
    if (names.size() < kHosts) throw CheckFailed("this test wants rxe-guest --devices 4");
    JobOptions options;
    options.ranks = ranks;
    options.hosts = ranks;
    options.environment = {{"COPPICE_TRANSPORT", transport},   {"COPPICE_UCX_PUT", "on"},
                           {"COPPICE_UCX_TLS", "rc,ud"},       {"COPPICE_PAYLOAD_CHUNK", std::to_string(kChunk)},
                           {"COPPICE_PAYLOAD_WINDOW", "64K"},     // a payload is held alone
                           {"COPPICE_PAYLOAD_PATIENCE", "10m"}};  // nobody is left because it is silent
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
        options.of_rank[rank] = {{"COPPICE_VERBS_DEVICE", names[rank]},
                                 {"COPPICE_UCX_NET_DEVICES", names[rank] + ":1"}};
    options.of_rank[slow]["COPPICE_PROGRESS_THREAD"] = "0";
    options.of_rank[slow]["COPPICE_PAYLOAD_AHEAD"] = "2";
    return options;
}

void receive(Member& member, std::uint64_t number) {
    const auto expected = payload_of(number, 0, kBytes);
    std::vector<unsigned char> buffer = member.rank == 0 ? expected : std::vector<unsigned char>(kBytes);
    if (coppice_broadcast(member.group, buffer.data(), kBytes, 0, nullptr, kDeadlineNs) != COPPICE_OK)
        throw CheckFailed(coppice_last_error());
    COPPICE_CHECK(buffer == expected);
}

// The same, with a wait where it has some of it.
void receive_with_a_break(Member& member, std::uint64_t number) {
    const auto expected = payload_of(number, 0, kBytes);
    std::vector<unsigned char> buffer(kBytes);
    coppice_request_t* request = nullptr;
    COPPICE_CHECK(coppice_broadcast_nb(member.group, buffer.data(), kBytes, 0, &request) == COPPICE_OK);
    member.await("the first chunk", [&] {
        COPPICE_CHECK(coppice_progress(member.context) == COPPICE_OK);
        return member.counts().chunks > 0;
    });
    COPPICE_CHECK(member.counts().chunks < kChunks / 2);
    member.notes[kInTheMiddle] = 1;
    member.await_note(kGo, 1);
    if (coppice_request_wait(request, nullptr, kDeadlineNs) != COPPICE_OK) throw CheckFailed(coppice_last_error());
    COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
    COPPICE_CHECK(buffer == expected);
}

class ReadsOver : public ::testing::TestWithParam<const char*> {};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Transports, ReadsOver, ::testing::Values("verbs", "ucx"),
                         [](const auto& test) { return std::string(test.param); });

// Rank 2 has a few chunks when rank 1, from which it takes them, is stopped, and gets all others out of its memory.
TEST_P(ReadsOver, ARelayThatIsStoppedServesAllThatItHas) {
    constexpr std::uint32_t kRelay = 1;
    constexpr std::uint32_t kLast = 2;
    Job job(chain(3, kLast, GetParam()), [](Member& member) {
        if (member.join() != COPPICE_OK) throw CheckFailed(coppice_last_error());
        if (member.rank != kLast) {
            receive(member, 1);
            if (member.rank == kRelay) member.notes[kComplete] = 1;
        } else {
            receive_with_a_break(member, 1);
            const coppice_group_counts_t counts = member.counts();
            member.notes[kTaken] = counts.chunks;
            member.notes[kRead] = counts.chunks_read;
            member.notes[kDone] = 1;
        }
        member.await_note(kDone, 1);
        if (member.rank == 0) member.notes[kSentByRoot] = member.counts().chunks_sent;
        receive(member, 2);
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kInTheMiddle, 1));
    ASSERT_TRUE(job.await_note(kComplete, 1));
    ::kill(job.processes().pid(kRelay), SIGSTOP);
    job.note(kGo) = 1;
    EXPECT_TRUE(job.await_note(kDone, 1));
    ::kill(job.processes().pid(kRelay), SIGCONT);
    EXPECT_EQ(job.finish(), "");
    EXPECT_EQ(job.note(kTaken), kChunks + 1);
    EXPECT_EQ(job.note(kRead), kChunks + 1);
    EXPECT_EQ(job.note(kSentByRoot), 0U);
}

// The same, but that rank 1 is killed there, with reads of its memory under way: rank 2 reads the rest out of the root's, and nothing twice.
TEST_P(ReadsOver, ARelayThatIsKilledIsReplacedByTheRoot) {
    constexpr std::uint32_t kRelay = 1;
    constexpr std::uint32_t kLast = 2;
    Job job(chain(3, kLast, GetParam()), [](Member& member) {
        if (member.join() != COPPICE_OK) throw CheckFailed(coppice_last_error());
        if (member.rank == kLast) {
            receive_with_a_break(member, 1);
            const coppice_group_counts_t counts = member.counts();
            COPPICE_CHECK(counts.chunks == kChunks + 1 && counts.chunks_read == kChunks + 1);
        } else {
            receive(member, 1);
        }
        if (member.rank == kRelay) {
            member.notes[kComplete] = 1;
            member.await("its death", [] { return false; });
        }
        receive(member, 2);
        COPPICE_CHECK(member.failed() == std::vector<std::uint32_t>{kRelay});
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kInTheMiddle, 1));
    ASSERT_TRUE(job.await_note(kComplete, 1));
    job.kill(kRelay, false);
    job.note(kGo) = 1;
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == kRelay; }), "");
}

// From the second payload on rank 1 may lock no more memory than it has: what it takes, and what is taken from it, goes in messages. It counts
// the payloads.
TEST(Reads, ARankThatMayLockNoMoreMemoryGetsAndServesByMessages) {
    constexpr std::uint32_t kLimited = 1;
    constexpr std::uint32_t kNobody = 65534;
    Job job(chain(3, 2), [](Member& member) {
        const rlimit all{RLIM_INFINITY, RLIM_INFINITY};
        if (member.rank == kLimited) {
            COPPICE_CHECK(setrlimit(RLIMIT_MEMLOCK, &all) == 0);
            COPPICE_CHECK(setresgid(kNobody, kNobody, kNobody) == 0 && setresuid(kNobody, kNobody, kNobody) == 0);
        }
        if (member.join() != COPPICE_OK) throw CheckFailed(coppice_last_error());
        receive(member, 1);
        member.notes[kTaken + member.rank] = member.counts().chunks_read;
        const rlimit none{0, 0};
        if (member.rank == kLimited) COPPICE_CHECK(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
        for (std::uint64_t number = 2; number < 5; ++number)
            receive(member, number);
        const std::uint64_t read = member.counts().chunks_read;
        COPPICE_CHECK(member.rank == 0 || member.notes[kTaken + member.rank] == kChunks + 1);
        COPPICE_CHECK(member.rank != kLimited || read == kChunks + 1);
        COPPICE_CHECK(member.counts().unregistered == (member.rank == kLimited ? 3 : 0));
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// Rank 2 dies with reads of rank 1's memory under way. Rank 3 goes to another rank; the memory is given back, which each later payload waits for.
TEST_P(ReadsOver, AReaderThatIsKilledHoldsUpNobody) {
    constexpr std::uint32_t kVictim = 2;
    Job job(chain(4, kVictim, GetParam()), [](Member& member) {
        if (member.join() != COPPICE_OK) throw CheckFailed(coppice_last_error());
        if (member.rank == kVictim) receive_with_a_break(member, 1);
        for (std::uint64_t number = member.rank == kVictim ? 2 : 1; number < 5; ++number)
            receive(member, number);
        COPPICE_CHECK(member.failed() == std::vector<std::uint32_t>{kVictim});
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kInTheMiddle, 1));
    job.kill(kVictim, false);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == kVictim; }), "");
}

}  // namespace coppice::testing
