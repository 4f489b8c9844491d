// Where newcomers wait: which process is told of which, and when one counts.
#include "bootstrap/lobby.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace coppice::bootstrap {
namespace {

constexpr std::uint32_t kMembers = 3;
constexpr std::uint32_t kCapacity = 6;

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto raw = std::as_bytes(std::span(text));
    return {raw.begin(), raw.end()};
}

// A launcher's processes, each of which does at once what it is told, unless it is held.
class Lobbies : public testing::Test {
  protected:
    void SetUp() override {
        for (std::uint32_t number = 0; number < kMembers; ++number) {
            EXPECT_EQ(lobby.enter(number, false), "");
            EXPECT_TRUE(lobby.card(number, bytes_of("the group"), bytes_of("a member")));
        }
        deliver();
    }

    std::string join(std::uint32_t number) {
        lobby.started_late(number);
        return lobby.enter(number, true);
    }

    void deliver() {
        while (const auto send = lobby.next()) {
            std::span<const std::byte> rest(*send->frame);
            FrameHeader header;
            ASSERT_TRUE(take(rest, header));
            PersonBody who;
            const std::uint32_t to = send->to;
            switch (header.kind) {
                case FrameKind::invitation:
                    ASSERT_TRUE(take(rest, who));
                    EXPECT_EQ(who.number, to);
                    serial[to] = who.serial;
                    if (!held.contains(to)) {
                        EXPECT_TRUE(lobby.card(to, {}, bytes_of("a newcomer")));
                    }
                    break;
                case FrameKind::introduce:
                    ASSERT_TRUE(take(rest, who));
                    EXPECT_NE(who.number, to);
                    introduced[to].insert(who.serial);
                    if (!held.contains(to)) {
                        EXPECT_TRUE(lobby.wired(to, who.serial));
                    }
                    break;
                case FrameKind::ready:
                    ASSERT_TRUE(take(rest, who));
                    ready[to].insert(who.serial);
                    break;
                case FrameKind::gone: {
                    std::uint32_t gone = 0;
                    ASSERT_TRUE(take(rest, gone));
                    ready[to].erase(gone);
                    introduced[to].erase(gone);
                    break;
                }
                case FrameKind::formed:
                    in.insert(to);
                    break;
                case FrameKind::refused:
                    EXPECT_TRUE(send->is_last);
                    refused[to] = {reinterpret_cast<const char*>(rest.data()), rest.size()};
                    break;
                default:
                    FAIL() << "an unexpected frame";
            }
        }
    }
    bool is_ready(std::uint32_t number) { return ready[0].contains(serial[number]); }
    PersonBody person(std::uint32_t number) { return {.number = number, .incarnation = lobby.incarnation(number)}; }

    Lobby lobby{kMembers, kCapacity};
    std::set<std::uint32_t> held;
    std::map<std::uint32_t, std::uint32_t> serial;
    std::map<std::uint32_t, std::set<std::uint32_t>> introduced;
    std::map<std::uint32_t, std::set<std::uint32_t>> ready;
    std::set<std::uint32_t> in;
    std::map<std::uint32_t, std::string> refused;
};

TEST_F(Lobbies, OneThatAllCanReachIsReadyAndThenIn) {
    EXPECT_EQ(join(4), "");
    EXPECT_TRUE(lobby.is_waiting(4));
    deliver();
    for (const std::uint32_t number : {0U, 1U, 2U, 4U})
        EXPECT_TRUE(ready[number].contains(serial[4])) << number;
    const PersonBody four = person(4);
    for (std::uint32_t number = 0; number < kMembers; ++number)
        EXPECT_TRUE(lobby.formed(number, {&four, 1}, {}, bytes_of("a group")));
    deliver();
    EXPECT_EQ(in, std::set<std::uint32_t>{4});
    EXPECT_FALSE(lobby.is_waiting(4));
}

// It may be root of the group that has it, and then all renew as it says.
TEST_F(Lobbies, OneThatComesLaterIsToldOfThoseThatAreReadyAlready) {
    EXPECT_EQ(join(3), "");
    EXPECT_EQ(join(4), "");
    deliver();
    const PersonBody three = person(3);
    for (std::uint32_t number = 0; number < kMembers; ++number)
        EXPECT_TRUE(lobby.formed(number, {&three, 1}, {}, bytes_of("a group without 4")));
    EXPECT_EQ(join(5), "");
    deliver();
    EXPECT_EQ(ready[5], (std::set<std::uint32_t>{serial[4], serial[5]}));
}

// Its connection ends before its process is known to have ended.
TEST_F(Lobbies, OneThatGoesBeforeItIsInHoldsUpNoneBehindIt) {
    EXPECT_EQ(join(3), "");
    EXPECT_EQ(join(4), "");
    EXPECT_EQ(join(5), "");
    deliver();
    lobby.left(4);
    const std::vector<PersonBody> newcomers{person(3), person(4), person(5)};
    for (std::uint32_t number = 0; number < kMembers; ++number)
        EXPECT_TRUE(lobby.formed(number, newcomers, {}, bytes_of("a group")));
    deliver();
    EXPECT_EQ(in, (std::set<std::uint32_t>{3, 5}));
    EXPECT_FALSE(lobby.is_waiting(5));
}

TEST_F(Lobbies, MembersKnowEachOther) {
    EXPECT_TRUE(introduced.empty());
}

TEST_F(Lobbies, AMemberThatHasNotMadeItKnownHoldsItUpAndAStoppedNewcomerDoesNot) {
    held = {2};
    EXPECT_EQ(join(4), "");
    deliver();
    EXPECT_FALSE(is_ready(4));
    EXPECT_TRUE(lobby.wired(2, serial[4]));
    deliver();
    EXPECT_TRUE(is_ready(4));

    held = {5};  // with its card, and no more
    EXPECT_EQ(join(5), "");
    deliver();
    EXPECT_TRUE(lobby.card(5, {}, bytes_of("a newcomer")));
    deliver();
    EXPECT_FALSE(is_ready(5));
    EXPECT_EQ(join(3), "");
    deliver();
    EXPECT_TRUE(is_ready(3));
}

TEST_F(Lobbies, ADeadMemberIsNotWaitedFor) {
    held = {2};
    EXPECT_EQ(join(4), "");
    deliver();
    lobby.ended(2);
    deliver();
    EXPECT_TRUE(is_ready(4));
}

TEST_F(Lobbies, OneThatDiesIsForgottenAndTheNextOfItsNumberIsAnother) {
    EXPECT_EQ(join(4), "");
    deliver();
    const std::uint32_t before = serial[4];
    lobby.ended(4);
    deliver();
    EXPECT_FALSE(ready[0].contains(before));
    EXPECT_EQ(join(4), "");
    deliver();
    EXPECT_NE(serial[4], before);
    EXPECT_EQ(lobby.incarnation(4), 1U);
    EXPECT_TRUE(is_ready(4));
    EXPECT_FALSE(introduced[0].contains(before));
}

// Its process lives, stopped for example, but the others have taken it for dead.
TEST_F(Lobbies, OneThatTheNextGroupHasNoMoreIsNotWaitedFor) {
    held = {1};
    EXPECT_EQ(join(4), "");
    deliver();
    EXPECT_FALSE(is_ready(4));
    const PersonBody one = person(1);
    EXPECT_TRUE(lobby.formed(0, {}, {&one, 1}, bytes_of("a group")));
    EXPECT_TRUE(lobby.formed(2, {}, {&one, 1}, bytes_of("a group")));
    deliver();
    EXPECT_TRUE(is_ready(4));
    EXPECT_FALSE(ready[1].contains(serial[4]));
}

// Under a quorum that lets both go on.
TEST_F(Lobbies, OfTwoSidesThatLeaveEachOtherOutTheFirstHasTheNewcomers) {
    EXPECT_EQ(join(4), "");
    deliver();
    const PersonBody two = person(2);
    const std::vector<PersonBody> others{person(0), person(1)};
    const PersonBody four = person(4);
    EXPECT_TRUE(lobby.formed(2, {&four, 1}, others, bytes_of("a group")));
    EXPECT_TRUE(lobby.formed(0, {}, {&two, 1}, bytes_of("another")));
    EXPECT_TRUE(lobby.formed(1, {&four, 1}, {&two, 1}, bytes_of("another")));
    deliver();
    EXPECT_EQ(in, std::set<std::uint32_t>{4});
    EXPECT_TRUE(lobby.has_members());
    lobby.ended(2);
    EXPECT_TRUE(lobby.has_members()) << "4 is one";
    lobby.ended(4);
    EXPECT_FALSE(lobby.has_members());
}

TEST_F(Lobbies, NothingIsKeptOfThoseThatHaveGone) {
    const std::size_t before = lobby.kept();
    for (int turn = 0; turn < 3; ++turn) {
        EXPECT_EQ(join(4), "");
        EXPECT_EQ(join(5), "");
        deliver();
        EXPECT_GT(lobby.kept(), before);
        lobby.ended(4);
        lobby.ended(5);
        deliver();
        EXPECT_EQ(lobby.kept(), before);
    }
}

TEST_F(Lobbies, OneThatAMemberCantReachIsToldWhyAndTheOthersAreNotHeldUp) {
    held = {1};
    EXPECT_EQ(join(4), "");
    EXPECT_EQ(join(5), "");
    deliver();
    EXPECT_TRUE(lobby.unwired(1, serial[4], "its address is damaged"));
    EXPECT_TRUE(lobby.wired(1, serial[5]));
    deliver();
    EXPECT_EQ(refused[4], "its address is damaged");
    EXPECT_TRUE(is_ready(5));
    EXPECT_FALSE(refused.contains(5));
}

// The members had decided to take it in, and can't; one that the group has is a member, whatever others say of it later.
TEST_F(Lobbies, OneThatIsReadyMayBeTurnedAwayAndAMemberMayNot) {
    EXPECT_EQ(join(4), "");
    EXPECT_EQ(join(5), "");
    deliver();
    const PersonBody five = person(5);
    EXPECT_TRUE(lobby.formed(0, {&five, 1}, {}, bytes_of("a group")));
    for (const std::uint32_t number : {0U, 1U}) {
        EXPECT_TRUE(lobby.unwired(number, serial[4], "there is no room"));
        EXPECT_TRUE(lobby.unwired(number, serial[5], "there is no room"));
    }
    deliver();
    EXPECT_EQ(refused, (std::map<std::uint32_t, std::string>{{4, "there is no room"}}));
    EXPECT_EQ(in, std::set<std::uint32_t>{5});
    EXPECT_FALSE(is_ready(4));
}

TEST_F(Lobbies, WithoutMembersNobodyWaits) {
    held = {0, 1, 2};
    EXPECT_EQ(join(4), "");
    deliver();
    for (std::uint32_t number = 0; number < kMembers; ++number)
        number == 1 ? lobby.left(number) : lobby.ended(number);
    deliver();
    EXPECT_NE(refused[4].find("no member of the group is left"), std::string::npos);
    EXPECT_FALSE(lobby.has_members());
    EXPECT_NE(join(5), "");
}

TEST_F(Lobbies, OneThatWasTakenInIsAMember) {
    EXPECT_EQ(join(4), "");
    deliver();
    const PersonBody four = person(4);
    EXPECT_TRUE(lobby.formed(0, {&four, 1}, {}, bytes_of("a group")));
    deliver();
    held = {4};
    EXPECT_EQ(join(5), "");
    deliver();
    EXPECT_FALSE(is_ready(5));
    EXPECT_TRUE(lobby.wired(4, serial[5]));
    deliver();
    EXPECT_TRUE(is_ready(5));
    for (std::uint32_t number = 0; number < kMembers; ++number)
        lobby.ended(number);
    EXPECT_TRUE(lobby.has_members());
}

TEST_F(Lobbies, WhatCantBeIsRefused) {
    EXPECT_NE(lobby.enter(0, false), "");  // again
    EXPECT_NE(lobby.enter(0, true), "");
    EXPECT_NE(lobby.enter(5, true), "");  // nothing was started
    EXPECT_EQ(join(4), "");
    EXPECT_NE(lobby.enter(4, true), "");
    EXPECT_FALSE(lobby.wired(0, 1000));
    EXPECT_FALSE(lobby.card(0, {}, bytes_of("another")));
    const PersonBody four = person(4);
    EXPECT_FALSE(lobby.formed(0, {&four, 1}, {}, bytes_of("a group")));  // it is not ready
    const PersonBody none{.number = kCapacity};
    EXPECT_FALSE(lobby.formed(0, {}, {&none, 1}, bytes_of("a group")));
    EXPECT_FALSE(lobby.formed(4, {}, {}, bytes_of("a group")));  // and no member
}

}  // namespace
}  // namespace coppice::bootstrap
