// Groups that are shrunk, among real processes that are really killed: the survivors go on, whichever rank dies when.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <numeric>
#include <set>

#include "integration/lineage.hpp"

namespace coppice::testing {
namespace {

class EveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Shrink, EveryLayout, ::testing::ValuesIn(ways_to_be_connected(6)),
                         [](const auto& layout) { return std::string(layout.param.name); });

TEST_P(EveryLayout, WithoutADeathItIsADuplicate) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        work(old, member);
        const Lineage next = old.shrink();
        next.check(member);
        COPPICE_CHECK(next.first.size() == member.ranks);
        // Both are good, and know nothing of each other.
        for (std::uint64_t round = 0; round < 5; ++round) {
            work(next, member, 2 * round);
            work(old, member, 2 * round + 1);
        }
        COPPICE_CHECK(coppice_group_destroy(old.group, kTimeout) == COPPICE_OK);
        work(next, member, 77);
        COPPICE_CHECK(info_of(next.group).garbage == 0);
        leave(member, next);
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, TheNewGroupMayEndFirst) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        for (std::uint64_t round = 0; round < 20; ++round) {
            const Lineage next = old.shrink();
            if (round % 2 == 0) work(next, member, round);
            COPPICE_CHECK(coppice_group_destroy(next.group, kTimeout) == COPPICE_OK);
            work(old, member, 100 + round);
        }
        leave(member, old);
    });
    EXPECT_EQ(job.finish(), "");
}

void go_on_without(const Layout& layout, const std::vector<std::uint32_t>& victims, bool reap, bool revoke) {
    Job job(layout.job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        Lineage lineage = Lineage::begin(member);
        work(lineage, member);
        member.notes[0].fetch_add(1);
        // Somebody waits in a broadcast, others in an agreement; nobody gets both.
        std::uint64_t value = 0;
        coppice_status_t status = COPPICE_OK;
        if (std::ranges::count(victims, member.rank) > 0) {
            while (true)
                pause();
        }
        while (status == COPPICE_OK)
            status = coppice_agree(member.group, &value, sizeof value, nullptr, kTimeout);
        if (revoke) COPPICE_CHECK(coppice_group_revoke(member.group) == COPPICE_OK);
        lineage = shrink_until_gone(lineage, member, victims);
        COPPICE_CHECK(lineage.first.size() == member.ranks - victims.size());
        std::size_t failed = 1;
        COPPICE_CHECK(coppice_group_failed(lineage.group, nullptr, 0, &failed) == COPPICE_OK && failed == 0);
        for (std::uint64_t round = 0; round < 5; ++round)
            work(lineage, member, 10 * round);
        leave(member, lineage);
    });
    ASSERT_TRUE(job.await_note(0, layout.ranks));
    for (const std::uint32_t victim : victims)
        job.kill(victim, reap);
    EXPECT_EQ(job.finish([&](std::uint32_t rank) { return std::ranges::count(victims, rank) > 0; }), "");
}

TEST_P(EveryLayout, SurvivorsOfOneGoOn) {
    go_on_without(GetParam(), {1}, true, true);
}
TEST_P(EveryLayout, SurvivorsOfTheirLeaderGoOn) {
    go_on_without(GetParam(), {0}, false, false);
}
TEST_P(EveryLayout, SurvivorsOfHalfOfThemGoOn) {
    std::vector<std::uint32_t> victims;
    for (std::uint32_t rank = GetParam().ranks / 2; rank < GetParam().ranks; ++rank)
        victims.push_back(rank);
    go_on_without(GetParam(), victims, true, true);
}
TEST_P(EveryLayout, TheLastOneGoesOnAlone) {
    std::vector<std::uint32_t> victims(GetParam().ranks - 1);
    std::iota(victims.begin(), victims.end(), 0U);
    go_on_without(GetParam(), victims, true, true);
}

TEST_P(EveryLayout, OneAfterTheOtherDownToOne) {
    const auto run = [](const Layout& layout, bool lowest, bool keep) {
        Job job(layout.job(), [&](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            Lineage lineage = Lineage::begin(member);
            std::vector<coppice_group_t*> old;
            while (lineage.first.size() > 1) {
                work(lineage, member, lineage.first.size());
                // Nobody revokes it before all have done their work.
                member.notes[lineage.first.size()].fetch_add(1);
                member.await_note(lineage.first.size(), lineage.first.size());
                const std::uint32_t victim = lowest ? lineage.first.front() : lineage.first.back();
                if (member.rank == victim) raise(SIGKILL);
                COPPICE_CHECK(keep || coppice_group_revoke(lineage.group) == COPPICE_OK);
                lineage = shrink_until_gone(lineage, member, {victim}, keep ? &old : nullptr);
            }
            work(lineage, member, 5);
            for (coppice_group_t* group : old)
                COPPICE_CHECK(coppice_group_destroy(group, kTimeout) == COPPICE_OK);
            leave(member, lineage);
        });
        const std::uint32_t last = lowest ? layout.ranks - 1 : 0;
        EXPECT_EQ(job.finish([&](std::uint32_t rank) { return rank != last; }), "");
    };
    run(GetParam(), true, false);
    run(GetParam(), false, false);
}

// SIGKILL before and after each message (or each `step`-th) that the victims would send, to the last of their lives.
void kill_at_every_message(const Layout& layout, const std::vector<std::uint32_t>& victims, int step) {
    for (const char* moment : {"kill-before", "kill-after"}) {
        bool killed = true;
        for (int message = 1; killed; message += step) {
            ASSERT_LT(message, 400) << "shrinking " << layout.ranks << " ranks does not take so many messages";
            JobOptions options = layout.job();
            const std::string faults = faults_at(moment, message, victims);
            options.environment["COPPICE_FAULTS"] = faults;
            Job job(options, [&](Member& member) {
                COPPICE_CHECK(member.join() == COPPICE_OK);
                Lineage lineage = Lineage::begin(member);
                Lineage next = lineage.shrink();
                next.check(member);
                std::uint64_t members = 0;
                for (const std::uint32_t rank : next.first)
                    members |= std::uint64_t{1} << rank;
                member.notes[member.rank] = members;
                COPPICE_CHECK(coppice_group_revoke(lineage.group) == COPPICE_OK);
                COPPICE_CHECK(coppice_group_destroy(lineage.group, kTimeout) == COPPICE_OK);
                // All agree in the new group until they know whether somebody has died; then without it.
                std::uint64_t value = 0;
                (void)coppice_agree(next.group, &value, sizeof value, nullptr, kTimeout);
                lineage = next;
                next = lineage.shrink();
                member.notes[16 + member.rank] = next.first.size();
                COPPICE_CHECK(coppice_group_revoke(lineage.group) == COPPICE_OK);
                COPPICE_CHECK(coppice_group_destroy(lineage.group, kTimeout) == COPPICE_OK);
                COPPICE_CHECK(coppice_group_destroy(next.group, kTimeout) == COPPICE_OK);
                COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
            });
            const auto is_victim = [&](std::uint32_t rank) { return std::ranges::count(victims, rank) > 0; };
            ASSERT_EQ(job.finish(is_victim), "") << faults;
            std::set<std::uint64_t> first;
            std::set<std::uint64_t> second;
            killed = false;
            for (std::uint32_t rank = 0; rank < layout.ranks; ++rank) {
                const bool died = job.ending(rank).killed_by(SIGKILL);
                killed = killed || died;
                if (died) continue;
                first.insert(job.note(rank).load());
                second.insert(job.note(16 + rank).load());
                EXPECT_NE(job.note(rank).load() & std::uint64_t{1} << rank, 0U) << faults;
            }
            EXPECT_EQ(first.size(), 1U) << faults << ": survivors differ about the members of the new group";
            EXPECT_EQ(second.size(), 1U) << faults << ": survivors differ about the members of the second group";
        }
    }
}

TEST_P(EveryLayout, TheRootOfTheAgreementMayDieAtEveryMessage) {
    kill_at_every_message(GetParam(), {0}, GetParam().uses_network() ? 3 : 1);
}
TEST_P(EveryLayout, AnotherMayDieAtEveryMessage) {
    kill_at_every_message(GetParam(), {GetParam().ranks - 1}, GetParam().uses_network() ? 3 : 1);
}
TEST_P(EveryLayout, TwoMayDieAtTheSameMessages) {
    kill_at_every_message(GetParam(), {0, 1}, GetParam().uses_network() ? 4 : 2);
}

TEST_P(EveryLayout, WhatIsUnderWayInTheOldGroupNeverReachesTheNewOne) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        // The last rank takes no part in these; they are under way until it leaves.
        constexpr std::size_t kMany = 12;
        std::vector<std::vector<unsigned char>> buffers;
        std::vector<coppice_request_t*> requests;
        const bool late = member.rank == member.ranks - 1;
        for (std::size_t i = 0; i < kMany && !late; ++i) {
            const auto root = static_cast<std::uint32_t>(i % 2);
            buffers.push_back(payload_of(1000 + i, root, 4000));
            if (member.rank != root) std::ranges::fill(buffers.back(), 0);
            requests.push_back(nullptr);
            COPPICE_CHECK(coppice_broadcast_nb(old.group, buffers.back().data(), 4000, root, &requests.back()) ==
                          COPPICE_OK);
        }
        const Lineage next = old.shrink();
        for (std::uint64_t round = 0; round < 3; ++round)
            work(next, member, 10 * round);
        COPPICE_CHECK(coppice_group_revoke(old.group) == COPPICE_OK);
        for (coppice_request_t* request : requests) {
            const coppice_status_t status = coppice_request_wait(request, nullptr, kTimeout);
            COPPICE_CHECK(status == COPPICE_OK || status == COPPICE_ERR_REVOKED);
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        }
        for (std::uint64_t round = 0; round < 3; ++round)
            work(next, member, 100 + 10 * round);
        COPPICE_CHECK(coppice_group_destroy(old.group, kTimeout) == COPPICE_OK);
        work(next, member, 200);
        COPPICE_CHECK(info_of(next.group).garbage == 0);
        leave(member, next);
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(EveryLayout, ATimeoutNamesTheRanksItWaitsForAndACallGoesOnWithIt) {
    constexpr std::size_t kTimedOut = 0;
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        const std::uint32_t late = member.ranks - 1;
        Lineage next;
        if (member.rank == late) {
            member.await_note(kTimedOut, member.ranks - 1);
        } else {
            COPPICE_CHECK(coppice_group_shrink(old.group, &next.group, 1'000'000) == COPPICE_ERR_TIMEOUT);
            COPPICE_CHECK(next.group == nullptr && std::strstr(coppice_last_error(), "waiting for rank") != nullptr);
            member.notes[kTimedOut].fetch_add(1);
        }
        coppice_request_t* request = nullptr;
        coppice_request_t* second = nullptr;
        coppice_group_t* nothing = nullptr;
        COPPICE_CHECK(coppice_group_shrink_nb(old.group, &next.group, &request) == COPPICE_OK);
        const coppice_status_t busy = coppice_group_shrink_nb(old.group, &nothing, &second);
        if (busy == COPPICE_OK) {  // the first one had ended at once
            COPPICE_CHECK(coppice_request_free(second) == COPPICE_OK);
        } else {
            COPPICE_CHECK(busy == COPPICE_ERR_BUSY && second == nullptr);
        }
        COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(next.group != nullptr);
        std::size_t count = 9;
        COPPICE_CHECK(coppice_request_agreed(request, nullptr, 0, &count) == COPPICE_OK && count == 0);
        COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        next = next.of(old);
        work(next, member);
        COPPICE_CHECK(coppice_group_destroy(next.group, kTimeout) == COPPICE_OK);
        (void)coppice_group_destroy(old.group, 0);
        COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
