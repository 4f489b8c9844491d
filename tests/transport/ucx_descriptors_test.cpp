// Which of a process's descriptors are taken for UCX's, while other threads open and close theirs.
#include "transport/ucx/descriptors.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.hpp"

namespace coppice::transport {
namespace {

using ucx::Descriptors;

bool a_child_has(int descriptor) {
    const pid_t child = fork();
    if (child == 0) _exit(fcntl(descriptor, F_GETFD) >= 0 ? 1 : 0);
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

TEST(UcxDescriptors, ChildrenDoNotGetWhatItOpens) {
    const process::Use use;
    Descriptors of_ucx;
    const auto before = Descriptors::open();
    const int event = eventfd(0, 0);
    const int set = epoll_create1(0);
    of_ucx.take_new(before);
    EXPECT_FALSE(a_child_has(event));
    EXPECT_FALSE(a_child_has(set));
    EXPECT_EQ(fcntl(event, F_GETFD), FD_CLOEXEC);
    of_ucx.forget();
    close(set);
    close(event);
}

// As a thread of the library's that reads /proc for a moment.
TEST(UcxDescriptors, OneWithTheNumberOfAFileThatWasClosedMeanwhileIsIts) {
    const process::Use use;
    Descriptors of_ucx;
    const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    const auto before = Descriptors::open();
    close(file);
    const int set = epoll_create1(0);
    ASSERT_EQ(set, file);
    of_ucx.take_new(before);
    EXPECT_FALSE(a_child_has(set));
    of_ucx.forget();
    close(set);
}

TEST(UcxDescriptors, FilesThatAreOpenedMeanwhileAreTheProgramsOwn) {
    const process::Use use;
    Descriptors of_ucx;
    const auto before = Descriptors::open();
    const int file = open("/proc/self/stat", O_RDONLY);
    of_ucx.take_new(before);
    EXPECT_TRUE(a_child_has(file));
    EXPECT_EQ(fcntl(file, F_GETFD), 0);
    of_ucx.forget();
    close(file);
}

// Of another context, whose own they stay when this worker ends.
TEST(UcxDescriptors, TheLibrarysOwnThatAreOpenedMeanwhileStayItsOwn) {
    const process::Use use;
    Descriptors of_ucx;
    const auto before = Descriptors::open();
    const int own = process::open_own([] { return eventfd(0, EFD_CLOEXEC); });
    of_ucx.take_new(before);
    of_ucx.forget();
    EXPECT_FALSE(a_child_has(own));
    process::close_own(own);
}

}  // namespace
}  // namespace coppice::transport
