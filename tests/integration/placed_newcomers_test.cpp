// Groups that know which switches are above their hosts, and which processes join: they bring the path of theirs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "integration/lineage.hpp"
#include "integration/tickets.hpp"

namespace coppice::testing {
namespace {

using Environment = Stranger::Environment;

const Environment kOpen{{"COPPICE_JOIN", "any"}, {"COPPICE_CAPACITY", "6"}, {"COPPICE_TRANSPORT", "shm,tcp"}};

constexpr std::uint32_t kMembers = 4;
constexpr std::uint32_t kVictim = 3;
constexpr std::size_t kGrown = 0;
constexpr std::size_t kSecondTicketAt = kTicketAt + kTicketWords;

// A rank a host, two hosts a leaf.
JobOptions on_two_leaves() {
    JobOptions options{.ranks = kMembers, .hosts = kMembers};
    options.environment = kOpen;
    for (std::uint32_t rank = 0; rank < kMembers; ++rank)
        options.of_rank[rank]["COPPICE_SWITCHES"] = "pod/leaf" + std::to_string(rank / 2);
    return options;
}

void expect_leaves(const coppice_group_t* group, std::uint32_t leaves) {
    const std::uint32_t found = info_of(group).leaves;
    if (found != leaves)
        throw CheckFailed("broadcasts go by " + std::to_string(found) + " leaf switches, not " +
                          std::to_string(leaves));
}

// A second process joins when the first is in, which tells it of the group what the others have known from the start. Then rank 3 dies.
struct Course {
    std::uint32_t with_one;  // leaves
    std::uint32_t with_both;
    std::uint32_t after_a_death;
};

coppice_group_t* go_through(const Course& course, coppice_group_t* group, const Member* member,
                            std::atomic<std::uint64_t>* notes) {
    expect_leaves(group, course.with_one);
    work_together(group);
    if (member != nullptr && member->rank == 0) {
        Member inviting = *member;
        inviting.group = group;
        invite(inviting, 1, kHour, kSecondTicketAt);
    }
    group = grow(group, kMembers + 2);
    expect_leaves(group, course.with_both);
    work_together(group);
    notes[kGrown].fetch_add(1);
    return group;
}

void end(const Course& course, coppice_group_t* group) {
    group = grow(group, kMembers + 1);
    expect_leaves(group, course.after_a_death);
    work_together(group);
    COPPICE_CHECK(coppice_group_destroy(group, kDeadlineNs) == COPPICE_OK);
}

void run(const Course& course, const Environment& first, const Environment& second) {
    Job job(
        on_two_leaves(),
        [course](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            expect_leaves(member.group, 2);
            if (member.rank == 0) invite(member, 1);
            coppice_group_t* group = grow(member.group, kMembers + 1);
            group = go_through(course, group, &member, member.notes);
            if (member.rank == kVictim) member.await("its death", [] { return false; });
            end(course, group);
            COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
        },
        kNotes);
    auto* const notes = &job.note(0);
    const auto environment_of = [](const char* host, const Environment& more) {
        Environment environment = kOpen;
        environment["COPPICE_HOST"] = host;
        for (const auto& [name, value] : more)
            environment[name] = value;
        return environment;
    };
    const std::size_t one =
        Stranger::start(job, environment_of("another", first), [course, notes](coppice_context_t* context) {
            coppice_group_t* group = grow(Stranger::join(context, get_ticket(notes)), kMembers + 1);
            end(course, go_through(course, group, nullptr, notes));
            COPPICE_CHECK(coppice_context_destroy(context) == COPPICE_OK);
        });
    const std::size_t other =
        Stranger::start(job, environment_of("a third", second), [course, notes](coppice_context_t* context) {
            coppice_group_t* group = Stranger::join(context, get_ticket(notes, kSecondTicketAt));
            group = grow(group, kMembers + 2);
            expect_leaves(group, course.with_both);
            work_together(group);
            notes[kGrown].fetch_add(1);
            end(course, group);
            COPPICE_CHECK(coppice_context_destroy(context) == COPPICE_OK);
        });
    ASSERT_TRUE(job.await_note(kGrown, kMembers + 2));
    job.kill(kVictim, false);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == kVictim; }), "");
    for (const std::size_t process : {one, other}) {
        const Ending ending = job.processes().wait(process);
        EXPECT_TRUE(ending.well()) << ending.text();
    }
}

TEST(PlacedNewcomers, BringTheirPaths) {
    run({.with_one = 3, .with_both = 3, .after_a_death = 3}, {{"COPPICE_SWITCHES", "pod/leaf2"}},
        {{"COPPICE_SWITCHES", "pod/leaf1"}});
}

// Rank 3 alone hangs on a leaf with the second one, which goes by the order of ranks with all others as long as one says nothing.
TEST(PlacedNewcomers, OneThatKnowsNothingLeavesAllInTheOrderOfRanks) {
    run({.with_one = 0, .with_both = 0, .after_a_death = 0}, {}, {{"COPPICE_SWITCHES", "pod/leaf1"}});
}

// When it is gone the others know their places again.
TEST(PlacedNewcomers, OneThatKnewNothingIsForgottenWithItsEnd) {
    Job job(
        on_two_leaves(),
        [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            if (member.rank == 0) invite(member, 1);
            coppice_group_t* group = grow(member.group, kMembers + 1);
            expect_leaves(group, 0);
            work_together(group);
            member.notes[kGrown].fetch_add(1);
            group = grow(group, kMembers);
            expect_leaves(group, 2);
            work_together(group);
            leave(member.context, group);
        },
        kNotes);
    auto* const notes = &job.note(0);
    Environment environment = kOpen;
    environment["COPPICE_HOST"] = "another";
    const std::size_t one = Stranger::start(job, environment, [notes](coppice_context_t* context) {
        coppice_group_t* const group = grow(Stranger::join(context, get_ticket(notes)), kMembers + 1);
        expect_leaves(group, 0);
        work_together(group);
        notes[kGrown].fetch_add(1);
        while (true)
            pause();
    });
    ASSERT_TRUE(job.await_note(kGrown, kMembers + 1));
    job.processes().signal(one, SIGKILL);
    job.processes().wait(one);
    EXPECT_EQ(job.finish(), "");
}

}  // namespace
}  // namespace coppice::testing
