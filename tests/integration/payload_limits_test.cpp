// Large payloads where a process may not have the memory that it would show to its host, or hands over memory that is not there.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;
constexpr std::size_t kBytes = (std::size_t{3} << 20) + 77;

enum Note : std::uint8_t { kSent };

// From now on this process may make no file of the size of what it would show: a memfd counts as one.
void limit_files() {
    rlimit limit{};
    COPPICE_CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = std::size_t{1} << 20;
    COPPICE_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

void broadcast(const Member& member, std::uint64_t number, std::uint32_t root) {
    const auto expected = payload_of(number, root, kBytes);
    std::vector<unsigned char> buffer = member.rank == root ? expected : std::vector<unsigned char>(kBytes, 0xee);
    COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), kBytes, root, nullptr, kTimeout) == COPPICE_OK);
    COPPICE_CHECK(buffer == expected);
}

const std::vector<Layout>& layouts() {
    static const std::vector<Layout> all{{"one_host", 4, 1, {}}, {"two_hosts", 6, 2, {}}};
    return all;
}

class PayloadLimits : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, PayloadLimits, ::testing::ValuesIn(layouts()),
                         [](const auto& layout) { return std::string(layout.param.name); });

// A mapping of its own, which some of it is taken from.
class Mapping {
  public:
    Mapping()
        : at_(static_cast<unsigned char*>(
              mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        COPPICE_CHECK(at_ != MAP_FAILED);
    }
    ~Mapping() { munmap(at_, kBytes); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    // Its last page.
    void protect_end(int how) const {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        COPPICE_CHECK(mprotect(at_ + kBytes / page * page, page, how) == 0);
    }
    unsigned char* data() const { return at_; }

  private:
    unsigned char* at_;
};

bool is_refused(coppice_status_t status, const char* why) {
    return status == COPPICE_ERR_INVALID_ARGUMENT && std::strstr(coppice_last_error(), why) != nullptr;
}

// The root's is refused before anything has happened; a receiver's when there is something to write, and all others get theirs, some of them
// from that one.
TEST_P(PayloadLimits, ABufferThatIsNotThereIsAnErrorOfItsOwnRank) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        Mapping memory;
        for (std::uint32_t victim = 0; victim < member.ranks; ++victim) {
            const auto expected = payload_of(victim, 0, kBytes);
            memory.protect_end(PROT_READ | PROT_WRITE);
            std::memcpy(memory.data(), expected.data(), member.rank == 0 ? kBytes : 0);
            const bool is_victim = member.rank == victim;
            if (is_victim) memory.protect_end(member.rank == 0 ? PROT_NONE : PROT_READ);
            coppice_status_t status = coppice_broadcast(member.group, memory.data(), kBytes, 0, nullptr, kTimeout);
            if (is_victim && member.rank == 0) {
                COPPICE_CHECK(is_refused(status, "can't be read: is all of the buffer mapped?"));
                memory.protect_end(PROT_READ | PROT_WRITE);
                status = coppice_broadcast(member.group, memory.data(), kBytes, 0, nullptr, kTimeout);
            } else if (is_victim) {
                COPPICE_CHECK(is_refused(status, "can't be written: is all of the buffer mapped, and not read-only?"));
                COPPICE_CHECK(std::memcmp(memory.data(), payload_of(victim - 1, 0, kBytes).data(), kBytes) == 0);
                continue;
            }
            COPPICE_CHECK(status == COPPICE_OK);
            COPPICE_CHECK(std::memcmp(memory.data(), expected.data(), kBytes) == 0);
        }
        member.leave();
    });
    ASSERT_EQ(job.finish(), "");
}

// A payload in chunks is copied when its call begins, so memory that is deregistered then is deregistered early enough.
TEST_P(PayloadLimits, MemoryMayBeDeregisteredWhenTheRequestHasEnded) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::vector<unsigned char> memory(kBytes);
        for (std::uint64_t number = 0; number < 8; ++number) {
            const auto expected = payload_of(number, 0, kBytes);
            if (member.rank == 0) memory = expected;
            COPPICE_CHECK(coppice_memory_register(member.group, memory.data(), kBytes) == COPPICE_OK);
            coppice_request_t* request = nullptr;
            COPPICE_CHECK(coppice_broadcast_nb(member.group, memory.data(), kBytes, 0, &request) == COPPICE_OK);
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(coppice_memory_deregister(member.group, memory.data()) == COPPICE_OK);
            COPPICE_CHECK(coppice_memory_deregister(member.group, memory.data()) == COPPICE_ERR_INVALID_ARGUMENT);
            COPPICE_CHECK(memory == expected);
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
            std::ranges::fill(memory, 0x11);  // nobody may ever see this
        }
        member.leave();
    });
    ASSERT_EQ(job.finish(), "");
}

std::size_t mapped_bytes() {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Every mistake that a caller can make with a large payload, by each rank in turn.
void make_mistakes(const Member& member, const Mapping& memory, std::uint64_t number) {
    const auto victim = static_cast<std::uint32_t>(number % member.ranks);
    const auto expected = payload_of(number, 0, kBytes);
    const auto broadcast_into = [&](unsigned char* buffer, std::size_t bytes) {
        return coppice_broadcast(member.group, buffer, bytes, 0, nullptr, kTimeout);
    };
    const bool is_victim = member.rank == victim;
    std::vector<unsigned char> buffer = member.rank == 0 ? expected : std::vector<unsigned char>(kBytes);
    if (member.rank == 0) {
        COPPICE_CHECK(broadcast_into(buffer.data(), std::size_t{1} << 62) == COPPICE_ERR_TOO_LARGE);
        memory.protect_end(PROT_NONE);
        COPPICE_CHECK(broadcast_into(memory.data(), kBytes) == COPPICE_ERR_INVALID_ARGUMENT);
        void* lent = nullptr;
        COPPICE_CHECK(coppice_memory_allocate(member.group, kBytes, &lent) == COPPICE_OK);
        auto* const at = static_cast<unsigned char*>(lent);
        COPPICE_CHECK(broadcast_into(at + 1, kBytes) == COPPICE_ERR_INVALID_ARGUMENT);
        COPPICE_CHECK(coppice_memory_free(member.group, lent) == COPPICE_OK);
    }
    const bool is_short = is_victim && member.rank != 0;
    COPPICE_CHECK(broadcast_into(buffer.data(), is_short ? kBytes - 1 : kBytes) ==
                  (is_short ? COPPICE_ERR_TRUNCATED : COPPICE_OK));
    memory.protect_end(is_short ? PROT_READ : PROT_READ | PROT_WRITE);
    if (member.rank == 0) std::memcpy(memory.data(), expected.data(), kBytes);
    COPPICE_CHECK(broadcast_into(memory.data(), kBytes) == (is_short ? COPPICE_ERR_INVALID_ARGUMENT : COPPICE_OK));
    memory.protect_end(PROT_READ | PROT_WRITE);
    COPPICE_CHECK(is_short || std::memcmp(memory.data(), expected.data(), kBytes) == 0);
}

// What is held for others is bounded by the window.
void expect_mistakes_to_leave_nothing(const Layout& layout) {
    JobOptions options = layout.job();
    options.environment["COPPICE_PAYLOAD_WINDOW"] = "8M";
    Job job(options, [](Member& member) {
        constexpr std::uint64_t kRounds = 60;
        constexpr std::size_t kMadeLate = 4;  // what a rank sleeps on, say
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Mapping memory;
        std::uint64_t number = 0;
        for (; number < member.ranks; ++number)
            make_mistakes(member, memory, number);
        const std::size_t descriptors = open_descriptors();
        const std::size_t mapped = mapped_bytes();
        for (; number < kRounds; ++number)
            make_mistakes(member, memory, number);
        COPPICE_CHECK(open_descriptors() <= descriptors + kMadeLate);
        COPPICE_CHECK(mapped_bytes() <= mapped + 4 * (std::size_t{8} << 20));
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(PayloadLimits, MistakesLeaveNothing) {
    expect_mistakes_to_leave_nothing(GetParam());
}
TEST(PayloadLimitsWithoutSharedMemory, MistakesLeaveNothing) {
    expect_mistakes_to_leave_nothing({"tcp", 4, 1, {{"COPPICE_TRANSPORT", "tcp"}}});
}

// The ranks of its host get their chunks by messages.
TEST_P(PayloadLimits, ARankThatMayMakeNoFileServesItsHostByMessages) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        limit_files();
        broadcast(member, 1, 0);
        broadcast(member, 2, member.ranks - 1);
        void* memory = nullptr;
        COPPICE_CHECK(coppice_memory_allocate(member.group, kBytes, &memory) == COPPICE_OK);
        const auto expected = payload_of(3, 0, kBytes);
        if (member.rank == 0) std::memcpy(memory, expected.data(), kBytes);
        COPPICE_CHECK(coppice_broadcast(member.group, memory, kBytes, 0, nullptr, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(std::memcmp(memory, expected.data(), kBytes) == 0);
        COPPICE_CHECK(coppice_memory_free(member.group, memory) == COPPICE_OK);
        COPPICE_CHECK(coppice_barrier(member.group, kTimeout) == COPPICE_OK);  // nothing is sent any more
        member.notes[kSent] += member.counts().chunks_sent;
        member.leave();
    });
    ASSERT_EQ(job.finish(), "");
    constexpr std::uint64_t kLargestChunk = 64 * 1024;
    EXPECT_GE(job.note(kSent), 3 * (kBytes / kLargestChunk) * (job.ranks() - 1)) << "nothing was shown";
}

// Where the limit comes later what has been made stays, and is used.
TEST_P(PayloadLimits, ALimitThatComesLaterTakesNothingAway) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        broadcast(member, 1, 0);
        limit_files();
        for (std::uint64_t number = 2; number < 6; ++number)
            broadcast(member, number, 0);
        if (member.rank == 0) member.notes[kSent] = member.counts().chunks_sent;
        member.leave();
    });
    ASSERT_EQ(job.finish(), "");
    EXPECT_TRUE(GetParam().hosts > 1 || job.note(kSent) == 0) << "all of it was shown";
}

// From now on this process gets no descriptor: neither for what it would show, nor to map what others show.
TEST(PayloadLimitsOfOneHost, ARankWithoutDescriptorsGetsAndServesAllOfIt) {
    Job job(layouts()[0].job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        rlimit before{};
        COPPICE_CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
        const rlimit none{0, before.rlim_max};
        const bool is_limited = member.rank % 2 == 0;
        if (is_limited) COPPICE_CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
        for (std::uint32_t root = 0; root < member.ranks; ++root)
            broadcast(member, root, root);
        if (is_limited) COPPICE_CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
        COPPICE_CHECK(coppice_barrier(member.group, kTimeout) == COPPICE_OK);
        const std::uint64_t sent = member.counts().chunks_sent;
        broadcast(member, 99, 0);
        COPPICE_CHECK(coppice_barrier(member.group, kTimeout) == COPPICE_OK);
        member.notes[kSent] += member.counts().chunks_sent - sent;
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
    EXPECT_EQ(job.note(kSent), 0U) << "the last one was shown, as there are descriptors again";
}

}  // namespace
}  // namespace coppice::testing
