// Processes that nobody of a job has started join it with a ticket.
#include "integration/tickets.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace coppice::testing {
namespace {

using Environment = Stranger::Environment;

const Environment kOpen{{"COPPICE_JOIN", "any"}, {"COPPICE_CAPACITY", "8"}, {"COPPICE_TRANSPORT", "shm,tcp"}};

Environment with(Environment environment, const Environment& more) {
    for (const auto& [name, value] : more)
        environment[name] = value;
    return environment;
}

JobOptions job_of(std::uint32_t ranks, const Environment& environment = kOpen) {
    JobOptions options;
    options.ranks = ranks;
    options.environment = environment;
    return options;
}

std::size_t start_joiner(Job& job, const Environment& environment, std::uint32_t members, std::size_t at = kTicketAt) {
    const auto* const notes = &job.note(0);
    return Stranger::start(job, environment, [notes, members, at](coppice_context_t* context) {
        coppice_group_t* group = Stranger::join(context, get_ticket(notes, at));
        group = grow(group, members);
        work_together(group);
        leave(context, group);
    });
}

void expect_well(Job& job, const std::vector<std::size_t>& strangers) {
    for (const std::size_t one : strangers) {
        const Ending ending = job.processes().wait(one);
        EXPECT_TRUE(ending.well()) << "stranger " << one << ": " << ending.text();
    }
}

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

// With the room that the group has by itself: as many members as at first.
TEST(TicketsOfTheDead, ANewcomerGetsTheNumberOfADeadRank) {
    const Environment environment{{"COPPICE_JOIN", "host"}};
    Job job(
        job_of(3, environment),
        [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            if (member.rank == 0) invite(member, 1);
            member.notes[0].fetch_add(1);
            while (member.rank == 1)
                pause();
            member.await_failed(1);
            member.notes[1].fetch_add(1);
            coppice_group_t* group = grow(member.group, 3);
            coppice_group_info_t info{};
            info.struct_size = sizeof info;
            COPPICE_CHECK(coppice_group_query(group, &info) == COPPICE_OK);
            work_together(group);
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

}  // namespace
}  // namespace coppice::testing
