// Leaving in peace: its rules.
#include <gtest/gtest.h>

#include "hosts.hpp"
#include "protocol/departure/departure.hpp"

namespace coppice::protocol {
namespace {

using Stage = Departure::Stage;

std::vector<DepartureMessage> all_sends(Departure& machine) {
    std::vector<DepartureMessage> all;
    while (const auto next = machine.next_send())
        all.push_back(*next);
    return all;
}

std::vector<std::uint32_t> receivers(Departure& machine, DepartureKind kind) {
    std::vector<std::uint32_t> told;
    for (const DepartureMessage& send : all_sends(machine)) {
        EXPECT_EQ(send.kind, kind);
        told.push_back(send.to.value);
    }
    return told;
}

DepartureMessage answer(std::uint32_t from, std::uint32_t about, bool said_so) {
    return {.kind = DepartureKind::answer, .from = Rank(from), .to = {}, .about = Rank(about), .said_so = said_so};
}

TEST(Departure, ARankThatLeavesTellsTheLeadersAtPowersOfTwoThatAreStillHere) {
    const topology::Nodes nodes = hosts_of({2, 2, 2, 2, 2, 2, 2, 2});
    Departure machine({.nodes = &nodes}, Rank(0));
    machine.peer_failed(Rank(2));
    machine.peer_left(Rank(4));
    machine.peer_left(Rank(5));
    machine.want();
    machine.leave(false);
    EXPECT_EQ(machine.stage(), Stage::left);
    EXPECT_EQ(receivers(machine, DepartureKind::farewell), (std::vector<std::uint32_t>{3, 14, 6, 12, 8}));
    machine.leave(false);
    EXPECT_TRUE(all_sends(machine).empty());
}

TEST(Departure, NothingIsSentToARankThatHasDiedMeanwhile) {
    const topology::Nodes nodes = hosts_of({1, 1, 1, 1});
    Departure machine({.nodes = &nodes}, Rank(0));
    machine.want();
    machine.leave(false);
    machine.peer_failed(Rank(1));
    EXPECT_EQ(receivers(machine, DepartureKind::farewell), (std::vector<std::uint32_t>{3, 2}));
}

TEST(Departure, ARankThatMayBeAskedSaysFarewellLater) {
    const topology::Nodes nodes = hosts_of({1, 1});
    Departure machine({.nodes = &nodes}, Rank(0));
    machine.want();
    machine.leave(true);
    EXPECT_EQ(machine.stage(), Stage::lingering);
    machine.go_on(true, true);
    EXPECT_TRUE(all_sends(machine).empty());
    machine.go_on(false, true);
    EXPECT_EQ(machine.stage(), Stage::left);
    EXPECT_EQ(receivers(machine, DepartureKind::farewell), std::vector<std::uint32_t>{1});
}

TEST(Departure, ARankThatHasLeftAnswersEverythingWithAFarewell) {
    const topology::Nodes nodes = hosts_of({1, 1, 1});
    Departure machine({.nodes = &nodes, .farthest = 0}, Rank(0));
    machine.want();
    machine.leave(false);
    machine.heard(Rank(2));
    EXPECT_EQ(receivers(machine, DepartureKind::farewell), std::vector<std::uint32_t>{2});
    EXPECT_TRUE(machine.receive({.kind = DepartureKind::ask, .from = Rank(1), .to = Rank(0), .about = {}}, {}));
    EXPECT_EQ(receivers(machine, DepartureKind::farewell), std::vector<std::uint32_t>{1});
}

TEST(Departure, GivingUpSaysNoFarewellAndWaitsForAsLongAsTheRankMayBeAsked) {
    const topology::Nodes nodes = hosts_of({1, 1});
    Departure machine({.nodes = &nodes}, Rank(0));
    machine.want();
    machine.give_up(true);
    EXPECT_EQ(machine.stage(), Stage::deserting);
    machine.go_on(true, false);
    EXPECT_EQ(machine.stage(), Stage::deserting);
    Departure in_peace = machine;
    in_peace.go_on(true, true);
    EXPECT_EQ(in_peace.stage(), Stage::lingering);
    machine.go_on(false, false);
    EXPECT_EQ(machine.stage(), Stage::given_up);
    EXPECT_TRUE(all_sends(machine).empty());
}

TEST(Departure, ARankWhoseCallerHasYetToClaimTheGroupStaysUntilThen) {
    const topology::Nodes nodes = hosts_of({1, 1});
    Departure machine({.nodes = &nodes, .unclaimed = true}, Rank(0));
    machine.want();
    EXPECT_EQ(machine.stage(), Stage::unclaimed);
    EXPECT_TRUE(machine.receive({.kind = DepartureKind::ask, .from = Rank(1), .to = Rank(0), .about = {}}, {}));
    const std::vector<DepartureMessage> told = all_sends(machine);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].about, Rank(0));
    EXPECT_TRUE(told[0].said_so);
    Departure dropped = machine;
    dropped.give_up(false);
    dropped.claim();
    EXPECT_EQ(dropped.stage(), Stage::given_up) << "the end is final";
    machine.claim();
    machine.want();
    EXPECT_EQ(machine.stage(), Stage::leaving);
}

TEST(Departure, ARankThatIsTakenForDeadLeavesAtOnceAndWithoutAFarewell) {
    const topology::Nodes nodes = hosts_of({1, 1});
    Departure machine({.nodes = &nodes}, Rank(0));
    machine.want();
    EXPECT_FALSE(machine.may_leave(false, true));
    machine.be_fenced();
    EXPECT_TRUE(machine.may_leave(false, false));
    machine.leave(false);
    EXPECT_EQ(machine.stage(), Stage::given_up);
    EXPECT_TRUE(all_sends(machine).empty());
}

// What the others have begun since does without it.
TEST(Departure, ARankThatIsTakenForDeadAfterItsFarewellSettlesNothing) {
    const topology::Nodes nodes = hosts_of({1, 1, 1});
    Departure machine({.nodes = &nodes}, Rank(0));
    machine.peer_left(Rank(1));
    EXPECT_TRUE(machine.is_settled());
    machine.peer_failed(Rank(1));
    EXPECT_FALSE(machine.is_settled());
    machine.peer_left(Rank(2));
    EXPECT_TRUE(machine.is_settled());
}

TEST(Departure, AsksOnlyAfterAWhileAndNotInEveryRound) {
    const topology::Nodes nodes = hosts_of({1, 1, 1});
    Departure machine({.nodes = &nodes, .ask_after = Nanoseconds(20), .ask_again = Nanoseconds(50)}, Rank(0));
    machine.want();
    machine.wait_for(Rank(1), Nanoseconds(100));
    machine.wait_for(Rank(1), Nanoseconds(119));
    EXPECT_TRUE(all_sends(machine).empty());
    machine.wait_for(Rank(1), Nanoseconds(120));
    EXPECT_EQ(receivers(machine, DepartureKind::ask), std::vector<std::uint32_t>{1});
    machine.wait_for(Rank(2), Nanoseconds(169));
    EXPECT_TRUE(all_sends(machine).empty());
    machine.wait_for(Rank(2), Nanoseconds(170));
    EXPECT_EQ(receivers(machine, DepartureKind::ask), std::vector<std::uint32_t>{2});
}

TEST(Departure, ARankThatSaysThatItStaysIsAskedLessOften) {
    const topology::Nodes nodes = hosts_of({1, 1, 1, 1});
    Departure machine({.nodes = &nodes,
                       .ask_after = Nanoseconds(20),
                       .ask_again = Nanoseconds(50),
                       .longest_pause = Nanoseconds(300),
                       .answer_after = Nanoseconds(1'000'000)},
                      Rank(0));
    machine.want();
    std::uint64_t now = 0;
    const auto wait_until_it_asks = [&](std::uint32_t rank) {
        const std::uint64_t since = now;
        while (receivers(machine, DepartureKind::ask).empty())
            machine.wait_for(Rank(rank), Nanoseconds(++now));
        return now - since;
    };
    const auto hear = [&](std::uint32_t about, bool said_so) {
        EXPECT_TRUE(machine.receive(answer(1, about, said_so), Nanoseconds(now)));
    };
    wait_until_it_asks(1);
    EXPECT_EQ(wait_until_it_asks(1), 50U) << "without an answer";
    for (int same = 0; same < 3; ++same) {
        hear(3, true);
        EXPECT_EQ(wait_until_it_asks(1), 50U) << "a name that others have said";
    }
    hear(1, true);
    EXPECT_EQ(wait_until_it_asks(1), 50U);
    hear(1, true);
    EXPECT_EQ(wait_until_it_asks(1), 50U) << "the question that was due before the answer came";
    for (const std::uint64_t pause : {100U, 200U, 300U, 300U}) {
        hear(1, true);
        EXPECT_EQ(wait_until_it_asks(1), pause);
    }
    hear(3, false);
    EXPECT_EQ(wait_until_it_asks(1), 50U) << "it leaves now";
    for (int same = 0; same < 5; ++same) {
        hear(1, true);
        wait_until_it_asks(1);
    }
    EXPECT_EQ(wait_until_it_asks(1), 300U);
    EXPECT_EQ(wait_until_it_asks(2), 51U) << "50 after it waits for another rank";
    for (int same = 0; same < 5; ++same) {
        hear(1, true);
        wait_until_it_asks(1);
    }
    hear(1, true);
    machine.peer_left(Rank(1));
    EXPECT_EQ(wait_until_it_asks(2), 50U) << "it has left";
}

TEST(Departure, ANameHoldsUntilItsRankGoesOrNobodyTellsItAnyMore) {
    const topology::Nodes nodes = hosts_of({1, 1, 1, 1});
    Departure machine({.nodes = &nodes, .ask_after = Nanoseconds(1000), .answer_after = Nanoseconds(100)}, Rank(0));
    machine.want();
    machine.wait_for(Rank(1), Nanoseconds(0));
    EXPECT_TRUE(machine.receive(answer(1, 3, true), Nanoseconds(10)));
    EXPECT_EQ(machine.holder(), (Departure::Holder{Rank(3), true}));
    EXPECT_TRUE(machine.receive(answer(1, 3, true), Nanoseconds(60)));
    machine.wait_for(Rank(2), Nanoseconds(159));
    EXPECT_TRUE(machine.holder().has_value());
    machine.wait_for(Rank(2), Nanoseconds(160));
    EXPECT_FALSE(machine.holder().has_value());
    EXPECT_TRUE(machine.receive(answer(2, 0, false), Nanoseconds(170)));
    EXPECT_FALSE(machine.holder().has_value());
    EXPECT_TRUE(machine.receive(answer(2, 3, false), Nanoseconds(170)));
    machine.peer_left(Rank(3));
    EXPECT_FALSE(machine.holder().has_value());
    EXPECT_TRUE(machine.receive(answer(2, 3, false), Nanoseconds(170)));
    EXPECT_FALSE(machine.holder().has_value());
}

TEST(Departure, ANameIsNotToldToTheRankThatToldIt) {
    const topology::Nodes nodes = hosts_of({1, 1, 1, 1});
    Departure machine({.nodes = &nodes, .ask_after = Nanoseconds(1000), .answer_after = Nanoseconds(100)}, Rank(0));
    machine.want();
    machine.wait_for(Rank(1), Nanoseconds(0));
    EXPECT_TRUE(machine.receive(answer(1, 3, true), Nanoseconds(10)));
    const auto ask_from = [&machine](std::uint32_t asker) {
        machine.receive({.kind = DepartureKind::ask, .from = Rank(asker), .to = Rank(0), .about = {}}, Nanoseconds(20));
        return all_sends(machine);
    };
    EXPECT_TRUE(ask_from(1).empty());
    const auto told = ask_from(2);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].about, Rank(3));
    EXPECT_TRUE(told[0].said_so);
}

TEST(Departure, WhatCannotBeIsRefused) {
    const topology::Nodes nodes = hosts_of({1, 1});
    Departure machine({.nodes = &nodes}, Rank(0));
    EXPECT_FALSE(machine.receive(answer(2, 1, true), {}));
    EXPECT_FALSE(machine.receive(answer(0, 1, true), {}));
    EXPECT_FALSE(machine.receive(answer(1, 2, true), {}));
}

}  // namespace
}  // namespace coppice::protocol
