// Memory of the library's that a root fills: payloads go out from there without a copy, whatever its caller does with it next.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <vector>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;

const std::vector<Layout>& layouts() {
    static const std::vector<Layout> all{
        {"one_host", 4, 1, {}},
        {"flat", 3, 1, {{"COPPICE_HIERARCHY", "flat"}}},
        {"two_hosts", 4, 2, {}},
        {"tcp", 3, 1, {{"COPPICE_TRANSPORT", "tcp"}}},
        {"little_room", 3, 1, {{"COPPICE_PAYLOAD_WINDOW", "256K"}}},
    };
    return all;
}

class Allocated : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, Allocated, ::testing::ValuesIn(layouts()),
                         [](const auto& layout) { return std::string(layout.param.name); });

unsigned char* allocate(const Member& member, const std::vector<unsigned char>& contents) {
    void* memory = nullptr;
    COPPICE_CHECK(coppice_memory_allocate(member.group, contents.size(), &memory) == COPPICE_OK);
    COPPICE_CHECK(reinterpret_cast<std::uintptr_t>(memory) % 4096 == 0);
    std::ranges::copy(contents, static_cast<unsigned char*>(memory));
    return static_cast<unsigned char*>(memory);
}

// The memory is freed when the call has returned, long before some have read it, and other payloads take memory behind it.
TEST_P(Allocated, MemoryThatIsFreedAtOnceReachesEverybodyAsItWas) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (std::uint64_t number = 0; number < 40; ++number) {
            const auto root = static_cast<std::uint32_t>(number % member.ranks);
            const std::size_t bytes = 8000 + number * number * 197;
            const auto expected = payload_of(number, root, bytes);
            if (member.rank == root) {
                unsigned char* const memory = allocate(member, expected);
                COPPICE_CHECK(coppice_broadcast(member.group, memory, bytes, root, nullptr, kTimeout) == COPPICE_OK);
                COPPICE_CHECK(coppice_memory_free(member.group, memory) == COPPICE_OK);
                continue;
            }
            if (number % 7 == member.rank) usleep(2000);
            std::vector<unsigned char> buffer(bytes);
            COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), bytes, root, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(buffer == expected);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// Parts of one piece, some of them several times, and views that are held until it is freed.
TEST_P(Allocated, PartsOfItAreViewedUnderOneAnother) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        constexpr std::size_t kPart = 20'000;
        const auto all = payload_of(1, 0, 4 * kPart);
        unsigned char* const memory = member.rank == 0 ? allocate(member, all) : nullptr;
        std::vector<coppice_request_t*> requests;
        for (const std::size_t part : {3, 0, 1, 1, 2}) {
            coppice_request_t*& request = requests.emplace_back();
            const unsigned char* const payload = memory == nullptr ? nullptr : memory + part * kPart;
            COPPICE_CHECK(coppice_broadcast_view_nb(member.group, payload, kPart, 0, &request) == COPPICE_OK);
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
            const void* view = nullptr;
            std::size_t bytes = 0;
            COPPICE_CHECK(coppice_request_view(request, &view, &bytes) == COPPICE_OK);
            COPPICE_CHECK(std::ranges::equal(std::span(all).subspan(part * kPart, kPart),
                                             std::span(static_cast<const unsigned char*>(view), bytes)));
        }
        if (memory != nullptr) COPPICE_CHECK(coppice_memory_free(member.group, memory) == COPPICE_OK);
        for (coppice_request_t* const request : requests)
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// More than there is room for to show: it is ordinary memory then.
TEST_P(Allocated, ThereIsMoreOfItThanRanksShow) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        constexpr std::size_t kBytes = 200'000;
        constexpr std::uint64_t kPieces = 6;
        std::vector<unsigned char*> pieces;
        for (std::uint64_t number = 0; member.rank == 0 && number < kPieces; ++number)
            pieces.push_back(allocate(member, payload_of(number, 0, kBytes)));
        for (std::uint64_t number = 0; number < kPieces; ++number) {
            std::vector<unsigned char> buffer(kBytes);
            unsigned char* const memory = member.rank == 0 ? pieces[number] : buffer.data();
            COPPICE_CHECK(coppice_broadcast(member.group, memory, kBytes, 0, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(std::ranges::equal(std::span(memory, kBytes), payload_of(number, 0, kBytes)));
        }
        for (unsigned char* const piece : pieces)
            COPPICE_CHECK(coppice_memory_free(member.group, piece) == COPPICE_OK);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// A child that writes to it would write to what the others read.
TEST(AllocatedMemory, IsNotAChildsToWriteTo) {
    Job job(Layout{"one_host", 2, 1, {}}.job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const auto expected = payload_of(1, 0, 50'000);
        std::vector<unsigned char> buffer = expected;
        unsigned char* const memory = member.rank == 0 ? allocate(member, expected) : buffer.data();
        if (member.rank == 0) {
            const pid_t child = fork();
            COPPICE_CHECK(child >= 0);
            if (child == 0) {
                signal(SIGSEGV, SIG_DFL);
                static_cast<volatile unsigned char*>(memory)[7] = 99;
                _exit(0);
            }
            int status = 0;
            COPPICE_CHECK(waitpid(child, &status, 0) == child);
            COPPICE_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
        }
        COPPICE_CHECK(coppice_broadcast(member.group, memory, expected.size(), 0, nullptr, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(std::ranges::equal(std::span(memory, expected.size()), expected));
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
