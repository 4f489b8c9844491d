// Processes that stop or die on their way into a group: they cost nobody anything; the group goes on, and the next one joins.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <csignal>

#include "bootstrap/door/caller.hpp"
#include "bootstrap/door/door.hpp"
#include "integration/refused.hpp"

namespace coppice::testing {
namespace {

enum Step : int { kConnected, kHalfKnocked, kKnocked, kLetIn, kKnown, kReady, kSteps };
enum class Then : std::uint8_t { dies, stops };

// Goes so far, and says so.
void go_until(Step step, coppice_context_t* context, const std::vector<std::byte>& bytes,
              std::atomic<std::uint64_t>* notes) {
    Ticket ticket;
    COPPICE_CHECK(Ticket::read(bytes, ticket) == Ticket::Reading::whole);
    bootstrap::Knock knock;
    knock.uses = ticket.terms.uses;
    knock.id = ticket.terms.id;
    knock.expires_ns = ticket.terms.expires_ns;
    if (step <= kKnocked) {
        const int socket = connect_to(ticket.doors[0]);
        const std::size_t length = step == kConnected ? 0 : step == kHalfKnocked ? sizeof knock / 2 : sizeof knock;
        COPPICE_CHECK(::send(socket, &knock, length, 0) == static_cast<ssize_t>(length));
    } else if (step <= kKnown) {
        auto door = bootstrap::be_let_in(std::span(&ticket, 1), 1, false, {}, now_ns() + kDeadlineNs);
        if (!door) throw CheckFailed(door.error().message);
        COPPICE_CHECK(becomes([&] {
            const auto event = (*door)->next();
            return event && *event && (*event)->kind == bootstrap::Admission::Event::Kind::invited;
        }));
        // A card that no member can read: it is told so, and would end.
        if (step == kKnown) (*door)->tell_card({}, {});
        notes[5].fetch_add(1);
        while (true)
            pause();
    } else {
        notes[3].store(1);  // nobody renews meanwhile
        notes[5].fetch_add(1);
        coppice_group_t* group = nullptr;
        coppice_group_join(context, bytes.data(), bytes.size(), nullptr, &group, kDeadlineNs);
    }
    notes[5].fetch_add(1);
    while (true)
        pause();
}

class OnTheWay : public Refused, public ::testing::WithParamInterface<std::pair<int, Then>> {};
std::vector<std::pair<int, Then>> all_steps() {
    std::vector<std::pair<int, Then>> all;
    for (int step = 0; step < kSteps; ++step)
        for (const Then then : {Then::dies, Then::stops})
            all.emplace_back(step, then);
    return all;
}
INSTANTIATE_TEST_SUITE_P(Steps, OnTheWay, ::testing::ValuesIn(all_steps()), [](const auto& step) {
    return std::to_string(step.param.first) + (step.param.second == Then::dies ? "_dies" : "_stops");
});

TEST_P(OnTheWay, ItCostsNobodyAnything) {
    const auto [step, then] = GetParam();
    Job job = make();
    auto* const notes = &job.note(0);
    const std::size_t one =
        Stranger::start(job, kOpen, [notes, step = static_cast<Step>(step)](coppice_context_t* context) {
            go_until(step, context, get_ticket(notes), notes);
        });
    ASSERT_TRUE(job.await_note(5, 1));
    if (step == kReady) {
        ASSERT_TRUE(all_see_that_one_waits(job));
    }
    job.processes().signal(one, then == Then::dies ? SIGKILL : SIGSTOP);
    const bool is_taken_in =
        step == kReady && then == Then::stops;  // all can reach it: it is a member then that is stopped
    if (is_taken_in) {
        job.note(3).store(0);
        ASSERT_TRUE(becomes([&] { return job.note(7).load() == 3; }));
        job.processes().signal(one, SIGKILL);
        job.processes().wait(one);
    }
    job.note(3).store(0);
    const std::uint64_t rounds = job.note(0).load();
    ASSERT_TRUE(job.await_note(0, rounds + 10));
    expect_one_joins(job);
    end_with_joined(job);
    if (is_taken_in) return;
    job.processes().signal(one, SIGKILL);
    job.processes().wait(one);
}

// A process whose card all members can read, and wire: it says of itself what the first member says. It makes none of them known to itself.
void come_reachable(const std::vector<std::byte>& bytes, std::atomic<std::uint64_t>* notes) {
    using Kind = bootstrap::Admission::Event::Kind;
    Ticket ticket;
    COPPICE_CHECK(Ticket::read(bytes, ticket) == Ticket::Reading::whole);
    auto door = bootstrap::be_let_in(std::span(&ticket, 1), 1, false, {}, now_ns() + kDeadlineNs);
    if (!door) throw CheckFailed(door.error().message);
    COPPICE_CHECK(becomes([&] {
        const auto event = (*door)->next();
        if (!event || !*event || (*event)->kind != Kind::introduced) return false;
        (*door)->tell_card({}, (*event)->body);
        return true;
    }));
    notes[5].fetch_add(1);
    COPPICE_CHECK(becomes([&] { return notes[6].load() != 0; }));
    // None has said that it can't reach it.
    auto event = (*door)->next();
    while (event && *event)
        event = (*door)->next();
    if (!event) throw CheckFailed(event.error().message);
    notes[5].fetch_add(1);
    while (true)
        pause();
}

class Reachable : public Refused, public ::testing::WithParamInterface<Then> {};
INSTANTIATE_TEST_SUITE_P(OnTheWay, Reachable, ::testing::Values(Then::dies, Then::stops),
                         [](const auto& then) { return then.param == Then::dies ? "dies" : "stops"; });

// Before all are known to each other. How long its number stays taken: tests/bootstrap/doors_test.cpp.
TEST_P(Reachable, OneThatKnowsNoMemberYetCostsNobodyAnything) {
    Environment environment = kOpen;
    environment["COPPICE_TRANSPORT"] = "tcp";
    Job job = make(8, kHour, environment);
    auto* const notes = &job.note(0);
    const std::size_t one =
        Stranger::start(job, environment, [notes](coppice_context_t*) { come_reachable(get_ticket(notes), notes); });
    ASSERT_TRUE(job.await_note(5, 1));
    job.processes().signal(one, GetParam() == Then::dies ? SIGKILL : SIGSTOP);
    const std::uint64_t rounds = job.note(0).load();
    ASSERT_TRUE(job.await_note(0, rounds + 10));
    joined_ = start_member(job, environment);
    ASSERT_TRUE(job.await_note(4, 1));
    if (GetParam() == Then::stops) {
        job.note(6).store(1);
        job.processes().signal(one, SIGCONT);
        EXPECT_TRUE(job.await_note(5, 2));
    }
    end_with_joined(job);
    job.processes().signal(one, SIGKILL);
    job.processes().wait(one);
}

}  // namespace
}  // namespace coppice::testing
