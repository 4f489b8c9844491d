// What else may happen to groups that are shrunk: callbacks, limits, calls that make no sense, members that go away
// meanwhile, and the C++ interface.
#include <gtest/gtest.h>

#include <array>
#include <coppice/coppice.hpp>
#include <csignal>
#include <cstring>

#include "integration/lineage.hpp"

namespace coppice::testing {
namespace {

class EveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Shrink, EveryLayout, ::testing::ValuesIn(ways_to_be_connected(6)),
                         [](const auto& layout) { return std::string(layout.param.name); });

TEST(Shrink, TheFailureCallbackGoesWithTheGroup) {
    struct Seen {
        std::vector<std::pair<const coppice_group_t*, std::uint32_t>> deaths;
    };
    Job job({.ranks = 4}, [](Member& member) {
        Seen seen;
        coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
        options.on_failure_argument = &seen;
        options.on_failure = [](void* argument, coppice_group_t* group, std::uint32_t rank) {
            static_cast<Seen*>(argument)->deaths.emplace_back(group, rank);
        };
        COPPICE_CHECK(member.join(options) == COPPICE_OK);
        Lineage lineage = Lineage::begin(member);
        work(lineage, member);
        if (member.rank == 1) raise(SIGKILL);
        lineage = shrink_until_gone(lineage, member, {1});
        seen.deaths.clear();
        work(lineage, member);
        if (member.rank == 3) raise(SIGKILL);  // the new group's 2
        std::uint64_t value = 0;
        coppice_status_t status = COPPICE_OK;
        while (status == COPPICE_OK)
            status = coppice_agree(lineage.group, &value, sizeof value, nullptr, kTimeout);
        member.await_call("to be told of a death", [&] { return !seen.deaths.empty(); });
        COPPICE_CHECK(seen.deaths.size() == 1 && seen.deaths[0].first == lineage.group && seen.deaths[0].second == 2);
        leave(member, lineage);
    });
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank % 2 == 1; }), "");
}

TEST(Shrink, AProgressThreadMovesTheNewGroupToo) {
    JobOptions options{.ranks = 4, .hosts = 2};
    options.context.progress_thread = 1;
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        Lineage lineage = Lineage::begin(member);
        work(lineage, member);
        if (member.rank == 0) raise(SIGKILL);
        lineage = shrink_until_gone(lineage, member, {0});
        work(lineage, member);
        leave(member, lineage);
    });
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
}

TEST(Shrink, AsManyGroupsAsShareMemoryAndNoMore) {
    Job job({.ranks = 3}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        for (int again = 0; again < 3; ++again) {
            std::vector<Lineage> all;
            coppice_group_t* one_more = nullptr;
            coppice_status_t status = COPPICE_OK;
            for (status = coppice_group_shrink(old.group, &one_more, kTimeout); status == COPPICE_OK;
                 status = coppice_group_shrink(old.group, &one_more, kTimeout)) {
                all.push_back(Lineage{one_more, {}}.of(old));
                COPPICE_CHECK(all.size() < 20);
            }
            COPPICE_CHECK(status == COPPICE_ERR_NO_RESOURCES && one_more == nullptr);
            COPPICE_CHECK(std::strstr(coppice_last_error(), "destroy groups") != nullptr);
            COPPICE_CHECK(all.size() >= 6);
            for (const Lineage& next : all)
                work(next, member, all.size());
            for (const Lineage& next : all)
                COPPICE_CHECK(coppice_group_destroy(next.group, kTimeout) == COPPICE_OK);
            // All have left these groups: the next one can have the memory.
            COPPICE_CHECK(coppice_group_shrink(old.group, &one_more, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(coppice_group_destroy(one_more, kTimeout) == COPPICE_OK);
        }
        leave(member, old);
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Shrink, WhatMakesNoSenseIsRefusedByName) {
    Job job({.ranks = 2}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        coppice_group_t* next = nullptr;
        coppice_request_t* request = nullptr;
        const auto refuses = [](coppice_status_t status, const char* word) {
            return status == COPPICE_ERR_INVALID_ARGUMENT && std::strstr(coppice_last_error(), word) != nullptr;
        };
        COPPICE_CHECK(refuses(coppice_group_shrink(nullptr, &next, 0), "group"));
        COPPICE_CHECK(refuses(coppice_group_shrink(member.group, nullptr, 0), "shrunk"));
        COPPICE_CHECK(refuses(coppice_group_shrink_nb(nullptr, &next, &request), "group"));
        COPPICE_CHECK(refuses(coppice_group_shrink_nb(member.group, nullptr, &request), "shrunk"));
        COPPICE_CHECK(refuses(coppice_group_shrink_nb(member.group, &next, nullptr), "request"));
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// One rank gives up its shrink while another has not begun, and leaves the old group: at once, or in peace.
void leave_while_undecided(const Layout& layout, std::uint32_t leaver, bool in_peace) {
    constexpr std::size_t kTimedOut = 0;
    const std::uint32_t late = layout.ranks - 1;
    Job job(layout.job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        if (member.rank == leaver) {
            coppice_group_t* none = nullptr;
            COPPICE_CHECK(coppice_group_shrink(old.group, &none, 1'000'000) == COPPICE_ERR_TIMEOUT);
            COPPICE_CHECK(none == nullptr);
            member.notes[kTimedOut] = 1;
            COPPICE_CHECK(coppice_group_destroy(old.group, in_peace ? kTimeout : 0) == COPPICE_OK);
            COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
            return;
        }
        if (member.rank == late) member.await_note(kTimedOut, 1);
        const Lineage next = shrink_until_gone(old, member, {leaver});
        COPPICE_CHECK(next.first.size() == member.ranks - 1);
        for (std::uint64_t round = 0; round < 3; ++round)
            work(next, member, 10 * round);
        leave(member, next);
    });
    EXPECT_EQ(job.finish(), "") << layout.name << ", rank " << leaver << (in_peace ? " in peace" : " at once");
}

TEST_P(EveryLayout, ARankThatLeavesTheOldGroupBeforeItIsDecidedIsNotWaitedFor) {
    for (const std::uint32_t leaver : {0U, 1U}) {
        leave_while_undecided(GetParam(), leaver, false);
        leave_while_undecided(GetParam(), leaver, true);
    }
}

// Nobody wants the new group any more: all leave, though some have contributed to it and others have not.
TEST_P(EveryLayout, TheOldGroupMayEndUndecided) {
    for (const std::uint32_t late : {0U, GetParam().ranks - 1}) {
        Job job(GetParam().job(), [&](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            coppice_group_t* none = nullptr;
            if (member.rank != late) {
                coppice_request_t* request = nullptr;
                COPPICE_CHECK(coppice_group_shrink_nb(member.group, &none, &request) == COPPICE_OK);
                COPPICE_CHECK(coppice_group_destroy(member.group, 0) == COPPICE_ERR_BUSY);
                COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
            }
            member.leave();
            COPPICE_CHECK(none == nullptr);
        });
        EXPECT_EQ(job.finish(), "") << "late: " << late;
    }
}

// Dies while the others have contributed, and it has not; the old group goes before the new one.
TEST_P(EveryLayout, CppGroupsAreShrunkWithAndWithoutWaiting) {
    constexpr std::uint32_t kVictim = 1;
    Job job(GetParam().job(), [](Member& member) {
        auto context = Context::create();
        GroupOptions options;
        options.rank = member.rank;
        options.size = member.ranks;
        options.exchange = [&member](std::span<const std::byte> mine, std::span<std::byte> all) {
            return member.exchange(mine, all);
        };
        std::vector<std::uint32_t> deaths;
        options.on_failure = [&deaths](std::uint32_t rank) { deaths.push_back(rank); };
        Group group = Group::create(context, options);
        COPPICE_CHECK(group.agree(1U, Operation::kAnd).first == 1U);

        // All live: a duplicate, without waiting.
        Shrinking first = group.shrink_nb();
        while (!first.test()) {
        }
        Group twin = first.wait();
        COPPICE_CHECK(!first && twin.size() == member.ranks && twin.rank() == member.rank);

        member.notes[0].fetch_add(1);
        if (member.rank == kVictim) raise(SIGKILL);
        Group survivors;
        while (true) {
            Shrinking shrinking = twin.shrink_nb();
            survivors = shrinking.wait();
            if (survivors.size() < member.ranks) break;
            twin.revoke();
            twin.leave();
            twin = std::move(survivors);
        }
        COPPICE_CHECK(twin.agreed() == std::vector<std::uint32_t>{kVictim});
        twin.revoke();
        twin.leave();
        COPPICE_CHECK(survivors.size() == member.ranks - 1);
        const auto [ranks, agreed] = survivors.agree(std::uint32_t{1} << member.rank, Operation::kOr);
        COPPICE_CHECK(agreed.acknowledged && ranks == (((1U << member.ranks) - 1) & ~(1U << kVictim)));
        std::array<std::byte, 8> payload{};
        if (survivors.rank() == 1) payload[0] = std::byte{7};
        COPPICE_CHECK(survivors.broadcast(payload, 1)[0] == std::byte{7});
        COPPICE_CHECK(survivors.shrink().size() == member.ranks - 1);
        group.revoke();
        group.leave();
        survivors.leave();
        COPPICE_CHECK(!deaths.empty());
    });
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == kVictim; }), "");
}

}  // namespace
}  // namespace coppice::testing
