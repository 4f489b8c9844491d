// Callers that come back at once, again and again: a program that asks in a loop whether its request has ended. That loop makes
// progress for all that this rank owes others, and keeps no other thread of the program out.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <span>
#include <thread>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;

int exchange_of_member(void* argument, const void* mine, std::size_t bytes, void* all) {
    const auto& member = *static_cast<const Member*>(argument);
    const std::span<const std::byte> piece(static_cast<const std::byte*>(mine), bytes);
    return member.exchange(piece, {static_cast<std::byte*>(all), bytes * member.ranks}) ? 0 : 1;
}

coppice_group_t* second_group(Member& member) {
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.exchange = exchange_of_member;
    options.exchange_argument = &member;
    options.rank = member.rank;
    options.size = member.ranks;
    coppice_group_t* group = nullptr;
    if (coppice_group_create(member.context, &options, &group) != COPPICE_OK) throw CheckFailed(coppice_last_error());
    return group;
}

void check(coppice_status_t status) {
    if (status != COPPICE_OK) throw CheckFailed(coppice_last_error());
}

// Calls until it says something else than `meanwhile`. Nothing else is done between two calls.
coppice_status_t ask(coppice_status_t meanwhile, const std::function<coppice_status_t()>& call) {
    const std::uint64_t until = now_ns() + kTimeout;
    coppice_status_t status = meanwhile;
    while (status == meanwhile && now_ns() < until)
        status = call();
    return status;
}

// ------------------------------------------------------------------------------------------- what it owes elsewhere ---

JobOptions without_a_thread(std::uint32_t ranks, std::uint32_t hosts) {
    JobOptions options;
    options.ranks = ranks;
    options.hosts = hosts;
    options.environment = {{"COPPICE_PROGRESS_THREAD", "0"}};
    return options;
}

// Rank 0 begins a broadcast in another group, whose connections are not there yet, and goes on in the first group only.
// The others go on there when they have it.
void owe_and_ask(Member& member, const std::function<void(char*)>& in_first_group) {
    check(member.join());
    coppice_group_t* const second = second_group(member);
    char owed = 0;
    coppice_request_t* request = nullptr;
    if (member.rank == 0) {
        check(coppice_broadcast_nb(second, &owed, 1, 0, &request));
    } else {
        check(coppice_broadcast(second, &owed, 1, 0, nullptr, kTimeout));
    }
    char bytes[64] = {};
    in_first_group(bytes);
    if (request != nullptr) {
        check(coppice_request_wait(request, nullptr, kTimeout));
        check(coppice_request_free(request));
    }
    check(coppice_group_destroy(second, kTimeout));
    member.leave();
}

TEST(Asking, WhetherARequestHasEndedMovesOtherGroups) {
    Job job(without_a_thread(3, 3), [](Member& member) {
        owe_and_ask(member, [&](char* byte) {
            if (member.rank != 0) return check(coppice_broadcast(member.group, byte, 1, 1, nullptr, kTimeout));
            coppice_request_t* request = nullptr;
            check(coppice_broadcast_nb(member.group, byte, 1, 1, &request));
            check(ask(COPPICE_IN_PROGRESS, [&] { return coppice_request_test(request, nullptr); }));
            check(coppice_request_free(request));
        });
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Asking, WhetherTheWindowHasRoomMovesOtherGroups) {
    JobOptions options = without_a_thread(3, 3);
    options.environment.emplace("COPPICE_WINDOW", "4");
    Job job(options, [](Member& member) {
        owe_and_ask(member, [&](char* bytes) {
            for (int i = 0; i < 6; ++i) {
                if (member.rank != 0) {
                    check(coppice_broadcast(member.group, bytes, 1, 0, nullptr, kTimeout));
                    continue;
                }
                coppice_request_t* request = nullptr;
                check(ask(COPPICE_ERR_BUSY,
                          [&] { return coppice_broadcast_nb(member.group, bytes + i, 1, 0, &request); }));
                check(coppice_request_wait(request, nullptr, kTimeout));
                check(coppice_request_free(request));
            }
        });
    });
    EXPECT_EQ(job.finish(), "");
}

// A rank that makes another group waits there in an exchange that knows nothing of the first one.
TEST(Asking, ForAnotherGroupMovesTheFirstOneWithoutAThreadToo) {
    Job job(without_a_thread(3, 3), [](Member& member) {
        check(member.join());
        char byte = 0;
        coppice_request_t* request = nullptr;
        if (member.rank == 0) {
            check(coppice_broadcast_nb(member.group, &byte, 1, 0, &request));
        } else {
            check(coppice_broadcast(member.group, &byte, 1, 0, nullptr, kTimeout));
        }
        coppice_group_t* const second = second_group(member);
        if (request != nullptr) {
            check(coppice_request_wait(request, nullptr, kTimeout));
            check(coppice_request_free(request));
        }
        check(coppice_group_destroy(second, kTimeout));
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// -------------------------------------------------------------------------------------------- calls that only ask ---

// Of rank 1, which has a request that is pending, and memory that is registered. It is told what it knew before, or refused.
struct Question {
    const char* name;
    void (*ask)(Member& member, coppice_request_t* request, char* registered);
};

class OnlyAsking : public ::testing::TestWithParam<Question> {};
INSTANTIATE_TEST_SUITE_P(
    Questions, OnlyAsking,
    ::testing::Values(Question{"counts", [](Member& member, coppice_request_t*, char*) { (void)member.counts(); }},
                      Question{"pending",
                               [](Member& member, coppice_request_t*, char*) {
                                   int pending = 0;
                                   check(coppice_group_pending(member.group, &pending));
                               }},
                      Question{"view",
                               [](Member& member, coppice_request_t*, char*) {
                                   coppice_view_t view{};
                                   view.struct_size = sizeof view;
                                   check(coppice_group_view(member.group, &view, nullptr, 0));
                               }},
                      Question{"payload",
                               [](Member&, coppice_request_t* request, char*) {
                                   const void* payload = nullptr;
                                   std::size_t bytes = 0;
                                   (void)coppice_request_view(request, &payload, &bytes);
                               }},
                      Question{"agreed",
                               [](Member&, coppice_request_t* request, char*) {
                                   std::size_t count = 0;
                                   COPPICE_CHECK(coppice_request_agreed(request, nullptr, 0, &count) ==
                                                 COPPICE_ERR_INVALID_ARGUMENT);
                               }},
                      Question{"registered",
                               [](Member& member, coppice_request_t*, char* registered) {
                                   COPPICE_CHECK(coppice_memory_register(member.group, registered, 1) ==
                                                 COPPICE_ERR_BUSY);
                               }},
                      Question{"deregistered",
                               [](Member& member, coppice_request_t*, char* registered) {
                                   COPPICE_CHECK(coppice_memory_deregister(member.group, registered + 1) ==
                                                 COPPICE_ERR_INVALID_ARGUMENT);
                               }}),
    [](const auto& question) { return std::string(question.param.name); });

// Rank 2 gets the payload by rank 1 alone, which does nothing but ask from before the root's call on.
TEST_P(OnlyAsking, AgainAndAgainHoldsNobodyUp) {
    for (const char* thread : {"auto", "1"}) {
        JobOptions options{.ranks = 3, .hosts = 3};
        options.environment = {
            {"COPPICE_TREE", "chain"}, {"COPPICE_CORRECTION", "none"}, {"COPPICE_PROGRESS_THREAD", thread}};
        Job job(options, [](Member& member) {
            check(member.join());
            char byte = member.rank == 0 ? 7 : 0;
            if (member.rank != 1) {
                if (member.rank == 0) member.await_note(0, 1);
                check(coppice_broadcast(member.group, &byte, 1, 0, nullptr, kTimeout));
                if (member.rank == 2) member.notes[1] = 1;
            } else {
                char registered[64] = {};
                check(coppice_memory_register(member.group, registered, sizeof registered));
                coppice_request_t* request = nullptr;
                check(coppice_broadcast_view_nb(member.group, &byte, 1, 0, &request));
                member.notes[0] = 1;
                member.await("rank 2 to have it", [&] {
                    GetParam().ask(member, request, registered);
                    return member.notes[1].load() == 1;
                });
                check(coppice_request_wait(request, nullptr, kTimeout));
                check(coppice_request_free(request));
                check(coppice_memory_deregister(member.group, registered));
            }
            COPPICE_CHECK(member.rank != 2 || byte == 7);
            member.leave();
        });
        EXPECT_EQ(job.finish(), "") << "progress thread " << thread;
    }
}

// What benchmarks rely on that look at counts while they wait.
TEST(AskingNowAndThen, MakesNoProgress) {
    Job job(without_a_thread(2, 2), [](Member& member) {
        check(member.join());
        char byte = 0;
        check(coppice_broadcast(member.group, &byte, 1, 0, nullptr, kTimeout));
        if (member.rank == 0) {
            member.await_call("the other one to have begun", [&] { return member.notes[0].load() == 1; });
            byte = 7;
            check(coppice_broadcast(member.group, &byte, 1, 0, nullptr, kTimeout));
            member.notes[1] = 1;
        } else {
            coppice_request_t* request = nullptr;
            check(coppice_broadcast_nb(member.group, &byte, 1, 0, &request));
            member.notes[0] = 1;
            member.await_note(1, 1);
            for (int i = 0; i < 5; ++i) {
                usleep(20'000);  // gives what would be wrong time to show; nothing right depends on it
                (void)member.counts();
                COPPICE_CHECK(std::atomic_ref(byte).load() == 0);
            }
            check(coppice_request_wait(request, nullptr, kTimeout));
            COPPICE_CHECK(byte == 7);
            check(coppice_request_free(request));
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// The progress thread has noticed the death; the callback is the caller's.
TEST(AskingNowAndThen, TellsOfFailures) {
    Job job({.ranks = 3, .hosts = 3}, [](Member& member) {
        std::uint32_t dead = UINT32_MAX;
        coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
        options.on_failure_argument = &dead;
        options.on_failure = [](void* argument, coppice_group_t*, std::uint32_t rank) {
            *static_cast<std::uint32_t*>(argument) = rank;
        };
        check(member.join(options));
        if (member.rank == 2) raise(SIGKILL);
        member.await("the callback", [&] {
            (void)member.counts();
            return dead == 2;
        });
        member.leave();
    });
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 2; }), "");
}

// --------------------------------------------------------------------------------------------------- other threads ---

// Linux says of a thread that waits in a system call which one it is.
bool waits_for_a_lock(pid_t thread) {
    std::ifstream file(fmt::format("/proc/self/task/{}/syscall", thread));
    long number = -1;
    file >> number;
    return number == SYS_futex;
}

// What the two threads of rank 0 tell each other.
struct Threads {
    std::atomic<bool> may_call{false};
    std::atomic<pid_t> other{0};
    bool was_told = false;
};

// Has the context to itself until the other thread waits for it.
void on_failure(void* argument, coppice_group_t*, std::uint32_t) {
    Threads& threads = *static_cast<Threads*>(argument);
    threads.may_call = true;
    if (!becomes([&] { return threads.other != 0 && waits_for_a_lock(threads.other); })) std::abort();
    threads.was_told = true;
}

TEST(Asking, KeepsNoOtherThreadOut) {
    JobOptions options;
    options.ranks = 3;
    options.environment = {{"COPPICE_PROGRESS_THREAD", "0"}};
    options.context.thread_mode = COPPICE_THREAD_MULTIPLE;
    Job job(options, [](Member& member) {
        Threads threads;
        coppice_group_options_t group = COPPICE_GROUP_OPTIONS_INIT;
        group.on_failure = on_failure;
        group.on_failure_argument = &threads;
        check(member.join(group));
        if (member.rank != 0) {
            member.await_note(0, 1);
            if (member.rank == 2) raise(SIGKILL);
            return member.await_note(1, 1);
        }
        char byte = 0;
        coppice_request_t* request = nullptr;
        check(coppice_broadcast_nb(member.group, &byte, 1, 1, &request));
        std::thread other([&] {
            while (!threads.may_call)
                std::this_thread::yield();
            threads.other = gettid();
            check(coppice_group_revoke(member.group));
        });
        member.notes[0].fetch_add(1);
        std::uint64_t asked = 0;
        coppice_status_t status = COPPICE_IN_PROGRESS;
        while (status == COPPICE_IN_PROGRESS) {
            status = coppice_request_test(request, nullptr);
            asked += threads.was_told;  // so often while the other one waited
        }
        other.join();
        member.notes[1].fetch_add(1);
        COPPICE_CHECK(status == COPPICE_ERR_REVOKED);
        if (asked > 50) throw CheckFailed(fmt::format("asked {} times before the other thread's turn came", asked));
    });
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 2; }), "");
}

}  // namespace
}  // namespace coppice::testing
