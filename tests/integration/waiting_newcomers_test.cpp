// Processes that wait to join while members renew their groups: which group takes them in, and what they are told where none does.
#include "integration/joiners.hpp"

namespace coppice::testing {
namespace {

// Until somebody waits, as all that agree in this group are told, or nobody does.
void agree_until_pending(coppice_group_t* group, int wanted) {
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    for (int pending = 1 - wanted; pending != wanted; usleep(200)) {
        std::uint64_t late = now_ns() > deadline ? 1 : 0;
        COPPICE_CHECK(agree(group, late));
        if (late != 0) throw CheckFailed("pending does not become " + std::to_string(wanted));
        COPPICE_CHECK(coppice_group_pending(group, &pending) == COPPICE_OK);
    }
}

// A duplicate of a group that goes on: a library's, say.
TEST(WaitingNewcomers, WaitForTheGroupThatWasMadeLast) {
    Job job(
        job_of(2),
        [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            if (member.rank == 0) invite(member, 1);
            agree_until_pending(member.group, 1);
            coppice_group_t* duplicate = nullptr;
            COPPICE_CHECK(coppice_group_shrink(member.group, &duplicate, kDeadlineNs) == COPPICE_OK);
            agree_until_pending(member.group, 0);
            // Nor does a renewal of the old group take in who waits for the other one.
            coppice_group_t* other = nullptr;
            COPPICE_CHECK(coppice_group_renew(member.group, nullptr, &other, kDeadlineNs) == COPPICE_OK);
            COPPICE_CHECK(size_of(other) == 2 && size_of(duplicate) == 2);
            duplicate = grow(duplicate, 3);
            work_together(duplicate);
            COPPICE_CHECK(coppice_group_destroy(other, kDeadlineNs) == COPPICE_OK);
            COPPICE_CHECK(coppice_group_destroy(member.group, kDeadlineNs) == COPPICE_OK);
            leave(member.context, duplicate);
        },
        kNotes);
    const std::size_t stranger = start_joiner(job, kOpen, 3);
    EXPECT_EQ(job.finish(), "");
    expect_well(job, {stranger});
}

// All members want to take it in, and there is no memory for one more group.
TEST(WaitingNewcomers, AreToldWhereTheGroupThatHasThemCantBeMade) {
    Job job(
        job_of(2),
        [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            std::vector<coppice_group_t*> all{member.group};
            coppice_group_t* one_more = nullptr;
            while (coppice_group_shrink(all.back(), &one_more, kDeadlineNs) == COPPICE_OK) {
                all.push_back(one_more);
                COPPICE_CHECK(all.size() < 20);
            }
            COPPICE_CHECK(all.size() > 2);
            member.group = all.back();
            if (member.rank == 0) invite(member, 1);
            agree_until_pending(member.group, 1);
            COPPICE_CHECK(coppice_group_renew(member.group, nullptr, &one_more, kDeadlineNs) ==
                          COPPICE_ERR_NO_RESOURCES);
            agree_until_pending(member.group, 0);
            for (coppice_group_t* const one : all)
                COPPICE_CHECK(coppice_group_destroy(one, kDeadlineNs) == COPPICE_OK);
            COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
        },
        kNotes);
    auto* const notes = &job.note(0);
    const std::size_t stranger = Stranger::start(job, kOpen, [notes](coppice_context_t* context) {
        Stranger::expect_refusal(context, get_ticket(notes), COPPICE_ERR_BOOTSTRAP, "share memory already");
    });
    EXPECT_EQ(job.finish(), "");
    expect_well(job, {stranger});
}

// Newcomers went to the group that the first renewal has made: those of the old one are all that count there.
TEST(WaitingNewcomers, OfAnEarlierRenewalCostNoMajority) {
    constexpr std::uint32_t kMembers = 2;
    constexpr std::uint32_t kNewcomers = 3;
    const Environment environment = with(kOpen, {{"COPPICE_QUORUM", "majority"}});
    Job job(
        job_of(kMembers, environment),
        [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            if (member.rank == 0) invite(member, kNewcomers);
            coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
            options.least = kMembers + kNewcomers;
            coppice_group_t* grown = nullptr;
            COPPICE_CHECK(coppice_group_renew(member.group, &options, &grown, kDeadlineNs) == COPPICE_OK);
            coppice_group_t* again = nullptr;
            if (coppice_group_renew(member.group, nullptr, &again, kDeadlineNs) != COPPICE_OK)
                throw CheckFailed(coppice_last_error());
            COPPICE_CHECK(size_of(again) == kMembers);
            work_together(again);
            COPPICE_CHECK(coppice_group_destroy(again, kDeadlineNs) == COPPICE_OK);
            COPPICE_CHECK(coppice_group_destroy(member.group, kDeadlineNs) == COPPICE_OK);
            grown = grow(grown, kMembers + kNewcomers);
            work_together(grown);
            leave(member.context, grown);
        },
        kNotes);
    std::vector<std::size_t> strangers;
    for (std::uint32_t n = 0; n < kNewcomers; ++n)
        strangers.push_back(start_joiner(job, environment, kMembers + kNewcomers));
    EXPECT_EQ(job.finish(), "");
    expect_well(job, strangers);
}

// Renewals that end without a group take in no newcomer. The next renewal takes in those that wait.
TEST(WaitingNewcomers, WaitWhileRanksGiveDifferentOptions) {
    constexpr std::uint32_t kMembers = 3;
    Job job(
        job_of(kMembers),
        [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            if (member.rank == 0) invite(member, 1);
            agree_until_pending(member.group, 1);
            for (std::uint32_t odd = 0; odd < kMembers; ++odd) {
                coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
                options.least = member.rank == odd ? kMembers + 2 : 0;
                coppice_group_t* next = nullptr;
                COPPICE_CHECK(coppice_group_renew(member.group, &options, &next, kDeadlineNs) == COPPICE_ERR_MISMATCH);
                COPPICE_CHECK(next == nullptr);
            }
            agree_until_pending(member.group, 1);
            coppice_group_t* const group = grow(member.group, kMembers + 1);
            work_together(group);
            leave(member.context, group);
        },
        kNotes);
    const std::size_t stranger = start_joiner(job, kOpen, kMembers + 1);
    EXPECT_EQ(job.finish(), "");
    expect_well(job, {stranger});
}

// Also where the lowest one, which decides, leaves with it.
TEST(WaitingNewcomers, WaitWhileAllShrink) {
    Job job(
        job_of(2),
        [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            if (member.rank == 0) invite(member, 1);
            agree_until_pending(member.group, 1);
            const bool leaves = member.rank == 0;
            if (leaves) COPPICE_CHECK(coppice_group_leave(member.group) == COPPICE_OK);
            coppice_group_t* shrunk = nullptr;
            COPPICE_CHECK(coppice_group_shrink(member.group, &shrunk, kDeadlineNs) == COPPICE_OK);
            COPPICE_CHECK((shrunk == nullptr) == leaves);
            COPPICE_CHECK(coppice_group_destroy(member.group, kDeadlineNs) == COPPICE_OK);
            if (leaves) {
                COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
                return;
            }
            COPPICE_CHECK(size_of(shrunk) == 1);
            coppice_group_t* const group = grow(shrunk, 2);
            work_together(group);
            leave(member.context, group);
        },
        kNotes);
    const std::size_t stranger = start_joiner(job, kOpen, 2);
    EXPECT_EQ(job.finish(), "");
    expect_well(job, {stranger});
}

// What one of them gives counts for all: the lowest member decides, which gives NULL, and the newcomer does not know.
TEST(WaitingNewcomers, AreTakenInUpToTheMostThatOneOfTheMembersGives) {
    constexpr std::uint32_t kMembers = 2;
    const auto renew = [](coppice_group_t* group, const coppice_renew_options_t* options) {
        coppice_group_t* next = nullptr;
        if (coppice_group_renew(group, options, &next, kDeadlineNs) != COPPICE_OK)
            throw CheckFailed(coppice_last_error());
        COPPICE_CHECK(coppice_group_destroy(group, kDeadlineNs) == COPPICE_OK);
        return next;
    };
    // The other one that waits is not taken in by a renewal like the last.
    const auto stays_full = [](coppice_group_t* group) {
        for (int round = 0; round < 50; ++round) {
            std::uint64_t nothing = 0;
            int pending = 1;
            COPPICE_CHECK(agree(group, nothing) && coppice_group_pending(group, &pending) == COPPICE_OK &&
                          pending == 0);
            usleep(1000);
        }
    };
    Job job(
        job_of(kMembers),
        [&renew, &stays_full](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            if (member.rank == 0) invite(member, 2);
            coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
            options.least = options.most = kMembers + 1;
            const auto* const own = member.rank == 1 ? &options : nullptr;
            coppice_group_t* group = renew(member.group, own);
            COPPICE_CHECK(size_of(group) == kMembers + 1);
            work_together(group);
            stays_full(group);
            options.least = options.most = kMembers + 2;
            group = renew(group, own);
            COPPICE_CHECK(size_of(group) == kMembers + 2);
            work_together(group);
            leave(member.context, group);
        },
        kNotes);
    auto* const notes = &job.note(0);
    std::vector<std::size_t> strangers;
    for (int n = 0; n < 2; ++n) {
        strangers.push_back(Stranger::start(job, kOpen, [&renew, &stays_full, notes](coppice_context_t* context) {
            coppice_group_t* group = nullptr;
            const std::vector<std::byte> ticket = get_ticket(notes);
            COPPICE_CHECK(coppice_group_join(context, ticket.data(), ticket.size(), nullptr, &group, kDeadlineNs) ==
                          COPPICE_OK);
            work_together(group);
            if (size_of(group) == kMembers + 1) {
                stays_full(group);
                group = renew(group, nullptr);
                work_together(group);
            }
            COPPICE_CHECK(size_of(group) == kMembers + 2);
            leave(context, group);
        }));
    }
    EXPECT_EQ(job.finish(), "");
    expect_well(job, strangers);
}

}  // namespace
}  // namespace coppice::testing
