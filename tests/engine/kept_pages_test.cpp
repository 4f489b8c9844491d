// Whose status page a process keeps, when another one has told where that is.
#include "status/kept_pages.hpp"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "base/clock.hpp"
#include "status/own_page.hpp"

namespace coppice::status {
namespace {

std::size_t open_descriptors() {
    DIR* const folder = ::opendir("/proc/self/fd");
    std::size_t count = 0;
    while (::readdir(folder) != nullptr)
        ++count;
    ::closedir(folder);
    return count;
}

TEST(KeptPages, WhatAProcessHasOpenBesidesItsPageIsNotKept) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    KeptPages kept(4, 4);
    const std::size_t before = open_descriptors();
    for (const int wrong : {-1, 0, pipe[0], 1 << 20})
        kept.keep(::getpid(), wrong);
    EXPECT_EQ(open_descriptors(), before);
    ::close(pipe[0]);
    ::close(pipe[1]);
}

TEST(KeptPages, APageIsKeptOnce) {
    const auto page = OwnPage::make(now_ns());
    ASSERT_TRUE(page.has_value());
    KeptPages kept(4, 4);
    const std::size_t before = open_descriptors();
    for (int time = 0; time < 3; ++time)
        kept.keep(::getpid(), (*page)->descriptor());
    EXPECT_EQ(open_descriptors(), before + 1);
    KeptPages none(0, 0);
    none.keep(::getpid(), (*page)->descriptor());
    EXPECT_EQ(open_descriptors(), before + 1);
}

// A process that shows a page, until it is killed or has closed it.
class Owner {
  public:
    Owner() {
        std::array<int, 2> up{}, down{};
        EXPECT_EQ(::pipe(up.data()), 0);
        EXPECT_EQ(::pipe(down.data()), 0);
        process_ = ::fork();
        if (process_ == 0) {
            ::close(down[1]);
            auto page = OwnPage::make(now_ns());
            int number = page ? (*page)->descriptor() : -1;
            if (::write(up[1], &number, sizeof number) != sizeof number) ::_exit(1);
            char order = 0;
            if (::read(down[0], &order, 1) == 1) page->reset();
            if (::write(up[1], &order, 1) != 1) ::_exit(1);
            while (true)
                ::pause();
        }
        number_ = process_;
        ::close(up[1]);
        ::close(down[0]);
        from_ = up[0];
        to_ = down[1];
        EXPECT_EQ(::read(from_, &page_, sizeof page_), static_cast<ssize_t>(sizeof page_));
    }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    ~Owner() {
        if (process_ > 0) kill();
        ::close(from_);
        ::close(to_);
    }
    void close_page() const {
        char answer = 'c';
        EXPECT_EQ(::write(to_, &answer, 1), 1);
        EXPECT_EQ(::read(from_, &answer, 1), 1);
    }
    void kill() {
        ::kill(process_, SIGKILL);
        EXPECT_EQ(::waitpid(process_, nullptr, 0), process_);
        process_ = -1;
    }
    pid_t number() const { return number_; }
    void be_kept(KeptPages& kept) const { kept.keep(process_, page_); }

  private:
    pid_t number_ = -1;
    pid_t process_ = -1;
    int page_ = -1;
    int from_ = -1;
    int to_ = -1;
};

bool is_kept(const Owner& owner) {
    const auto places = pages_of(::getpid());
    return places && std::ranges::any_of(*places, [&](const PagePlace& place) {
               const auto page = read_page(place.number);
               return page && page->pid == owner.number();
           });
}

// Someone who looks later looks for the latest.
TEST(KeptPages, OfThoseThatHaveEndedTheLatestAreKept) {
    std::array<Owner, 6> owners;
    KeptPages kept(8, 2);
    for (const Owner& owner : owners)
        owner.be_kept(kept);
    // Not in the order in which they came.
    constexpr std::array<std::size_t, 4> kEnds{3, 1, 5, 0};
    for (std::size_t last = 0; last < kEnds.size(); ++last) {
        owners[kEnds[last]].kill();
        kept.tidy();
        for (std::size_t i = 0; i < kEnds.size(); ++i)
            EXPECT_EQ(is_kept(owners[kEnds[i]]), i + 2 > last) << kEnds[i] << " after the end of " << kEnds[last];
    }
}

TEST(KeptPages, WhereThereIsNoRoomOneThatHasEndedGivesWayAndNoLivingOne) {
    std::array<Owner, 3> owners;
    KeptPages kept(2, 2);
    owners[0].be_kept(kept);
    owners[1].be_kept(kept);
    owners[2].be_kept(kept);
    EXPECT_FALSE(is_kept(owners[2]));
    owners[1].kill();
    owners[2].be_kept(kept);
    EXPECT_TRUE(is_kept(owners[0]));
    EXPECT_FALSE(is_kept(owners[1]));
    EXPECT_TRUE(is_kept(owners[2]));
}

TEST(KeptPages, AClosedOneCountsNotAmongThoseThatHaveEnded) {
    std::array<Owner, 3> owners;
    KeptPages kept(8, 2);
    for (const Owner& owner : owners)
        owner.be_kept(kept);
    owners[0].kill();
    for (Owner* const closed : {&owners[1], &owners[2]}) {
        closed->close_page();
        closed->kill();
    }
    kept.tidy();
    EXPECT_TRUE(is_kept(owners[0]));
    EXPECT_FALSE(is_kept(owners[1]));
    EXPECT_FALSE(is_kept(owners[2]));
}

TEST(KeptPages, WhereThereIsNoRoomAClosedOneGivesWayFirst) {
    std::array<Owner, 3> owners;
    KeptPages kept(2, 2);
    owners[0].be_kept(kept);
    owners[1].be_kept(kept);
    owners[0].kill();
    owners[1].close_page();
    owners[2].be_kept(kept);
    EXPECT_TRUE(is_kept(owners[0]));
    EXPECT_FALSE(is_kept(owners[1]));
    EXPECT_TRUE(is_kept(owners[2]));
}

TEST(KeptPages, OnesWhoseContextsWereDestroyedAreNotKept) {
    const Owner one, other;
    KeptPages kept(4, 4);
    one.be_kept(kept);
    other.be_kept(kept);
    one.close_page();
    kept.tidy();
    EXPECT_FALSE(is_kept(one));
    EXPECT_TRUE(is_kept(other));
}

}  // namespace
}  // namespace coppice::status
