#include "transport/host_memory_conformance.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "base/shared_words.hpp"
#include "transport/transport.hpp"

namespace coppice::testing {
namespace {

using transport::Board;
using transport::PublishedLine;
using transport::Regions;
using Word = shared::Published<std::uint64_t>;

std::vector<std::byte> payload_of(std::uint32_t rank, std::uint64_t sequence) {
    static constexpr std::size_t kLengths[] = {0, 8, 40, 41, 256, transport::kMaxPayload, 1};
    std::vector<std::byte> payload(kLengths[sequence % std::size(kLengths)]);
    for (std::size_t at = 0; at < payload.size(); ++at)
        payload[at] = static_cast<std::byte>(rank * 31 + sequence * 7 + at);
    return payload;
}

void publish(Board& board, std::uint32_t self, std::uint64_t sequence) {
    const auto payload = payload_of(self, sequence);
    if (sequence % 2 == 0) return board.publish_copy(Sequence(sequence), payload, self, 3);
    std::ranges::copy(payload, board.line_memory(Sequence(sequence)));
    board.publish(Sequence(sequence), static_cast<std::uint32_t>(payload.size()), self, 3);
}

// Nothing is there, or it is what was published.
bool is_there(const Board& board, std::uint32_t writer, std::uint64_t sequence) {
    PublishedLine line;
    if (!board.look(Rank(writer), Sequence(sequence), line)) return false;
    const auto payload = payload_of(writer, sequence);
    EXPECT_EQ(line.root, writer);
    EXPECT_EQ(line.detail, 3U);
    EXPECT_EQ(line.length, payload.size());
    EXPECT_TRUE(std::ranges::equal(payload, std::span(line.payload, line.length)));
    return true;
}

bool is_zero(const std::byte* at, std::size_t bytes) {
    return std::all_of(at, at + bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

Word& own_word(Board& board) {
    return shared::at<Word>(board.own_region(board.find_region("words")));
}

std::uint64_t word_of(const Board& board, std::uint32_t member) {
    return shared::at<Word>(board.region(Rank(member), board.find_region("words"))).read();
}

}  // namespace

void HostMemory::make(std::uint32_t ranks) {
    host_ = GetParam().make(ranks);
    std::vector<Seat> all;
    for (std::uint32_t rank = ranks; rank-- > 0;)
        all.emplace_back(rank);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const auto sealed = memory(rank).seal_board(all);
        ASSERT_TRUE(sealed) << sealed.error().message;
    }
}

TEST_P(HostMemory, HasItsMembersInOrderAndTheLinesOfTheWindow) {
    make(3);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(board(rank).lines(), kHostWindow);
        ASSERT_EQ(board(rank).members().size(), 3U);
        for (std::uint32_t member = 0; member < 3; ++member)
            EXPECT_EQ(board(rank).members()[member], Rank(member));
    }
}

TEST_P(HostMemory, LinesAreReadByAllMembersWithinTheWindow) {
    make(4);
    for (std::uint32_t writer = 0; writer < 4; ++writer) {
        for (std::uint64_t sequence = 0; sequence < kHostWindow; ++sequence)
            EXPECT_FALSE(is_there(board(0), writer, sequence));
        for (std::uint64_t sequence = 0; sequence < kHostWindow + 3; ++sequence)
            publish(board(writer), writer, sequence);
    }
    for (std::uint32_t reader = 0; reader < 4; ++reader) {
        for (std::uint32_t writer = 0; writer < 4; ++writer) {
            for (std::uint64_t sequence = 3; sequence < kHostWindow + 3; ++sequence)
                EXPECT_TRUE(is_there(board(reader), writer, sequence));
            EXPECT_FALSE(is_there(board(reader), writer, 2)) << "overwritten";
            EXPECT_FALSE(is_there(board(reader), writer, kHostWindow + 3));
        }
        EXPECT_FALSE(is_there(board(reader), 4, 3)) << "no member";
    }
}

TEST_P(HostMemory, EachMemberCountsAndLogsForItself) {
    make(3);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(board(0).consumed(Rank(rank)), Sequence(0));
        EXPECT_EQ(board(0).stable(Rank(rank)), Sequence(0));
        EXPECT_EQ(board(0).log_length(Rank(rank)), 0U);
        EXPECT_TRUE(board(0).alive(Rank(rank)));
        EXPECT_FALSE(board(0).departed(Rank(rank)));
        EXPECT_FALSE(board(rank).fenced());
    }
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        board(rank).set_consumed(Sequence(rank + 10));
        board(rank).set_stable(Sequence(rank + 20));
        for (std::uint32_t entry = 0; entry < rank + 1; ++entry)
            board(rank).log_failure(Rank(2 - entry));
    }
    for (std::uint32_t reader = 0; reader < 3; ++reader) {
        for (std::uint32_t rank = 0; rank < 3; ++rank) {
            EXPECT_EQ(board(reader).consumed(Rank(rank)), Sequence(rank + 10));
            EXPECT_EQ(board(reader).stable(Rank(rank)), Sequence(rank + 20));
            ASSERT_EQ(board(reader).log_length(Rank(rank)), rank + 1);
            for (std::uint32_t entry = 0; entry < rank + 1; ++entry)
                EXPECT_EQ(board(reader).logged(Rank(rank), entry), Rank(2 - entry));
        }
    }
}

TEST_P(HostMemory, RegionsAreAsDeclaredAlignedApartAndZero) {
    make(2);
    std::vector<Regions::Place> places;
    for (const transport::Region& region : kHostRegions) {
        const Regions::Place place = board(0).find_region(region.name);
        EXPECT_EQ(place.bytes, region.bytes) << region.name;
        for (const std::byte* const at :
             {const_cast<const std::byte*>(board(0).own_region(place)), board(0).region(Rank(1), place)}) {
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % region.alignment, 0U) << region.name;
            EXPECT_TRUE(is_zero(at, place.bytes)) << region.name;
        }
        for (const Regions::Place& other : places)
            EXPECT_TRUE(place.at >= other.at + other.bytes || other.at >= place.at + place.bytes) << region.name;
        places.push_back(place);
    }
    EXPECT_EQ(board(0).find_region("nobody's").bytes, 0U);
}

// All of it is the own rank's, from the first byte to the last, and neither lines nor counts are changed by it.
TEST_P(HostMemory, RegionsAreWrittenByTheirRankAndReadByAll) {
    make(3);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        publish(board(rank), rank, 0);
        board(rank).set_consumed(Sequence(5));
        for (const transport::Region& region : kHostRegions) {
            const Regions::Place place = board(rank).find_region(region.name);
            std::memset(board(rank).own_region(place), static_cast<int>(rank + place.at % 100 + 1), place.bytes);
        }
    }
    for (std::uint32_t reader = 0; reader < 3; ++reader) {
        for (std::uint32_t rank = 0; rank < 3; ++rank) {
            for (const transport::Region& region : kHostRegions) {
                const Regions::Place place = board(reader).find_region(region.name);
                const std::byte* const at = board(reader).region(Rank(rank), place);
                EXPECT_TRUE(std::all_of(at, at + place.bytes, [&](std::byte byte) {
                    return byte == static_cast<std::byte>(rank + place.at % 100 + 1);
                })) << region.name;
            }
            EXPECT_TRUE(is_there(board(reader), rank, 0));
            EXPECT_EQ(board(reader).consumed(Rank(rank)), Sequence(5));
            EXPECT_EQ(board(reader).log_length(Rank(rank)), 0U);
        }
    }
}

TEST_P(HostMemory, WhatARankHasWrittenOutlivesIt) {
    make(3);
    publish(board(1), 1, 0);
    publish(board(1), 1, 5);
    board(1).set_consumed(Sequence(4));
    board(1).set_stable(Sequence(3));
    board(1).log_failure(Rank(2));
    board(1).leave_word(own_word(board(1)), 77);
    host_->end(1);
    for (const std::uint32_t reader : {0U, 2U}) {
        EXPECT_FALSE(board(reader).alive(Rank(1)));
        EXPECT_FALSE(board(reader).departed(Rank(1)));
        EXPECT_TRUE(board(reader).alive(Rank(2 - reader)));
        EXPECT_TRUE(is_there(board(reader), 1, 0));
        EXPECT_TRUE(is_there(board(reader), 1, 5));
        EXPECT_FALSE(is_there(board(reader), 1, 1));
        EXPECT_EQ(board(reader).consumed(Rank(1)), Sequence(4));
        EXPECT_EQ(board(reader).stable(Rank(1)), Sequence(3));
        EXPECT_EQ(board(reader).logged(Rank(1), 0), Rank(2));
        EXPECT_EQ(word_of(board(reader), 1), 77U);
    }
}

TEST_P(HostMemory, BulkIsReadWhereItsOwnerSaysAndOutlivesIt) {
    make(2);
    constexpr std::uint64_t kMost = 1 << 20;
    Board& own = board(0);
    EXPECT_EQ(board(1).bulk(Rank(0), 4096, 1), nullptr) << "nothing has been taken yet";
    const Board::Bulk first = own.take_bulk(10'000, kMost), second = own.take_bulk(20'000, kMost);
    ASSERT_NE(first.data, nullptr);
    ASSERT_NE(second.data, nullptr);
    std::fill_n(first.data, 10'000, std::byte{1});
    std::fill_n(second.data, 20'000, std::byte{2});
    const std::byte* const seen = board(1).bulk(Rank(0), second.place, 20'000);
    ASSERT_NE(seen, nullptr);
    EXPECT_TRUE(std::all_of(seen, seen + 20'000, [](std::byte byte) { return byte == std::byte{2}; }));
    EXPECT_EQ(board(1).bulk(Rank(0), 0, 1), nullptr);
    EXPECT_EQ(board(1).bulk(Rank(0), second.place, 2 * kMost), nullptr);
    EXPECT_EQ(board(1).bulk(Rank(0), UINT64_MAX - 1, 8), nullptr);
    EXPECT_EQ(own.take_bulk(2 * kMost, kMost).data, nullptr);
    own.give_bulk_back(first.place, kMost);
    EXPECT_EQ(own.take_bulk(8000, kMost).place, first.place) << "what was given back is taken first";
    host_->end(0);
    EXPECT_TRUE(std::all_of(seen, seen + 20'000, [](std::byte byte) { return byte == std::byte{2}; }));
}

TEST_P(HostMemory, ADepartureStaysReadable) {
    make(2);
    board(1).depart();
    EXPECT_TRUE(board(0).departed(Rank(1)));
    EXPECT_FALSE(board(0).departed(Rank(0)));
    host_->end(1);
    EXPECT_TRUE(board(0).departed(Rank(1)));
}

TEST_P(HostMemory, ARankThatAnotherOneHasFencedSeesIt) {
    make(3);
    host_->fence(0, 1);
    EXPECT_TRUE(board(1).fenced());
    EXPECT_FALSE(board(0).fenced());
    EXPECT_FALSE(board(2).fenced());
}

TEST_P(HostMemory, WhatARankPublishesUnlessFencedIsThereUntilItIs) {
    make(2);
    std::array<std::byte, transport::kMaxPayload> into{};
    std::size_t length = 0;
    for (std::uint64_t sequence = 0; sequence < kHostWindow; ++sequence) {
        const auto payload = payload_of(1, sequence);
        ASSERT_TRUE(board(1).publish_unless_fenced(Sequence(sequence), payload, Rank(1)));
        ASSERT_TRUE(board(0).copy_published(Rank(1), Sequence(sequence), into, &length)) << "as one of its own";
        EXPECT_TRUE(std::ranges::equal(payload, std::span(into).first(length)));
    }
    host_->fence(0, 1);
    EXPECT_FALSE(board(1).publish_unless_fenced(Sequence(kHostWindow), payload_of(1, kHostWindow), Rank(1)));
    PublishedLine line;
    EXPECT_FALSE(board(0).look(Rank(1), Sequence(kHostWindow), line));
}

// What a rank is told of those that take it for dead.
class Fencers final : public transport::Receiver {
  public:
    bool message(Seat, std::span<const std::byte>, std::span<const std::byte>, transport::Buffer) override {
        return false;
    }
    void peer_failed(Seat, transport::FailureCause) override {}
    void fenced(Seat by) override { seats.push_back(by); }

    std::vector<Seat> seats;
};

// As one that has been told that another rank has given up a group which both were in.
TEST_P(HostMemory, OnlyMembersOfABoardFenceARankThere) {
    make(3);
    const std::array members{transport::HostMemory::BoardMember{.rank = Rank(0), .seat = Seat(0)},
                             transport::HostMemory::BoardMember{.rank = Rank(1), .seat = Seat(1)}};
    Board& others = memory(0).open_board(1, members);
    Board& board_of_two = memory(1).open_board(1, members);
    const auto payload = payload_of(1, 0);
    host_->fence(2, 1);
    EXPECT_TRUE(board(1).fenced());
    EXPECT_FALSE(board_of_two.fenced());
    EXPECT_TRUE(board_of_two.publish_unless_fenced(Sequence(0), payload, Rank(1)));
    Fencers told;
    host_->poll(1, told);
    EXPECT_EQ(told.seats, std::vector{Seat(2)});
    EXPECT_TRUE(board(1).fenced()) << "when it was told, too";
    EXPECT_FALSE(board_of_two.fenced());
    PublishedLine line;
    EXPECT_TRUE(others.look(Rank(1), Sequence(0), line));
    host_->fence(0, 1);
    EXPECT_TRUE(board_of_two.fenced());
    EXPECT_FALSE(board_of_two.publish_unless_fenced(Sequence(1), payload, Rank(1)));
}

// The same memory for a group of some of these ranks, by numbers of its own.
TEST_P(HostMemory, ABoardInAnotherPanelIsApartFromTheFirst) {
    make(3);
    publish(board(2), 2, 0);
    board(2).set_consumed(Sequence(9));
    board(2).publish_word(own_word(board(2)), 9);
    const std::array members{transport::HostMemory::BoardMember{.rank = Rank(0), .seat = Seat(0)},
                             transport::HostMemory::BoardMember{.rank = Rank(1), .seat = Seat(2)}};
    constexpr std::uint32_t kPanel = 1;
    std::vector<Board*> second;
    for (const std::uint32_t rank : {0U, 2U}) {
        EXPECT_NE(memory(rank).clean_panels() & 1U << kPanel, 0U);
        second.push_back(&memory(rank).open_board(kPanel, members));
        EXPECT_EQ(memory(rank).clean_panels() & 1U << kPanel, 0U);
        EXPECT_EQ(second.back()->members().size(), 2U);
    }
    EXPECT_FALSE(is_there(*second[0], 1, 0));
    EXPECT_EQ(second[0]->consumed(Rank(1)), Sequence(0));
    EXPECT_EQ(word_of(*second[0], 1), 0U);
    publish(*second[1], 1, 3);
    second[1]->set_consumed(Sequence(2));
    second[1]->publish_word(own_word(*second[1]), 2);
    EXPECT_TRUE(is_there(*second[0], 1, 3));
    EXPECT_EQ(second[0]->consumed(Rank(1)), Sequence(2));
    EXPECT_EQ(word_of(*second[0], 1), 2U);
    EXPECT_FALSE(is_there(board(0), 2, 3));
    EXPECT_TRUE(is_there(board(0), 2, 0));
    EXPECT_EQ(board(0).consumed(Rank(2)), Sequence(9));
    EXPECT_EQ(word_of(board(0), 2), 9U);
    EXPECT_TRUE(second[0]->alive(Rank(1)));
    host_->end(2);
    EXPECT_FALSE(second[0]->alive(Rank(1)));
    EXPECT_TRUE(is_there(*second[0], 1, 3));
}

// As a process that is started late: the others go on with their board, and have it on the next one.
TEST_P(HostMemory, ARankThatComesLaterIsOnBoardsThatAreOpenedThen) {
    host_ = GetParam().make(3);
    for (const std::uint32_t rank : {0U, 1U})
        ASSERT_TRUE(memory(rank).seal_board({Seat(0), Seat(1)}));
    ASSERT_TRUE(memory(2).seal_board({}));
    publish(board(0), 0, 0);
    for (const std::uint32_t rank : {0U, 1U}) {
        ASSERT_TRUE(memory(rank).admit(Seat(2), 0));
        ASSERT_TRUE(memory(2).admit(Seat(rank), 0));
    }
    EXPECT_EQ(board(0).members().size(), 2U);
    EXPECT_TRUE(is_there(board(1), 0, 0));

    std::vector<transport::HostMemory::BoardMember> members;
    for (std::uint32_t rank = 0; rank < 3; ++rank)
        members.push_back({.rank = Rank(rank), .seat = Seat(rank)});
    std::vector<Board*> next;
    for (std::uint32_t rank = 0; rank < 3; ++rank)
        next.push_back(&memory(rank).open_board(1, members));
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        EXPECT_FALSE(is_there(*next[rank], 0, 0)) << "published on the first board";
        publish(*next[rank], rank, 1);
        next[rank]->publish_word(own_word(*next[rank]), rank + 5);
    }
    host_->end(2);
    for (const std::uint32_t reader : {0U, 1U}) {
        for (std::uint32_t writer = 0; writer < 3; ++writer) {
            EXPECT_TRUE(is_there(*next[reader], writer, 1));
            EXPECT_EQ(word_of(*next[reader], writer), writer + 5U);
            EXPECT_EQ(next[reader]->alive(Rank(writer)), writer != 2);
        }
    }
}

TEST_P(HostMemory, APanelIsAsNewWhenItWasClosedAndCleared) {
    make(2);
    constexpr std::uint32_t kPanel = 1;
    const std::array members{transport::HostMemory::BoardMember{.rank = Rank(0), .seat = Seat(0)},
                             transport::HostMemory::BoardMember{.rank = Rank(1), .seat = Seat(1)}};
    const auto open = [&](std::uint32_t rank) -> Board& { return memory(rank).open_board(kPanel, members); };
    open(0);
    Board& before = open(1);
    for (std::uint64_t sequence = 0; sequence < kHostWindow; ++sequence)
        publish(before, 1, sequence);
    before.set_consumed(Sequence(3));
    before.set_stable(Sequence(2));
    before.log_failure(Rank(0));
    before.depart();
    for (const transport::Region& region : kHostRegions) {
        const Regions::Place place = before.find_region(region.name);
        std::memset(before.own_region(place), 0xff, place.bytes);
    }
    for (const std::uint32_t rank : {0U, 1U}) {
        memory(rank).close_board(kPanel);
        EXPECT_EQ(memory(rank).closed_panels(), 1U << kPanel);
        memory(rank).make_all_panels_ready();
        EXPECT_EQ(memory(rank).clean_panels() & 1U << kPanel, 0U) << "somebody may read it";
        memory(rank).clear_panels(1U << kPanel);
        EXPECT_EQ(memory(rank).closed_panels(), 0U);
        EXPECT_NE(memory(rank).clean_panels() & 1U << kPanel, 0U);
    }
    const Board& after = open(0);
    open(1);
    for (std::uint64_t sequence = 0; sequence < kHostWindow; ++sequence)
        EXPECT_FALSE(is_there(after, 1, sequence));
    EXPECT_EQ(after.consumed(Rank(1)), Sequence(0));
    EXPECT_EQ(after.stable(Rank(1)), Sequence(0));
    EXPECT_EQ(after.log_length(Rank(1)), 0U);
    EXPECT_FALSE(after.departed(Rank(1)));
    for (const transport::Region& region : kHostRegions) {
        const Regions::Place place = after.find_region(region.name);
        EXPECT_TRUE(is_zero(after.region(Rank(1), place), place.bytes)) << region.name;
    }
}

TEST_P(HostMemory, OnePanelIsReadyAndAllOfThemOnRequest) {
    make(2);
    EXPECT_EQ(std::popcount(memory(0).clean_panels()), 1);
    memory(0).make_all_panels_ready();
    EXPECT_EQ(memory(0).clean_panels(), (1U << transport::HostMemory::kPanels) - 2) << "all but the first group's";
    memory(0).close_board(0);
    EXPECT_EQ(memory(0).closed_panels(), 1U);
}

}  // namespace coppice::testing
