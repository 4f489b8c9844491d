// Agreements among real processes that are really killed: whatever happens, survivors agree on the value and on the
// dead.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>

#include "integration/job.hpp"
#include "support/stopped.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;

class EveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Agreement, EveryLayout, ::testing::ValuesIn(ways_to_be_connected(5)),
                         [](const auto& layout) { return std::string(layout.param.name); });

std::uint64_t mask_of(const std::vector<std::uint32_t>& ranks) {
    std::uint64_t mask = 0;
    for (const std::uint32_t rank : ranks)
        mask |= std::uint64_t{1} << rank;
    return mask;
}

std::uint64_t agreed_mask(coppice_group_t* group) {
    std::vector<std::uint32_t> ranks(64);
    std::size_t count = 0;
    COPPICE_CHECK(coppice_group_agreed(group, ranks.data(), ranks.size(), &count) == COPPICE_OK);
    ranks.resize(count);
    return mask_of(ranks);
}

// What an agreement said to one rank, as one word: which ranks contributed, which are dead, and whether all that was
// acknowledged.
struct Outcome {
    std::uint64_t contributors = 0;
    std::uint64_t failed = 0;
    bool acknowledged = true;

    std::uint64_t word() const { return 1 | (acknowledged ? 2U : 0U) | contributors << 8 | failed << 24; }
    static Outcome of(std::uint64_t word) {
        return {.contributors = (word >> 8) & 0xffff, .failed = (word >> 24) & 0xffff, .acknowledged = (word & 2) != 0};
    }
};

// Every rank contributes a bit of its own under OR.
Outcome agree(Member& member) {
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = COPPICE_OR;
    std::uint64_t value = std::uint64_t{1} << member.rank;
    const coppice_status_t status = coppice_agree(member.group, &value, sizeof value, &options, kTimeout);
    if (status != COPPICE_OK && status != COPPICE_ERR_PEER_FAILED) throw CheckFailed(coppice_last_error());
    return {.contributors = value, .failed = agreed_mask(member.group), .acknowledged = status == COPPICE_OK};
}

// Does `count` agreements; notes the outcome of each in notes[rank * count + number].
void agree_often(Member& member, std::uint64_t count) {
    for (std::uint64_t number = 0; number < count; ++number)
        member.notes[member.rank * count + number] = agree(member).word();
}

// The same at all survivors; and what is missing in the value is in the failed set.
void expect_agreed(Job& job, std::uint64_t count, const std::set<std::uint32_t>& dead, const std::string& where) {
    const std::uint64_t all = (std::uint64_t{1} << job.ranks()) - 1;
    std::uint64_t living = all;
    for (const std::uint32_t rank : dead)
        living &= ~(std::uint64_t{1} << rank);
    for (std::uint64_t number = 0; number < count; ++number) {
        std::set<std::uint64_t> words;
        for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
            if (!dead.contains(rank)) words.insert(job.note(rank * count + number));
        }
        ASSERT_EQ(words.size(), 1U) << where << ": survivors differ about agreement " << number;
        const Outcome outcome = Outcome::of(*words.begin());
        EXPECT_EQ(outcome.contributors & living, living) << where << ": " << number << " lacks a survivor's value";
        EXPECT_EQ(outcome.contributors | outcome.failed, all) << where << ": " << number << " lacks a value silently";
        EXPECT_EQ(outcome.failed & living, 0U) << where << ": " << number << " takes a survivor for dead";
        EXPECT_EQ(outcome.acknowledged, outcome.failed == 0) << where << ": " << number;
    }
}

TEST_P(EveryLayout, EveryRankGetsTheSameOfAllContributions) {
    constexpr std::uint64_t kCount = 200;
    const std::uint32_t ranks = GetParam().ranks;
    Job job(
        GetParam().job(),
        [&](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            agree_often(member, kCount);
            member.leave();
        },
        ranks * kCount);
    ASSERT_EQ(job.finish(), "");
    expect_agreed(job, kCount, {}, "nobody died");
}

// SIGKILL before and after each message that the victim would send, until it sends no more.
void kill_at_every_message(const Layout& layout, const std::set<std::uint32_t>& victims) {
    constexpr std::uint64_t kCount = 3;
    for (const char* moment : {"kill-before", "kill-after"}) {
        bool killed = true;
        for (int message = 1; killed; ++message) {
            ASSERT_LT(message, 200) << "agreements among " << layout.ranks << " ranks do not take so many messages";
            JobOptions options = layout.job();
            const std::string faults = faults_at(moment, message, {victims.begin(), victims.end()});
            options.environment["COPPICE_FAULTS"] = faults;
            Job job(
                options,
                [&](Member& member) {
                    COPPICE_CHECK(member.join() == COPPICE_OK);
                    agree_often(member, kCount);
                    member.leave();
                },
                layout.ranks * kCount);
            ASSERT_EQ(job.finish([&](std::uint32_t rank) { return victims.contains(rank); }), "") << faults;
            std::set<std::uint32_t> dead;
            for (const std::uint32_t victim : victims) {
                if (job.ending(victim).killed_by(SIGKILL)) dead.insert(victim);
            }
            killed = !dead.empty();
            expect_agreed(job, kCount, dead, faults);
        }
    }
}

TEST_P(EveryLayout, TheRootMayDieAtEveryMessage) {
    kill_at_every_message(GetParam(), {0});
}
TEST_P(EveryLayout, ARankBetweenMayDieAtEveryMessage) {
    kill_at_every_message(GetParam(), {1});
}
TEST_P(EveryLayout, ALeafMayDieAtEveryMessage) {
    kill_at_every_message(GetParam(), {GetParam().ranks - 1});
}
TEST_P(EveryLayout, TheRootAndAChildMayDieAtEveryMessage) {
    kill_at_every_message(GetParam(), {0, 1});
}
TEST_P(EveryLayout, AllButOneMayDieAtEveryMessage) {
    std::set<std::uint32_t> victims;
    for (std::uint32_t rank = 0; rank + 1 < GetParam().ranks; ++rank)
        victims.insert(rank);
    kill_at_every_message(GetParam(), victims);
}

// Agreements until all hold the victims to be dead, and 100 more after that is acknowledged.
void go_on_without(const Layout& layout, const std::vector<std::uint32_t>& victims, bool reap) {
    constexpr std::size_t kStarted = 0;
    constexpr std::uint64_t kAfter = 100;
    const std::uint64_t dead = mask_of(victims);
    Job job(layout.job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        Outcome outcome;
        for (std::uint64_t number = 0; outcome.failed != dead; ++number) {
            outcome = agree(member);
            if (number == 50) member.notes[kStarted].fetch_add(1);
        }
        COPPICE_CHECK(!outcome.acknowledged);
        // All are told the same, so all acknowledge the same before the next agreement.
        COPPICE_CHECK(coppice_group_ack_failed(member.group, victims.data(), victims.size()) == COPPICE_OK);
        for (std::uint64_t number = 0; number < kAfter; ++number) {
            outcome = agree(member);
            COPPICE_CHECK(outcome.acknowledged && outcome.failed == dead);
            COPPICE_CHECK((outcome.contributors & dead) == 0);
            COPPICE_CHECK((outcome.contributors | dead) == (std::uint64_t{1} << member.ranks) - 1);
        }
        COPPICE_CHECK(member.failed() == victims);
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kStarted, layout.ranks));
    for (const std::uint32_t victim : victims)
        job.kill(victim, reap);
    EXPECT_EQ(job.finish([&](std::uint32_t rank) { return std::ranges::count(victims, rank) > 0; }), "");
}

TEST_P(EveryLayout, SurvivorsGoOnWhenAVictimIsReaped) {
    go_on_without(GetParam(), {1}, true);
}
TEST_P(EveryLayout, SurvivorsGoOnWhenTheRootStaysAZombie) {
    go_on_without(GetParam(), {0}, false);
}
TEST_P(EveryLayout, EveryRankButOneMayBeDead) {
    std::vector<std::uint32_t> victims;
    for (std::uint32_t rank = 0; rank + 1 < GetParam().ranks; ++rank)
        victims.push_back(rank);
    go_on_without(GetParam(), victims, true);
}

TEST_P(EveryLayout, ARankThatIsStoppedIsWaitedForAndNotSuspected) {
    constexpr std::size_t kStarted = 0;
    constexpr std::size_t kCalled = 1;
    const std::uint32_t ranks = GetParam().ranks;
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (int i = 0; i < 20; ++i)
            COPPICE_CHECK(agree(member).failed == 0);
        member.notes[kStarted].fetch_add(1);
        if (member.rank == 1) raise(SIGSTOP);
        member.notes[kCalled].fetch_add(1);
        for (int i = 0; i < 20; ++i) {
            const Outcome outcome = agree(member);
            COPPICE_CHECK(outcome.failed == 0 && outcome.contributors == (std::uint64_t{1} << ranks) - 1);
        }
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kCalled, ranks - 1));
    // The others are in their calls; nothing but the passing of time could make them suspect it.
    usleep(300'000);
    EXPECT_EQ(job.note(kCalled), ranks - 1);
    EXPECT_TRUE(await_stopped(job.processes(), 1));
    job.processes().signal(1, SIGCONT);
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, AgreementsAndBroadcastsMayBeMixed) {
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = COPPICE_MAX;
        options.type = COPPICE_INT64;
        for (std::int64_t round = 0; round < 50; ++round) {
            constexpr std::size_t kMany = 8;
            std::int64_t values[kMany];
            coppice_request_t* agreements[kMany];
            coppice_request_t* broadcasts[kMany];
            std::uint64_t payloads[kMany];
            for (std::size_t i = 0; i < kMany; ++i) {
                values[i] = -static_cast<std::int64_t>(member.rank) - static_cast<std::int64_t>(i) - 1000 * round;
                COPPICE_CHECK(coppice_agree_nb(member.group, &values[i], sizeof values[i], &options, &agreements[i]) ==
                              COPPICE_OK);
                const auto root = static_cast<std::uint32_t>(i) % member.ranks;
                payloads[i] = member.rank == root ? i + 7 : 0;
                COPPICE_CHECK(coppice_broadcast_nb(member.group, &payloads[i], sizeof payloads[i], root,
                                                   &broadcasts[i]) == COPPICE_OK);
            }
            std::int64_t one_more = 0;
            coppice_request_t* refused = nullptr;
            const coppice_status_t full =
                coppice_agree_nb(member.group, &one_more, sizeof one_more, &options, &refused);
            // Progress within the call may have made room.
            COPPICE_CHECK(full == COPPICE_ERR_BUSY || full == COPPICE_OK);
            if (full == COPPICE_OK) {
                COPPICE_CHECK(coppice_request_wait(refused, nullptr, kTimeout) == COPPICE_OK);
                COPPICE_CHECK(coppice_request_free(refused) == COPPICE_OK);
            } else {
                COPPICE_CHECK(coppice_agree(member.group, &one_more, sizeof one_more, &options, kTimeout) ==
                              COPPICE_OK);
            }
            for (std::size_t i = kMany; i-- > 0;) {
                COPPICE_CHECK(coppice_request_wait(broadcasts[i], nullptr, kTimeout) == COPPICE_OK);
                COPPICE_CHECK(payloads[i] == i + 7);
                COPPICE_CHECK(coppice_request_wait(agreements[i], nullptr, kTimeout) == COPPICE_OK);
                COPPICE_CHECK(values[i] == -static_cast<std::int64_t>(i) - 1000 * round);
                std::size_t count = 1;
                COPPICE_CHECK(coppice_request_agreed(agreements[i], nullptr, 0, &count) == COPPICE_OK && count == 0);
                COPPICE_CHECK(coppice_request_free(broadcasts[i]) == COPPICE_OK);
                COPPICE_CHECK(coppice_request_free(agreements[i]) == COPPICE_OK);
            }
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// As many under way as the group's window lets, and the next one is refused as long as somebody has not contributed.
TEST_P(EveryLayout, AsManyAreUnderWayAsTheWindowLets) {
    constexpr std::size_t kRefused = 0;
    for (const std::uint32_t window : {1U, 16U}) {
        JobOptions job_options = GetParam().job();
        job_options.environment["COPPICE_AGREEMENT_WINDOW"] = std::to_string(window);
        Job job(job_options, [&](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
            options.operation = COPPICE_OR;
            std::uint64_t values[16];
            coppice_request_t* requests[16];
            if (member.rank == 0) member.await_note(kRefused, member.ranks - 1);
            for (std::uint32_t i = 0; i < window; ++i) {
                values[i] = std::uint64_t{1} << member.rank;
                COPPICE_CHECK(coppice_agree_nb(member.group, &values[i], sizeof values[i], &options, &requests[i]) ==
                              COPPICE_OK);
            }
            if (member.rank != 0) {
                coppice_request_t* refused = nullptr;
                std::uint64_t value = 0;
                COPPICE_CHECK(coppice_agree_nb(member.group, &value, sizeof value, &options, &refused) ==
                              COPPICE_ERR_BUSY);
                member.notes[kRefused].fetch_add(1);
            }
            for (std::uint32_t i = 0; i < window; ++i) {
                COPPICE_CHECK(coppice_request_wait(requests[i], nullptr, kTimeout) == COPPICE_OK);
                COPPICE_CHECK(values[i] == (std::uint64_t{1} << member.ranks) - 1);
                COPPICE_CHECK(coppice_request_free(requests[i]) == COPPICE_OK);
            }
            member.leave();
        });
        EXPECT_EQ(job.finish(), "") << window;
    }
}

TEST_P(EveryLayout, DifferentSizesOrOperationsAreAMismatchEverywhere) {
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t value[2] = {member.rank, 5};
        const std::size_t bytes = member.rank == 1 ? 16 : 8;
        COPPICE_CHECK(coppice_agree(member.group, value, bytes, nullptr, kTimeout) == COPPICE_ERR_MISMATCH);
        COPPICE_CHECK(value[0] == member.rank && value[1] == 5);
        COPPICE_CHECK(std::strstr(coppice_last_error(), "agreement 0") != nullptr);

        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = member.rank == member.ranks - 1 ? COPPICE_MAX : COPPICE_MIN;
        COPPICE_CHECK(coppice_agree(member.group, value, 8, &options, kTimeout) == COPPICE_ERR_MISMATCH);
        options.operation = COPPICE_MIN;
        options.type = member.rank == 0 ? COPPICE_INT64 : COPPICE_UINT64;
        COPPICE_CHECK(coppice_agree(member.group, value, 8, &options, kTimeout) == COPPICE_ERR_MISMATCH);
        // And nothing is spoilt by it.
        options.type = COPPICE_UINT64;
        COPPICE_CHECK(coppice_agree(member.group, value, 8, &options, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(value[0] == 0);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, AFunctionOfTheCallersOwnCombines) {
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = COPPICE_COMBINE;
        std::uint64_t calls = 0;
        options.combine_argument = &calls;
        // The pair with the larger first half, as MPI's MAXLOC.
        options.combine = [](void* argument, void* into, const void* from, std::size_t bytes) {
            ++*static_cast<std::uint64_t*>(argument);
            std::uint64_t a[2];
            std::uint64_t b[2];
            std::memcpy(a, into, bytes);
            std::memcpy(b, from, bytes);
            if (b[0] > a[0] || (b[0] == a[0] && b[1] < a[1])) std::memcpy(into, from, bytes);
        };
        for (std::uint64_t number = 0; number < 100; ++number) {
            std::uint64_t value[2] = {(member.rank + number) % member.ranks, member.rank};
            COPPICE_CHECK(coppice_agree(member.group, value, sizeof value, &options, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(value[0] == member.ranks - 1 && (value[1] + number) % member.ranks == value[0]);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, ATimeoutNamesTheRanksItWaitsForAndLosesNothing) {
    constexpr std::size_t kTimedOut = 0;
    const std::uint32_t late = GetParam().ranks - 1;
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t value = 6;
        if (member.rank == late) {
            member.await_note(kTimedOut, member.ranks - 1);
        } else {
            COPPICE_CHECK(coppice_agree(member.group, &value, 8, nullptr, 1'000'000) == COPPICE_ERR_TIMEOUT);
            COPPICE_CHECK(std::strstr(coppice_last_error(), "waiting for rank") != nullptr);
            member.notes[kTimedOut].fetch_add(1);
        }
        if (member.rank == late) COPPICE_CHECK(coppice_agree(member.group, &value, 8, nullptr, kTimeout) == COPPICE_OK);
        value = member.rank;
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = COPPICE_MAX;
        COPPICE_CHECK(coppice_agree(member.group, &value, 8, &options, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(value == member.ranks - 1);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Agreement, WhatMakesNoSenseIsRefusedByName) {
    Job job({.ranks = 2}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t value[64] = {};
        coppice_request_t* request = nullptr;
        std::size_t count = 7;
        const auto refuses = [](coppice_status_t status, coppice_status_t expected, const char* word) {
            return status == expected && std::strstr(coppice_last_error(), word) != nullptr;
        };
        COPPICE_CHECK(refuses(coppice_agree(nullptr, value, 8, nullptr, 0), COPPICE_ERR_INVALID_ARGUMENT, "group"));
        COPPICE_CHECK(
            refuses(coppice_agree_nb(nullptr, value, 8, nullptr, &request), COPPICE_ERR_INVALID_ARGUMENT, "group"));
        COPPICE_CHECK(refuses(coppice_agree_nb(member.group, value, 8, nullptr, nullptr), COPPICE_ERR_INVALID_ARGUMENT,
                              "request"));
        COPPICE_CHECK(
            refuses(coppice_agree(member.group, nullptr, 8, nullptr, 0), COPPICE_ERR_INVALID_ARGUMENT, "NULL"));
        COPPICE_CHECK(refuses(coppice_agree(member.group, value, 257, nullptr, 0), COPPICE_ERR_TOO_LARGE, "256"));
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.struct_size = 3;
        COPPICE_CHECK(
            refuses(coppice_agree(member.group, value, 8, &options, 0), COPPICE_ERR_INVALID_ARGUMENT, "INIT"));
        options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = COPPICE_MAX;
        COPPICE_CHECK(
            refuses(coppice_agree(member.group, value, 6, &options, 0), COPPICE_ERR_INVALID_ARGUMENT, "whole number"));
        options.operation = COPPICE_COMBINE;
        COPPICE_CHECK(
            refuses(coppice_agree(member.group, value, 8, &options, 0), COPPICE_ERR_INVALID_ARGUMENT, "function"));
        COPPICE_CHECK(
            refuses(coppice_group_agreed(member.group, nullptr, 3, &count), COPPICE_ERR_INVALID_ARGUMENT, "ranks"));
        COPPICE_CHECK(
            refuses(coppice_group_agreed(member.group, nullptr, 0, nullptr), COPPICE_ERR_INVALID_ARGUMENT, "count"));
        COPPICE_CHECK(coppice_group_agreed(member.group, nullptr, 0, &count) == COPPICE_OK && count == 0);
        const std::uint32_t other = 1 - member.rank;
        COPPICE_CHECK(refuses(coppice_group_ack_failed(member.group, &other, 1), COPPICE_ERR_INVALID_ARGUMENT, "rank"));
        const std::uint32_t nobody = 2;
        COPPICE_CHECK(refuses(coppice_group_ack_failed(member.group, &nobody, 1), COPPICE_ERR_OUT_OF_RANGE, "rank 2"));
        COPPICE_CHECK(coppice_group_ack_failed(member.group, nullptr, 0) == COPPICE_OK);
        // None of that has begun anything.
        COPPICE_CHECK(coppice_agree(member.group, nullptr, 0, nullptr, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_agree(member.group, value, 256, nullptr, kTimeout) == COPPICE_OK);
        // A broadcast's request has no agreed set.
        COPPICE_CHECK(coppice_broadcast_nb(member.group, value, 8, 0, &request) == COPPICE_OK);
        COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_request_agreed(request, nullptr, 0, &count) == COPPICE_ERR_INVALID_ARGUMENT);
        COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Agreement, OneRankAloneAgreesWithItself) {
    Job job({.ranks = 1}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t value = 9;
        COPPICE_CHECK(coppice_agree(member.group, &value, 8, nullptr, kTimeout) == COPPICE_OK && value == 9);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// A rank has had its result and does something else for long; the others, which need it to come to terms about a death,
// get their answer from its progress thread.
TEST_P(EveryLayout, AProgressThreadAnswersLateQuestions) {
    constexpr std::size_t kStarted = 0;
    constexpr std::size_t kFinished = 1;
    JobOptions options = GetParam().job();
    options.environment["COPPICE_PROGRESS_THREAD"] = "1";
    const std::uint32_t ranks = GetParam().ranks;
    Job job(options, [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        COPPICE_CHECK(agree(member).failed == 0);
        coppice_agree_options_t agree_options = COPPICE_AGREE_OPTIONS_INIT;
        agree_options.operation = COPPICE_OR;
        std::uint64_t value = 1;
        coppice_request_t* request = nullptr;
        if (member.rank == 1) {
            member.notes[kStarted].fetch_add(1);
            while (true)
                pause();
        }
        COPPICE_CHECK(coppice_agree_nb(member.group, &value, 8, &agree_options, &request) == COPPICE_OK);
        member.notes[kStarted].fetch_add(1);
        if (member.rank == 2) {
            while (member.notes[kFinished] < ranks - 2)
                usleep(100);  // in no call of the library
        }
        COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_ERR_PEER_FAILED);
        COPPICE_CHECK(agreed_mask(member.group) == 2);
        COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        member.notes[kFinished].fetch_add(1);
        member.leave();
    });
    ASSERT_TRUE(job.await_note(kStarted, ranks));
    job.kill(1, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "");
}

}  // namespace
}  // namespace coppice::testing
