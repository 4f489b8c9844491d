// Tickets that are good for nothing, and processes that do not belong: each is told why, the group goes on, and the next one joins.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <string_view>

#include "bootstrap/door/caller.hpp"
#include "bootstrap/door/door.hpp"
#include "integration/refused.hpp"

namespace coppice::testing {
namespace {

TEST_F(Refused, ATicketThatHasExpired) {
    Job job = make(8, 1'000'000);
    auto* const notes = &job.note(0);
    expect_refusal(
        job, [notes] { return get_ticket(notes); }, COPPICE_ERR_BOOTSTRAP, "expired");
    end(job);
}

// One member's word is enough.
TEST_F(Refused, ATicketThatHasExpiredWhileTheMemberThatMadeItIsStopped) {
    Job job = make(8, 1'000'000);
    auto* const notes = &job.note(0);
    const std::vector<std::byte> ticket = get_ticket(notes);
    const auto is_refused = [&] {
        expect_refusal(
            job, [ticket] { return ticket; }, COPPICE_ERR_BOOTSTRAP, "expired");
    };
    is_refused();  // the other one keeps the door, and this one has entered there
    job.processes().signal(1, SIGSTOP);
    is_refused();
    job.processes().signal(1, SIGCONT);
    end(job);
}

TEST_F(Refused, ATicketThatIsSpent) {
    Job job = make(1);
    auto* const notes = &job.note(0);
    expect_one_joins(job);
    expect_refusal(
        job, [notes] { return get_ticket(notes); }, COPPICE_ERR_BOOTSTRAP, "spent");
    end_with_joined(job);
}

TEST_F(Refused, ATicketThatSomebodyHasMade) {
    Job job = make(1);
    auto* const notes = &job.note(0);
    const auto forge = [notes](auto&& change) {
        return [=] {
            Ticket ticket = read(get_ticket(notes));
            change(ticket);
            return ticket.bytes();
        };
    };
    const char* const kWords = "the ticket was changed";
    expect_refusal(job, forge([](Ticket& ticket) { ticket.key[5] ^= 1; }), COPPICE_ERR_BOOTSTRAP, kWords);
    expect_refusal(job, forge([](Ticket& ticket) { ticket.terms.uses = 1000; }), COPPICE_ERR_BOOTSTRAP, kWords);
    expect_refusal(job, forge([](Ticket& ticket) { ticket.terms.expires_ns = UINT64_MAX; }), COPPICE_ERR_BOOTSTRAP,
                   kWords);
    expect_refusal(job, forge([](Ticket& ticket) { ticket.terms.id[0] ^= 1; }), COPPICE_ERR_BOOTSTRAP, kWords);
    expect_one_joins(job);  // none of these was a use
    end_with_joined(job);
}

TEST_F(Refused, BytesThatAreNoTicket) {
    Job job = make();
    auto* const notes = &job.note(0);
    const auto changed = [notes](auto&& change) {
        return [=] {
            std::vector<std::byte> ticket = get_ticket(notes);
            change(ticket);
            return ticket;
        };
    };
    using Bytes = std::vector<std::byte>;
    const coppice_status_t kNone = COPPICE_ERR_INVALID_ARGUMENT;
    expect_refusal(job, changed([](Bytes& ticket) { ticket.pop_back(); }), kNone, "no ticket");
    expect_refusal(job, changed([](Bytes& ticket) { ticket.push_back(std::byte{0}); }), kNone, "no ticket");
    expect_refusal(job, changed([](Bytes& ticket) { ticket[20] ^= std::byte{1}; }), kNone, "no ticket");
    expect_refusal(job, changed([](Bytes& ticket) { ticket[0] = std::byte{'X'}; }), kNone, "no ticket");
    expect_refusal(job, changed([](Bytes& ticket) { ticket[4] = std::byte{9}; }), COPPICE_ERR_MISMATCH,
                   "another version");
    end(job);
}

TEST_F(Refused, TicketsBehindOneAnotherOfWhichOneIsGood) {
    Job job = make(1);
    auto* const notes = &job.note(0);
    const auto changed = [notes] {
        Ticket ticket = read(get_ticket(notes));
        ticket.key[5] ^= 1;
        return ticket.bytes();
    };
    const auto so_many = [changed, notes](std::size_t many) {
        std::vector<std::byte> tickets;
        for (std::size_t n = 0; n + 1 < many; ++n)
            bootstrap::append_bytes(tickets, changed());
        bootstrap::append_bytes(tickets, get_ticket(notes));
        return tickets;
    };
    expect_refusal(
        job, [so_many] { return so_many(bootstrap::kMostTickets + 1); }, COPPICE_ERR_INVALID_ARGUMENT, "too many");
    const std::size_t one = Stranger::start(job, kOpen, [so_many, notes](coppice_context_t* context) {
        coppice_group_t* group = Stranger::join(context, so_many(bootstrap::kMostTickets));
        notes[4].fetch_add(1);
        go_on(context, group, notes);
    });
    EXPECT_TRUE(job.await_note(4, 1));
    end(job);
    const Ending ending = job.processes().wait(one);
    EXPECT_TRUE(ending.well()) << ending.text();
}

TEST_F(Refused, OtherSettings) {
    Job job = make();
    auto* const notes = &job.note(0);
    const auto ticket = [notes] { return get_ticket(notes); };
    const auto other = [](const char* name, const char* value) {
        Environment environment = kOpen;
        environment[name] = value;
        return environment;
    };
    expect_refusal(job, ticket, COPPICE_ERR_MISMATCH, "window 64", other("COPPICE_WINDOW", "64"));
    expect_refusal(job, ticket, COPPICE_ERR_MISMATCH, "capacity 9", other("COPPICE_CAPACITY", "9"));
    expect_refusal(job, ticket, COPPICE_ERR_MISMATCH, "transport", other("COPPICE_TRANSPORT", "tcp"));
    expect_refusal(job, ticket, COPPICE_ERR_CONFIG, "COPPICE_JOIN", other("COPPICE_JOIN", "none"));
    end(job);
}

// A group whose library is of another version: its door says what this one's says, but for that number.
void keep_door_of_another_version(const std::vector<std::byte>& bytes, std::atomic<std::uint64_t>* notes,
                                  std::size_t ticket_at, std::size_t until) {
    Ticket ticket;
    COPPICE_CHECK(Ticket::read(bytes, ticket) == Ticket::Reading::whole);
    auto inside = bootstrap::be_let_in(std::span(&ticket, 1), 1, false, {}, now_ns() + kDeadlineNs);
    if (!inside) throw CheckFailed(inside.error().message);
    std::vector<std::byte> group;
    COPPICE_CHECK(becomes([&] {
        const auto event = (*inside)->next();
        if (event && *event && (*event)->kind == bootstrap::Admission::Event::Kind::invited) group = (*event)->body;
        return !group.empty();
    }));
    inside->reset();
    const std::string_view name = "coppice ";
    const auto at = std::ranges::search(group, std::as_bytes(std::span(name)));
    COPPICE_CHECK(!at.empty());
    std::byte& digit = *at.end();
    digit = digit == std::byte{'1'} ? std::byte{'2'} : std::byte{'1'};
    auto door = bootstrap::Door::open(false, ticket.doors[0].ips);
    if (!door) throw CheckFailed(door.error().message);
    const std::vector<unsigned char> secret(32, 7);
    (*door)->belong(secret, {.number = 0}, 4, group);
    (*door)->tell_card(group, {});
    const auto address = (*door)->address().bytes();
    (*door)->attend({.members = {{.number = 0}}, .keeper = {.number = 0}, .door = {address.begin(), address.end()}});
    const auto made = (*door)->invite(1, kHour, {});
    if (!made) throw CheckFailed(made.error().message);
    put_ticket(notes, *made, ticket_at);
    while (notes[until].load() == 0) {
        COPPICE_CHECK((*door)->next().has_value());
        usleep(200);
    }
}

TEST_F(Refused, AGroupOfAnotherVersionOfTheLibrary) {
    Job job = make();
    auto* const notes = &job.note(0);
    constexpr std::size_t kOther = kTicketAt + kTicketWords;
    constexpr std::size_t kOver = 9;
    const std::size_t other = job.processes().start([notes] {
        keep_door_of_another_version(get_ticket(notes), notes, kOther, kOver);
        return 0;
    });
    expect_refusal(
        job, [notes] { return get_ticket(notes, kOther); }, COPPICE_ERR_MISMATCH, "install one version");
    notes[kOver].store(1);
    const Ending ending = job.processes().wait(other);
    EXPECT_TRUE(ending.well()) << ending.text();
    end(job);
}

// A process whose library does not look at what it says of itself: a host, the switches above it, and nothing of how to reach it.
void come_with_switches(const std::vector<std::byte>& bytes, const std::string& path, const std::string& answer) {
    Ticket ticket;
    COPPICE_CHECK(Ticket::read(bytes, ticket) == Ticket::Reading::whole);
    auto door = bootstrap::be_let_in(std::span(&ticket, 1), 1, false, {}, now_ns() + kDeadlineNs);
    if (!door) throw CheckFailed(door.error().message);
    std::vector<std::byte> card;
    for (const std::string& text : {std::string("a host"), path}) {
        const auto length = static_cast<std::uint32_t>(text.size());
        for (const auto part : {std::as_bytes(std::span(&length, 1)), std::as_bytes(std::span(text))})
            card.insert(card.end(), part.begin(), part.end());
    }
    std::string said;
    COPPICE_CHECK(becomes([&] {
        const auto event = (*door)->next();
        if (!event) said = event.error().message;
        if (event && *event && (*event)->kind == bootstrap::Admission::Event::Kind::invited)
            (*door)->tell_card({}, card);
        return !said.empty();
    }));
    if (said.find(answer) == std::string::npos) throw CheckFailed(said);
}

TEST_F(Refused, OneWithSwitchesThatAreNoPath) {
    Job job = make();
    auto* const notes = &job.note(0);
    const std::size_t one = job.processes().start([notes] {
        come_with_switches(get_ticket(notes), "leaf 3", "leaf 3");
        return 0;
    });
    const Ending ending = job.processes().wait(one);
    EXPECT_TRUE(ending.well()) << ending.text();
    expect_one_joins(job);
    end_with_joined(job);
}

TEST_F(Refused, OneTooMany) {
    Environment environment = kOpen;
    environment["COPPICE_CAPACITY"] = std::string("3");
    Job job = make(8, kHour, environment);
    auto* const notes = &job.note(0);
    const std::size_t one = Stranger::start(job, environment, [notes](coppice_context_t* context) {
        coppice_group_t* group = Stranger::join(context, get_ticket(notes));
        notes[4].fetch_add(1);
        go_on(context, group, notes);
    });
    ASSERT_TRUE(job.await_note(4, 1));
    expect_refusal(
        job, [notes] { return get_ticket(notes); }, COPPICE_ERR_NO_RESOURCES, "COPPICE_CAPACITY, 3", environment);
    end(job);
    EXPECT_TRUE(job.processes().wait(one).well());
}

TEST_F(Refused, AGroupThatHasEnded) {
    Job job = make();
    auto* const notes = &job.note(0);
    const std::vector<std::byte> ticket = get_ticket(notes);
    end(job);
    expect_refusal(
        job, [ticket] { return ticket; }, COPPICE_ERR_BOOTSTRAP, "nobody listens");
}

TEST_F(Refused, ATicketOfAnotherGroup) {
    Job first = make();
    Job second = make();
    const std::vector<std::byte> theirs = get_ticket(&first.note(0));
    Ticket mixed = read(theirs);
    mixed.doors = read(get_ticket(&second.note(0))).doors;
    const std::vector<std::byte> ticket = mixed.bytes();
    expect_refusal(
        second, [ticket] { return ticket; }, COPPICE_ERR_BOOTSTRAP, "of a group that has ended");
    end(first);
    end(second);
}

TEST_F(Refused, NobodyIsInvitedToAGroupThatIsClosed) {
    JobOptions options;
    options.ranks = 2;
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::byte ticket[COPPICE_TICKET_BYTES];
        std::size_t bytes = sizeof ticket;
        COPPICE_CHECK(coppice_group_invite(member.group, 1, kHour, ticket, &bytes) == COPPICE_ERR_CONFIG);
        COPPICE_CHECK(std::string(coppice_last_error()).find("COPPICE_JOIN") != std::string::npos);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_F(Refused, NobodyIsInvitedToAGroupThatAnotherWasMadeOf) {
    JobOptions options;
    options.ranks = 2;
    options.environment = kOpen;
    Job job(
        options,
        [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            // A duplicate is the one to invite to, too.
            coppice_group_t* groups[3] = {member.group};
            COPPICE_CHECK(coppice_group_renew(groups[0], nullptr, &groups[1], kDeadlineNs) == COPPICE_OK);
            COPPICE_CHECK(coppice_group_shrink(groups[1], &groups[2], kDeadlineNs) == COPPICE_OK);
            for (coppice_group_t* const old : {groups[0], groups[1]}) {
                std::byte ticket[COPPICE_TICKET_BYTES];
                std::size_t bytes = sizeof ticket;
                COPPICE_CHECK(coppice_group_invite(old, 1, kHour, ticket, &bytes) == COPPICE_ERR_BUSY);
            }
            member.group = groups[2];
            invite(member, 1);
            for (coppice_group_t* const one : groups)
                COPPICE_CHECK(coppice_group_destroy(one, kDeadlineNs) == COPPICE_OK);
            COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
        },
        kNotes);
    EXPECT_EQ(job.finish(), "");
}

// Nobody could ever join: the doors of other hosts are not to be reached.
TEST_F(Refused, AGroupOverSeveralHostsThatIsOpenToOne) {
    JobOptions options;
    options.ranks = 3;
    options.hosts = 2;
    options.environment = {{"COPPICE_JOIN", "host"}, {"COPPICE_CAPACITY", "5"}};
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_ERR_CONFIG);
        const std::string said = coppice_last_error();
        if (said.find("ranks 0 and 2 are on different hosts: start all ranks with COPPICE_JOIN=any") ==
            std::string::npos)
            throw CheckFailed(said);
    });
    EXPECT_EQ(job.finish(), "");
}

TEST_F(Refused, ATicketThatHasNoRoom) {
    JobOptions options;
    options.ranks = 1;
    options.environment = kOpen;
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::byte ticket[COPPICE_TICKET_BYTES];
        std::size_t bytes = 10;
        COPPICE_CHECK(coppice_group_invite(member.group, 1, kHour, ticket, &bytes) == COPPICE_ERR_TRUNCATED);
        COPPICE_CHECK(bytes > 10 && bytes <= sizeof ticket);
        COPPICE_CHECK(coppice_group_invite(member.group, 1, kHour, ticket, &bytes) == COPPICE_OK);
        COPPICE_CHECK(coppice_group_invite(member.group, 0, kHour, ticket, &bytes) == COPPICE_ERR_INVALID_ARGUMENT);
        COPPICE_CHECK(coppice_group_invite(member.group, 1, 0, ticket, &bytes) == COPPICE_ERR_INVALID_ARGUMENT);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// -------------------------------------------------------------------------------------------------- a storm of strangers ---

TEST_F(Refused, AStormOfStrangersKeepsNobodyOut) {
    Job job = make();
    auto* const notes = &job.note(0);
    std::vector<std::size_t> storm;
    for (int n = 0; n < 3; ++n) {
        storm.push_back(job.processes().start([notes, n] {
            const Ticket ticket = read(get_ticket(notes));
            std::vector<int> silent;
            while (true) {
                const int socket = connect_to(ticket.doors[static_cast<std::size_t>(n) % ticket.doors.size()]);
                if (n == 0) {
                    silent.push_back(socket);  // says nothing, and stays
                    if (silent.size() > 200) {
                        for (const int old : silent)
                            ::close(old);
                        silent.clear();
                    }
                } else {
                    const std::vector<char> garbage(n == 1 ? 200 : 40, n == 1 ? 'x' : '\0');
                    ::send(socket, garbage.data(), garbage.size(), MSG_NOSIGNAL);
                    ::close(socket);
                }
                notes[6].fetch_add(1);
            }
            return 0;
        }));
    }
    ASSERT_TRUE(job.await_note(6, 500));
    expect_one_joins(job);
    for (const std::size_t one : storm) {
        job.processes().signal(one, SIGKILL);
        job.processes().wait(one);
    }
    end_with_joined(job);
}

// Processes that have a ticket, and die as soon as they are in: each time another one.
TEST_F(Refused, AProcessThatCrashesInALoopUsesUpItsTicket) {
    constexpr std::uint64_t kUses = 3;
    Job job = make(kUses);
    auto* const notes = &job.note(0);
    for (std::uint64_t n = 0; n < kUses; ++n) {
        const std::size_t one = Stranger::start(job, kOpen, [notes](coppice_context_t* context) {
            Stranger::join(context, get_ticket(notes));
            raise(SIGKILL);
        });
        EXPECT_TRUE(job.processes().wait(one).killed_by(SIGKILL));
    }
    expect_refusal(
        job, [notes] { return get_ticket(notes); }, COPPICE_ERR_BOOTSTRAP, "spent");
    end(job);
}

}  // namespace
}  // namespace coppice::testing
