// The boards of groups whose members are replaced: each incarnation is on a board of its own, which outlives it, and what it took
// of those that stay is given back.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>

#include "transport/shm/shm_transport.hpp"
#include "transport/shm_factory.hpp"

namespace coppice::testing {
namespace {

using namespace transport;

constexpr std::uint32_t kRanks = 3;
constexpr Seat kReplaced{1};
constexpr Rank kReplacedRank{kReplaced.value};
constexpr std::array kThatStay{Seat(0), Seat(2)};
constexpr std::uint64_t kRounds = 200;

// Which of Stage::words: how many incarnations have shown their address; and, a word a rank, in how many rounds it has opened the
// board, has read what all have published, and has closed the board.
constexpr std::size_t kShown = 0;
constexpr std::size_t kOpened = 4;
constexpr std::size_t kRead = 8;
constexpr std::size_t kClosed = 12;

class ShmReplaced : public ::testing::Test, protected Ranks {
  protected:
    Factory& factory() override { return factory_; }
    ShmFactory factory_;
};

std::uint32_t panel_of(std::uint64_t round) {
    return static_cast<std::uint32_t>(1 + round % (transport::HostMemory::kPanels - 1));
}

ShmTransport& shm_of(Member& member) {
    return static_cast<ShmTransport&>(member.wire());
}

void expect_ok(const Result<void>& result) {
    if (!result) throw CheckFailed(result.error().message);
}

void admit(Member& member, Seat rank, std::uint32_t incarnation) {
    expect_ok(member.wire().add_peer(rank, member.address_of(rank)));
    expect_ok(shm_of(member).admit(rank, incarnation));
}

void reach(Member& member, std::size_t word, std::uint64_t round) {
    member.stage().words[word + member.self().value].store(round + 1);
}

void await_all(Member& member, std::size_t word, std::uint64_t round, const char* what) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
        member.poll_until([&] { return member.stage().words[word + rank].load() > round; }, what);
}

std::uint64_t seed_of(Rank writer, std::uint64_t round) {
    return writer.value * 1'000'003 + round;
}

bool is_there(const Board& board, Rank writer, std::uint64_t round) {
    PublishedLine line;
    if (!board.look(writer, Sequence(0), line)) return false;
    COPPICE_CHECK(is_pattern({line.payload, line.length}, seed_of(writer, round)));
    return true;
}

// As they are on a board whose rank 1 is that incarnation.
std::array<transport::HostMemory::BoardMember, kRanks> members_with(std::uint32_t incarnation) {
    std::array<transport::HostMemory::BoardMember, kRanks> members{};
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
        members[rank] = {
            .rank = Rank(rank), .seat = Seat(rank), .incarnation = Seat(rank) == kReplaced ? incarnation : 0};
    return members;
}

// All have mapped all before the first one publishes.
Board& meet_on_a_board(Member& member, std::uint64_t round) {
    const auto members = members_with(static_cast<std::uint32_t>(round));
    Board& board = shm_of(member).open_board(panel_of(round), members);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
        COPPICE_CHECK(board.alive(Rank(rank)) && board.consumed(Rank(rank)) == Sequence(0));
    reach(member, kOpened, round);
    await_all(member, kOpened, round, "all to have opened the board");
    board.publish_copy(Sequence(0), pattern(seed_of(Rank(member.self().value), round), 100), member.self().value, 0);
    board.set_consumed(Sequence(1));
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
        member.poll_until([&] { return is_there(board, Rank(rank), round); }, "a line");
    reach(member, kRead, round);
    return board;
}

// The dead one's memory stays while the board is open, whether it is forgotten before that or afterwards.
void lose(Member& member, Board& board, std::uint64_t round, bool forgets_first) {
    ShmTransport& wire = shm_of(member);
    member.poll_until([&] { return member.recorder.failed(kReplaced); }, "the death");
    member.recorder.failures.clear();
    if (forgets_first) wire.forget(kReplaced);
    member.poll();
    COPPICE_CHECK(is_there(board, kReplacedRank, round) && !board.alive(kReplacedRank));
    wire.close_board(panel_of(round));
    if (!forgets_first) wire.forget(kReplaced);
    reach(member, kClosed, round);
    for (const Seat rank : kThatStay)
        member.poll_until([&] { return member.stage().words[kClosed + rank.value].load() > round; }, "its board's end");
    wire.clear_panels(1U << panel_of(round));
}

}  // namespace

TEST_F(ShmReplaced, EachIncarnationIsOnTheNextBoard) {
    for (const Seat self : kThatStay) {
        start_one(self, kRanks, [self](Member& member) {
            const Seat other(2 - self.value);
            expect_ok(member.wire().add_peer(other, member.address_of(other)));
            expect_ok(shm_of(member).seal_board({other}));
            shm_of(member).make_all_panels_ready();
            std::size_t mappings = 0;
            for (std::uint64_t round = 0; round < kRounds; ++round) {
                member.poll_until([&] { return member.stage().words[kShown].load() > round; }, "the next one");
                admit(member, kReplaced, static_cast<std::uint32_t>(round));
                lose(member, meet_on_a_board(member, round), round, round % 2 == self.value / 2);
                if (round == kRounds / 2) mappings = shared_mappings();
            }
            member.poll_until([&] { return shared_mappings() <= mappings; }, "mappings to be given back");
        });
    }
    for (std::uint64_t round = 0; round < kRounds && !HasFailure(); ++round) {
        stage().addresses[kReplaced.value].length.store(0);
        const auto body = [round](Member& member) {
            expect_ok(shm_of(member).seal_board({}));
            shm_of(member).make_all_panels_ready();
            member.stage().words[kShown].store(round + 1);
            for (const Seat rank : kThatStay)
                admit(member, rank, 0);
            meet_on_a_board(member, round);
            member.poll_until([] { return false; }, "the end");
        };
        const std::size_t process = start_one(kReplaced, kRanks, body);
        for (std::uint32_t rank = 0; rank < kRanks; ++rank)
            await_word(kRead + rank, round + 1);
        ::kill(processes_.pid(process), SIGKILL);
        expect_killed(process);
        for (const Seat rank : kThatStay)
            await_word(kClosed + rank.value, round + 1);
    }
    expect_all_well();
}

// The other takes the one that stays for dead, and dies; the one that stays goes on with another process of its number, and hears of that
// when it looks for the first time.
TEST_F(ShmReplaced, WhatOneThatWasForgottenSaidIsNotItsSuccessors) {
    const auto make = [](Seat self) {
        auto made = ShmTransport::create({.self = self, .group_size = 2, .window = 8, .host = {}, .regions = {}});
        if (!made) throw CheckFailed(made.error().message);
        return std::move(*made);
    };
    const auto meet = [](ShmTransport& one, ShmTransport& other, Seat seat, std::uint32_t incarnation) {
        expect_ok(one.add_peer(seat, other.address()));
        expect_ok(one.admit(seat, incarnation));
    };
    const auto stays = make(Seat(0));
    expect_ok(stays->seal_board({}));
    stays->make_all_panels_ready();
    auto other = make(Seat(1));
    meet(*stays, *other, Seat(1), 0);
    meet(*other, *stays, Seat(0), 0);
    const auto members = [](std::uint32_t incarnation) {
        return std::array{
            transport::HostMemory::BoardMember{.rank = Rank(0), .seat = Seat(0)},
            transport::HostMemory::BoardMember{.rank = Rank(1), .seat = Seat(1), .incarnation = incarnation}};
    };
    Board& earlier = stays->open_board(1, members(0));
    other->fence(Seat(0));
    other.reset();
    stays->forget(Seat(1));
    EXPECT_TRUE(earlier.fenced());

    other = make(Seat(1));
    meet(*stays, *other, Seat(1), 1);
    Board& later = stays->open_board(2, members(1));
    Recorder recorder;
    stays->poll(recorder);
    EXPECT_FALSE(later.fenced());
    EXPECT_TRUE(earlier.fenced()) << "it may read there what has been overwritten";
    EXPECT_TRUE(recorder.fenced_by.empty());
}

// It opens the board, publishes and dies before the others open it, and before they are told of another process with its number.
TEST_F(ShmReplaced, OneThatWasForgottenIsOnTheNextBoardAlone) {
    for (const Seat self : kThatStay) {
        start_one(self, kRanks, [self](Member& member) {
            ShmTransport& wire = shm_of(member);
            const Seat other(2 - self.value);
            expect_ok(member.wire().add_peer(other, member.address_of(other)));
            expect_ok(wire.seal_board({other}));
            wire.make_all_panels_ready();
            for (std::uint32_t incarnation = 0; incarnation < 2; ++incarnation) {
                member.poll_until([&] { return member.stage().words[kShown].load() > incarnation; }, "the next one");
                if (incarnation == 1) {
                    member.poll_until([&] { return member.recorder.failed(kReplaced); }, "the death");
                    wire.forget(kReplaced);
                }
                admit(member, kReplaced, incarnation);
                reach(member, kOpened, incarnation);
            }
            COPPICE_CHECK(is_there(wire.open_board(panel_of(0), members_with(0)), kReplacedRank, 0));
            COPPICE_CHECK(!is_there(wire.open_board(panel_of(1), members_with(1)), kReplacedRank, 0));
            wire.close_board(panel_of(0));
            const std::size_t mappings = shared_mappings();
            wire.forget(kReplaced);
            COPPICE_CHECK(shared_mappings() + 2 <= mappings);  // the one's board, the other's mailroom
            wire.close_board(panel_of(1));
            wire.clear_panels(1U << panel_of(1));
            COPPICE_CHECK(!is_there(wire.open_board(panel_of(1), members_with(0)), kReplacedRank, 0));
        });
    }
    for (std::uint32_t incarnation = 0; incarnation < 2 && !HasFailure(); ++incarnation) {
        stage().addresses[kReplaced.value].length.store(0);
        const std::size_t process = start_one(kReplaced, kRanks, [incarnation](Member& member) {
            ShmTransport& wire = shm_of(member);
            expect_ok(wire.seal_board({}));
            wire.make_all_panels_ready();
            if (incarnation == 0) {
                wire.open_board(panel_of(0), members_with(0))
                    .publish_copy(Sequence(0), pattern(seed_of(kReplacedRank, 0), 100), kReplacedRank.value, 0);
            }
            member.stage().words[kShown].store(incarnation + 1);
            member.poll_until([] { return false; }, "the end");
        });
        for (const Seat rank : kThatStay)
            await_word(kOpened + rank.value, incarnation + 1);
        ::kill(processes_.pid(process), SIGKILL);
        expect_killed(process);
    }
    expect_all_well();
}

}  // namespace coppice::testing
