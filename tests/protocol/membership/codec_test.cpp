// What members say to each other, as bytes.
#include "protocol/membership/codec.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

namespace coppice::protocol {
namespace {

constexpr std::uint32_t kRanks = 100;

FailedSet set_of(std::initializer_list<std::uint32_t> ranks) {
    FailedSet set;
    for (const std::uint32_t rank : ranks)
        set.insert(rank);
    return set;
}

Occupant occupant(std::uint32_t seat, std::uint32_t incarnation) {
    return {.seat = Seat(seat), .incarnation = incarnation, .process = Process(1000 + seat)};
}

MembershipMessage a_full_one() {
    return {.kind = MembershipKind::root_dead_ack,
            .from = Process(3),
            .to = Process(1),
            .epoch = 7,
            .root = 1,
            .failures = {.suspected = set_of({0, 2}), .certain = set_of({2}), .followed = 1},
            .proposal = Change{.gone = set_of({0, 1}),
                               .joined = {occupant(0, 1), occupant(99, 0)},
                               .offer = {12, Terms({.least = 0x123456, .most = 0x789abc}, 0x5d)},
                               .left = set_of({1})},
            .latest = Vote{.root = 0, .change = {.gone = set_of({99}), .joined = {occupant(99, 3)}, .offer = {13}}},
            .made = Change{.gone = {}, .joined = {}, .offer = {14}},
            .view = {},
            .request = {},
            .consents = {{.change = {.gone = set_of({0, 2}), .joined = {}, .offer = {15}}, .members = set_of({1, 3})},
                         {.change = {.gone = set_of({0}), .joined = {}, .offer = {16}}, .members = set_of({4})}},
            .offer = {17},
            .leaves = set_of({1, 3})};
}

std::vector<std::byte> written(const MembershipMessage& message) {
    std::vector<std::byte> bytes;
    write_membership(message, bytes);
    return bytes;
}

bool is_read(std::span<const std::byte> bytes, std::uint32_t ranks = kRanks) {
    MembershipMessage message;
    return read_membership(bytes, ranks, message);
}

TEST(MembershipCodec, TermsThatCannotBeAreRefused) {
    const std::uint64_t good = Terms({.least = 2, .most = 3}, 1).word();
    for (const std::uint64_t word : {good, std::uint64_t{0}, UINT64_MAX})
        EXPECT_TRUE(Terms::of_word(word).has_value()) << word;
    const std::uint64_t least = std::uint64_t{1} << 24;
    for (const std::uint64_t word : {std::uint64_t{1}, good & ~(std::uint64_t{1} << 55), good | std::uint64_t{1} << 56,
                                     good | std::uint64_t{1} << 63, good + 2 * least, UINT64_MAX - 1})
        EXPECT_FALSE(Terms::of_word(word).has_value()) << word;
    std::vector<std::byte> body = written(a_full_one());
    const std::vector<std::byte> terms = [&] {
        const std::uint64_t word = a_full_one().proposal->offer.terms.word();
        const auto bytes = std::as_bytes(std::span(&word, 1));
        return std::vector(bytes.begin(), bytes.end());
    }();
    const auto at = std::ranges::search(body, terms).begin();
    ASSERT_NE(at, body.end());
    EXPECT_TRUE(is_read(body));
    at[7] ^= std::byte{1};
    EXPECT_FALSE(is_read(body));
}

TEST(MembershipCodec, WhatIsWrittenIsRead) {
    MembershipMessage small{.kind = MembershipKind::consent, .from = Process(3), .to = Process(1)};
    for (const MembershipMessage& message : {a_full_one(), small}) {
        MembershipMessage read{.kind = message.kind, .from = message.from, .to = message.to};
        ASSERT_TRUE(read_membership(written(message), kRanks, read));
        EXPECT_EQ(read, message);
    }
}

TEST(MembershipCodec, NothingIsReadOfWhatIsTooShortOrTooLong) {
    std::vector<std::byte> bytes = written(a_full_one());
    for (std::size_t length = 0; length < bytes.size(); ++length)
        EXPECT_FALSE(is_read(std::span(bytes).first(length))) << length;
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(is_read(bytes));
}

TEST(MembershipCodec, NewcomersStandInTheOrderOfSeatsThatThereAre) {
    const auto with = [](std::vector<Occupant> joined) {
        MembershipMessage message{.kind = MembershipKind::new_node_join, .from = Process(0), .to = Process(1)};
        message.proposal = Change{.gone = {}, .joined = std::move(joined)};
        return is_read(written(message));
    };
    EXPECT_TRUE(with({occupant(3, 0), occupant(kRanks - 1, 7)}));
    EXPECT_FALSE(with({occupant(kRanks, 0)}));
    EXPECT_FALSE(with({occupant(4, 0), occupant(3, 0)}));
    EXPECT_FALSE(with({occupant(4, 0), occupant(4, 0)}));
}

TEST(MembershipCodec, NoMemberIsANewcomer) {
    MembershipMessage message{.kind = MembershipKind::new_node_join, .from = Process(0), .to = Process(1)};
    message.proposal = Change{.gone = {}, .joined = {occupant(3, 0)}};
    EXPECT_TRUE(is_read(written(message)));
    for (const std::uint32_t member : {0U, 3U, kRanks - 1}) {
        message.proposal->joined.front().process = Process(member);
        EXPECT_FALSE(is_read(written(message))) << member;
    }
}

TEST(MembershipCodec, MembersConsentToNoNewcomers) {
    MembershipMessage message{.kind = MembershipKind::consent, .from = Process(3), .to = Process(1)};
    message.consents.push_back({.change = {.gone = {}, .joined = {occupant(4, 0)}}, .members = set_of({3})});
    EXPECT_FALSE(is_read(written(message)));
}

TEST(MembershipCodec, NoBodyIsLongerThanTheLongest) {
    FailedSet every_second;
    Change change;
    for (std::uint32_t seat = 0; seat < kRanks; ++seat) {
        if (seat % 2 == 0 || seat + 1 == kRanks) every_second.insert(seat);
        change.joined.push_back(occupant(seat, seat));
    }
    change.gone = every_second;
    change.left = every_second;
    MembershipMessage message = a_full_one();
    message.failures = {.suspected = every_second, .certain = every_second, .followed = 1};
    message.leaves = every_second;
    message.proposal = change;
    message.latest = Vote{.root = 1, .change = change};
    message.made = change;
    change.joined.clear();
    message.consents.assign(kMostConsents, {.change = change, .members = every_second});
    EXPECT_TRUE(is_read(written(message)));
    EXPECT_LE(written(message).size(), longest_membership_body(kRanks));
    // Only the sets' lengths are not to the byte.
    EXPECT_GT(written(message).size() + (9 + 3 * kMostConsents) * 11, longest_membership_body(kRanks));
}

TEST(MembershipCodec, TheLastVotesOfTheDeadAreRead) {
    LastVote vote{.epoch = 4,
                  .made = {.gone = set_of({7}), .joined = {}, .offer = {3}},
                  .followed = 2,
                  .latest = {},
                  .consent = {}};
    for (const int with : {0, 1, 2}) {
        if (with == 1) vote.latest = Vote{.root = 1, .change = {.gone = set_of({0, 9}), .joined = {}, .offer = {5}}};
        if (with == 2) vote.consent = Change{.gone = set_of({0}), .joined = {}, .offer = {6}};
        std::vector<std::byte> bytes;
        write_last_vote(vote, bytes);
        EXPECT_EQ(read_last_vote(bytes, kRanks), vote);
        for (std::size_t length = 0; length < bytes.size(); ++length)
            EXPECT_FALSE(read_last_vote(std::span(bytes).first(length), kRanks).has_value()) << length;
        bytes.push_back(std::byte{0});
        EXPECT_FALSE(read_last_vote(bytes, kRanks).has_value());
    }
}

TEST(MembershipCodec, NobodyOutsideOfTheGroupIsNamed) {
    const std::vector<std::byte> bytes = written(a_full_one());
    EXPECT_TRUE(is_read(bytes, 100));
    EXPECT_FALSE(is_read(bytes, 99));
    MembershipMessage message = a_full_one();
    message.root = kRanks;
    EXPECT_FALSE(is_read(written(message)));
    message = a_full_one();
    message.failures.followed = kRanks + 1;
    EXPECT_FALSE(is_read(written(message)));
    message = a_full_one();
    message.latest->root = kRanks;
    EXPECT_FALSE(is_read(written(message)));
}

TEST(MembershipCodec, AMessageBringsSoManyConsentsAtMost) {
    MembershipMessage message = a_full_one();
    message.consents.clear();
    for (std::uint32_t i = 0; i < kMostConsents; ++i)
        message.consents.push_back(
            {.change = {.gone = set_of({i, i + 2, i + 5}), .joined = {}, .offer = {i}}, .members = set_of({i})});
    EXPECT_TRUE(is_read(written(message)));
    EXPECT_LE(written(message).size(), longest_membership_body(kRanks));
    message.consents.push_back(message.consents.back());
    EXPECT_FALSE(is_read(written(message)));
}

}  // namespace
}  // namespace coppice::protocol
