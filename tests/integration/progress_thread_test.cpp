// The thread that makes progress while no caller does: how many there are, when it works, what it must not do, and how it ends.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "integration/outside.hpp"

namespace coppice::testing {
namespace {

std::size_t progress_threads() {
    std::size_t count = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream file(task.path() / "comm");
        std::string name;
        std::getline(file, name);
        count += name == "coppice-progr";
    }
    return count;
}

TEST(Thread, OneServesManyGroupsAndContexts) {
    constexpr int kGroups = 4;
    JobOptions options;
    options.ranks = 4;
    options.hosts = 2;
    Job job(options, [](Member& member) {
        std::vector<coppice_context_t*> contexts;
        std::vector<coppice_group_t*> groups;
        for (int i = 0; i < kGroups; ++i) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            contexts.push_back(member.context);
            groups.push_back(member.group);
        }
        COPPICE_CHECK(progress_threads() == 1);
        std::vector<std::vector<unsigned char>> buffers;
        std::vector<coppice_request_t*> requests(kGroups);
        for (std::uint32_t i = 0; i < kGroups; ++i) {
            const auto expected = payload_of(i, i, kBytes);
            buffers.push_back(member.rank == i
                                  ? expected
                                  : std::vector<unsigned char>(kBytes, static_cast<unsigned char>(~expected.back())));
        }
        for (std::uint32_t i = 0; i < kGroups; ++i)
            COPPICE_CHECK(coppice_broadcast_nb(groups[i], buffers[i].data(), kBytes, i, &requests[i]) == COPPICE_OK);
        for (std::uint32_t i = 0; i < kGroups; ++i)
            outside("a payload of each group", [&] { return is_there(buffers[i], payload_of(i, i, kBytes)); });
        for (std::uint32_t i = 0; i < kGroups; ++i) {
            COPPICE_CHECK(coppice_request_wait(requests[i], nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(coppice_request_free(requests[i]) == COPPICE_OK);
            COPPICE_CHECK(coppice_group_destroy(groups[i], kTimeout) == COPPICE_OK);
            COPPICE_CHECK(coppice_context_destroy(contexts[i]) == COPPICE_OK);
        }
        COPPICE_CHECK(progress_threads() == 0);
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Thread, TakesNoSignals) {
    JobOptions options;
    options.ranks = 1;
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        COPPICE_CHECK(progress_threads() == 1);
        sigset_t usr1;
        sigemptyset(&usr1);
        sigaddset(&usr1, SIGUSR1);
        COPPICE_CHECK(pthread_sigmask(SIG_BLOCK, &usr1, nullptr) == 0);
        // To the process: any thread that does not block it would die of it.
        COPPICE_CHECK(kill(getpid(), SIGUSR1) == 0);
        sigset_t pending;
        COPPICE_CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Thread, NoneWhereTheCallerPolls) {
    JobOptions options;
    options.ranks = 2;
    options.context.progress_thread = -1;
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        COPPICE_CHECK(progress_threads() == 0);
        for (int call = 0; call < 100; ++call)
            COPPICE_CHECK(coppice_progress(member.context) == COPPICE_OK);
        const coppice_group_counts_t counts = member.counts();
        COPPICE_CHECK(counts.takeovers == 0 && counts.thread_rounds == 0 && counts.thread_events == 0);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// What coppice_group_count says of it: that it has taken over, and has brought in what came while the caller was outside.
TEST(Thread, WhatItDoesIsCounted) {
    JobOptions options{.ranks = 2, .hosts = 2};
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const auto expected = payload_of(1, 0, kBytes);
        std::vector<unsigned char> buffer(kBytes, static_cast<unsigned char>(~expected.back()));
        if (member.rank == 0) {
            outside("the other one", [&] { return member.notes[0].load() == 1; });
            buffer = expected;
            COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), kBytes, 0, nullptr, kTimeout) == COPPICE_OK);
        } else {
            coppice_request_t* request = nullptr;
            start(member, buffer, 0, &request);
            const std::uint64_t before = member.counts().thread_events;
            member.notes[0] = 1;
            outside("the payload", [&] { return is_there(buffer, expected); });
            const coppice_group_counts_t counts = member.counts();
            COPPICE_CHECK(counts.takeovers > 0 && counts.thread_rounds > 0 && counts.thread_events > before);
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Thread, OtherNumbersAreRefused) {
    coppice_context_options_t options = COPPICE_CONTEXT_OPTIONS_INIT;
    for (const int number : {-2, 2, 100}) {
        options.progress_thread = number;
        coppice_context_t* context = nullptr;
        EXPECT_EQ(coppice_context_create(&options, &context), COPPICE_ERR_INVALID_ARGUMENT);
        EXPECT_EQ(context, nullptr);
    }
}

// A process that ends by exit(), with everything as it is, while its thread is at work.
TEST(Thread, ExitInTheMiddleOfEverythingIsAnOrdinaryEnd) {
    JobOptions options;
    options.ranks = 4;
    options.environment["COPPICE_TRANSPORT"] = "ucx";
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::vector<unsigned char> buffer = payload_of(1, 0, kBytes);
        coppice_request_t* request = nullptr;
        start(member, buffer, 0, &request);
        std::exit(0);
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
