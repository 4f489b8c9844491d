// Processes that nobody of a job has started join it with a ticket.
#include "integration/joiners.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "bootstrap/ticket.hpp"

namespace coppice::testing {
namespace {

// ------------------------------------------------------------------------------------------------------ who joins ---

class Tickets : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(
    Ways, Tickets,
    ::testing::Values(
        Layout{"this_host", 3, 1, {{"COPPICE_JOIN", "host"}, {"COPPICE_CAPACITY", "5"}}},
        Layout{"any_host", 3, 1, kOpen}, Layout{"two_hosts", 3, 2, kOpen},
        Layout{"tcp", 2, 1, {{"COPPICE_JOIN", "any"}, {"COPPICE_CAPACITY", "4"}, {"COPPICE_TRANSPORT", "tcp"}}},
        Layout{"flat", 3, 1, with(kOpen, {{"COPPICE_HIERARCHY", "flat"}})}, Layout{"alone", 1, 1, kOpen}),
    [](const auto& layout) { return std::string(layout.param.name); });

TEST_P(Tickets, LetAProcessJoin) {
    const Layout& layout = GetParam();
    const std::uint32_t members = layout.ranks + 1;
    Job job(
        layout.job(),
        [members](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            if (member.rank + 1 == member.ranks) invite(member, 1);
            coppice_group_t* group = grow(member.group, members);
            coppice_view_t view{};
            view.struct_size = sizeof view;
            COPPICE_CHECK(coppice_group_view(group, &view, nullptr, 0) == COPPICE_OK);
            COPPICE_CHECK(view.newcomers == 1 && view.eldest == 0);
            work_together(group);
            leave(member.context, group);
        },
        kNotes);
    const Environment environment =
        layout.hosts > 1 ? with(layout.environment, {{"COPPICE_HOST", "another"}}) : layout.environment;
    const std::size_t stranger = start_joiner(job, environment, members);
    EXPECT_EQ(job.finish(), "");
    expect_well(job, {stranger});
}

// Payloads of two sizes under way in the old group, from two roots; the newcomer has no part in them.
class TicketsEveryLayout : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Tickets, TicketsEveryLayout, ::testing::ValuesIn(ways_to_be_connected(6)),
                         [](const auto& layout) { return std::string(layout.param.name); });

TEST_P(TicketsEveryLayout, WhatIsUnderWayInTheOldGroupNeverReachesTheRenewedOne) {
    Layout layout = GetParam();
    layout.environment.merge(Environment{{"COPPICE_JOIN", layout.uses_network() ? "any" : "host"},
                                         {"COPPICE_CAPACITY", std::to_string(layout.ranks + 1)}});
    constexpr int kRounds = 3;
    Job job(
        layout.job(),
        [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            if (member.rank == 0) invite(member, 1);
            // The last rank takes no part in these; they are under way until the group is revoked.
            constexpr std::size_t kMany = 12;
            std::vector<std::vector<unsigned char>> buffers;
            std::vector<coppice_request_t*> requests;
            const bool is_late = member.rank + 1 == member.ranks;
            for (std::size_t i = 0; i < kMany && !is_late; ++i) {
                const auto root = static_cast<std::uint32_t>(i % 2);
                buffers.push_back(payload_of(1000 + i, root, i % 3 == 0 ? 2000 : 4000));
                std::vector<unsigned char>& buffer = buffers.back();
                if (member.rank != root) std::ranges::fill(buffer, 0);
                requests.push_back(nullptr);
                COPPICE_CHECK(coppice_broadcast_nb(member.group, buffer.data(), buffer.size(), root,
                                                   &requests.back()) == COPPICE_OK);
            }
            coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
            options.least = member.ranks + 1;
            coppice_group_t* next = nullptr;
            if (coppice_group_renew(member.group, &options, &next, kDeadlineNs) != COPPICE_OK)
                throw CheckFailed(coppice_last_error());
            COPPICE_CHECK(size_of(next) == member.ranks + 1);
            for (int round = 0; round < kRounds; ++round)
                work_together(next);
            COPPICE_CHECK(coppice_group_revoke(member.group) == COPPICE_OK);
            for (coppice_request_t* request : requests) {
                const coppice_status_t status = coppice_request_wait(request, nullptr, kDeadlineNs);
                COPPICE_CHECK(status == COPPICE_OK || status == COPPICE_ERR_REVOKED);
                COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
            }
            work_together(next);
            COPPICE_CHECK(coppice_group_destroy(member.group, kDeadlineNs) == COPPICE_OK);
            work_together(next);
            leave(member.context, next);
        },
        kNotes);
    const auto* const notes = &job.note(0);
    const Environment of_stranger =
        layout.hosts > 1 ? with(layout.environment, {{"COPPICE_HOST", "another"}}) : layout.environment;
    const std::size_t stranger = Stranger::start(job, of_stranger, [notes](coppice_context_t* context) {
        coppice_group_t* group = Stranger::join(context, get_ticket(notes));
        for (int round = 0; round < kRounds + 2; ++round)
            work_together(group);
        leave(context, group);
    });
    EXPECT_EQ(job.finish(), "");
    expect_well(job, {stranger});
}

TEST(TicketsOfMany, AllButOneJoinAtOnce) {
    constexpr std::uint32_t kStrangers = 5;
    Job job(
        job_of(1),
        [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            invite(member, kStrangers);
            coppice_group_t* group = grow(member.group, 1 + kStrangers);
            work_together(group);
            leave(member.context, group);
        },
        kNotes);
    std::vector<std::size_t> strangers;
    for (std::uint32_t n = 0; n < kStrangers; ++n)
        strangers.push_back(start_joiner(job, kOpen, 1 + kStrangers));
    EXPECT_EQ(job.finish(), "");
    expect_well(job, strangers);
}

// With the room that the group has by itself: as many members as at first. The renewal waits for the newcomer.
class TicketsOfTheDead : public ::testing::TestWithParam<coppice_numbering_t> {};
INSTANTIATE_TEST_SUITE_P(Numbering, TicketsOfTheDead,
                         ::testing::Values(COPPICE_NUMBERS_OF_THE_GONE, COPPICE_NUMBERS_LAST),
                         [](const auto& numbering) {
                             return numbering.param == COPPICE_NUMBERS_LAST ? "Last" : "OfTheGone";
                         });

TEST_P(TicketsOfTheDead, ANewcomerGetsTheNumberThatTheRenewalSays) {
    const Environment environment{{"COPPICE_JOIN", "host"}};
    const std::uint32_t newcomer = GetParam() == COPPICE_NUMBERS_LAST ? 2 : 1;
    Job job(
        job_of(3, environment),
        [newcomer](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            if (member.rank == 0) invite(member, 1);
            member.notes[0].fetch_add(1);
            while (member.rank == 1)
                pause();
            member.await_failed(1);
            member.notes[1].fetch_add(1);
            coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
            options.least = 3;
            options.numbering = GetParam();
            coppice_group_t* group = nullptr;
            COPPICE_CHECK(coppice_group_renew(member.group, &options, &group, kDeadlineNs) == COPPICE_OK);
            std::array<coppice_member_t, 3> members{};
            coppice_view_t view{};
            view.struct_size = sizeof view;
            COPPICE_CHECK(coppice_group_view(group, &view, members.data(), members.size()) == COPPICE_OK);
            COPPICE_CHECK(view.size == 3 && view.newcomers == 1 && view.epoch == 1 && view.eldest == 0);
            COPPICE_CHECK(members[newcomer].before == COPPICE_NOBODY && members[newcomer].since == 1);
            COPPICE_CHECK(members[0].before == 0 && members[3 - newcomer].before == 2);
            COPPICE_CHECK(members[0].since == 0 && members[3 - newcomer].since == 0);
            coppice_group_info_t info{};
            info.struct_size = sizeof info;
            COPPICE_CHECK(coppice_group_query(group, &info) == COPPICE_OK);
            COPPICE_CHECK(info.rank == (member.rank == 0 ? 0 : 3 - newcomer));
            COPPICE_CHECK(coppice_group_destroy(member.group, kDeadlineNs) == COPPICE_OK);
            work_together(grow(group, 3));
            leave(member.context, group);
        },
        kNotes);
    ASSERT_TRUE(job.await_note(0, 3));
    job.kill(1, true);
    ASSERT_TRUE(job.await_note(1, 2));
    const std::size_t stranger = start_joiner(job, environment, 3);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 1; }), "");
    expect_well(job, {stranger});
}

// ------------------------------------------------------------------------------------------------- who keeps the door ---

// Rank 0 keeps the door. It dies when a newcomer waits there and is known to all.
TEST(Doors, TheMemberThatKeepsItDiesBetweenAdmissionAndTheView) {
    Job job(
        job_of(3),
        [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            if (member.rank == 1) invite(member, 1);
            int pending = 0;
            while (pending == 0) {
                std::uint64_t value = 0;
                COPPICE_CHECK(agree(member.group, value));
                COPPICE_CHECK(coppice_group_pending(member.group, &pending) == COPPICE_OK);
            }
            member.notes[0].fetch_add(1);
            while (member.rank == 0)
                pause();
            member.await_failed(1);
            coppice_group_t* group = grow(member.group, 3);
            work_together(group);
            leave(member.context, group);
        },
        kNotes);
    const std::size_t stranger = start_joiner(job, kOpen, 3);
    ASSERT_TRUE(job.await_note(0, 3));
    job.kill(0, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
    expect_well(job, {stranger});
}

// Notes of a job whose rank 0, which keeps the door, dies with the n-th of its messages while a newcomer is taken in.
enum Note : std::size_t { kAsked, kGoOn, kInTheView, kAtTheEnd, kOutlived };

std::uint64_t number_of(const coppice_member_t& one) {
    return (std::uint64_t{one.seat} << 32 | one.incarnation) + 1;
}

std::vector<coppice_member_t> members_of(const coppice_group_t* group) {
    std::vector<coppice_member_t> members(size_of(group));
    coppice_view_t view{};
    view.struct_size = sizeof view;
    COPPICE_CHECK(coppice_group_view(group, &view, members.data(), members.size()) == COPPICE_OK);
    return members;
}

// Agrees when it is asked to, and no more often, so that messages are few; until a newcomer is ready, or one has died.
void await_newcomer(Member& member) {
    for (std::uint64_t asked = 0;;) {
        ++asked;
        member.await("the next agreement", [&] { return member.notes[kAsked].load() >= asked; });
        std::uint64_t value = 0;
        const bool is_whole = agree(member.group, value);
        int pending = 0;
        COPPICE_CHECK(coppice_group_pending(member.group, &pending) == COPPICE_OK);
        if (!is_whole || pending != 0) break;
    }
    if (member.rank != 0) member.notes[kGoOn].fetch_add(1);
}

void serve_one_that_joins(Member& member) {
    COPPICE_CHECK(member.join() == COPPICE_OK);
    if (member.rank == 1) invite(member, 1);
    await_newcomer(member);
    coppice_group_t* group = renew(member.group);
    if (member.rank == 0) {
        member.notes[kOutlived].store(1);
        while (true)
            pause();
    }
    if (member.rank == 1) {
        for (const coppice_member_t& one : members_of(group))
            if (one.before == COPPICE_NOBODY) member.notes[kInTheView].store(number_of(one));
    }
    group = grow(group, 3);
    work_together(group);
    leave(member.context, group);
}

enum class Case : std::uint8_t {
    before_the_view,  // it has the newcomer as none
    told,             // the newcomer is in it, and knows that
    not_told,         // the view has it as one that has failed, and it is in a later one
    outlived,         // so many messages were not needed
};

Case die_with_message(int message) {
    Job job(job_of(3, with(kOpen, {{"COPPICE_FAULTS", faults_at("kill-after", message, {0})}})), serve_one_that_joins,
            kNotes);
    auto* const notes = &job.note(0);
    const std::size_t stranger = Stranger::start(job, kOpen, [notes](coppice_context_t* context) {
        coppice_group_t* group = grow(Stranger::join(context, get_ticket(notes)), 3);
        coppice_group_info_t info{};
        info.struct_size = sizeof info;
        COPPICE_CHECK(coppice_group_query(group, &info) == COPPICE_OK);
        notes[kAtTheEnd].store(number_of(members_of(group)[info.rank]));
        work_together(group);
        leave(context, group);
    });
    EXPECT_TRUE(becomes([&] {
        job.note(kAsked).fetch_add(1);
        usleep(50'000);
        return job.note(kGoOn).load() == 2;
    }));
    EXPECT_TRUE(becomes([&] { return job.note(kOutlived).load() != 0 || job.note(kAtTheEnd).load() != 0; }));
    const bool has_outlived = job.note(kOutlived).load() != 0;
    if (has_outlived) job.kill(0, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "") << "message " << message;
    expect_well(job, {stranger});
    if (has_outlived) return Case::outlived;
    if (job.note(kInTheView).load() == 0) return Case::before_the_view;
    return job.note(kInTheView).load() == job.note(kAtTheEnd).load() ? Case::told : Case::not_told;
}

TEST(Doors, TheMemberThatKeepsItDiesAfterTheViewBeforeItHasToldTheNewcomer) {
    std::map<Case, int> cases;
    for (int message = 1; message <= 200 && cases[Case::outlived] == 0; ++message)
        ++cases[die_with_message(message)];
    EXPECT_GT(cases[Case::not_told], 0);
    EXPECT_GT(cases[Case::before_the_view], 0);
    EXPECT_EQ(cases[Case::outlived], 1);
}

TEST(Doors, ATicketOutlivesTheMemberThatMadeIt) {
    Job job(
        job_of(3),
        [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            std::uint64_t value = 0;
            COPPICE_CHECK(agree(member.group, value));
            if (member.rank == 0) invite(member, 1);
            member.notes[0].fetch_add(1);
            while (member.rank == 0)
                pause();
            member.await_failed(1);
            coppice_group_t* group = grow(member.group, 3);
            work_together(group);
            leave(member.context, group);
        },
        kNotes);
    ASSERT_TRUE(job.await_note(0, 3));
    job.kill(0, true);
    const std::size_t stranger = start_joiner(job, kOpen, 3);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
    expect_well(job, {stranger});
}

// All that were there at first are gone: those that came keep the door.
TEST(Doors, NewcomersKeepItWhenAllOthersHaveDied) {
    Job job(
        job_of(1),
        [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            invite(member, 3);
            member.group = grow(member.group, 2);
            invite(member, 3, kHour, kTicketAt + kTicketWords);
            member.notes[0].store(1);
            while (true)
                pause();
        },
        kNotes);
    auto* const notes = &job.note(0);
    const std::size_t heir = Stranger::start(job, kOpen, [notes](coppice_context_t* context) {
        coppice_group_t* group = Stranger::join(context, get_ticket(notes));
        group = grow(group, 2);
        std::size_t failed = 0;
        COPPICE_CHECK(becomes([&] {
            COPPICE_CHECK(coppice_group_failed(group, nullptr, 0, &failed) == COPPICE_OK);
            return failed == 1;
        }));
        group = grow(group, 2);
        work_together(group);
        leave(context, group);
    });
    ASSERT_TRUE(job.await_note(0, 1));
    job.kill(0, true);
    const std::size_t second = start_joiner(job, kOpen, 2, kTicketAt + kTicketWords);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
    expect_well(job, {heir, second});
}

// What the one that keeps the door knew of tickets outlives it, and all that had met who came by them.
TEST(Doors, NewcomersKnowWhichTicketsWereSpentBeforeTheyCame) {
    constexpr std::size_t kSpent = kTicketAt + kTicketWords;
    constexpr std::size_t kHeirs = kSpent + kTicketWords;
    Job job(
        job_of(1),
        [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            invite(member, 1, kHour, kSpent);
            member.group = grow(member.group, 2);
            member.notes[0].store(1);
            member.await_failed(1);
            member.group = grow(member.group, 1);
            invite(member, 1);
            member.group = grow(member.group, 2);
            member.notes[0].store(2);
            while (true)
                pause();
        },
        kNotes);
    auto* const notes = &job.note(0);
    const std::size_t first = Stranger::start(job, kOpen, [notes](coppice_context_t* context) {
        grow(Stranger::join(context, get_ticket(notes, kSpent)), 2);
        while (true)
            pause();
    });
    ASSERT_TRUE(job.await_note(0, 1));
    job.processes().signal(first, SIGKILL);
    EXPECT_TRUE(job.processes().wait(first).killed_by(SIGKILL));
    const std::size_t heir = Stranger::start(job, kOpen, [notes](coppice_context_t* context) {
        Member self;
        self.notes = notes;
        self.group = grow(Stranger::join(context, get_ticket(notes)), 2);
        std::size_t failed = 0;
        COPPICE_CHECK(becomes([&] {
            COPPICE_CHECK(coppice_group_failed(self.group, nullptr, 0, &failed) == COPPICE_OK);
            return failed == 1;
        }));
        self.group = grow(self.group, 1);
        invite(self, 1, kHour, kHeirs);
        while (notes[1].load() == 0) {
            std::uint64_t value = 0;
            agree(self.group, value);
        }
        leave(context, self.group);
    });
    ASSERT_TRUE(job.await_note(0, 2));
    job.kill(0, true);
    const std::size_t again = Stranger::start(job, kOpen, [notes](coppice_context_t* context) {
        bootstrap::Ticket spent;
        bootstrap::Ticket heirs;
        COPPICE_CHECK(bootstrap::Ticket::read(get_ticket(notes, kSpent), spent) == bootstrap::Ticket::Reading::whole);
        COPPICE_CHECK(bootstrap::Ticket::read(get_ticket(notes, kHeirs), heirs) == bootstrap::Ticket::Reading::whole);
        spent.doors = heirs.doors;
        Stranger::expect_refusal(context, spent.bytes(), COPPICE_ERR_BOOTSTRAP, "spent");
    });
    expect_well(job, {again});
    notes[1].store(1);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
    expect_well(job, {heir});
}

}  // namespace
}  // namespace coppice::testing
