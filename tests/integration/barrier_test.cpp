// Barriers among real processes that are really killed: nobody is through before every live rank has entered.
#include <gtest/gtest.h>

#include <coppice/coppice.hpp>
#include <csignal>
#include <set>
#include <string>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

const std::uint64_t kTimeout = kDeadlineNs;

class EveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Barrier, EveryLayout, ::testing::ValuesIn(ways_to_be_connected(5)),
                         [](const auto& layout) { return std::string(layout.param.name); });

std::uint64_t agreed_mask(coppice_group_t* group) {
    std::uint32_t ranks[64];
    std::size_t count = 0;
    COPPICE_CHECK(coppice_group_agreed(group, ranks, 64, &count) == COPPICE_OK);
    std::uint64_t mask = 0;
    for (std::size_t i = 0; i < count; ++i)
        mask |= std::uint64_t{1} << ranks[i];
    return mask;
}

// notes[rank]: how many barriers it has entered.
void enter(Member& member) {
    member.notes[member.rank].fetch_add(1);
}

// Behind the `number`-th barrier: all have entered it, but those that all hold to be dead.
void check_through(Member& member, std::uint64_t number) {
    const std::uint64_t failed = agreed_mask(member.group);
    for (std::uint32_t rank = 0; rank < member.ranks; ++rank)
        COPPICE_CHECK((failed >> rank & 1) != 0 || member.notes[rank].load() > number);
}

// What barriers ended with, from notes[ranks] on.
std::size_t note_of(std::uint32_t ranks, std::uint32_t rank, std::uint64_t count, std::uint64_t number) {
    return ranks + rank * count + number;
}

void meet_often(Member& member, std::uint64_t count) {
    for (std::uint64_t number = 0; number < count; ++number) {
        enter(member);
        const coppice_status_t status = coppice_barrier(member.group, kTimeout);
        if (status != COPPICE_OK && status != COPPICE_ERR_PEER_FAILED) throw CheckFailed(coppice_last_error());
        check_through(member, number);
        const std::uint64_t failed = agreed_mask(member.group);
        COPPICE_CHECK((status == COPPICE_OK) == (failed == 0));
        member.notes[note_of(member.ranks, member.rank, count, number)] = failed << 1 | 1;
    }
}

TEST_P(EveryLayout, NobodyIsThroughBeforeAllHaveEntered) {
    constexpr std::uint64_t kCount = 100;
    const std::uint32_t ranks = GetParam().ranks;
    Job job(
        GetParam().job(),
        [&](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            meet_often(member, kCount);
            member.leave();
        },
        ranks * (kCount + 1));
    EXPECT_EQ(job.finish(), "");
}

// SIGKILL before and after each message that the victims would send, until they send no more.
void kill_at_every_message(const Layout& layout, const std::set<std::uint32_t>& victims) {
    constexpr std::uint64_t kCount = 3;
    for (const char* moment : {"kill-before", "kill-after"}) {
        bool killed = true;
        for (int message = 1; killed; ++message) {
            ASSERT_LT(message, 200) << "barriers of " << layout.ranks << " ranks do not take so many messages";
            JobOptions options = layout.job();
            const std::string faults = faults_at(moment, message, {victims.begin(), victims.end()});
            options.environment["COPPICE_FAULTS"] = faults;
            Job job(
                options,
                [&](Member& member) {
                    COPPICE_CHECK(member.join() == COPPICE_OK);
                    meet_often(member, kCount);
                    member.leave();
                },
                layout.ranks * (kCount + 1));
            ASSERT_EQ(job.finish([&](std::uint32_t rank) { return victims.contains(rank); }), "") << faults;
            killed = false;
            std::set<std::uint32_t> living;
            for (std::uint32_t rank = 0; rank < layout.ranks; ++rank) {
                const bool is_dead = victims.contains(rank) && job.ending(rank).killed_by(SIGKILL);
                killed = killed || is_dead;
                if (!is_dead) living.insert(rank);
            }
            for (std::uint64_t number = 0; number < kCount; ++number) {
                std::set<std::uint64_t> told;
                for (const std::uint32_t rank : living)
                    told.insert(job.note(note_of(layout.ranks, rank, kCount, number)));
                EXPECT_EQ(told.size(), 1U)
                    << faults << ": survivors of barrier " << number << " are told different deaths";
            }
        }
    }
}

TEST_P(EveryLayout, TheRootMayDieAtEveryMessage) {
    kill_at_every_message(GetParam(), {0});
}
TEST_P(EveryLayout, ALeafMayDieAtEveryMessage) {
    kill_at_every_message(GetParam(), {GetParam().ranks - 1});
}
TEST_P(EveryLayout, AllButOneMayDieAtEveryMessage) {
    std::set<std::uint32_t> victims;
    for (std::uint32_t rank = 0; rank + 1 < GetParam().ranks; ++rank)
        victims.insert(rank);
    kill_at_every_message(GetParam(), victims);
}

TEST_P(EveryLayout, SurvivorsAreToldOfADeathUntilAllHaveAcknowledgedIt) {
    const std::uint32_t ranks = GetParam().ranks;
    Job job(GetParam().job(), [&](Member& member) {
        constexpr std::uint32_t kVictim = 1;
        COPPICE_CHECK(member.join() == COPPICE_OK);
        COPPICE_CHECK(coppice_barrier(member.group, kTimeout) == COPPICE_OK);
        member.notes[0].fetch_add(1);
        if (member.rank == kVictim) {
            member.await_note(0, ranks);
            raise(SIGKILL);
        }
        for (int i = 0; i < 2; ++i) {
            COPPICE_CHECK(coppice_barrier(member.group, kTimeout) == COPPICE_ERR_PEER_FAILED);
            const std::string said = coppice_last_error();
            COPPICE_CHECK(said.starts_with("barrier: ") && said.find("rank 1 failed") != std::string::npos);
            COPPICE_CHECK(agreed_mask(member.group) == std::uint64_t{1} << kVictim);
        }
        COPPICE_CHECK(coppice_group_ack_failed(member.group, &kVictim, 1) == COPPICE_OK);
        COPPICE_CHECK(coppice_barrier(member.group, kTimeout) == COPPICE_OK);
        member.leave();
    });
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "");
}

TEST_P(EveryLayout, ATimeoutNamesARankThatHasNotEnteredAndTheOneThatHasCounts) {
    const std::uint32_t ranks = GetParam().ranks;
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        COPPICE_CHECK(coppice_barrier(member.group, kTimeout) == COPPICE_OK);
        if (member.rank == 0) {
            COPPICE_CHECK(coppice_barrier(member.group, 1'000'000) == COPPICE_ERR_TIMEOUT);
            const std::string said = coppice_last_error();
            COPPICE_CHECK(said.starts_with("barrier: ") && said.find("rank") != std::string::npos);
            member.notes[0] = 1;
        } else {
            member.await_note(0, 1);
            COPPICE_CHECK(coppice_barrier(member.group, kTimeout) == COPPICE_OK);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "") << ranks;
}

TEST_P(EveryLayout, RequestsAndBroadcastsMayBeMixed) {
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        for (std::uint64_t round = 0; round < 50; ++round) {
            const std::uint32_t root = static_cast<std::uint32_t>(round) % member.ranks;
            std::uint64_t payload = member.rank == root ? round + 7 : 0;
            coppice_request_t* barrier = nullptr;
            coppice_request_t* broadcast = nullptr;
            enter(member);
            COPPICE_CHECK(coppice_barrier_nb(member.group, &barrier) == COPPICE_OK);
            COPPICE_CHECK(coppice_broadcast_nb(member.group, &payload, sizeof payload, root, &broadcast) == COPPICE_OK);
            COPPICE_CHECK(coppice_request_wait(broadcast, nullptr, kTimeout) == COPPICE_OK && payload == round + 7);
            COPPICE_CHECK(coppice_request_wait(barrier, nullptr, kTimeout) == COPPICE_OK);
            check_through(member, round);
            std::size_t count = 1;
            COPPICE_CHECK(coppice_request_agreed(barrier, nullptr, 0, &count) == COPPICE_OK && count == 0);
            COPPICE_CHECK(coppice_request_free(barrier) == COPPICE_OK);
            COPPICE_CHECK(coppice_request_free(broadcast) == COPPICE_OK);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// A barrier counts as an agreement on nothing.
TEST_P(EveryLayout, RanksThatAgreeOnAValueInsteadAreAMismatch) {
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint32_t value = 1;
        const coppice_status_t status = member.rank == 0
                                            ? coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout)
                                            : coppice_barrier(member.group, kTimeout);
        COPPICE_CHECK(status == COPPICE_ERR_MISMATCH);
        COPPICE_CHECK(coppice_barrier(member.group, kTimeout) == COPPICE_OK);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Barrier, OfARevokedGroupIsRefusedAndOneThatIsPendingEnds) {
    Job job({.ranks = 3}, [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        if (member.rank == 2) COPPICE_CHECK(coppice_group_revoke(member.group) == COPPICE_OK);
        COPPICE_CHECK(coppice_barrier(member.group, kTimeout) == COPPICE_ERR_REVOKED);
        COPPICE_CHECK(coppice_barrier(member.group, kTimeout) == COPPICE_ERR_REVOKED);
        coppice_request_t* request = nullptr;
        COPPICE_CHECK(coppice_barrier_nb(member.group, &request) == COPPICE_ERR_REVOKED && request == nullptr);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Barrier, WrongArgumentsAreRefused) {
    Job job({.ranks = 1}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        coppice_request_t* request = nullptr;
        COPPICE_CHECK(coppice_barrier(nullptr, kTimeout) == COPPICE_ERR_INVALID_ARGUMENT);
        COPPICE_CHECK(coppice_barrier_nb(nullptr, &request) == COPPICE_ERR_INVALID_ARGUMENT);
        COPPICE_CHECK(coppice_barrier_nb(member.group, nullptr) == COPPICE_ERR_INVALID_ARGUMENT);
        COPPICE_CHECK(coppice_barrier(member.group, 0) == COPPICE_OK);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Barrier, InCpp) {
    Job job({.ranks = 3}, [](Member& member) {
        auto context = Context::create();
        GroupOptions options;
        options.rank = member.rank;
        options.size = member.ranks;
        options.exchange = [&member](std::span<const std::byte> mine, std::span<std::byte> all) {
            return member.exchange(mine, all);
        };
        Group group = Group::create(context, options);
        enter(member);
        COPPICE_CHECK(group.barrier().acknowledged);
        for (std::uint32_t rank = 0; rank < member.ranks; ++rank)
            COPPICE_CHECK(member.notes[rank].load() == 1);
        {
            Request request = group.barrier_nb();
            request.wait();
        }
        COPPICE_CHECK(group.try_barrier() == Status::kOk);
        group.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
