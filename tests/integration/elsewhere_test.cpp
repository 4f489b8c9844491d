// Callers that are elsewhere: what a rank owes the others happens although it is in no call of the library.
//
// "Outside" means here that a rank only looks at memory that the test shares among all ranks, or at a buffer of its
// own.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>
#include <span>
#include <string>

#include "integration/outside.hpp"

namespace coppice::testing {
namespace {

class EveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, EveryLayout, ::testing::ValuesIn(layouts()),
                         [](const auto& layout) { return std::string(layout.param.name); });

TEST_P(EveryLayout, ARootThatNeverCallsAgainReachesAll) {
    constexpr std::uint64_t kCount = 3;
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const std::uint64_t others = member.ranks - 1;
        for (std::uint64_t number = 0; number < kCount; ++number) {
            const auto expected = payload_of(number, 0, kBytes);
            std::vector<unsigned char> buffer(kBytes);
            if (member.rank == 0) buffer = expected;
            COPPICE_CHECK(coppice_broadcast(member.group, buffer.data(), kBytes, 0, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(buffer == expected);
            if (member.rank != 0) member.notes[0].fetch_add(1);
            outside("all others", [&] { return member.notes[0].load() >= (number + 1) * others; });
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, BroadcastsEndWhileEverybodyIsOutside) {
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (std::uint32_t root = 0; root < member.ranks; ++root) {
            const auto expected = payload_of(root, root, kBytes);
            std::vector<unsigned char> buffer(kBytes, static_cast<unsigned char>(~expected.back()));
            if (member.rank == root) buffer = expected;
            coppice_request_t* request = nullptr;
            start(member, buffer, root, &request);
            outside("the payload", [&] { return is_there(buffer, expected); });
            member.notes[0].fetch_add(1);
            outside("all ranks", [&] { return member.notes[0].load() >= (root + 1) * member.ranks; });
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// SIGKILL before and after each message that the victim would send, while every survivor is outside.
TEST_P(EveryLayout, AVictimInMidOperationIsStoodInForByRanksThatAreOutside) {
    const Layout& layout = GetParam();
    const std::uint32_t victim = layout.ranks - 1;
    for (const std::uint32_t root : {0U, 1U}) {
        for (const char* moment : {"kill-before", "kill-after"}) {
            bool killed = true;
            for (int message = 1; killed; ++message) {
                ASSERT_LT(message, 100);
                JobOptions options = layout.job();
                options.environment["COPPICE_FAULTS"] = faults_at(moment, message, {victim});
                Job job(options, [&](Member& member) {
                    COPPICE_CHECK(member.join() == COPPICE_OK);
                    const auto expected = payload_of(1, root, kBytes);
                    std::vector<unsigned char> buffer(kBytes, static_cast<unsigned char>(~expected.back()));
                    if (member.rank == root) buffer = expected;
                    coppice_request_t* request = nullptr;
                    start(member, buffer, root, &request);
                    outside("the payload", [&] { return is_there(buffer, expected); });
                    if (member.rank != victim) member.notes[0].fetch_add(1);
                    outside("all survivors", [&] { return member.notes[0].load() >= member.ranks - 1; });
                    COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
                    COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
                    member.leave();
                });
                ASSERT_EQ(job.finish([&](std::uint32_t rank) { return rank == victim; }), "")
                    << options.environment["COPPICE_FAULTS"] << ", root " << root;
                killed = job.ending(victim).killed_by(SIGKILL);
            }
        }
    }
}

// The root dies at each of its messages. One survivor waits inside, all others are outside until it is through.
TEST_P(EveryLayout, ADeadRootIsSettledForTheOneThatWaitsByRanksThatAreOutside) {
    const Layout& layout = GetParam();
    constexpr std::uint32_t kVictim = 0;
    for (const char* moment : {"kill-before", "kill-after"}) {
        bool killed = true;
        for (int message = 1; killed; ++message) {
            ASSERT_LT(message, 100);
            JobOptions options = layout.job();
            options.environment["COPPICE_FAULTS"] = faults_at(moment, message, {kVictim});
            Job job(options, [&](Member& member) {
                COPPICE_CHECK(member.join() == COPPICE_OK);
                const auto expected = payload_of(1, kVictim, kBytes);
                std::vector<unsigned char> buffer(kBytes, static_cast<unsigned char>(~expected.back()));
                if (member.rank == kVictim) buffer = expected;
                coppice_request_t* request = nullptr;
                start(member, buffer, kVictim, &request);
                const bool waits_inside = member.rank == member.ranks - 1;
                if (!waits_inside) outside("the one that waits", [&] { return member.notes[0].load() == 1; });
                const coppice_status_t status = coppice_request_wait(request, nullptr, kTimeout);
                if (status != COPPICE_OK && status != COPPICE_ERR_ROOT_FAILED) throw CheckFailed(coppice_last_error());
                COPPICE_CHECK(status != COPPICE_OK || buffer == expected);
                if (waits_inside) member.notes[0] = 1;
                member.notes[1 + member.rank] = status == COPPICE_OK ? 1 : 2;
                COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
                member.leave();
            });
            ASSERT_EQ(job.finish([](std::uint32_t rank) { return rank == kVictim; }), "")
                << options.environment["COPPICE_FAULTS"];
            killed = job.ending(kVictim).killed_by(SIGKILL);
            for (std::uint32_t rank = 1; rank < layout.ranks; ++rank)
                EXPECT_EQ(job.note(1 + rank), job.note(layout.ranks)) << options.environment["COPPICE_FAULTS"];
        }
    }
}

// Agreement returns early: those that are through answer the others' late questions, wherever their callers are.
TEST_P(EveryLayout, RanksThatAreThroughAnswerLateQuestionsFromOutside) {
    const Layout& layout = GetParam();
    for (const std::uint32_t victim : {0U, 1U}) {
        for (const char* moment : {"kill-before", "kill-after"}) {
            bool killed = true;
            for (int message = 1; killed; ++message) {
                ASSERT_LT(message, 100);
                JobOptions options = layout.job();
                options.environment["COPPICE_FAULTS"] = faults_at(moment, message, {victim});
                Job job(options, [&](Member& member) {
                    COPPICE_CHECK(member.join() == COPPICE_OK);
                    std::uint32_t value = 0xff00U | 1U << member.rank;
                    const coppice_status_t status =
                        coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout);
                    if (status != COPPICE_OK && status != COPPICE_ERR_PEER_FAILED)
                        throw CheckFailed(coppice_last_error());
                    if (member.rank != victim) {
                        member.notes[1 + member.rank].store(value);
                        member.notes[0].fetch_add(1);
                    }
                    outside("all survivors", [&] { return member.notes[0].load() >= member.ranks - 1; });
                    member.leave();
                });
                ASSERT_EQ(job.finish([&](std::uint32_t rank) { return rank == victim; }), "")
                    << options.environment["COPPICE_FAULTS"];
                killed = job.ending(victim).killed_by(SIGKILL);
                const std::uint32_t survivor = victim == 0 ? 1 : 0;
                for (std::uint32_t rank = 0; rank < layout.ranks; ++rank) {
                    if (rank == victim) continue;
                    EXPECT_EQ(job.note(1 + rank), job.note(1 + survivor));
                }
            }
        }
    }
}

TEST_P(EveryLayout, WhatOneRankRevokesEndsForAllThoughItDoesNothingElse) {
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        if (member.rank == member.ranks - 1) {
            COPPICE_CHECK(coppice_group_revoke(member.group) == COPPICE_OK);
        } else {
            char byte = 0;
            COPPICE_CHECK(coppice_broadcast(member.group, &byte, 1, member.ranks - 1, nullptr, kTimeout) ==
                          COPPICE_ERR_REVOKED);
            member.notes[0].fetch_add(1);
        }
        outside("all others", [&] { return member.notes[0].load() >= member.ranks - 1; });
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, AShrinkEndsForAllThoughTheFirstOnesAreOutside) {
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const std::uint32_t victim = 1;
        if (member.rank == victim) raise(SIGKILL);
        coppice_group_t* shrunk = nullptr;
        const coppice_status_t status = coppice_group_shrink(member.group, &shrunk, kTimeout);
        if (status != COPPICE_OK) throw CheckFailed(coppice_last_error());
        member.notes[0].fetch_add(1);
        outside("all survivors", [&] { return member.notes[0].load() >= member.ranks - 1; });
        COPPICE_CHECK(coppice_group_destroy(shrunk, kTimeout) == COPPICE_OK);
        member.leave();
    });
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "");
}

// The window is full until everybody has consumed; the leaders, which count for their hosts, are outside.
TEST_P(EveryLayout, CountsOfWhatIsConsumedTravelWhileLeadersAreOutside) {
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        constexpr std::uint64_t kCount = 100;  // more than three windows
        const std::uint32_t root = member.ranks - 1;
        if (member.rank == root) {
            for (std::uint64_t number = 0; number < kCount; ++number) {
                std::uint64_t payload = number;
                COPPICE_CHECK(coppice_broadcast(member.group, &payload, sizeof payload, root, nullptr, kTimeout) ==
                              COPPICE_OK);
                // All that was sent so far has been taken before the next one is called for.
                outside("the others", [&] { return member.notes[0].load() >= (number + 1) * root; });
            }
        } else {
            for (std::uint64_t number = 0; number < kCount; ++number) {
                std::uint64_t payload = 0;
                COPPICE_CHECK(coppice_broadcast(member.group, &payload, sizeof payload, root, nullptr, kTimeout) ==
                              COPPICE_OK);
                COPPICE_CHECK(payload == number);
                member.notes[0].fetch_add(1);
                outside("the others", [&] { return member.notes[0].load() >= (number + 1) * root; });
            }
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// ----------------------------------------------------------------------------------- groups in the making, silence ---

int exchange_of_member(void* argument, const void* mine, std::size_t bytes, void* all) {
    const auto& member = *static_cast<const Member*>(argument);
    const std::span<const std::byte> piece(static_cast<const std::byte*>(mine), bytes);
    return member.exchange(piece, {static_cast<std::byte*>(all), bytes * member.ranks}) ? 0 : 1;
}

// Two of three ranks wait inside create for the third, longer than their first group's bound of silence.
std::string wait_inside_create(std::uint64_t bound_s) {
    JobOptions options;
    options.ranks = 3;
    options.hosts = 3;
    options.environment["COPPICE_DETECTION_BOUND"] = std::to_string(bound_s) + "s";
    Job job(options, [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        coppice_group_t* const first = member.group;
        if (member.rank == 2) {
            outside("the two in create", [&] { return member.notes[0].load() == 2; });
            // It listens for longer than the bound.
            for (const std::uint64_t until = now_ns() + 5 * bound_s * 500'000'000; now_ns() < until;)
                COPPICE_CHECK(coppice_progress(member.context) == COPPICE_OK);
        } else {
            member.notes[0].fetch_add(1);
        }
        coppice_group_options_t group_options = COPPICE_GROUP_OPTIONS_INIT;
        group_options.exchange = exchange_of_member;
        group_options.exchange_argument = &member;
        group_options.rank = member.rank;
        group_options.size = member.ranks;
        coppice_group_t* second = nullptr;
        COPPICE_CHECK(coppice_group_create(member.context, &group_options, &second) == COPPICE_OK);
        char byte = 0;
        if (coppice_broadcast(first, &byte, 1, 0, nullptr, kTimeout) != COPPICE_OK)
            throw CheckFailed(coppice_last_error());
        std::size_t failed = 0;
        COPPICE_CHECK(coppice_group_failed(first, nullptr, 0, &failed) == COPPICE_OK && failed == 0);
        COPPICE_CHECK(coppice_group_destroy(second, kTimeout) == COPPICE_OK);
        member.leave();
    });
    return job.finish();
}

TEST(Create, OtherGroupsGoOnMeanwhile) {
    // A rank that is kept from its core for longer than the bound is taken for dead.
    std::string wrong;
    for (const std::uint64_t bound_s : {2U, 8U, 16U}) {
        wrong = wait_inside_create(bound_s);
        if (wrong.empty()) break;
    }
    EXPECT_EQ(wrong, "");
}

// Makes a group of this rank alone, whose exchange ends when all that live have the payload of the first group.
int exchange_when_all_have_it(void* argument, const void* mine, std::size_t bytes, void* all) {
    constexpr std::uint64_t kLiving = 3;
    const auto& member = *static_cast<const Member*>(argument);
    std::memcpy(all, mine, bytes);
    return becomes([&] { return member.notes[0].load() == kLiving; }) ? 0 : 1;
}

// Of six hosts in a binomial tree, 1, 2 and 4 die before they send anything on: 3 has its parent and both neighbours among them.
// The two that have the payload wait in create, and serve it from there.
TEST(Create, APayloadIsServedAfterADeathMeanwhile) {
    const std::set<std::uint32_t> victims{1, 2, 4};
    for (const char* thread : {"0", "auto"}) {
        JobOptions options{.ranks = 6, .hosts = 6};
        options.environment = {{"COPPICE_TREE", "binomial"},
                               {"COPPICE_CORRECTION", "opportunistic:1"},
                               {"COPPICE_PROGRESS_THREAD", thread},
                               {"COPPICE_FAULTS", faults_at("kill-before", 1, {1, 2, 4})}};
        Job job(options, [&](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            const auto expected = payload_of(1, 0, kBytes);
            std::vector<unsigned char> buffer(kBytes);
            if (member.rank == 0) buffer = expected;
            if (coppice_broadcast(member.group, buffer.data(), kBytes, 0, nullptr, kTimeout) != COPPICE_OK)
                throw CheckFailed(coppice_last_error());
            COPPICE_CHECK(buffer == expected);
            member.notes[0].fetch_add(1);
            if (member.rank != 3) {
                coppice_group_options_t alone = COPPICE_GROUP_OPTIONS_INIT;
                alone.exchange = exchange_when_all_have_it;
                alone.exchange_argument = &member;
                alone.size = 1;
                coppice_group_t* second = nullptr;
                COPPICE_CHECK(coppice_group_create(member.context, &alone, &second) == COPPICE_OK);
                COPPICE_CHECK(coppice_group_destroy(second, kTimeout) == COPPICE_OK);
            }
            member.leave();
        });
        EXPECT_EQ(job.finish([&](std::uint32_t rank) { return victims.contains(rank); }), "") << thread;
        for (const std::uint32_t victim : victims)
            EXPECT_TRUE(job.ending(victim).killed_by(SIGKILL)) << victim;
    }
}

// ------------------------------------------------------------------------------------------------ functions of theirs

struct Called {
    std::atomic<std::uint64_t>* count;
    pid_t by;
};

void note_failure(void* argument, coppice_group_t*, std::uint32_t) {
    auto& called = *static_cast<Called*>(argument);
    called.by = gettid();
    called.count->fetch_add(1);
}

void wait_for_a_death(Member& member, bool on_thread) {
    Called called{&member.notes[1], 0};
    coppice_group_options_t group_options = COPPICE_GROUP_OPTIONS_INIT;
    group_options.on_failure = note_failure;
    group_options.on_failure_argument = &called;
    COPPICE_CHECK(member.join(group_options) == COPPICE_OK);
    if (member.rank == 2) raise(SIGKILL);
    // Rank 1 asks, so that it knows; rank 0 is outside.
    if (member.rank == 1) {
        member.await_failed(1);
        member.notes[0].store(1);
        outside("rank 0", [&] { return member.notes[2].load() == 1; });
    } else {
        outside("rank 1", [&] { return member.notes[0].load() == 1; });
        if (on_thread) {
            outside("the callback", [&] { return member.notes[1].load() == 2; });
            COPPICE_CHECK(called.by != gettid());
        } else {
            COPPICE_CHECK(member.notes[1].load() == 1);  // rank 1's own
            member.await_failed(1);
            COPPICE_CHECK(member.notes[1].load() == 2 && called.by == gettid());
        }
        member.notes[2].store(1);
    }
    member.leave();
}

TEST(Callbacks, WaitForTheNextCallByDefault) {
    JobOptions options;
    options.ranks = 3;
    Job job(options, [](Member& member) { wait_for_a_death(member, false); });
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 2; }), "");
}

TEST(Callbacks, RunOnAThreadThatWasAskedFor) {
    JobOptions options;
    options.ranks = 3;
    options.context.progress_thread = 1;
    Job job(options, [](Member& member) { wait_for_a_death(member, true); });
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 2; }), "");
}

void keep_larger(void* argument, void* into, const void* from, std::size_t bytes) {
    auto& called = *static_cast<Called*>(argument);
    if (called.by != gettid()) called.count->fetch_add(1);
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    std::memcpy(&a, into, bytes);
    std::memcpy(&b, from, bytes);
    if (b > a) std::memcpy(into, from, bytes);
}

// An agreement with a function of the caller's goes on at a rank when its caller is inside, and on no thread but the
// caller's.
TEST_P(EveryLayout, FunctionsThatCombineWaitForTheirCaller) {
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        Called called{&member.notes[0], gettid()};
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = COPPICE_COMBINE;
        options.combine = keep_larger;
        options.combine_argument = &called;
        for (std::uint64_t round = 0; round < 5; ++round) {
            std::uint64_t value = 100 * round + member.rank;
            coppice_request_t* request = nullptr;
            COPPICE_CHECK(coppice_agree_nb(member.group, &value, sizeof value, &options, &request) == COPPICE_OK);
            member.notes[1].fetch_add(1);
            outside("all to have begun", [&] { return member.notes[1].load() >= (round + 1) * member.ranks; });
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(value == 100 * round + member.ranks - 1);
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        }
        COPPICE_CHECK(member.notes[0].load() == 0);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
