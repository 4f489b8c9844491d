// What broadcasts and agreements cost in memory: nothing is allocated once a group is warm, and a view is no copy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "integration/job.hpp"
#include "support/allocations.hpp"

namespace coppice::testing {
namespace {

constexpr std::uint64_t kBroadcasts = 10'000;
constexpr std::size_t kBytes = 1024;
// Over UCX a message may arrive before it is known that the slot's last payload has left: it is put aside.
constexpr std::uint64_t kPending = kBroadcasts / 1000;

class HotPath : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(
    Layouts, HotPath,
    ::testing::Values(
        Layout{"one_rank", 1, 1, {}}, Layout{"host", 4, 1, {}}, Layout{"flat", 4, 1, {{"COPPICE_HIERARCHY", "flat"}}},
        Layout{"flat_checked", 5, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "checked"}}},
        Layout{"flat_optimized", 5, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "optimized:2"}}},
        Layout{"flat_ack", 4, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "ack"}}},
        Layout{"flat_small_window", 4, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_WINDOW", "2"}}},
        Layout{"ucx", 3, 1, {{"COPPICE_TRANSPORT", "ucx"}}}, Layout{"tcp", 3, 1, {{"COPPICE_TRANSPORT", "tcp"}}},
        Layout{"two_hosts", 4, 2, {}}),
    [](const auto& layout) { return std::string(layout.param.name); });

void broadcast(Member& member, std::uint64_t number, unsigned char* buffer) {
    const auto root = static_cast<std::uint32_t>(number % member.ranks);
    const std::size_t bytes = number % kBytes;
    if (member.rank == root) std::fill_n(buffer, bytes, static_cast<unsigned char>(number));
    std::size_t received = 0;
    const coppice_status_t status =
        coppice_broadcast(member.group, buffer, member.rank == root ? bytes : kBytes, root, &received, kDeadlineNs);
    if (status != COPPICE_OK) throw CheckFailed(coppice_last_error());
    COPPICE_CHECK(received == bytes && (bytes == 0 || buffer[bytes - 1] == static_cast<unsigned char>(number)));
}

TEST_P(HotPath, AllocatesNothing) {
    const bool ucx = GetParam().uses_ucx();
    Job job(GetParam().job(), [ucx](Member& member) {
        if (member.join() != COPPICE_OK) throw CheckFailed(coppice_last_error());
        coppice_group_info_t info{};
        info.struct_size = sizeof info;
        COPPICE_CHECK(coppice_group_query(member.group, &info) == COPPICE_OK);
        std::vector<unsigned char> buffer(kBytes);
        std::uint64_t number = 0;
        for (; number < std::max<std::uint64_t>(2 * info.window, 16); ++number)
            broadcast(member, number, buffer.data());
        const Allocations before = allocations_so_far();
        for (const std::uint64_t end = number + kBroadcasts; number < end; ++number)
            broadcast(member, number, buffer.data());
        const Allocations after = allocations_so_far();
        const std::uint64_t new_objects = after.objects - before.objects;
        const std::uint64_t new_blocks = after.blocks - before.blocks;
        if (new_objects > (ucx ? kPending : 0) || (!ucx && new_blocks != 0)) {
            throw CheckFailed("rank " + std::to_string(member.rank) + ": " + std::to_string(new_objects) +
                              " objects and " + std::to_string(new_blocks) + " blocks were allocated");
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(HotPath, AgreementsAllocateNothing) {
    const bool ucx = GetParam().uses_ucx();
    const bool network = GetParam().uses_network();
    Job job(GetParam().job(), [ucx, network](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = COPPICE_MAX;
        options.type = COPPICE_UINT64;
        const auto agree = [&](std::uint64_t number) {
            std::uint64_t value = number + member.rank;
            COPPICE_CHECK(coppice_agree(member.group, &value, sizeof value, &options, kDeadlineNs) == COPPICE_OK);
            COPPICE_CHECK(value == number + member.ranks - 1);
        };
        std::uint64_t number = 0;
        for (; number < 200; ++number)
            agree(number);
        const Allocations before = allocations_so_far();
        // Between hosts each costs several turns of waiting processes, on a machine that may be busy with others.
        for (const std::uint64_t end = number + (network ? kBroadcasts / 5 : kBroadcasts); number < end; ++number)
            agree(number);
        const Allocations after = allocations_so_far();
        COPPICE_CHECK(after.objects == before.objects);
        COPPICE_CHECK(ucx || after.blocks == before.blocks);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Counting, SeesWhatIsAllocated) {
    const Allocations before = allocations_so_far();
    const auto one = std::make_unique<std::vector<int>>(1000);
    EXPECT_EQ(allocations_so_far().objects - before.objects, 2U);
    if (kCountsMalloc) {
        EXPECT_EQ(allocations_so_far().blocks - before.blocks, 2U);
        void* volatile block = std::malloc(100);
        std::free(block);
        EXPECT_EQ(allocations_so_far().blocks - before.blocks, 3U);
    }
    // The library's own calls are counted as well, though it is another file.
    const std::uint64_t of_library = allocations_so_far().objects;
    coppice_context_t* context = nullptr;
    ASSERT_EQ(coppice_context_create(nullptr, &context), COPPICE_OK);
    EXPECT_GT(allocations_so_far().objects, of_library);
    EXPECT_EQ(coppice_context_destroy(context), COPPICE_OK);
}

// The line of /proc/self/maps that holds the address.
std::string mapping_of(const void* address) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        std::istringstream fields(line);
        std::uintptr_t begin = 0;
        std::uintptr_t end = 0;
        char dash = 0;
        fields >> std::hex >> begin >> dash >> end;
        const auto at = reinterpret_cast<std::uintptr_t>(address);
        if (begin <= at && at < end) return line;
    }
    return "nowhere";
}

// Where ranks of a host publish, the view is the very memory in which the root has published, mapped read-only.
void check_views_are_shared(const JobOptions& options) {
    constexpr std::size_t kInode = 0;
    Job job(
        options,
        [](Member& member) {
            if (member.join() != COPPICE_OK) throw CheckFailed(coppice_last_error());
            for (std::uint64_t number = 0; number < 200; ++number) {
                const auto root = static_cast<std::uint32_t>(number % member.ranks);
                const auto expected = payload_of(number, root, 1 + number * 40);
                coppice_request_t* request = nullptr;
                coppice_status_t status = COPPICE_ERR_BUSY;
                while (status == COPPICE_ERR_BUSY) {
                    status = coppice_broadcast_view_nb(member.group, expected.data(), expected.size(), root, &request);
                }
                COPPICE_CHECK(status == COPPICE_OK);
                COPPICE_CHECK(coppice_request_wait(request, nullptr, kDeadlineNs) == COPPICE_OK);
                const void* payload = nullptr;
                std::size_t bytes = 0;
                COPPICE_CHECK(coppice_request_view(request, &payload, &bytes) == COPPICE_OK);
                COPPICE_CHECK(bytes == expected.size() && std::memcmp(payload, expected.data(), bytes) == 0);
                const std::string first = mapping_of(payload);
                const std::string last = mapping_of(static_cast<const char*>(payload) + bytes - 1);
                COPPICE_CHECK(first.find("memfd:coppice") != std::string::npos && first == last);
                COPPICE_CHECK(member.rank == root || first.find("r--s") != std::string::npos);
                // All ranks look at the same file: the root's.
                std::istringstream fields(first);
                std::string range, rights, offset, device;
                std::uint64_t inode = 0;
                fields >> range >> rights >> offset >> device >> inode;
                if (member.rank == root) {
                    member.notes[kInode + number] = inode;
                } else {
                    member.await_note(kInode + number, 1);
                    COPPICE_CHECK(member.notes[kInode + number] == inode);
                }
                COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
            }
            member.leave();
        },
        256);
    EXPECT_EQ(job.finish(), "");
}

TEST(Views, OnOneHostAreTheMemoryOfTheRoot) {
    check_views_are_shared({.ranks = 4});
}

// Between positions a payload is kept where it has landed, if that is cheaper than a copy.
TEST(Views, OfLargePayloadsAreWhereTheyLanded) {
    JobOptions options{.ranks = 4};
    options.environment = {{"COPPICE_HIERARCHY", "flat"}};
    Job job(options, [](Member& member) {
        if (member.join() != COPPICE_OK) throw CheckFailed(coppice_last_error());
        for (std::uint64_t number = 0; number < 200; ++number) {
            const auto expected = payload_of(number, 0, 4000);
            coppice_request_t* request = nullptr;
            coppice_status_t status = COPPICE_ERR_BUSY;
            while (status == COPPICE_ERR_BUSY) {
                status = coppice_broadcast_view_nb(member.group, expected.data(), expected.size(), 0, &request);
            }
            COPPICE_CHECK(status == COPPICE_OK);
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kDeadlineNs) == COPPICE_OK);
            const void* payload = nullptr;
            std::size_t bytes = 0;
            COPPICE_CHECK(coppice_request_view(request, &payload, &bytes) == COPPICE_OK);
            COPPICE_CHECK(bytes == expected.size() && std::memcmp(payload, expected.data(), bytes) == 0);
            COPPICE_CHECK(member.rank == 0 || mapping_of(payload).find("memfd:coppice") != std::string::npos);
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
