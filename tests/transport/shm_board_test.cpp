// The board between processes: what is published outlives its writer, whenever that dies. What every host memory must do is in
// host_memory_conformance.hpp.
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <numeric>

#include "transport/shm/shm_transport.hpp"
#include "transport/shm_factory.hpp"

namespace coppice::testing {

namespace {

using namespace transport;

class ShmBoard : public ::testing::Test, protected Ranks {
  protected:
    Factory& factory() override { return factory_; }
    ShmFactory factory_;
};

// Seals the board with all ranks of the group.
Board& board_of(Member& member) {
    auto& wire = static_cast<ShmTransport&>(member.wire());
    std::vector<Seat> all;
    for (std::uint32_t rank = member.size(); rank-- > 0;)
        all.push_back(Seat{rank});
    const auto sealed = wire.seal_board(all);
    if (!sealed) throw CheckFailed(sealed.error().message);
    member.barrier();
    return wire.board(0);
}

// On the first board, whose ranks are the seats.
Rank rank_of(const Member& member) {
    return Rank(member.self().value);
}

std::uint64_t seed_of(Rank writer, std::uint64_t sequence) {
    return writer.value * 1'000'003 + sequence;
}
std::uint32_t length_of(std::uint64_t sequence) {
    static constexpr std::uint32_t kLengths[] = {0, 8, 40, 41, 256, 8192, 1};
    return kLengths[sequence % std::size(kLengths)];
}

void publish(Board& board, Rank self, std::uint64_t sequence) {
    const Bytes payload = pattern(seed_of(self, sequence), length_of(sequence));
    if (!payload.empty()) std::memcpy(board.line_memory(Sequence{sequence}), payload.data(), payload.size());
    board.publish(Sequence{sequence}, length_of(sequence), self.value, static_cast<std::uint32_t>(sequence * 3));
}

// True when the line is there, and then it is right.
bool look_and_check(const Board& board, Rank writer, std::uint64_t sequence) {
    PublishedLine line;
    if (!board.look(writer, Sequence{sequence}, line)) return false;
    COPPICE_CHECK(line.length == length_of(sequence) && line.root == writer.value && line.detail == sequence * 3);
    COPPICE_CHECK(is_pattern({line.payload, line.length}, seed_of(writer, sequence)));
    return true;
}

}  // namespace

TEST_F(ShmBoard, SixteenReadersFollowAWriterThatWaitsForThem) {
    start(16, [](Member& member) {
        Board& board = board_of(member);
        constexpr std::uint64_t kSequences = 100;
        for (std::uint64_t sequence = 0; sequence < kSequences; ++sequence) {
            if (member.self() == Seat{5}) {
                for (std::uint32_t rank = 0; sequence >= kWindow && rank < 16; ++rank)
                    member.poll_until([&] { return board.consumed(Rank{rank}).value > sequence - kWindow; },
                                      "a reader");
                publish(board, rank_of(member), sequence);
            }
            member.poll_until([&] { return look_and_check(board, Rank{5}, sequence); }, "a line");
            board.set_consumed(Sequence{sequence + 1});
        }
        member.leave();
        COPPICE_CHECK(member.recorder.failures.empty());
    });
    expect_all_well();
}

TEST_F(ShmBoard, TheLogHasRoomForEachRankOnce) {
    start(3, [](Member& member) {
        Board& board = board_of(member);
        for (int entry = 0; entry < 10; ++entry)
            board.log_failure(Rank{0});
        COPPICE_CHECK(board.log_length(rank_of(member)) == 3);
        member.leave();
    });
    expect_all_well();
}

// One that sleeps without listening is woken by nobody; one that listens by each way to publish, from the first on, and not by what is
// left for those that live longer.
TEST_F(ShmBoard, PublishingWakesAMemberThatListens) {
    start(2, [](Member& member) {
        Board& board = board_of(member);
        auto& asleep = member.stage().words[0];  // so many times
        const auto readable = [&](int milliseconds) {
            const int descriptor = member.wire().arm();
            board.listen();
            ++asleep;
            pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
            return ::poll(&entry, 1, milliseconds) == 1;
        };
        if (member.self() == Seat{1}) {
            for (int way = 0; way < 3; ++way)
                COPPICE_CHECK(readable(60'000));
            const int descriptor = member.wire().arm();
            ++asleep;
            member.poll_until([&] { return member.stage().words[1] != 0; }, "the last line");
            pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
            COPPICE_CHECK(::poll(&entry, 1, 0) == 0);
            board.listen();
            ++asleep;
            while (member.stage().words[2] == 0)
                sched_yield();
            COPPICE_CHECK(::poll(&entry, 1, 0) == 0);
        } else {
            auto& word = shared::at<shared::Published<std::uint64_t>>(board.own_region(board.find_region("test")));
            for (std::uint64_t way = 0; way < 5; ++way) {
                while (asleep <= way)
                    sched_yield();
                if (way == 0) publish(board, rank_of(member), way);
                if (way == 1) board.publish_copy(Sequence{way}, pattern(way, 8), 0, 0);
                if (way == 2) board.publish_word(word, 1);
                if (way == 3) publish(board, rank_of(member), way);
                if (way == 3) ++member.stage().words[1];
                if (way == 4) board.leave_word(word, 2);
            }
            ++member.stage().words[2];
        }
        member.barrier();
        member.leave();
    });
    expect_all_well();
}

TEST_F(ShmBoard, WhatADeadMemberPublishedStaysReadable) {
    start(3, [](Member& member) {
        Board& board = board_of(member);
        if (member.self() == Seat{1}) {
            for (std::uint64_t sequence = 0; sequence < 5; ++sequence)
                publish(board, rank_of(member), sequence);
            board.set_consumed(Sequence{4});
            board.set_stable(Sequence{3});
            board.log_failure(Rank{2});
            ++member.stage().words[0];
            while (true)
                pause();
        }
        member.poll_until([&] { return member.recorder.failed(Seat{1}); }, "the death");
        COPPICE_CHECK(member.recorder.failures[0].cause == FailureCause::obituary);
        COPPICE_CHECK(!board.alive(Rank{1}) && !board.departed(Rank{1}) && board.alive(rank_of(member)));
        for (std::uint64_t sequence = 0; sequence < 5; ++sequence)
            COPPICE_CHECK(look_and_check(board, Rank{1}, sequence));
        COPPICE_CHECK(!look_and_check(board, Rank{1}, 5));
        COPPICE_CHECK(board.consumed(Rank{1}) == Sequence{4} && board.stable(Rank{1}) == Sequence{3});
        COPPICE_CHECK(board.log_length(Rank{1}) == 1 && board.logged(Rank{1}, 0) == Rank{2});
        member.leave();
    });
    await_word(0, 1);
    processes_.signal(1, SIGKILL);
    expect_all_well_but(1);
}

TEST_F(ShmBoard, AWriterKilledAtAnyPublishLeavesWholeLinesOnly) {
    constexpr std::uint64_t kPublishes = 7;
    for (const char* const when : {"kill-before:", "kill-after:"})
        for (std::uint64_t at = 1; at <= kPublishes; ++at) {
            begin_again();
            const std::string faults = when + std::to_string(at) + "@0";
            start(2, [&](Member& member) {
                Board& board = board_of(member);
                if (member.self() == Seat{0}) {
                    const auto plan = parse_faults(faults, member.self());
                    COPPICE_CHECK(plan.has_value());
                    FaultyBoard faulty(board, std::make_shared<MessageCount>(*plan));
                    for (std::uint64_t sequence = 0; sequence < kPublishes; ++sequence)
                        publish(faulty, rank_of(member), sequence);
                }
                member.poll_until([&] { return member.recorder.failed(Seat{0}); }, "the death");
                const std::uint64_t published = faults.starts_with("kill-before") ? at - 1 : at;
                for (std::uint64_t sequence = 0; sequence < kPublishes; ++sequence)
                    COPPICE_CHECK(look_and_check(board, Rank{0}, sequence) == (sequence < published));
            });
            expect_killed(0);
            expect_all_well();
        }
}

TEST_F(ShmBoard, ADepartureIsNoFailureAndStaysReadable) {
    start(2, [](Member& member) {
        Board& board = board_of(member);
        if (member.self() == Seat{0}) {
            publish(board, rank_of(member), 0);
            board.depart();
            COPPICE_CHECK(member.wire().leave());
            return;
        }
        member.poll_until([&] { return !board.alive(Rank{0}); }, "the end of rank 0");
        for (int polls = 0; polls < 1000; ++polls)
            member.poll();
        COPPICE_CHECK(board.departed(Rank{0}) && member.recorder.failures.empty());
        COPPICE_CHECK(look_and_check(board, Rank{0}, 0));
    });
    expect_all_well();
}

TEST_F(ShmBoard, AMemberThatDiedBeforeItCouldBeMappedIsAMemberWithNothingOnIt) {
    start(
        3,
        [](Member& member) {
            member.publish_address();
            if (member.self() == Seat{0}) {
                ++member.stage().words[0];
                while (true)
                    pause();
            }
            for (std::uint32_t peer = 0; peer < 3; ++peer)
                if (peer != member.self().value)
                    COPPICE_CHECK(member.wire().add_peer(Seat{peer}, member.address_of(Seat{peer})).has_value());
            ++member.stage().words[0];
            member.poll_until([&] { return member.stage().words[1] == 1; }, "the death");
            auto& wire = static_cast<ShmTransport&>(member.wire());
            COPPICE_CHECK(wire.seal_board({Seat{0}, Seat{1}, Seat{2}}).has_value());
            Board& board = wire.board(0);
            PublishedLine line;
            COPPICE_CHECK(board.members().size() == 3 && !board.alive(Rank{0}) && board.alive(rank_of(member)));
            COPPICE_CHECK(!board.look(Rank{0}, Sequence{0}, line) && board.consumed(Rank{0}) == Sequence{0});
            COPPICE_CHECK(board.log_length(Rank{0}) == 0 && !board.departed(Rank{0}));
            member.poll_until([&] { return member.recorder.failed(Seat{0}); }, "the report");
            // Rank 1 or 2 may have ended as well by now, and have been reported first.
            for (const auto& failure : member.recorder.failures)
                COPPICE_CHECK(failure.peer != Seat{0} || failure.cause == FailureCause::process_gone);
        },
        true);
    await_word(0, 3);
    processes_.signal(0, SIGKILL);
    expect_killed(0);
    stage().words[1] = 1;
    expect_all_well();
}

}  // namespace coppice::testing
