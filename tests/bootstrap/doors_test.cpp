// A door that stands open: sockets, and processes that come more than once, or stop on their way. What is said there is in door_test.cpp.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "bootstrap/door/caller.hpp"
#include "bootstrap/door/door.hpp"

namespace coppice::bootstrap {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kDeadlineNs = 60 * Door::kSecond;
constexpr std::uint64_t kHourNs = 3600 * Door::kSecond;
constexpr std::uint32_t kCapacity = 3;
const std::vector<unsigned char> kSecret(32, 7);

Bytes bytes_of(std::string_view text) {
    const auto raw = std::as_bytes(std::span(text));
    return {raw.begin(), raw.end()};
}

void look_again() {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

bool becomes(const std::function<bool()>& condition) {
    for (const std::uint64_t deadline = now_ns() + kDeadlineNs; now_ns() < deadline; look_again())
        if (condition()) return true;
    return false;
}

// The one member of a group, which keeps its door, and makes each newcomer known to itself at once.
class Keeper {
  public:
    explicit Keeper(const Door::Patience& patience = {}, unsigned char secret = kSecret[0]) {
        auto door = Door::open(true, {}, patience);
        EXPECT_TRUE(door) << door.error().message;
        door_ = std::move(*door);
        door_->belong(std::vector<unsigned char>(32, secret), {.number = 0}, kCapacity, bytes_of("the group"));
        door_->tell_card(bytes_of("the group"), bytes_of("the member"));
        attend({});
        thread_ = std::jthread([this](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
                look();
                look_again();
            }
        });
    }

    // So many processes may join.
    Ticket ticket(std::uint32_t uses) {
        const std::scoped_lock lock(mutex_);
        const auto bytes = door_->invite(uses, kHourNs, {});
        EXPECT_TRUE(bytes) << bytes.error().message;
        Ticket ticket;
        EXPECT_EQ(Ticket::read(*bytes, ticket), Ticket::Reading::whole);
        return ticket;
    }
    // The group has these now, besides the one that keeps the door.
    void attend(const std::vector<PersonBody>& others) {
        const std::scoped_lock lock(mutex_);
        const auto address = door_->address().bytes();
        Admission::Company company{.members = {{}}, .keeper = {}, .door = {address.begin(), address.end()}};
        company.members.insert(company.members.end(), others.begin(), others.end());
        door_->attend(company);
    }
    // Has been introduced to.
    bool knows(const PersonBody& who) {
        const std::scoped_lock lock(mutex_);
        return known_.contains({who.number, who.incarnation});
    }
    bool is_ready(const PersonBody& who) {
        const std::scoped_lock lock(mutex_);
        return ready_.contains({who.number, who.incarnation});
    }

  private:
    void look() {
        const std::scoped_lock lock(mutex_);
        while (const auto event = door_->next()) {
            if (!*event) return;
            const PersonBody who = (*event)->who;
            if ((*event)->kind == Admission::Event::Kind::introduced) {
                known_.insert({who.number, who.incarnation});
                door_->tell_wired(who.serial);
            }
            if ((*event)->kind == Admission::Event::Kind::ready) ready_.insert({who.number, who.incarnation});
        }
    }

    std::mutex mutex_;
    std::unique_ptr<Door> door_;
    std::set<std::pair<std::uint32_t, std::uint32_t>> known_;
    std::set<std::pair<std::uint32_t, std::uint32_t>> ready_;
    std::jthread thread_;
};

Result<std::unique_ptr<Door>> come(const Ticket& ticket, std::uint64_t joiner,
                                   std::uint64_t patience_ns = kDeadlineNs) {
    return be_let_in(std::span(&ticket, 1), joiner, true, {}, now_ns() + patience_ns);
}

// What the door tells a newcomer next.
Result<Admission::Event> hear(Door& door) {
    for (const std::uint64_t deadline = now_ns() + kDeadlineNs; now_ns() < deadline; look_again()) {
        auto event = door.next();
        if (!event) return tl::unexpected(std::move(event.error()));
        if (*event) return **event;
    }
    return fail(COPPICE_ERR_TIMEOUT, "the door says nothing");
}

PersonBody invited(Door& door) {
    const auto event = hear(door);
    EXPECT_TRUE(event && event->kind == Admission::Event::Kind::invited);
    return event ? event->who : PersonBody{};
}

// It goes on until all can reach it.
void become_ready(Keeper& keeper, Door& door, const PersonBody& self) {
    door.tell_card({}, bytes_of("a newcomer"));
    EXPECT_TRUE(becomes([&] {
        const auto event = door.next();
        if (event && *event && (*event)->kind == Admission::Event::Kind::introduced)
            door.tell_wired((*event)->who.serial);
        return keeper.is_ready(self);
    }));
}

// --------------------------------------------------------------------------------------------- those that come again ---

// The network has lost its connection, of which the keeper has not heard: the socket stands there.
TEST(StandingDoors, TakeInAProcessAgainWhoseConnectionBroke) {
    Keeper keeper;
    const Ticket ticket = keeper.ticket(1);
    auto broken = come(ticket, 77);
    ASSERT_TRUE(broken) << broken.error().message;
    invited(**broken);
    auto before_its_card = come(ticket, 77);
    ASSERT_TRUE(before_its_card) << before_its_card.error().message;
    become_ready(keeper, **before_its_card, invited(**before_its_card));
    auto when_ready = come(ticket, 77);
    ASSERT_TRUE(when_ready) << when_ready.error().message;
    become_ready(keeper, **when_ready, invited(**when_ready));
    // The ticket is that process's alone.
    const auto other = come(ticket, 78);
    ASSERT_FALSE(other);
    EXPECT_NE(other.error().message.find("spent"), std::string::npos) << other.error().message;
}

TEST(StandingDoors, TakeInAProcessAgainThatWasTakenInAndNotTold) {
    Keeper keeper;
    const Ticket ticket = keeper.ticket(1);
    auto broken = come(ticket, 77);
    ASSERT_TRUE(broken) << broken.error().message;
    const PersonBody before = invited(**broken);
    become_ready(keeper, **broken, before);
    keeper.attend({before});
    // As long as the group has its earlier self as a member it waits.
    const auto waits = come(ticket, 77, Door::kSecond / 5);
    ASSERT_FALSE(waits);
    EXPECT_EQ(waits.error().status, COPPICE_ERR_TIMEOUT) << waits.error().message;
    keeper.attend({});
    auto again = come(ticket, 77);
    ASSERT_TRUE(again) << again.error().message;
    const PersonBody now = invited(**again);
    EXPECT_TRUE(now.number != before.number || now.incarnation != before.incarnation);
}

// A member that was stopped, say, was left out; its connection ends when others have its number.
TEST(StandingDoors, ConnectionsOfThoseThatWereLeftOutEndWithoutHarmToWhoHasTheirNumber) {
    Keeper keeper;
    const Ticket ticket = keeper.ticket(3);
    auto left_out = come(ticket, 77);
    ASSERT_TRUE(left_out) << left_out.error().message;
    const PersonBody before = invited(**left_out);
    become_ready(keeper, **left_out, before);
    keeper.attend({before});
    keeper.attend({});
    auto other = come(ticket, 78);  // has a number that nobody has had
    ASSERT_TRUE(other) << other.error().message;
    auto next = come(ticket, 79);
    ASSERT_TRUE(next) << next.error().message;
    const PersonBody self = invited(**next);
    ASSERT_EQ(self.number, before.number);
    left_out->reset();
    become_ready(keeper, **next, self);
}

// ------------------------------------------------------------------------------------------------------- refusals ---

// A door at which nobody answers: the kernel takes connections, as of a process that is stopped.
class SilentDoor {
  public:
    SilentDoor() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof at;
        EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&at), length), 0);
        EXPECT_EQ(::listen(socket_.get(), 16), 0);
        EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&at), &length), 0);
        address_ = {.port = ntohs(at.sin_port), .ips = {{.version = 4, .bytes = {127, 0, 0, 1}}}};
    }
    const DoorAddress& address() const { return address_; }

  private:
    Handle socket_;
    DoorAddress address_;
};

TEST(StandingDoors, OneRefusalByAMemberIsEnough) {
    Keeper keeper;
    Ticket ticket = keeper.ticket(1);
    ticket.terms.expires_ns = 1;
    ticket.key = key_of(kSecret, ticket.terms);
    const SilentDoor silent;
    ticket.doors.insert(ticket.doors.begin(), silent.address());
    ticket.doors.push_back(silent.address());
    const auto refused = come(ticket, 77);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, COPPICE_ERR_BOOTSTRAP) << refused.error().message;
    EXPECT_NE(refused.error().message.find("expired"), std::string::npos) << refused.error().message;
}

// Who listens at the first door may be somebody else by now.
TEST(StandingDoors, WhoDoesNotKnowTheTicketDoesNotRefuseIt) {
    Keeper keeper;
    Keeper other(Door::Patience{}, 9);
    Ticket ticket = keeper.ticket(1);
    ticket.doors.insert(ticket.doors.begin(), other.ticket(1).doors[0]);
    const auto door = come(ticket, 77);
    EXPECT_TRUE(door) << door.error().message;
}

TEST(StandingDoors, SeveralTicketsAreTriedInTurn) {
    Keeper keeper;
    const Ticket good = keeper.ticket(1);
    Ticket expired = keeper.ticket(1);
    expired.terms.expires_ns = 1;
    expired.key = key_of(kSecret, expired.terms);
    Ticket changed = keeper.ticket(1);
    changed.key[3] ^= 1;
    const std::vector<Ticket> tickets{expired, changed, good};
    const auto door = be_let_in(tickets, 77, true, {}, now_ns() + kDeadlineNs);
    ASSERT_TRUE(door) << door.error().message;
    // None is left: the first reason is told.
    const auto refused = be_let_in(tickets, 78, true, {}, now_ns() + kDeadlineNs);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("expired"), std::string::npos) << refused.error().message;
}

TEST(StandingDoors, SoManyTicketsAndNoMore) {
    Keeper keeper;
    const Bytes one = keeper.ticket(1).bytes();
    Bytes all;
    for (std::size_t n = 0; n < kMostTickets; ++n)
        append_bytes(all, one);
    const auto read = read_tickets(all);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->size(), kMostTickets);
    append_bytes(all, one);
    const auto refused = read_tickets(all);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, COPPICE_ERR_INVALID_ARGUMENT);
    EXPECT_NE(refused.error().message.find("too many"), std::string::npos) << refused.error().message;
}

// All that have met who came before are gone: what they knew the newcomer was told when it came.
TEST(StandingDoors, NewcomersKnowWhoHasComeBeforeThem) {
    auto keeper = std::make_unique<Keeper>();
    const Ticket used = keeper->ticket(1);
    {
        auto first = come(used, 77);
        ASSERT_TRUE(first) << first.error().message;
        become_ready(*keeper, **first, invited(**first));
    }
    auto came = come(keeper->ticket(1), 78);
    ASSERT_TRUE(came) << came.error().message;
    Door& heir = **came;
    const PersonBody self = invited(heir);
    heir.belong(kSecret, self, kCapacity, bytes_of("the group"));
    become_ready(*keeper, heir, self);
    keeper.reset();
    const auto address = heir.address().bytes();
    heir.attend({.members = {self}, .keeper = self, .door = {address.begin(), address.end()}});
    Ticket there = used;
    there.doors = {heir.address()};
    const auto made = heir.invite(1, kHourNs, {});
    ASSERT_TRUE(made) << made.error().message;
    Ticket fresh;
    ASSERT_EQ(Ticket::read(*made, fresh), Ticket::Reading::whole);
    const std::jthread looks([&heir](const std::stop_token& stop) {
        for (; !stop.stop_requested(); look_again())
            EXPECT_TRUE(heir.next());
    });
    const auto again = come(there, 79);
    ASSERT_FALSE(again);
    EXPECT_NE(again.error().message.find("spent"), std::string::npos) << again.error().message;
    // Whose number it gets has had an owner.
    auto next = come(fresh, 80);
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(invited(**next).incarnation, 1U);
}

// ---------------------------------------------------------------------------------------------- those that do not read ---

std::ptrdiff_t count_descriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

// A member that comes to the door, and then reads nothing.
class Deaf {
  public:
    explicit Deaf(const DoorAddress& door) : line_(line_to(door)) {
        EXPECT_TRUE(becomes([this] {
            line_.move();
            return line_.is_open();
        }));
        Bytes body;
        append(body, EnterBody{.number = 1});
        append(body, std::uint32_t{0});
        append_bytes(body, Ledger(kCapacity).bytes());
        line_.post(make_frame(FrameKind::enter, body));
        line_.post(Admission::card_frame(bytes_of("the group"), bytes_of("a deaf member")));
    }

  private:
    static Line line_to(const DoorAddress& door) {
        Knock knock;
        knock.role = Role::member;
        knock.number = 1;
        knock.nonce = draw_door_nonce();
        return {start_to_connect(door.ips[0], door.port), Passage::knock(member_key(kSecret), knock)};
    }
    Line line_;
};

TEST(StandingDoors, KeepSoMuchForAMemberThatDoesNotRead) {
    Keeper keeper;
    keeper.attend({{1, 0, 0}});
    const Ticket ticket = keeper.ticket(1000);
    const std::ptrdiff_t before = count_descriptors();
    const Deaf deaf(ticket.doors[0]);
    constexpr std::size_t kCard = 60'000;
    // With what the kernel keeps.
    constexpr std::size_t kNewcomers = 3 * Line::kMostUnsent / kCard;
    for (std::uint64_t joiner = 1; joiner <= kNewcomers; ++joiner) {
        Result<std::unique_ptr<Door>> door = come(ticket, joiner);
        // There is one number for all of them, and the one before may not be known to have gone.
        ASSERT_TRUE(becomes([&] {
            if (!door) door = come(ticket, joiner);
            return door.has_value();
        })) << door.error().message;
        const PersonBody self = invited(**door);
        (*door)->tell_card({}, Bytes(kCard));
        ASSERT_TRUE(becomes([&] { return keeper.knows(self) && (*door)->next().has_value(); }));
    }
    // Its own end of the connection is all that is left.
    EXPECT_TRUE(becomes([&] { return count_descriptors() == before + 1; })) << count_descriptors() - before;
}

// ------------------------------------------------------------------------------------------- those that stop on the way ---

enum class Stops : std::uint8_t { before_its_card, before_it_knows_the_members };

// A process that stops when it has come so far, and tells, when it goes on, how it ended.
class Stopping {
  public:
    explicit Stopping(Stops when) {
        EXPECT_EQ(::pipe(ticket_.data()), 0);
        EXPECT_EQ(::pipe(end_.data()), 0);
        process_ = ::fork();
        if (process_ == 0) run(when);
    }
    ~Stopping() {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        for (const int one : {ticket_[0], ticket_[1], end_[0], end_[1]})
            ::close(one);
    }
    Stopping(const Stopping&) = delete;
    Stopping& operator=(const Stopping&) = delete;

    void take(const Ticket& ticket) const {
        const Bytes bytes = ticket.bytes();
        EXPECT_EQ(::write(ticket_[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
        int status = 0;
        EXPECT_EQ(::waitpid(process_, &status, WUNTRACED), process_);
        EXPECT_TRUE(WIFSTOPPED(status));
    }
    std::string go_on() const {
        ::kill(process_, SIGCONT);
        std::array<char, 1024> text{};
        const auto length = ::read(end_[0], text.data(), text.size());
        return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : "";
    }

  private:
    [[noreturn]] void run(Stops when) const {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        Bytes bytes(kLongestTicket);
        const auto length = ::read(ticket_[0], bytes.data(), bytes.size());
        Ticket ticket;
        bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
        if (Ticket::read(bytes, ticket) != Ticket::Reading::whole) ::_exit(1);
        auto door = come(ticket, 99);
        if (!door) ::_exit(1);
        invited(**door);
        if (when == Stops::before_it_knows_the_members) (*door)->tell_card({}, bytes_of("a newcomer"));
        ::raise(SIGSTOP);
        auto event = hear(**door);
        while (event)
            event = hear(**door);
        const std::string& text = event.error().message;
        ::_exit(::write(end_[1], text.data(), text.size()) < 0 ? 1 : 0);
    }

    std::array<int, 2> ticket_{};
    std::array<int, 2> end_{};
    pid_t process_ = -1;
};

class ThoseThatStop : public ::testing::TestWithParam<Stops> {};
INSTANTIATE_TEST_SUITE_P(StandingDoors, ThoseThatStop,
                         ::testing::Values(Stops::before_its_card, Stops::before_it_knows_the_members),
                         [](const auto& stops) {
                             return stops.param == Stops::before_its_card ? "BeforeTheirCard"
                                                                          : "BeforeTheyKnowTheMembers";
                         });

TEST_P(ThoseThatStop, DelayNobodyAndGiveTheirNumberBackWhenThePatienceIsOver) {
    const Stopping stopping(GetParam());
    // Each step of the others takes less.
    const bool has_card = GetParam() == Stops::before_it_knows_the_members;
    const std::uint64_t short_ns = 3 * Door::kSecond;
    Keeper keeper(has_card ? Door::Patience{.card_ns = kHourNs, .wire_ns = short_ns}
                           : Door::Patience{.card_ns = short_ns, .wire_ns = kHourNs});
    const Ticket ticket = keeper.ticket(9);
    stopping.take(ticket);
    auto other = come(ticket, 77);
    ASSERT_TRUE(other) << other.error().message;
    become_ready(keeper, **other, invited(**other));
    keeper.attend({{2, 0, 0}});  // it is a member now: the door's patience with newcomers is not for it
    // There are no more numbers but the stopped one's.
    Result<std::unique_ptr<Door>> third = come(ticket, 78);
    EXPECT_TRUE(becomes([&] {
        if (third) return true;
        EXPECT_EQ(third.error().status, COPPICE_ERR_NO_RESOURCES) << third.error().message;
        third = come(ticket, 78);
        return third.has_value();
    }));
    ASSERT_TRUE(third);
    const PersonBody self = invited(**third);
    EXPECT_EQ(self.number, 1U);
    EXPECT_EQ(self.incarnation, 1U);
    const std::string told = stopping.go_on();
    const char* const why =
        has_card ? "could not be made known to each other in time" : "has not said in time how it can be reached";
    EXPECT_NE(told.find(why), std::string::npos) << told;
}

}  // namespace
}  // namespace coppice::bootstrap
