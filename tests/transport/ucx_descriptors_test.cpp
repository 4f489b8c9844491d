// Which of a process's descriptors are taken for UCX's, while other threads open and close theirs.
#include "transport/ucx/descriptors.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
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

// ------------------------------------------------------------------------------- what outlives the worker that opened it

// Two workers of UCX's; the first one's `event` is what both use. The first one ends in two steps: its files are closed in between.
class UcxDescriptorsOfTwo : public ::testing::Test {
  protected:
    UcxDescriptorsOfTwo() {
        auto before = Descriptors::open();
        event_ = eventfd(0, 0);
        first_.take_new(before);
        before = Descriptors::open();
        own_of_second_ = eventfd(0, 0);
        second_.take_new(before);
    }
    ~UcxDescriptorsOfTwo() override {
        second_.forget();
        for (const int descriptor : {event_, own_of_second_})
            close(descriptor);
    }
    // A new one has the number of what was closed.
    void replace_event(int with) {
        ASSERT_EQ(with, event_);
        first_.keep_shared();
    }

    const process::Use use_;
    Descriptors first_, second_;
    int event_ = -1;
    int own_of_second_ = -1;
};

TEST_F(UcxDescriptorsOfTwo, ChildrenDoNotGetItAsLongAsOneNeedsIt) {
    first_.forget();
    first_.keep_shared();
    EXPECT_FALSE(a_child_has(event_));
    EXPECT_EQ(fcntl(event_, F_GETSIG), 0);
    second_.forget();
    EXPECT_TRUE(a_child_has(event_));
}

// The last worker that was there when the next one began does not end all of it.
TEST_F(UcxDescriptorsOfTwo, ChildrenDoNotGetItWhereAnotherWorkerBeginsWhileTheLastOneEnds) {
    first_.forget();
    first_.keep_shared();
    second_.forget();
    Descriptors third;
    const auto before = Descriptors::open();
    const int own = eventfd(0, 0);
    third.take_new(before);
    second_.keep_shared();
    EXPECT_FALSE(a_child_has(event_));
    third.forget();
    third.keep_shared();
    EXPECT_TRUE(a_child_has(event_));
    close(own);
}

TEST_F(UcxDescriptorsOfTwo, OneOfTheProgramsWithItsNumberAndNameStaysTheProgramsOwn) {
    first_.forget();
    close(event_);
    replace_event(eventfd(0, EFD_CLOEXEC));
    EXPECT_TRUE(a_child_has(event_));
}

// Of another context of the library's. It has to be closed in children also when UCX's workers have ended.
TEST_F(UcxDescriptorsOfTwo, OneOfTheLibrarysWithItsNumberAndNameStaysTheLibrarysOwn) {
    first_.forget();
    const int moved = fcntl(event_, F_DUPFD, event_ + 1);  // the same file, which UCX still has
    close(event_);
    replace_event(process::open_own([moved] { return dup(moved); }));
    second_.forget();
    EXPECT_FALSE(a_child_has(event_));
    process::forget_descriptor(event_);
    close(moved);
}

TEST_F(UcxDescriptorsOfTwo, OneOfTheProgramsWithTheNumberOfWhatUcxClosedLongAgoBecomesTheProgramsOwn) {
    close(event_);
    ASSERT_EQ(socket(AF_INET, SOCK_STREAM, 0), event_);
    first_.forget();
    first_.keep_shared();
    EXPECT_TRUE(a_child_has(event_));
    second_.forget();
    EXPECT_TRUE(a_child_has(event_));
}

// Until the last worker ends: it was kept for the others, and UCX has closed it since.
TEST_F(UcxDescriptorsOfTwo, OneOfTheProgramsWithTheNumberOfWhatWasKeptForOthersBecomesTheProgramsOwn) {
    first_.forget();
    first_.keep_shared();
    close(event_);
    ASSERT_EQ(socket(AF_INET, SOCK_STREAM, 0), event_);
    second_.forget();
    EXPECT_TRUE(a_child_has(event_));
}

// With a name of its own, or with the same one.
TEST_F(UcxDescriptorsOfTwo, AnotherWorkersWithTheNumberOfWhatUcxClosedLongAgoStaysThatWorkers) {
    for (const bool has_its_name : {false, true}) {
        Descriptors one, other;
        auto before = Descriptors::open();
        const int number = eventfd(0, 0);
        one.take_new(before);
        close(number);
        before = Descriptors::open();
        ASSERT_EQ(has_its_name ? eventfd(0, 0) : socket(AF_INET, SOCK_STREAM, 0), number);
        other.take_new(before);
        EXPECT_EQ(fcntl(number, F_GETFD), FD_CLOEXEC);
        one.forget();
        EXPECT_FALSE(a_child_has(number));
        one.keep_shared();
        other.forget();
        EXPECT_TRUE(a_child_has(number));
        other.keep_shared();
        close(number);
    }
}

TEST_F(UcxDescriptorsOfTwo, OneOfTheLibrarysWithTheNumberAndNameOfWhatUcxClosedLongAgoStaysTheLibrarysOwn) {
    close(event_);
    ASSERT_EQ(process::open_own([] { return eventfd(0, EFD_CLOEXEC); }), event_);
    second_.forget();
    first_.forget();
    first_.keep_shared();
    EXPECT_FALSE(a_child_has(event_));
    process::forget_descriptor(event_);
}

TEST_F(UcxDescriptorsOfTwo, OneOfTheLibrarysWithTheNumberOfWhatUcxClosedLongAgoStaysTheLibrarysOwn) {
    close(event_);
    ASSERT_EQ(process::open_own([] { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }), event_);
    first_.forget();
    first_.keep_shared();
    second_.forget();
    EXPECT_FALSE(a_child_has(event_));
    process::forget_descriptor(event_);
}

}  // namespace
}  // namespace coppice::transport
