#include "engine/wire/wire.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace coppice::engine {
namespace {

constexpr std::uint32_t kToken = 0x1234;

WireHeader tree_message(std::uint32_t length) {
    return {.token = kToken,
            .tag = {Channel::broadcast, protocol::MessageKind::tree},
            .sequence = 7,
            .stable = 3,
            .root = 2,
            .length = length};
}

TEST(Wire, AHeaderArrivesAsItWasSent) {
    const auto header = decode(encode(tree_message(100)), 100, GroupId{kToken});
    ASSERT_TRUE(header);
    EXPECT_EQ(header->sequence, 7U);
    EXPECT_EQ(header->stable, 3U);
    EXPECT_EQ(header->root, 2U);
}

TEST(Wire, WhatIsNotOfThisGroupIsRefused) {
    const Encoded whole = encode(tree_message(0));
    const std::span<const std::byte> bytes = whole;
    ASSERT_TRUE(decode(bytes, 0, GroupId{kToken}));
    EXPECT_FALSE(decode(bytes, 0, GroupId{kToken + 1}));
    EXPECT_FALSE(decode(bytes, 0, GroupId{kToken, Epoch(1)}));
    EXPECT_FALSE(decode(bytes, 8, GroupId{kToken})) << "the length it names is not the length it has";
    EXPECT_FALSE(decode(bytes.first(bytes.size() - 1), 0, GroupId{kToken}));
    WireHeader other_version = tree_message(0);
    other_version.version = kWireVersion + 1;
    EXPECT_FALSE(decode(encode(other_version), 0, GroupId{kToken}));
    EXPECT_FALSE(decode(whole.bytes, 0, GroupId{kToken})) << "a kind that has nothing more to say says more";
}

// The header of `tag`, well-formed otherwise, in as many bytes as its channel has.
std::vector<std::byte> bytes_of(Tag tag, std::size_t size, std::uint32_t length) {
    WireHeader header = tree_message(length);
    header.tag = tag;
    std::vector<std::byte> bytes(sizeof header);
    std::memcpy(bytes.data(), &header, sizeof header);
    bytes.resize(size);
    return bytes;
}

std::vector<Tag> known_tags() {
    std::vector<Tag> tags;
    for (std::size_t channel = 0; channel < kChannels; ++channel)
        for (std::uint8_t kind = 0; kind < kChannelRows[channel].kinds; ++kind)
            tags.emplace_back(static_cast<Channel>(channel), kind);
    return tags;
}

TEST(Wire, OnlyTheKindsThatExistAreTaken) {
    const std::vector<Tag> known = known_tags();
    EXPECT_EQ(known.size(), 7U + 3U + 2U + protocol::kMessageKinds + protocol::kFailureProofKinds +
                                protocol::kAgreementKinds + protocol::kMembershipKinds + protocol::kPullKinds +
                                protocol::kPlacedKinds + 2U + 4U);
    std::size_t taken = 0;
    for (unsigned channel = 0; channel < 256; ++channel) {
        for (unsigned kind = 0; kind < 256; ++kind) {
            const Tag tag(static_cast<Channel>(channel), kind);
            const bool is_short = decode(bytes_of(tag, kShortHeader, 0), 0, GroupId{kToken}).has_value();
            const bool is_long = decode(bytes_of(tag, sizeof(WireHeader), 0), 0, GroupId{kToken}).has_value();
            EXPECT_FALSE(is_short && is_long);
            EXPECT_EQ(is_short || is_long, std::ranges::find(known, tag) != known.end()) << channel << ' ' << kind;
            taken += is_short || is_long ? 1 : 0;
        }
    }
    EXPECT_EQ(taken, known.size());
}

TEST(Wire, AKindWithoutPayloadMayNotBringOne) {
    const auto brings = [](Tag tag) {
        return decode(bytes_of(tag, header_size(tag.channel), 4), 4, GroupId{kToken}).has_value();
    };
    for (const Tag tag :
         {Tag(Channel::broadcast, protocol::MessageKind::query), Tag(Channel::broadcast, protocol::MessageKind::denial),
          Tag(Channel::broadcast, protocol::MessageKind::verdict), Tag(Channel::members, MembersKind::failure_notice),
          Tag(Channel::window, protocol::StabilityKind::up), Tag(Channel::window, protocol::StabilityKind::ask),
          Tag(Channel::revocation, RevocationKind::revoked),
          Tag(Channel::failure_proof, protocol::FailureProofKind::query),
          Tag(Channel::failure_proof, protocol::FailureProofKind::verdict)}) {
        EXPECT_FALSE(brings(tag)) << static_cast<int>(tag.channel) << ' ' << static_cast<int>(tag.kind);
    }
    for (const Tag tag :
         {Tag(Channel::broadcast, protocol::MessageKind::tree), Tag(Channel::broadcast, protocol::MessageKind::gossip),
          Tag(Channel::failure_proof, protocol::FailureProofKind::sos)}) {
        EXPECT_TRUE(brings(tag)) << static_cast<int>(tag.channel) << ' ' << static_cast<int>(tag.kind);
    }
}

// What a familiar header lets pass, decode() would have let pass, and it says what that one says.
void expect_right_or_strange(Familiar& familiar, std::span<const std::byte> bytes, std::size_t payload_length,
                             const WireHeader& known) {
    const WireHeader* const seen = familiar.recognize(bytes, payload_length);
    if (seen == nullptr) return;
    const auto read = decode(bytes, payload_length, GroupId{kToken});
    ASSERT_TRUE(read) << "recognized, and it is no header of this group";
    EXPECT_EQ(0, std::memcmp(seen, &*read, kShortHeader));
    EXPECT_EQ(seen->root, known.root) << "the root is not looked at any more";
    EXPECT_EQ(seen->stable, known.stable) << "what is stable is not looked at any more";
    EXPECT_EQ(seen->more, 0U);
}

TEST(Wire, AFamiliarHeaderIsRecognizedByAllThatMakesItRight) {
    const WireHeader known = tree_message(8);
    Familiar familiar;
    EXPECT_EQ(familiar.recognize(bytes_of(known), 8), nullptr) << "none is familiar yet";
    familiar.is(known, 8);
    WireHeader next = known;
    next.sequence += 1;
    next.tag = {Channel::broadcast, protocol::MessageKind::correction_left};
    const WireHeader* const seen = familiar.recognize(bytes_of(next), 8);
    ASSERT_NE(seen, nullptr);
    EXPECT_EQ(seen->sequence, next.sequence);
    EXPECT_EQ(seen->tag, next.tag);

    familiar.forget();
    EXPECT_EQ(familiar.recognize(bytes_of(known), 8), nullptr) << "none is familiar any more";
    familiar.is(known, 8);

    const std::vector<std::byte> right = bytes_of(known.tag, kShortHeader, 8);
    for (std::size_t at = 0; at < right.size(); ++at) {
        for (unsigned value = 0; value < 256; ++value) {
            std::vector<std::byte> bytes = right;
            bytes[at] = static_cast<std::byte>(value);
            expect_right_or_strange(familiar, bytes, 8, known);
        }
    }
    std::vector<std::byte> longer = right;
    longer.resize(sizeof(WireHeader) + 8);
    for (std::size_t size = 0; size <= longer.size(); ++size)
        expect_right_or_strange(familiar, std::span(longer).first(size), 8, known);
    for (std::size_t payload_length = 0; payload_length <= 16; ++payload_length)
        expect_right_or_strange(familiar, right, payload_length, known);
}

TEST(Wire, AfterAMessageWithoutPayloadEveryKindIsFamiliarButThoseThatRestOnDeaths) {
    const WireHeader known = tree_message(0);
    Familiar familiar;
    familiar.is(known, 0);
    for (unsigned kind = 0; kind < 256; ++kind) {
        const Tag tag(Channel::broadcast, kind);
        const std::vector<std::byte> bytes = bytes_of(tag, kShortHeader, 0);
        const bool may_be = kind < protocol::kMessageKinds && !carries_failures(tag);
        EXPECT_EQ(familiar.recognize(bytes, 0) != nullptr, may_be) << kind;
    }
}

TEST(Wire, OnlyWhatBringsAPayloadBringsADescriptor) {
    for (const auto& [kind, is_taken] :
         {std::pair(protocol::MessageKind::tree, true), std::pair(protocol::MessageKind::query, false)}) {
        WireHeader header = tree_message(16 | kDescribed);
        header.tag = Tag(Channel::broadcast, kind);
        EXPECT_EQ(decode(encode(header), 16, GroupId{kToken}).has_value(), is_taken);
        EXPECT_FALSE(decode(encode(header), 17, GroupId{kToken}));
    }
}

TEST(Wire, MessagesOfAgreementsAndShrinksBringWhatTheirMachineWrote) {
    const auto try_kinds = [](Channel channel, std::uint8_t kinds) {
        for (std::uint8_t kind = 0; kind < kinds; ++kind) {
            WireHeader header = tree_message(300);
            header.tag = Tag(channel, kind);
            EXPECT_TRUE(decode(encode(header), 300, GroupId{kToken})) << kind;
            EXPECT_FALSE(decode(encode(header), 299, GroupId{kToken})) << kind;
        }
    };
    try_kinds(Channel::agreement, protocol::kAgreementKinds);
    try_kinds(Channel::succession, protocol::kMembershipKinds);
}

TEST(Wire, RandomBytesAreNoHeaders) {
    std::mt19937 random(1);
    for (int i = 0; i < 100'000; ++i) {
        WireBytes bytes;
        for (std::byte& byte : bytes)
            byte = static_cast<std::byte>(random());
        EXPECT_FALSE(decode(bytes, random() % 8192, GroupId{kToken}));
    }
}

}  // namespace
}  // namespace coppice::engine
