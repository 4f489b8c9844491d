// Groups that are renewed, among real processes: ranks that leave, and what the others are told of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <numeric>

#include "integration/lineage.hpp"

namespace coppice::testing {
namespace {

class RenewEveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Renew, RenewEveryLayout, ::testing::ValuesIn(ways_to_be_connected(6)),
                         [](const auto& layout) { return std::string(layout.param.name); });

bool is_pending(const coppice_group_t* group) {
    int pending = -1;
    COPPICE_CHECK(coppice_group_pending(group, &pending) == COPPICE_OK && (pending == 0 || pending == 1));
    return pending == 1;
}

void agree_on_nothing(coppice_group_t* group) {
    COPPICE_CHECK(coppice_agree(group, nullptr, 0, nullptr, kTimeout) == COPPICE_OK);
}

// Every member has the rank of `before` that it had there, and its first seat.
void check_view(const Lineage& lineage, const Lineage& before) {
    std::vector<coppice_member_t> members(lineage.first.size());
    coppice_view_t view{};
    view.struct_size = sizeof view;
    COPPICE_CHECK(coppice_group_view(lineage.group, &view, members.data(), members.size()) == COPPICE_OK);
    COPPICE_CHECK(view.epoch == lineage.epoch && view.size == members.size());
    COPPICE_CHECK(view.newcomers == 0 && view.eldest == 0);
    for (std::uint32_t rank = 0; rank < view.size; ++rank) {
        const coppice_member_t& member = members[rank];
        COPPICE_CHECK(member.seat == lineage.first[rank] && member.incarnation == 0 && member.since == 0);
        COPPICE_CHECK(before.first[member.before] == lineage.first[rank]);
    }
}

// Some leave; the others go on, and nobody has failed.
void go_on_without(const Layout& layout, const std::vector<std::uint32_t>& leavers, bool revoke) {
    Job job(layout.job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        const bool leaves = std::ranges::count(leavers, member.rank) > 0;
        agree_on_nothing(old.group);
        COPPICE_CHECK(!is_pending(old.group));
        if (leaves) COPPICE_CHECK(coppice_group_leave(old.group) == COPPICE_OK);
        // As of the last agreement, not of now.
        COPPICE_CHECK(!is_pending(old.group));
        agree_on_nothing(old.group);
        COPPICE_CHECK(is_pending(old.group));
        COPPICE_CHECK(coppice_barrier(old.group, kTimeout) == COPPICE_OK && is_pending(old.group));
        member.notes[0].fetch_add(1);
        member.await_note(0, member.ranks);
        if (revoke) COPPICE_CHECK(coppice_group_revoke(old.group) == COPPICE_OK);
        Lineage next;
        COPPICE_CHECK(coppice_group_renew(old.group, nullptr, &next.group, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(agreed(old.group) == leavers);
        // Where nobody waits for the others, some may learn of it by hearsay that a rank has gone.
        COPPICE_CHECK(revoke || member.failed().empty());
        COPPICE_CHECK((next.group == nullptr) == leaves);
        if (leaves) return member.leave();
        next = next.of(old);
        next.check(member);
        check_view(next, old);
        work(next, member);
        COPPICE_CHECK(!is_pending(next.group));
        COPPICE_CHECK(coppice_group_destroy(old.group, kTimeout) == COPPICE_OK);
        work(next, member, 10);
        COPPICE_CHECK(info_of(next.group).garbage == 0);
        leave(member, next);
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(RenewEveryLayout, OneLeavesAndTheOthersGoOn) {
    go_on_without(GetParam(), {1}, false);
}
TEST_P(RenewEveryLayout, TheLowestLeaves) {
    go_on_without(GetParam(), {0}, false);
}
TEST_P(RenewEveryLayout, TheLowestAndTheLastLeaveARevokedGroup) {
    go_on_without(GetParam(), {0, GetParam().ranks - 1}, true);
}
TEST_P(RenewEveryLayout, AllLeave) {
    std::vector<std::uint32_t> all(GetParam().ranks);
    std::iota(all.begin(), all.end(), 0U);
    go_on_without(GetParam(), all, false);
}

// One leaves and another dies; the rank that leaves says so to nobody but by the renewal.
TEST_P(RenewEveryLayout, OneLeavesWhileAnotherDies) {
    const std::uint32_t victim = 0;
    const std::uint32_t leaver = GetParam().ranks - 1;
    Job job(GetParam().job(), [&](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        Lineage lineage = Lineage::begin(member);
        agree_on_nothing(lineage.group);
        member.notes[0].fetch_add(1);
        member.await_note(0, member.ranks);
        if (member.rank == victim) raise(SIGKILL);
        if (member.rank == leaver) COPPICE_CHECK(coppice_group_leave(lineage.group) == COPPICE_OK);
        Lineage next;
        COPPICE_CHECK(coppice_group_renew(lineage.group, nullptr, &next.group, kTimeout) == COPPICE_OK);
        COPPICE_CHECK((next.group == nullptr) == (member.rank == leaver));
        COPPICE_CHECK(coppice_group_revoke(lineage.group) == COPPICE_OK);
        if (member.rank == leaver) return member.leave();
        next = next.of(lineage);
        next.check(member);
        COPPICE_CHECK(std::ranges::count(next.first, leaver) == 0);
        COPPICE_CHECK(coppice_group_destroy(lineage.group, kTimeout) == COPPICE_OK);
        lineage = std::ranges::count(next.first, victim) > 0 ? shrink_until_gone(next, member, {victim}) : next;
        work(lineage, member);
        leave(member, lineage);
    });
    EXPECT_EQ(job.finish([victim](std::uint32_t rank) { return rank == victim; }), "");
}

// The others renew already, and wait for it.
TEST_P(RenewEveryLayout, OneLeavesWhileTheOthersRenew) {
    for (const std::uint32_t leaver : {0U, GetParam().ranks - 1}) {
        Job job(GetParam().job(), [leaver](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            const Lineage old = Lineage::begin(member);
            Lineage next;
            coppice_request_t* request = nullptr;
            if (member.rank == leaver) {
                member.await_note(0, member.ranks - 1);
                COPPICE_CHECK(coppice_group_leave(old.group) == COPPICE_OK);
            }
            COPPICE_CHECK(coppice_group_renew_nb(old.group, nullptr, &next.group, &request) == COPPICE_OK);
            if (member.rank != leaver) {
                COPPICE_CHECK(coppice_group_leave(old.group) == COPPICE_ERR_BUSY);
                member.notes[0].fetch_add(1);
            }
            COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
            COPPICE_CHECK((next.group == nullptr) == (member.rank == leaver));
            COPPICE_CHECK(agreed(old.group) == (std::vector<std::uint32_t>{leaver}));
            if (member.rank == leaver) return member.leave();
            next = next.of(old);
            next.check(member);
            work(next, member);
            COPPICE_CHECK(coppice_group_destroy(old.group, kTimeout) == COPPICE_OK);
            leave(member, next);
        });
        EXPECT_EQ(job.finish(), "") << "leaver " << leaver;
    }
}

// Those that go on have no time for the old group: there they count as failed, to the rank that leaves. It is in no other group with them.
TEST_P(RenewEveryLayout, WhoGivesTheOldGroupUpIsWellInTheNext) {
    const std::uint32_t leaver = GetParam().ranks - 1;
    Job job(GetParam().job(), [leaver](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        if (member.rank == leaver) COPPICE_CHECK(coppice_group_leave(old.group) == COPPICE_OK);
        agree_on_nothing(old.group);
        Lineage next;
        COPPICE_CHECK(coppice_group_renew(old.group, nullptr, &next.group, kTimeout) == COPPICE_OK);
        if (member.rank == leaver) {
            member.await_failed(member.ranks - 1);
            member.notes[0].fetch_add(1);
            return member.leave();
        }
        next = next.of(old);
        COPPICE_CHECK(coppice_group_destroy(old.group, 1) == COPPICE_ERR_TIMEOUT);
        work(next, member);
        member.await_note(0, 1);
        work(next, member, 10);
        leave(member, next);
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(RenewEveryLayout, ARenewalWaitsForTheMembersThatItIsToHave) {
    Layout layout = GetParam();
    layout.environment["COPPICE_CAPACITY"] = std::to_string(layout.ranks + 1);
    Job job(layout.job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        Lineage next;
        coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
        options.least = member.ranks + 2;
        COPPICE_CHECK(coppice_group_renew(old.group, &options, &next.group, kTimeout) == COPPICE_ERR_INVALID_ARGUMENT);
        COPPICE_CHECK(std::strstr(coppice_last_error(), "COPPICE_CAPACITY") != nullptr);
        options.least = member.ranks + 1;
        COPPICE_CHECK(coppice_group_renew(old.group, &options, &next.group, 1'000'000) == COPPICE_ERR_TIMEOUT);
        const char* const reason = member.rank == 0 ? "waiting until there are" : "waiting";
        COPPICE_CHECK(next.group == nullptr && std::strstr(coppice_last_error(), reason) != nullptr);
        // It is counted on.
        COPPICE_CHECK(coppice_group_leave(old.group) == COPPICE_ERR_BUSY);
        member.notes[0].fetch_add(1);
        member.await_note(0, member.ranks);
        options.least = member.ranks;
        COPPICE_CHECK(coppice_group_renew(old.group, &options, &next.group, kTimeout) == COPPICE_OK);
        next = next.of(old);
        next.check(member);
        check_view(next, old);
        COPPICE_CHECK(coppice_group_destroy(old.group, kTimeout) == COPPICE_OK);
        leave(member, next);
    });
    EXPECT_EQ(job.finish(), "");
}

// Options of which one rank alone has others than the rest: least, most, numbering. Rank 0 decides, and the last only follows. The group can
// be renewed when all are of one mind; so it can where one has died meanwhile.
TEST_P(RenewEveryLayout, RanksThatGiveDifferentOptionsAreAllTold) {
    Layout layout = GetParam();
    layout.environment["COPPICE_CAPACITY"] = std::to_string(layout.ranks + 1);
    Job job(layout.job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        const std::uint32_t last = member.ranks - 1;
        // `least` of the odd one, which nobody would reach: without a word to the contrary the others would wait with it.
        const coppice_renew_options_t defaults = COPPICE_RENEW_OPTIONS_INIT;
        const std::vector<coppice_renew_options_t> odd_ones{
            {sizeof(coppice_renew_options_t), member.ranks + 1, 0, COPPICE_NUMBERS_OF_THE_GONE},
            {sizeof(coppice_renew_options_t), 0, member.ranks + 1, COPPICE_NUMBERS_OF_THE_GONE},
            {sizeof(coppice_renew_options_t), 0, 0, COPPICE_NUMBERS_LAST}};
        coppice_group_t* next = nullptr;
        for (const coppice_renew_options_t& options : odd_ones) {
            for (const std::uint32_t odd : {0U, 1U, last}) {
                const auto* const own = member.rank == odd ? &options : &defaults;
                COPPICE_CHECK(coppice_group_renew(old.group, own, &next, kTimeout) == COPPICE_ERR_MISMATCH);
                COPPICE_CHECK(next == nullptr && std::strstr(coppice_last_error(), "different options") != nullptr);
                coppice_request_t* request = nullptr;
                COPPICE_CHECK(coppice_group_renew_nb(old.group, own, &next, &request) == COPPICE_OK);
                COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_ERR_MISMATCH);
                COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
            }
        }
        agree_on_nothing(old.group);
        member.notes[0].fetch_add(1);
        member.await_note(0, member.ranks);
        if (member.rank == 1) raise(SIGKILL);
        member.await_failed(1);
        const auto* const own = member.rank == last ? odd_ones.data() : &defaults;
        COPPICE_CHECK(coppice_group_renew(old.group, own, &next, kTimeout) == COPPICE_ERR_MISMATCH);
        coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
        options.numbering = COPPICE_NUMBERS_LAST;
        options.most = member.ranks;
        COPPICE_CHECK(coppice_group_renew(old.group, &options, &next, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(agreed(old.group) == (std::vector<std::uint32_t>{1}));
        Lineage renewed;
        renewed.group = next;
        renewed = renewed.of(old);
        renewed.check(member);
        work(renewed, member);
        COPPICE_CHECK(coppice_group_revoke(old.group) == COPPICE_OK);
        COPPICE_CHECK(coppice_group_destroy(old.group, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(info_of(renewed.group).garbage == 0);
        leave(member, renewed);
    });
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "");
}

// Whether it is the one that decides or not.
TEST_P(RenewEveryLayout, OneThatLeavesIsAtOddsWithNobody) {
    for (const std::uint32_t leaver : {0U, GetParam().ranks - 1}) {
        Job job(GetParam().job(), [leaver](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            const Lineage old = Lineage::begin(member);
            coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
            options.numbering = COPPICE_NUMBERS_LAST;
            options.least = 2;
            const bool leaves = member.rank == leaver;
            if (leaves) COPPICE_CHECK(coppice_group_leave(old.group) == COPPICE_OK);
            Lineage next;
            COPPICE_CHECK(coppice_group_renew(old.group, leaves ? nullptr : &options, &next.group, kTimeout) ==
                          COPPICE_OK);
            COPPICE_CHECK((next.group == nullptr) == leaves);
            if (leaves) return member.leave();
            next = next.of(old);
            next.check(member);
            COPPICE_CHECK(coppice_group_destroy(old.group, kTimeout) == COPPICE_OK);
            leave(member, next);
        });
        EXPECT_EQ(job.finish(), "") << "leaver " << leaver;
    }
}

// The others know it already when rank 0 calls again: it has heard of it in another call.
TEST_P(RenewEveryLayout, ARankWhoseCallHadTimedOutIsToldOfDifferentOptionsByTheNext) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        Lineage next;
        if (member.rank == 0) {
            coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
            options.numbering = COPPICE_NUMBERS_LAST;
            COPPICE_CHECK(coppice_group_renew(old.group, &options, &next.group, 1'000'000) == COPPICE_ERR_TIMEOUT);
            member.notes[0].fetch_add(1);
        } else {
            member.await_note(0, 1);
            const coppice_renew_options_t defaults = COPPICE_RENEW_OPTIONS_INIT;
            COPPICE_CHECK(coppice_group_renew(old.group, &defaults, &next.group, kTimeout) == COPPICE_ERR_MISMATCH);
        }
        for (int again = 0; again < 3; ++again)
            agree_on_nothing(old.group);
        if (member.rank == 0) {
            COPPICE_CHECK(coppice_group_leave(old.group) == COPPICE_ERR_BUSY);
            COPPICE_CHECK(coppice_group_renew(old.group, nullptr, &next.group, kTimeout) == COPPICE_ERR_MISMATCH);
            COPPICE_CHECK(next.group == nullptr && std::strstr(coppice_last_error(), "different options") != nullptr);
        }
        COPPICE_CHECK(coppice_group_renew(old.group, nullptr, &next.group, kTimeout) == COPPICE_OK);
        next = next.of(old);
        next.check(member);
        COPPICE_CHECK(coppice_group_destroy(old.group, kTimeout) == COPPICE_OK);
        leave(member, next);
    });
    EXPECT_EQ(job.finish(), "");
}

// A shrink has no options, whatever a renewal's are: the two are one operation.
TEST_P(RenewEveryLayout, AShrinkIsAtOddsWithNoRenewal) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
        options.numbering = COPPICE_NUMBERS_LAST;
        options.least = member.ranks;
        Lineage next;
        COPPICE_CHECK((member.rank % 2 == 0
                           ? coppice_group_shrink(old.group, &next.group, kTimeout)
                           : coppice_group_renew(old.group, &options, &next.group, kTimeout)) == COPPICE_OK);
        next = next.of(old);
        next.check(member);
        COPPICE_CHECK(coppice_group_destroy(old.group, kTimeout) == COPPICE_OK);
        leave(member, next);
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_P(RenewEveryLayout, RanksThatGiveNullAreAtOddsWithNobody) {
    Job job(GetParam().job(), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        for (std::uint32_t knows = 0; knows <= member.ranks; ++knows) {
            coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
            options.numbering = COPPICE_NUMBERS_LAST;
            options.least = member.ranks;
            options.most = member.ranks + 1;
            Lineage next;
            COPPICE_CHECK(coppice_group_renew(old.group, member.rank == knows ? &options : nullptr, &next.group,
                                              kTimeout) == COPPICE_OK);
            next = next.of(old);
            next.check(member);
            COPPICE_CHECK(coppice_group_destroy(next.group, kTimeout) == COPPICE_OK);
        }
        leave(member, old);
    });
    EXPECT_EQ(job.finish(), "");
}

// Whether the rank that decides has given them itself or not. Each may ask for fewer with a later call.
TEST(Renew, RanksThatGiveNullWaitForAsManyAsOthersWant) {
    for (const std::uint32_t knows : {0U, 2U}) {
        Job job({.ranks = 3, .environment = {{"COPPICE_CAPACITY", "4"}}}, [knows](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            const Lineage old = Lineage::begin(member);
            coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
            options.least = 4;
            Lineage next;
            const auto* const own = member.rank == knows ? &options : nullptr;
            bool is_told = false;
            const std::uint64_t deadline = now_ns() + kTimeout;
            for (const auto* given = own; !is_told && now_ns() < deadline; given = nullptr) {
                COPPICE_CHECK(coppice_group_renew(old.group, given, &next.group, 50'000'000) == COPPICE_ERR_TIMEOUT);
                is_told = member.rank != 0 || std::strstr(coppice_last_error(), "until there are 4 members") != nullptr;
            }
            COPPICE_CHECK(is_told);
            // Nor is that changed by a call that asks for nothing.
            COPPICE_CHECK(coppice_group_renew(old.group, nullptr, &next.group, 50'000'000) == COPPICE_ERR_TIMEOUT);
            member.notes[0].fetch_add(1);
            member.await_note(0, member.ranks);
            options.least = 0;
            COPPICE_CHECK(coppice_group_renew(old.group, &options, &next.group, kTimeout) == COPPICE_OK);
            next = next.of(old);
            next.check(member);
            COPPICE_CHECK(coppice_group_destroy(old.group, kTimeout) == COPPICE_OK);
            leave(member, next);
        });
        EXPECT_EQ(job.finish(), "") << "the one that knows: " << knows;
    }
}

// Also where it decides. With a later call that gives options it decides by these.
TEST(Renew, OneThatLeavesGoesByTheOptionsOfThoseThatStay) {
    for (const std::uint32_t leaver : {0U, 2U}) {
        Job job({.ranks = 3, .environment = {{"COPPICE_CAPACITY", "4"}}}, [leaver](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            const Lineage old = Lineage::begin(member);
            const bool leaves = member.rank == leaver;
            if (leaves) COPPICE_CHECK(coppice_group_leave(old.group) == COPPICE_OK);
            coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
            if (!leaves) options.least = 3;
            Lineage next;
            COPPICE_CHECK(coppice_group_renew(old.group, &options, &next.group, 50'000'000) == COPPICE_ERR_TIMEOUT);
            member.notes[0].fetch_add(1);
            member.await_note(0, member.ranks);
            options.least = 0;
            COPPICE_CHECK(coppice_group_renew(old.group, &options, &next.group, kTimeout) == COPPICE_OK);
            COPPICE_CHECK((next.group == nullptr) == leaves);
            if (leaves) return member.leave();
            next = next.of(old);
            next.check(member);
            COPPICE_CHECK(coppice_group_destroy(old.group, kTimeout) == COPPICE_OK);
            leave(member, next);
        });
        EXPECT_EQ(job.finish(), "") << "leaver " << leaver;
    }
}

TEST(Renew, LeavingAgainDoesNothingAndGivesNoGroup) {
    Job job({.ranks = 3}, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        const Lineage old = Lineage::begin(member);
        const bool leaves = member.rank == 2;
        for (int again = 0; leaves && again < 2; ++again)
            COPPICE_CHECK(coppice_group_leave(old.group) == COPPICE_OK);
        Lineage next;
        coppice_request_t* request = nullptr;
        COPPICE_CHECK(coppice_group_renew_nb(old.group, nullptr, &next.group, &request) == COPPICE_OK);
        COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        COPPICE_CHECK((next.group == nullptr) == leaves);
        if (leaves) {
            COPPICE_CHECK(coppice_group_renew(old.group, nullptr, &next.group, kTimeout) == COPPICE_OK);
            COPPICE_CHECK(next.group == nullptr && coppice_group_leave(old.group) == COPPICE_OK);
            return member.leave();
        }
        // Ranks 0 and 1 may renew the old group again: rank 2 is not asked.
        Lineage twin;
        COPPICE_CHECK(coppice_group_shrink(old.group, &twin.group, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(info_of(twin.group).size == 2);
        for (coppice_group_t* group : {twin.group, next.group})
            COPPICE_CHECK(coppice_group_destroy(group, kTimeout) == COPPICE_OK);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
