// Large payloads that are read over verbs, where a room is too small, a chunk is damaged, a buffer is used again, or the root dies. In the guest.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "hosts.hpp"

namespace coppice::testing {
namespace {

constexpr std::size_t kChunk = 16 * 1024;
constexpr std::uint64_t kChunks = 64;
constexpr std::size_t kBytes = kChunk * (kChunks - 1) + 77;

enum Note : std::uint8_t { kInTheMiddle, kComplete, kGo };

// A rank on each device, in a chain: each reads what the one before it has. `slow` makes no progress outside of its calls, and has few
// chunks under way at a time.
JobOptions chain(std::uint32_t ranks, std::uint32_t slow) {
    const auto names = devices();
    if (names.size() < ranks) throw CheckFailed("this test wants rxe-guest --devices 4");
    JobOptions options;
    options.ranks = ranks;
    options.hosts = ranks;
    options.environment = {{"COPPICE_TRANSPORT", "verbs"},
                           {"COPPICE_PAYLOAD_CHUNK", std::to_string(kChunk)},
                           {"COPPICE_PAYLOAD_PATIENCE", "10m"}};  // nobody is left because it is silent
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
        options.of_rank[rank] = {{"COPPICE_VERBS_DEVICE", names[rank]}};
    options.of_rank[slow]["COPPICE_PROGRESS_THREAD"] = "0";
    options.of_rank[slow]["COPPICE_PAYLOAD_AHEAD"] = "2";
    return options;
}
constexpr std::uint32_t kNobodyIsSlow = 99;

void join(Member& member) {
    if (member.join() != COPPICE_OK) throw CheckFailed(coppice_last_error());
}

// At the root, which is rank 0, a buffer with the payload; elsewhere one without.
std::vector<unsigned char> buffer_of(const Member& member, std::uint64_t number) {
    return member.rank == 0 ? payload_of(number, 0, kBytes) : std::vector<unsigned char>(kBytes, 0xee);
}

void receive(const Member& member, std::uint64_t number, std::vector<unsigned char>& buffer) {
    if (coppice_broadcast(member.group, buffer.data(), kBytes, 0, nullptr, kDeadlineNs) != COPPICE_OK)
        throw CheckFailed(coppice_last_error());
    COPPICE_CHECK(buffer == payload_of(number, 0, kBytes));
}

// The slow rank's: it waits where it has some of it.
coppice_status_t receive_with_a_break(Member& member, std::vector<unsigned char>& buffer) {
    coppice_request_t* request = nullptr;
    COPPICE_CHECK(coppice_broadcast_nb(member.group, buffer.data(), kBytes, 0, &request) == COPPICE_OK);
    member.await("the first chunk", [&] {
        COPPICE_CHECK(coppice_progress(member.context) == COPPICE_OK);
        return member.counts().chunks > 0;
    });
    COPPICE_CHECK(member.counts().chunks < kChunks / 2);
    member.notes[kInTheMiddle] = 1;
    member.await_note(kGo, 1);
    const coppice_status_t status = coppice_request_wait(request, nullptr, kDeadlineNs);
    COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
    return status;
}

}  // namespace

TEST(PayloadsOverVerbs, ARoomThatIsTooSmallIsLeftAloneAndTheOthersReadAllOfIt) {
    Job job(chain(4, kNobodyIsSlow), [](Member& member) {
        join(member);
        const std::vector<std::size_t> rooms{0, 16, kChunk, kBytes - 1, kBytes, kBytes + 1};
        for (std::uint64_t number = 0; number < rooms.size(); ++number) {
            const auto expected = payload_of(number, 0, kBytes);
            const std::size_t room = rooms[(number + member.rank) % rooms.size()];
            std::vector<unsigned char> buffer =
                member.rank == 0 ? expected : std::vector<unsigned char>(kBytes + 1, 0xee);
            const coppice_status_t status = coppice_broadcast(
                member.group, buffer.data(), member.rank == 0 ? kBytes : room, 0, nullptr, kDeadlineNs);
            const bool fits = member.rank == 0 || room >= kBytes;
            COPPICE_CHECK(status == (fits ? COPPICE_OK : COPPICE_ERR_TRUNCATED));
            if (fits)
                COPPICE_CHECK(std::ranges::equal(expected, std::span(buffer).first(kBytes)));
            else
                COPPICE_CHECK(std::ranges::count(buffer, 0xee) == static_cast<std::ptrdiff_t>(buffer.size()));
        }
        COPPICE_CHECK(coppice_barrier(member.group, kDeadlineNs) == COPPICE_OK);
        const coppice_group_counts_t counts = member.counts();
        // Whose room was too small need not have had all of it when the others had.
        COPPICE_CHECK(member.rank == 0 || counts.chunks_read >= 2 * kChunks);
        COPPICE_CHECK(counts.chunks_read == counts.chunks && counts.chunks_sent == 0 && counts.chunks_damaged == 0);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// Rank 1's copy loses a bit when it has been found right, and before rank 2 reads it there. The root's has it.
TEST(PayloadsOverVerbs, AChunkThatIsDamagedWhereItIsReadIsReadElsewhere) {
    constexpr std::uint32_t kRelay = 1;
    constexpr std::uint32_t kLast = 2;
    Job job(chain(3, kLast), [](Member& member) {
        join(member);
        std::vector<unsigned char> buffer = buffer_of(member, 1);
        if (member.rank == kLast) {
            COPPICE_CHECK(receive_with_a_break(member, buffer) == COPPICE_OK);
            COPPICE_CHECK(buffer == payload_of(1, 0, kBytes));
            const coppice_group_counts_t counts = member.counts();
            COPPICE_CHECK(counts.chunks_damaged == 1);
            // The root may have begun the next one.
            COPPICE_CHECK(counts.chunks >= kChunks && counts.chunks_read == counts.chunks);
        } else if (member.rank == kRelay) {
            coppice_request_t* request = nullptr;
            COPPICE_CHECK(coppice_broadcast_view_nb(member.group, nullptr, 0, 0, &request) == COPPICE_OK);
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kDeadlineNs) == COPPICE_OK);
            const void* view = nullptr;
            std::size_t bytes = 0;
            COPPICE_CHECK(coppice_request_view(request, &view, &bytes) == COPPICE_OK && bytes == kBytes);
            member.await_note(kInTheMiddle, 1);
            const_cast<unsigned char*>(static_cast<const unsigned char*>(view))[50 * kChunk + 5] ^= 1;
            member.notes[kGo] = 1;
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        } else {
            receive(member, 1, buffer);
        }
        buffer = buffer_of(member, 2);
        receive(member, 2, buffer);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// The root's, and that of a rank which others read: they are their callers' again, and written over, long before the last rank has all.
TEST(PayloadsOverVerbs, NobodyReadsABufferThatItsCallerHasAgain) {
    constexpr std::uint32_t kLast = 2;
    Job job(chain(3, kLast), [](Member& member) {
        join(member);
        std::vector<unsigned char> buffer = buffer_of(member, 1);
        if (member.rank == kLast) {
            COPPICE_CHECK(receive_with_a_break(member, buffer) == COPPICE_OK);
            COPPICE_CHECK(buffer == payload_of(1, 0, kBytes));
            COPPICE_CHECK(member.counts().chunks_read == kChunks);
        } else {
            receive(member, 1, buffer);
            std::ranges::fill(buffer, 0x11);
            if (member.notes[kComplete].fetch_add(1) == 1) member.notes[kGo] = 1;  // both have
            COPPICE_CHECK(std::ranges::count(buffer, 0x11) == static_cast<std::ptrdiff_t>(kBytes));
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// No rank has all of it when the root dies: all are told, and what was written is a part of the payload, from its start.
TEST(PayloadsOverVerbs, ARootThatDiesBeforeAnotherRankHasAllFailsAtAll) {
    constexpr std::uint32_t kSlow = 1;
    Job job(chain(3, kSlow), [](Member& member) {
        join(member);
        std::vector<unsigned char> buffer = buffer_of(member, 1);
        const coppice_status_t status =
            member.rank == kSlow ? receive_with_a_break(member, buffer)
                                 : coppice_broadcast(member.group, buffer.data(), kBytes, 0, nullptr, kDeadlineNs);
        if (member.rank == 0) member.await("its death", [] { return false; });
        COPPICE_CHECK(status == COPPICE_ERR_ROOT_FAILED);
        const auto written = std::ranges::mismatch(buffer, payload_of(1, 0, kBytes)).in1;
        COPPICE_CHECK(written != buffer.end() &&
                      std::all_of(written, buffer.end(), [](unsigned char byte) { return byte == 0xee; }));
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kInTheMiddle, 1));
    job.kill(0, true);
    job.note(kGo) = 1;
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
}

// One rank has: so have all.
TEST(PayloadsOverVerbs, ARootThatDiesWhenAnotherRankHasAllHasHarmedNobody) {
    constexpr std::uint32_t kRelay = 1;
    constexpr std::uint32_t kLast = 2;
    Job job(chain(3, kLast), [](Member& member) {
        join(member);
        std::vector<unsigned char> buffer = buffer_of(member, 1);
        if (member.rank == kLast) {
            COPPICE_CHECK(receive_with_a_break(member, buffer) == COPPICE_OK);
            COPPICE_CHECK(buffer == payload_of(1, 0, kBytes));
            COPPICE_CHECK(member.counts().chunks_read == kChunks);
        } else {
            receive(member, 1, buffer);
            if (member.rank == kRelay) member.notes[kComplete] = 1;
            if (member.rank == 0) member.await("its death", [] { return false; });
        }
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kInTheMiddle, 1));
    ASSERT_TRUE(job.await_note(kComplete, 1));
    job.kill(0, true);
    job.note(kGo) = 1;
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
}

}  // namespace coppice::testing
