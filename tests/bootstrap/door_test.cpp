// Tickets, what is said at a door, and who is let in: the parts without sockets.
#include <gtest/gtest.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "bootstrap/door/hall.hpp"
#include "bootstrap/door/passage.hpp"

namespace coppice::bootstrap {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view text) {
    const auto raw = std::as_bytes(std::span(text));
    return {raw.begin(), raw.end()};
}

constexpr Key kSecret{1, 2, 3};

Terms some_terms(std::uint32_t uses = 1, std::uint64_t expires_ns = UINT64_MAX) {
    return {.id = {9, 8, 7}, .uses = uses, .expires_ns = expires_ns};
}

// ------------------------------------------------------------------------------------------------------------ tickets ---

Ticket a_ticket() {
    Ticket ticket{.terms = some_terms(3, 1'000), .key = key_of(kSecret, some_terms(3, 1'000)), .doors = {}};
    ticket.doors.push_back({.port = 4711, .ips = {{.version = 4, .bytes = {10, 0, 0, 1}}}});
    ticket.doors.push_back(
        {.port = 65535, .ips = {{.version = 6, .bytes = {0xfd, 1}}, {.version = 4, .bytes = {127, 0, 0, 1}}}});
    return ticket;
}

TEST(TicketBytes, SayAllThatATicketHas) {
    Ticket read;
    ASSERT_EQ(Ticket::read(a_ticket().bytes(), read), Ticket::Reading::whole);
    EXPECT_EQ(read, a_ticket());
    EXPECT_EQ(Ticket::length_of(a_ticket().bytes()), a_ticket().bytes().size());
}

TEST(TicketBytes, NoPartAndNoOtherBitsAreATicket) {
    const Bytes whole = a_ticket().bytes();
    Ticket read;
    for (std::size_t length = 0; length < whole.size(); ++length)
        EXPECT_NE(Ticket::read(std::span(whole).first(length), read), Ticket::Reading::whole) << length;
    for (std::size_t at = 0; at < whole.size(); ++at) {
        Bytes changed = whole;
        changed[at] ^= std::byte{4};
        EXPECT_NE(Ticket::read(changed, read), Ticket::Reading::whole) << at;
    }
}

TEST(TicketBytes, TheLongestFitsWhatCallersAreToldToGive) {
    Ticket ticket = a_ticket();
    ticket.doors.assign(
        kMostDoors, {.port = 1, .ips = std::vector(kMostDoorAddresses, DoorAddress::Ip{.version = 6, .bytes = {}})});
    EXPECT_LE(ticket.bytes().size(), kLongestTicket);
    Ticket read;
    EXPECT_EQ(Ticket::read(ticket.bytes(), read), Ticket::Reading::whole);
}

TEST(TicketKeys, ChangeWithAllThatATicketSaysAndWithTheGroup) {
    const Key key = key_of(kSecret, some_terms());
    EXPECT_NE(key, key_of(kSecret, some_terms(2)));
    EXPECT_NE(key, key_of(kSecret, some_terms(1, 5)));
    Terms other = some_terms();
    other.id[15] = 1;
    EXPECT_NE(key, key_of(kSecret, other));
    EXPECT_NE(key, key_of(Key{4}, some_terms()));
    EXPECT_NE(key, member_key(kSecret));
}

// ------------------------------------------------------------------------------------------------------ at the door ---

class Passages : public ::testing::Test {
  protected:
    void SetUp() override { ASSERT_GE(sodium_init(), 0); }
    static Knock a_knock() {
        Knock knock;
        knock.uses = 1;
        knock.id = some_terms().id;
        knock.expires_ns = UINT64_MAX;
        knock.nonce = draw_door_nonce();
        return knock;
    }
    static Passage a_door() {
        return Passage::answer([](const Knock& knock) { return std::optional(key_of(kSecret, knock.terms())); },
                               draw_door_nonce());
    }
    static Bytes carry(Passage& from, Passage& to) {
        Bytes bytes = std::move(from.output());
        from.output().clear();
        to.receive(bytes);
        return bytes;
    }
    static void meet(Passage& stranger, Passage& door) {
        carry(stranger, door);
        carry(door, stranger);
        carry(stranger, door);
    }
};

TEST_F(Passages, WhoHasTheTicketIsHeardAndHears) {
    Passage stranger = Passage::knock(key_of(kSecret, some_terms()), a_knock());
    Passage door = a_door();
    meet(stranger, door);
    ASSERT_EQ(stranger.state(), Passage::State::open);
    ASSERT_EQ(door.state(), Passage::State::open);
    for (const char* text : {"one", "", "three"}) {
        stranger.send(bytes_of(text));
        door.send(bytes_of(text));
    }
    carry(stranger, door);
    carry(door, stranger);
    for (const char* text : {"one", "", "three"}) {
        EXPECT_EQ(door.next(), bytes_of(text));
        EXPECT_EQ(stranger.next(), bytes_of(text));
    }
    EXPECT_FALSE(door.next());
}

TEST_F(Passages, ByteAfterByteAsWell) {
    Passage stranger = Passage::knock(key_of(kSecret, some_terms()), a_knock());
    Passage door = a_door();
    for (int turn = 0; turn < 4; ++turn) {
        Passage& from = turn % 2 == 0 ? stranger : door;
        Passage& to = turn % 2 == 0 ? door : stranger;
        if (turn == 2) stranger.send(bytes_of("right behind the proof"));
        const Bytes bytes = std::move(from.output());
        from.output().clear();
        for (const std::byte& byte : bytes)
            to.receive(std::span(&byte, 1));
    }
    EXPECT_EQ(door.next(), bytes_of("right behind the proof"));
}

TEST_F(Passages, WhoHasAnotherKeyIsFoundOutByBoth) {
    Passage stranger = Passage::knock(key_of(Key{5}, some_terms()), a_knock());
    Passage door = a_door();
    carry(stranger, door);
    carry(door, stranger);
    EXPECT_EQ(stranger.state(), Passage::State::forged);
    EXPECT_TRUE(stranger.output().empty());
    door.receive(Bytes(sizeof(DoorProof)));
    EXPECT_EQ(door.state(), Passage::State::forged);
}

TEST_F(Passages, WhatWasRecordedProvesNothing) {
    Passage stranger = Passage::knock(key_of(kSecret, some_terms()), a_knock());
    Passage door = a_door();
    const Bytes knock = carry(stranger, door);
    const Bytes answer = carry(door, stranger);
    const Bytes proof = carry(stranger, door);
    Passage again = a_door();
    again.receive(knock);
    again.receive(proof);
    EXPECT_EQ(again.state(), Passage::State::forged);
    Passage another = Passage::knock(key_of(kSecret, some_terms()), a_knock());
    another.receive(answer);
    EXPECT_EQ(another.state(), Passage::State::forged);
    // Nor does what the door said itself.
    Passage mirror = a_door();
    mirror.receive(knock);
    mirror.receive(std::span(answer).last(sizeof(DoorProof)));
    EXPECT_EQ(mirror.state(), Passage::State::forged);
}

TEST_F(Passages, FramesThatAreChangedRepeatedOrLeftOutEndIt) {
    for (int how = 0; how < 4; ++how) {
        Passage stranger = Passage::knock(key_of(kSecret, some_terms()), a_knock());
        Passage door = a_door();
        meet(stranger, door);
        stranger.send(bytes_of("first"));
        Bytes first = std::move(stranger.output());
        stranger.output().clear();
        stranger.send(bytes_of("second"));
        Bytes second = std::move(stranger.output());
        if (how == 0) first.back() ^= std::byte{1};
        if (how == 1) first = second;  // out of order
        if (how == 2) second = first;  // again
        if (how == 3) second[2] = std::byte{255};
        door.receive(first);
        const bool is_good = door.next().has_value();
        EXPECT_EQ(is_good, how >= 2);
        door.receive(second);
        EXPECT_FALSE(door.next());
        EXPECT_EQ(door.state(), Passage::State::broken);
    }
}

// What newcomers have to know of the largest group that may take them in.
TEST_F(Passages, LongFramesAreHeardWhereTheyAreExpectedAndEndItElsewhere) {
    const Bytes birth(max_formed_bytes(kMaxLauncherRanks), std::byte{7});
    const Bytes frame = make_frame(FrameKind::formed, birth);
    for (const bool is_expected : {true, false}) {
        Passage stranger = Passage::knock(key_of(kSecret, some_terms()), a_knock());
        Passage door = a_door();
        meet(stranger, door);
        if (is_expected) stranger.take_frames_of(frame.size());
        door.send(frame);
        carry(door, stranger);
        EXPECT_EQ(stranger.next() == frame, is_expected);
        EXPECT_EQ(stranger.state(), is_expected ? Passage::State::open : Passage::State::broken);
    }
}

TEST_F(Passages, AnotherVersionIsTold) {
    for (int which = 0; which < 3; ++which) {
        Knock knock = a_knock();
        if (which == 0) knock.version = 7;
        if (which == 1) knock.word_size = 4;
        if (which == 2) knock.byte_order = 0x04030201;
        Passage stranger = Passage::knock(key_of(kSecret, some_terms()), knock);
        Passage door = a_door();
        carry(stranger, door);
        EXPECT_EQ(door.state(), Passage::State::misunderstood);
        carry(door, stranger);
        EXPECT_EQ(stranger.state(), Passage::State::misunderstood);
    }
}

TEST_F(Passages, NothingIsKeptOfOneThatTalksAndProvesNothing) {
    Passage door = a_door();
    door.receive(Bytes(10'000, std::byte{'x'}));
    EXPECT_EQ(door.state(), Passage::State::broken);
    Passage patient = a_door();
    Passage stranger = Passage::knock(key_of(kSecret, some_terms()), a_knock());
    carry(stranger, patient);
    for (int i = 0; i < 1'000; ++i)
        patient.receive(Bytes(1'000));
    EXPECT_EQ(patient.state(), Passage::State::forged);
    EXPECT_LE(patient.waiting(), 16'384U);
}

// ------------------------------------------------------------------------------------------------------------ the hall ---

constexpr std::uint32_t kCapacity = 5;

Admission::Company a_company(std::vector<PersonBody> members) {
    return {.members = members, .keeper = members.front(), .door = {}};
}

class Halls : public ::testing::Test {
  protected:
    Ledger ledger{kCapacity};
    Admission::Company company = a_company({{0, 0, 0}, {1, 0, 0}});
    Hall hall{company, {0, 0, 0}, ledger};

    std::uint64_t drawn = 0;
    Hall::Entry let_in(const Terms& terms, std::uint64_t wall_ns) { return hall.let_in(terms, ++drawn, wall_ns); }
    static Bytes card_body(std::string_view group, std::string_view card) {
        const Bytes frame = Admission::card_frame(bytes_of(group), bytes_of(card));
        return {frame.begin() + sizeof(FrameHeader), frame.end()};
    }
    void SetUp() override {
        ASSERT_GE(sodium_init(), 0);
        EXPECT_TRUE(hall.hear(0, FrameKind::card, card_body("the group", "zero"), 1));
    }
    void complete() {
        EXPECT_EQ(hall.enter(1, 0, Ledger(kCapacity).bytes(), 1), "");
        EXPECT_TRUE(hall.hear(1, FrameKind::card, card_body("the group", "one"), 1));
        deliver();
    }
    // All do at once what they are told, but for those that say nothing.
    void deliver(const std::vector<std::uint32_t>& silent = {}) {
        while (const auto send = hall.next()) {
            std::span<const std::byte> rest(*send->frame);
            FrameHeader header;
            PersonBody who;
            ASSERT_TRUE(take(rest, header));
            const bool is_silent = std::ranges::find(silent, send->to) != silent.end();
            if (header.kind == FrameKind::invitation && !is_silent) {
                EXPECT_TRUE(hall.hear(send->to, FrameKind::card, card_body("", "new"), 1));
            }
            if (header.kind == FrameKind::introduce && take(rest, who) && !is_silent) {
                Bytes body;
                append(body, who.serial);
                EXPECT_TRUE(hall.hear(send->to, FrameKind::wired, body, 1));
            }
        }
    }
};

TEST_F(Halls, NobodyIsLetInBeforeAllMembersHaveEntered) {
    EXPECT_FALSE(hall.is_complete());
    EXPECT_EQ(hall.enter(1, 0, Ledger(kCapacity).bytes(), 1), "");
    EXPECT_FALSE(hall.is_complete());  // it has yet to say how it can be reached
    EXPECT_TRUE(hall.hear(1, FrameKind::card, card_body("the group", "one"), 1));
    EXPECT_TRUE(hall.is_complete());
    const Hall::Entry entry = let_in(some_terms(), 1);
    ASSERT_TRUE(entry.number);
    EXPECT_EQ(*entry.number, 2U);
    deliver();
    EXPECT_EQ(hall.step(2), Hall::Step::ready);
}

TEST_F(Halls, AMemberThatIsDeadIsNotWaitedFor) {
    EXPECT_TRUE(hall.attend(a_company({{0, 0, 0}})));
    EXPECT_TRUE(hall.is_complete());
}

TEST_F(Halls, NoneIsAMemberThatTheGroupDoesNotHave) {
    EXPECT_NE(hall.enter(2, 0, Ledger(kCapacity).bytes(), 1), "");
    EXPECT_NE(hall.enter(1, 1, Ledger(kCapacity).bytes(), 1), "");
    EXPECT_NE(hall.enter(0, 0, Ledger(kCapacity).bytes(), 1), "");  // a living one's number
    EXPECT_NE(hall.enter(99, 0, Ledger(kCapacity).bytes(), 1), "");
    EXPECT_NE(hall.enter(1, 0, bytes_of("nothing that a member says"), 1), "");
    complete();
    EXPECT_NE(hall.enter(1, 0, Ledger(kCapacity).bytes(), 1), "");
}

TEST_F(Halls, TicketsAreSpentByThoseThatWereToldHowToReachTheMembers) {
    complete();
    const Hall::Entry first = let_in(some_terms(2), 1);
    ASSERT_TRUE(first.number);
    hall.lost(*first.number);  // before it has said anything
    for (int n = 0; n < 2; ++n) {
        const Hall::Entry entry = let_in(some_terms(2), 1);
        ASSERT_TRUE(entry.number) << entry.why;
        deliver();
        hall.lost(*entry.number);
        deliver();
    }
    const Hall::Entry last = let_in(some_terms(2), 1);
    EXPECT_FALSE(last.number);
    EXPECT_NE(last.why.find("spent"), std::string::npos);
}

TEST_F(Halls, ThoseOnTheirWayCountToo) {
    complete();
    EXPECT_TRUE(let_in(some_terms(1), 1).number);
    EXPECT_FALSE(let_in(some_terms(1), 1).number);
}

TEST_F(Halls, ATicketExpires) {
    complete();
    EXPECT_TRUE(let_in(some_terms(9, 100), 99).number);
    EXPECT_NE(let_in(some_terms(9, 100), 100).why.find("expired"), std::string::npos);
}

TEST_F(Halls, OneTooManyIsRefusedAndANumberThatIsFreeAgainIsAnothers) {
    complete();
    for (std::uint32_t n = 2; n < kCapacity; ++n)
        EXPECT_EQ(*let_in(some_terms(99), 1).number, n);
    deliver();
    EXPECT_EQ(let_in(some_terms(99), 1).status, COPPICE_ERR_NO_RESOURCES);
    hall.lost(3);
    const Hall::Entry entry = let_in(some_terms(99), 1);
    ASSERT_TRUE(entry.number);
    EXPECT_EQ(*entry.number, 3U);
    EXPECT_EQ(ledger.next_incarnation(3), 2U);
}

TEST_F(Halls, OneThatWasTakenInIsAMember) {
    complete();
    ASSERT_TRUE(let_in(some_terms(), 1).number);
    deliver();
    const PersonBody newcomer{2, 0, 0};
    const Bytes frame = Admission::formed_frame(std::span(&newcomer, 1), {}, bytes_of("born"));
    EXPECT_TRUE(hall.hear(1, FrameKind::formed, std::span(frame).subspan(sizeof(FrameHeader)), 1));
    const auto told = hall.next();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->to, 2U);
    EXPECT_TRUE(hall.attend(a_company({{0, 0, 0}, {1, 0, 0}, {2, 0, 0}})));
    EXPECT_EQ(hall.step(2), Hall::Step::member);
    EXPECT_TRUE(hall.is_complete());
    // One of which it can't know: another hall has to begin.
    EXPECT_FALSE(hall.attend(a_company({{0, 0, 0}, {3, 0, 0}})));
}

// What was agreed upon at one door counts at the next.
TEST_F(Halls, TheNextOneKnowsWhatMembersRemember) {
    Ledger theirs(kCapacity);
    theirs.note_use({some_terms().id, UINT64_MAX, 99}, {3, 4, 0}, 1);
    EXPECT_EQ(hall.enter(1, 0, theirs.bytes(), 1), "");
    EXPECT_TRUE(hall.hear(1, FrameKind::card, card_body("the group", "one"), 1));
    EXPECT_EQ(ledger.next_incarnation(3), 5U);
    EXPECT_FALSE(let_in(some_terms(1), 1).number);
    EXPECT_TRUE(let_in(some_terms(2), 1).number);
}

// The member at whose door it waited is gone: it comes to the next one, with a ticket that is used up by itself.
TEST_F(Halls, AProcessThatBeginsAnewUsesItsTicketOnce) {
    Ledger theirs(kCapacity);
    theirs.note_use({some_terms().id, UINT64_MAX, 77}, {3, 0, 0}, 1);
    EXPECT_EQ(hall.enter(1, 0, theirs.bytes(), 1), "");
    EXPECT_TRUE(hall.hear(1, FrameKind::card, card_body("the group", "one"), 1));
    EXPECT_FALSE(hall.let_in(some_terms(1), 78, 1).number);
    EXPECT_TRUE(hall.let_in(some_terms(1), 77, 1).number);
    deliver();
    EXPECT_FALSE(hall.let_in(some_terms(1), 77, 1).number);  // it is here
}

// Its connection broke, and the keeper has not heard of that: what it is told is not that its ticket is spent.
TEST_F(Halls, AProcessThatIsHereAlreadyHasNotSpentItsTicket) {
    complete();
    const Hall::Entry first = hall.let_in(some_terms(1), 77, 1);
    ASSERT_TRUE(first.number);
    EXPECT_EQ(hall.let_in(some_terms(1), 77, 1).earlier, first.number);  // before it has said how it can be reached
    deliver();
    const Hall::Entry again = hall.let_in(some_terms(1), 77, 1);
    EXPECT_FALSE(again.number);
    EXPECT_EQ(again.earlier, first.number);
    EXPECT_NE(again.status, COPPICE_ERR_BOOTSTRAP) << again.why;
    EXPECT_NE(hall.let_in(some_terms(1), 78, 1).why.find("spent"), std::string::npos);
    // Taken in, as another hall knows it.
    Hall next(a_company({{0, 0, 0}, {*first.number, 0, 0}}), {0, 0, 0}, ledger);
    EXPECT_EQ(next.let_in(some_terms(1), 77, 1).earlier, first.number);
    // And left out by the group.
    Hall last(a_company({{0, 0, 0}}), {0, 0, 0}, ledger);
    EXPECT_FALSE(last.let_in(some_terms(1), 77, 1).earlier);
}

TicketUse a_use(std::uint32_t ticket, std::uint64_t expires_ns) {
    TicketUse use{.id = {1}, .expires_ns = expires_ns, .joiner = ticket};
    std::memcpy(&use.id[4], &ticket, sizeof ticket);
    return use;
}

// At a member that does not keep the door, and so is not asked whether there is room.
TEST(Ledgers, UsesOfTicketsThatHaveExpiredMakeRoom) {
    Ledger full(kCapacity);
    for (std::uint32_t ticket = 0; ticket < Ledger::kMostUses; ++ticket)
        full.note_use(a_use(ticket, 100), {3, ticket, 0}, 1);
    Ledger told = full;
    const TicketUse lives = a_use(5000, UINT64_MAX);
    full.note_use(lives, {4, 0, 0}, 99);
    EXPECT_EQ(full.used(lives.id), 0U);  // all of them may still be asked about
    full.note_use(lives, {4, 0, 0}, 100);
    EXPECT_EQ(full.used(lives.id), 1U);
    EXPECT_TRUE(full.has_room(100));
    EXPECT_EQ(full.used(lives.id), 1U);
    EXPECT_TRUE(told.merge(full.bytes(), 100));
    EXPECT_EQ(told.used(lives.id), 1U);
}

TEST(Ledgers, WhatNoneHasWrittenIsNotTakenIn) {
    Ledger full(kCapacity);
    full.note({2, 7, 0});
    full.note_use({some_terms().id, 5, 1}, {3, 0, 0}, 1);
    const Bytes whole = full.bytes();
    Ledger ledger(kCapacity);
    for (std::size_t length = 0; length < whole.size(); ++length)
        EXPECT_FALSE(ledger.merge(std::span(whole).first(length), 1)) << length;
    EXPECT_FALSE(Ledger(2).merge(whole, 1));  // it has no such number
    EXPECT_EQ(ledger.bytes(), Ledger(kCapacity).bytes());
    EXPECT_TRUE(ledger.merge(whole, 1));
    EXPECT_TRUE(ledger.merge(whole, 1));
    EXPECT_EQ(ledger.used(some_terms().id), 1U);
}

}  // namespace
}  // namespace coppice::bootstrap
