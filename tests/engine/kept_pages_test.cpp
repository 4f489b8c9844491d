// Whose status page a process keeps, when another one has told where that is.
#include "status/kept_pages.hpp"

#include <dirent.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

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
    KeptPages kept(4);
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
    KeptPages kept(4);
    const std::size_t before = open_descriptors();
    for (int time = 0; time < 3; ++time)
        kept.keep(::getpid(), (*page)->descriptor());
    EXPECT_EQ(open_descriptors(), before + 1);
    KeptPages none(0);
    none.keep(::getpid(), (*page)->descriptor());
    EXPECT_EQ(open_descriptors(), before + 1);
}

}  // namespace
}  // namespace coppice::status
