// A rank that shows its host more of a large payload than it has.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

constexpr std::size_t kChunk = 1024;
constexpr std::uint32_t kChunks = 2'000;
constexpr std::size_t kSmall = 40'000;
constexpr std::size_t kBytes = kChunk * kChunks;
constexpr std::uint32_t kForger = 3;  // the leader of the second of two hosts: the other two there read what it shows

enum Note : std::uint8_t { kReading, kForged, kServed, kGarbage };

// What a rank's segment says of one payload (engine/collectives/payload/shown.cpp).
struct alignas(64) Row {
    std::uint64_t place;
    std::uint64_t bytes;
    std::uint64_t chunk_and_root;
    std::atomic<std::uint64_t> have;
    std::uint64_t stamp;
};

// This process's own row of a payload from rank 0, in the memory that it shares; null: there is none yet.
Row* own_row() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find(" rw-s ") == std::string::npos || line.find("coppice") == std::string::npos ||
            line.find("coppice-bulk") != std::string::npos)
            continue;
        std::istringstream range(line);
        std::uintptr_t begin = 0;
        std::uintptr_t end = 0;
        char dash = 0;
        range >> std::hex >> begin >> dash >> end;
        for (std::uintptr_t at = begin; at + sizeof(Row) <= end; at += sizeof(Row)) {
            Row& row = *reinterpret_cast<Row*>(at);
            if (row.place != 0 && row.bytes == kBytes && row.chunk_and_root == std::uint64_t{kChunk} << 32 &&
                row.stamp != 0)
                return &row;
        }
    }
    return nullptr;
}

std::uint64_t garbage_of(const Member& member) {
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    COPPICE_CHECK(coppice_group_query(member.group, &info) == COPPICE_OK);
    return info.garbage;
}

// `meanwhile` is called when it has been begun.
void receive(
    Member& member, const std::vector<unsigned char>& expected, const std::function<void()>& meanwhile = [] {}) {
    std::vector<unsigned char> buffer = member.rank == 0 ? expected : std::vector<unsigned char>(expected.size(), 0xee);
    coppice_request_t* request = nullptr;
    COPPICE_CHECK(coppice_broadcast_nb(member.group, buffer.data(), buffer.size(), 0, &request) == COPPICE_OK);
    meanwhile();
    COPPICE_CHECK(coppice_request_wait(request, nullptr, kDeadlineNs) == COPPICE_OK);
    COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
    COPPICE_CHECK(buffer == expected);
}

// The forger has no thread that makes progress, and asks for few chunks at a time: it is far from all of them when the others have some.
JobOptions two_hosts() {
    JobOptions options = Layout{"two_hosts", 6, 2, {}}.job();
    options.environment["COPPICE_PAYLOAD_CHUNK"] = std::to_string(kChunk);
    options.environment["COPPICE_PAYLOAD_PATIENCE"] = "5s";  // nobody is left because it is slow
    options.of_rank[kForger] = {{"COPPICE_PROGRESS_THREAD", "0"}, {"COPPICE_PAYLOAD_AHEAD", "2"}};
    return options;
}

// The others of its host have its memory mapped, and look at its word from now on.
void await_first_chunk(Member& member) {
    member.await("the first chunk", [&] { return member.counts().chunks > 0; });
    member.notes[kReading] += 1;
    member.await_note(kForged, 1);
}

// Says that it has so many when the others have the first ones. It takes half of them itself, and no more.
void forge(Member& member, std::uint64_t have) {
    Row* row = nullptr;
    member.await("the others to have a chunk", [&] {
        if (row == nullptr) row = own_row();
        if (row == nullptr || static_cast<std::uint32_t>(row->have.load()) < kChunks / 2)
            COPPICE_CHECK(coppice_progress(member.context) == COPPICE_OK);
        return member.notes[kReading].load() == 2;
    });
    COPPICE_CHECK(row != nullptr);
    COPPICE_CHECK(static_cast<std::uint32_t>(row->have.load()) < kChunks - 1);
    row->have.store(have);
    member.notes[kForged] = 1;
}

class Forged : public ::testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Have, Forged,
                         ::testing::Values(kChunks - 1, kChunks, kChunks + 1, std::uint64_t{7} << 32 | kChunks,
                                           UINT64_MAX, 0),
                         [](const auto& value) { return "as_" + std::to_string(value.param); });

// It tells, and is killed at once, or lives until the others have been served: by the root.
void expect_that_nobody_believes_it(std::uint64_t have, bool dies_at_once) {
    Job job(two_hosts(), [=](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        if (member.rank == kForger) {
            forge(member, have);
            if (!dies_at_once) member.await_note(kServed, 2);
            COPPICE_CHECK(raise(SIGKILL) == 0);
        }
        receive(member, payload_of(1, 0, kBytes), [&] {
            if (member.rank > kForger) await_first_chunk(member);
        });
        if (member.rank > kForger) {
            member.notes[kGarbage] += garbage_of(member);
            member.notes[kServed] += 1;
        }
        receive(member, payload_of(2, 0, kSmall));
        member.leave();
    });
    ASSERT_EQ(job.finish([](std::uint32_t rank) { return rank == kForger; }), "");
    EXPECT_EQ(job.note(kGarbage), 2U) << "counted once by each that reads there";
}

TEST_P(Forged, WhatARankSaysThatItHasIsNotDeliveredWhereItDoesNot) {
    expect_that_nobody_believes_it(GetParam(), false);
}
TEST_P(Forged, NorIsItWhenTheRankHasDied) {
    expect_that_nobody_believes_it(GetParam(), true);
}

}  // namespace
}  // namespace coppice::testing
