// Tickets that are good for nothing, processes that do not belong, and those that stop or die on their way into a group: each is told why, or
// costs nobody anything; the group goes on, and the next one joins.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <string_view>

#include "bootstrap/door/caller.hpp"
#include "bootstrap/door/door.hpp"
#include "integration/tickets.hpp"

namespace coppice::testing {
namespace {

using bootstrap::DoorAddress;
using bootstrap::Ticket;
using Environment = Stranger::Environment;

const Environment kOpen{{"COPPICE_JOIN", "any"}, {"COPPICE_CAPACITY", "5"}, {"COPPICE_TRANSPORT", "shm,tcp"}};
constexpr std::size_t kStop = 8;  // the note that ends a job
constexpr std::size_t kPending =
    10;                            // the notes in which each of the first members tells whether somebody waits for it
constexpr std::size_t kFirst = 2;  // first members

// Two members that agree, and take in who comes, until they are told to end.
class Refused : public ::testing::Test {
  protected:
    static void serve(Member& member, std::uint32_t uses, std::uint64_t lifetime_ns) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        if (member.rank == 1) invite(member, uses, lifetime_ns);
        go_on(member.context, member.group, member.notes, &member.notes[kPending + member.rank]);
    }
    // All that are in end together.
    static void go_on(coppice_context_t* context, coppice_group_t* group, std::atomic<std::uint64_t>* notes,
                      std::atomic<std::uint64_t>* pending_note = nullptr) {
        while (true) {
            std::uint64_t end = notes[kStop].load();
            const bool is_whole = agree(group, end, COPPICE_MIN);
            int pending = 0;
            COPPICE_CHECK(coppice_group_pending(group, &pending) == COPPICE_OK);
            notes[0].fetch_add(1);
            if (pending_note != nullptr) pending_note->store(static_cast<std::uint64_t>(pending));
            const bool may_renew = notes[3].load() == 0;
            if (is_whole && end != 0) break;
            // May differ between them for a moment: that is an agreement of its own.
            std::uint64_t all = may_renew ? 1 : 0;
            const bool agreed = agree(group, all, COPPICE_MIN);
            if (!is_whole || !agreed || (pending != 0 && all != 0)) {
                group = renew(group);
                notes[7].store(size_of(group));
            }
            usleep(200);
        }
        work_together(group);
        leave(context, group);
    }
    static Job make(std::uint32_t uses = 8, std::uint64_t lifetime_ns = kHour, const Environment& environment = kOpen) {
        JobOptions options;
        options.ranks = kFirst;
        options.environment = environment;
        return Job(
            options, [=](Member& member) { serve(member, uses, lifetime_ns); }, kNotes);
    }
    static bool all_see_that_one_waits(Job& job) {
        return becomes([&] {
            for (std::size_t member = 0; member < kFirst; ++member)
                if (job.note(kPending + member).load() == 0) return false;
            return true;
        });
    }
    static void end(Job& job) {
        job.note(kStop).store(1);
        EXPECT_EQ(job.finish(), "");
    }
    static void expect_refusal(Job& job, const std::function<std::vector<std::byte>()>& ticket, coppice_status_t status,
                               const std::string& words, const Environment& environment = kOpen) {
        const std::size_t one = Stranger::start(job, environment, [=](coppice_context_t* context) {
            Stranger::expect_refusal(context, ticket(), status, words);
        });
        const Ending ending = job.processes().wait(one);
        EXPECT_TRUE(ending.well()) << ending.text();
    }
    // One that joins, and stays until all end.
    static std::size_t start_member(Job& job, const Environment& environment = kOpen) {
        auto* const notes = &job.note(0);
        return Stranger::start(job, environment, [notes](coppice_context_t* context) {
            coppice_group_t* group = Stranger::join(context, get_ticket(notes));
            notes[4].fetch_add(1);
            go_on(context, group, notes);
        });
    }
    static void expect_one_joins(Job& job, std::uint64_t so_many = 1) {
        joined_ = start_member(job);
        EXPECT_TRUE(job.await_note(4, so_many));
    }
    static void end_with_joined(Job& job) {
        end(job);
        const Ending ending = job.processes().wait(joined_);
        EXPECT_TRUE(ending.well()) << ending.text();
    }
    static Ticket read(const std::vector<std::byte>& bytes) {
        Ticket ticket;
        COPPICE_CHECK(Ticket::read(bytes, ticket) == Ticket::Reading::whole);
        return ticket;
    }
    static inline std::size_t joined_ = 0;
};

TEST_F(Refused, ATicketThatHasExpired) {
    Job job = make(8, 1'000'000);
    auto* const notes = &job.note(0);
    expect_refusal(
        job, [notes] { return get_ticket(notes); }, COPPICE_ERR_BOOTSTRAP, "expired");
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

// ----------------------------------------------------------------------------------------- dead or stopped on its way ---

int connect_to(const DoorAddress& door) {
    const DoorAddress::Ip& ip = door.ips.back();  // this host's
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(door.port);
    std::memcpy(&to.sin_addr, ip.bytes.data(), 4);
    COPPICE_CHECK(::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
    return socket;
}

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
