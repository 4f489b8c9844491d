#include "base/memory_access.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace coppice {
namespace {

// Two pages, of which the second one is what a test makes of it.
class MemoryAccess : public ::testing::Test {
  protected:
    MemoryAccess() {
        void* const at = mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(at, MAP_FAILED);
        memory_ = {static_cast<std::byte*>(at), 2 * page_};
        std::ranges::fill(memory_, std::byte{0x5a});
    }
    ~MemoryAccess() override { munmap(memory_.data(), 2 * page_); }

    void protect_second(int how) { ASSERT_EQ(mprotect(memory_.data() + page_, page_, how), 0); }

    std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::span<std::byte> memory_;
};

TEST_F(MemoryAccess, OfMemoryOfOnesOwnIsThere) {
    EXPECT_TRUE(may_read(memory_));
    EXPECT_TRUE(may_write(memory_));
    EXPECT_TRUE(std::ranges::all_of(memory_, [](std::byte byte) { return byte == std::byte{0x5a}; }));
}

TEST_F(MemoryAccess, LooksAtBothEnds) {
    protect_second(PROT_NONE);
    EXPECT_FALSE(may_read(memory_));
    EXPECT_FALSE(may_write(memory_));
    EXPECT_TRUE(may_read(memory_.first(page_)));
    EXPECT_TRUE(may_write(memory_.first(page_)));
    EXPECT_FALSE(may_read(memory_.first(page_ + 1))) << "one byte of it is missing";
    protect_second(PROT_READ | PROT_WRITE);
    ASSERT_EQ(mprotect(memory_.data(), page_, PROT_NONE), 0);
    EXPECT_FALSE(may_read(memory_));
    EXPECT_FALSE(may_write(memory_));
}

TEST_F(MemoryAccess, ReadOnlyIsNotWritable) {
    protect_second(PROT_READ);
    EXPECT_TRUE(may_read(memory_));
    EXPECT_FALSE(may_write(memory_));
    protect_second(PROT_READ | PROT_WRITE);
    ASSERT_EQ(mprotect(memory_.data(), page_, PROT_READ), 0);
    EXPECT_FALSE(may_write(memory_));
}

TEST_F(MemoryAccess, OfLessThanAWordNothingIsSaid) {
    protect_second(PROT_NONE);
    EXPECT_TRUE(may_read(memory_.subspan(page_, 7)));
    EXPECT_TRUE(may_write(memory_.subspan(page_, 7)));
}

// What it says in a process of its own that has done that before.
template <class Before>
bool may_map_plenty_after(Before&& before) {
    const pid_t child = fork();
    if (child == 0) {
        before();
        _exit(may_map_plenty() ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status) == 1;
}

TEST(MapPlenty, NotWhereTheAddressSpaceIsLimited) {
    rlimit space{};
    ASSERT_EQ(getrlimit(RLIMIT_AS, &space), 0);
    EXPECT_EQ(may_map_plenty_after([] {}), space.rlim_cur == RLIM_INFINITY);
    EXPECT_FALSE(may_map_plenty_after([] {
        const rlimit less{rlim_t{1} << 45, rlim_t{1} << 45};
        setrlimit(RLIMIT_AS, &less);
    }));
}

TEST(MapPlenty, NotWhereAllIsLockedInMemory) {
    const bool may_lock = may_map_plenty_after([] { _exit(mlockall(MCL_FUTURE) == 0 ? 1 : 0); });  // ulimit -l
    const bool plenty = may_map_plenty_after([] { mlockall(MCL_FUTURE); });
    EXPECT_EQ(plenty, !may_lock && may_map_plenty());
}

}  // namespace
}  // namespace coppice
