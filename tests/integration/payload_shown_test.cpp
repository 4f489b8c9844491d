// Large payloads where the ranks of a host read what their root shows them: a root that dies while it fills that memory, and views of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;

// As large as the pieces in which a root copies its payload: it tells of each by itself.
constexpr std::size_t kChunk = 32 * 1024;
constexpr std::uint32_t kChunks = 10;  // more than it copies before it looks at messages
constexpr std::uint64_t kPayloads = 2;
constexpr std::size_t kBytes = kChunk * (kChunks - 1) + 77;

enum Outcome : std::uint8_t { kUnknown, kWhole, kRootFailed };

// Every other rank takes a copy, and the others a view. What was written to a buffer that is not called good is a part of the payload,
// from its start.
Outcome receive(const Member& member, std::uint64_t number) {
    const auto expected = payload_of(number, 0, kBytes);
    const bool takes_view = member.rank % 2 == 0;
    std::vector<unsigned char> buffer = member.rank == 0 ? expected : std::vector<unsigned char>(kBytes, 0xee);
    coppice_request_t* request = nullptr;
    COPPICE_CHECK((takes_view ? coppice_broadcast_view_nb(member.group, buffer.data(), kBytes, 0, &request)
                              : coppice_broadcast_nb(member.group, buffer.data(), kBytes, 0, &request)) == COPPICE_OK);
    const coppice_status_t status = coppice_request_wait(request, nullptr, kTimeout);
    const void* payload = buffer.data();
    std::size_t bytes = kBytes;
    if (status == COPPICE_OK) {
        if (takes_view) COPPICE_CHECK(coppice_request_view(request, &payload, &bytes) == COPPICE_OK);
        COPPICE_CHECK(std::ranges::equal(expected, std::span(static_cast<const unsigned char*>(payload), bytes)));
    } else {
        COPPICE_CHECK(status == COPPICE_ERR_ROOT_FAILED);
        COPPICE_CHECK(!takes_view || coppice_request_view(request, &payload, &bytes) != COPPICE_OK);
        const auto written = std::ranges::mismatch(buffer, expected).in1;
        COPPICE_CHECK(written != buffer.end() &&
                      std::all_of(written, buffer.end(), [](unsigned char byte) { return byte == 0xee; }));
    }
    COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
    return status == COPPICE_OK ? kWhole : kRootFailed;
}

constexpr std::size_t kOutcomes = 0;  // a note for each payload and rank
constexpr std::size_t kTaken = 16;    // chunks that a survivor took of both

// All live ranks have all of a payload, or all are told that its root has failed. One that is shown whole, in memory that they have mapped, is here.
void expect_all_or_nothing(const std::string& fault, const Layout& layout, std::uint32_t filled, int& in_the_middle) {
    SCOPED_TRACE(fault);
    JobOptions options = layout.job();
    options.environment["COPPICE_PAYLOAD_CHUNK"] = std::to_string(kChunk);
    options.environment["COPPICE_FAULTS"] = fault;
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (std::uint64_t number = 0; number < kPayloads; ++number) {
            member.notes[kOutcomes + number * 4 + member.rank] = receive(member, number);
            // When the root fills the next one all have mapped its memory.
            const coppice_status_t met = coppice_barrier(member.group, kTimeout);
            COPPICE_CHECK(met == COPPICE_OK || met == COPPICE_ERR_PEER_FAILED);
        }
        member.notes[kTaken + member.rank] = member.counts().chunks;
        member.leave();
    });
    ASSERT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
    ASSERT_TRUE(job.ending(0).killed_by(SIGKILL)) << "it has filled all of them";
    for (std::uint64_t number = 0; number < kPayloads; ++number) {
        std::set<std::uint64_t> outcomes;
        for (std::uint32_t rank = 1; rank < layout.ranks; ++rank)
            outcomes.insert(job.note(kOutcomes + number * 4 + rank));
        ASSERT_EQ(outcomes.size(), 1U) << "survivors differ about payload " << number;
        const std::uint64_t end = (number + 1) * kChunks;
        // Only what is mapped outlives its writer: of the first one that may be nothing yet.
        const bool may_be_lost = filled < end || (filled == end && number == 0);
        ASSERT_TRUE(filled >= end || *outcomes.begin() == kRootFailed) << number << " is called good";
        ASSERT_TRUE(may_be_lost || *outcomes.begin() == kWhole) << number << " is lost";
    }
    for (std::uint32_t rank = 1; rank < layout.ranks; ++rank) {
        if (job.note(kTaken + rank) % kChunks != 0) ++in_the_middle;
    }
}

// The others have mapped nothing of the root's when it fills the first one, and all of it when it fills the second.
void kill_at_every_fill(const Layout& layout) {
    int in_the_middle = 0;  // how often a survivor had a part of a payload
    for (std::uint32_t filled = 1; filled <= kPayloads * kChunks; ++filled)
        ASSERT_NO_FATAL_FAILURE(
            expect_all_or_nothing("kill-at-fill:" + std::to_string(filled) + "@0", layout, filled, in_the_middle));
    EXPECT_GT(in_the_middle, 0) << "no survivor had a part of a payload";
}

TEST(Fill, ARootMayDieAtEveryChunkThatItFills) {
    kill_at_every_fill({"one_host", 4, 1, {}});
}
// Each looks at what is shown in its own calls alone.
TEST(Fill, ARootMayDieAtEveryChunkThatItFillsWhereNobodyHasAThread) {
    kill_at_every_fill({"one_host", 4, 1, {{"COPPICE_PROGRESS_THREAD", "0"}}});
}

// ----------------------------------------------------------------------------------------------------------- views ---

// Where an address lies: in which file, and where in it. No name: in none.
struct Place {
    std::string name;
    std::string rights;
    std::uint64_t inode = 0;
    std::uint64_t offset = 0;

    static Place of(const void* address) {
        std::ifstream maps("/proc/self/maps");
        const auto at = reinterpret_cast<std::uintptr_t>(address);
        for (std::string line; std::getline(maps, line);) {
            std::istringstream fields(line);
            std::uint64_t begin = 0;
            std::uint64_t end = 0;
            char dash = 0;
            Place place;
            std::string device;
            fields >> std::hex >> begin >> dash >> end >> place.rights >> place.offset >> device >> std::dec >>
                place.inode >> place.name;
            if (begin > at || at >= end) continue;
            place.offset += at - begin;
            return place;
        }
        return {};
    }
};

enum ViewNote : std::uint8_t { kInode, kOffset, kSaid, kSeen };

// The view of every rank is one and the same place of one file of the library's: the root's, too, and it is where its memory was, if it had
// that of the library.
void expect_view_of_the_roots_memory(Member& member, std::uint64_t number, std::size_t bytes, bool is_allocated) {
    const auto root = static_cast<std::uint32_t>(number % member.ranks);
    const bool is_root = member.rank == root;
    const auto expected = payload_of(number, root, bytes);
    std::vector<unsigned char> buffer = expected;
    void* allocated = nullptr;
    if (is_root && is_allocated) {
        COPPICE_CHECK(coppice_memory_allocate(member.group, bytes, &allocated) == COPPICE_OK);
        std::ranges::copy(expected, static_cast<unsigned char*>(allocated));
    }
    const void* const payload = allocated != nullptr ? allocated : buffer.data();
    coppice_request_t* request = nullptr;
    COPPICE_CHECK(coppice_broadcast_view_nb(member.group, is_root ? payload : nullptr, is_root ? bytes : 0, root,
                                            &request) == COPPICE_OK);
    COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
    std::ranges::fill(buffer, 0x11);  // it is the caller's again
    const void* view = nullptr;
    std::size_t viewed = 0;
    COPPICE_CHECK(coppice_request_view(request, &view, &viewed) == COPPICE_OK);
    COPPICE_CHECK(std::ranges::equal(expected, std::span(static_cast<const unsigned char*>(view), viewed)));
    COPPICE_CHECK(allocated == nullptr || view == allocated);

    const Place first = Place::of(view);
    const Place last = Place::of(static_cast<const unsigned char*>(view) + bytes - 1);
    COPPICE_CHECK(first.name.find("memfd:coppice-") != std::string::npos);
    COPPICE_CHECK(last.inode == first.inode && last.offset == first.offset + bytes - 1);
    COPPICE_CHECK(first.rights == (is_root ? "rw-s" : "r--s"));
    if (is_root) {
        member.notes[kInode] = first.inode;
        member.notes[kOffset] = first.offset;
        member.notes[kSaid] = number + 1;
    }
    member.await_note(kSaid, number + 1);
    COPPICE_CHECK(member.notes[kInode] == first.inode);
    COPPICE_CHECK(member.notes[kOffset] == first.offset);
    member.notes[kSeen] += 1;
    member.await_note(kSeen, (number + 1) * member.ranks);
    if (allocated != nullptr) COPPICE_CHECK(coppice_memory_free(member.group, allocated) == COPPICE_OK);
    COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
}

TEST(Views, OfLargePayloadsOnOneHostAreTheMemoryOfTheRoot) {
    Job job(Layout{"one_host", 4, 1, {}}.job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t number = 0;
        for (const bool is_allocated : {false, true})
            for (const std::size_t bytes : {std::size_t{8193}, std::size_t{64} << 10, std::size_t{1} << 20})
                for (std::uint32_t root = 0; root < member.ranks; ++root)
                    expect_view_of_the_roots_memory(member, number++, bytes, is_allocated);
        COPPICE_CHECK(member.counts().chunks_sent == 0);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// The window has room for one. A root that begins the next one names the rank that holds it up.
TEST(Views, OfLargePayloadsCountWithTheirBytesUntilTheyAreFreed) {
    enum : std::uint8_t { kRefused };
    constexpr std::uint32_t kHolder = 2;
    Job job(Layout{"one_host", 3, 1, {{"COPPICE_PAYLOAD_WINDOW", "64K"}}}.job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        constexpr std::size_t kLarge = 40'000;
        std::vector<unsigned char> payload = payload_of(1, 0, kLarge);
        coppice_request_t* held = nullptr;
        COPPICE_CHECK(coppice_broadcast_view_nb(member.group, payload.data(), kLarge, 0, &held) == COPPICE_OK);
        COPPICE_CHECK(coppice_request_wait(held, nullptr, kTimeout) == COPPICE_OK);
        if (member.rank != kHolder) COPPICE_CHECK(coppice_request_free(held) == COPPICE_OK);
        if (member.rank == 0) {
            coppice_request_t* next = nullptr;
            member.await_call("only that rank holds it up", [&] {
                COPPICE_CHECK(coppice_broadcast_nb(member.group, payload.data(), kLarge, 0, &next) == COPPICE_ERR_BUSY);
                const std::string text = coppice_last_error();
                return text.find("40000 bytes are more than there is room for") != std::string::npos &&
                       text.find("rank 2 has not consumed broadcast 0 yet") != std::string::npos;
            });
            member.notes[kRefused] = 1;
        }
        if (member.rank == kHolder) {
            member.await_note(kRefused, 1);
            COPPICE_CHECK(coppice_request_free(held) == COPPICE_OK);
        }
        std::vector<unsigned char> buffer = member.rank == 0 ? payload_of(2, 0, kLarge) : payload;
        COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), kLarge, 0, nullptr, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(buffer == payload_of(2, 0, kLarge));
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
