#include "engine/wire.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace coppice::engine {
namespace {

constexpr std::uint32_t kToken = 0x1234;

WireHeader tree_message(std::uint32_t length) {
    return {.token = kToken,
            .kind = static_cast<std::uint8_t>(protocol::MessageKind::tree),
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

TEST(Wire, OnlyTheKindsThatExistAreTaken) {
    for (unsigned kind = 0; kind < 256; ++kind) {
        WireHeader header = tree_message(0);
        header.kind = static_cast<std::uint8_t>(kind);
        const bool known = kind < protocol::kMessageKinds || (kind >= 16 && kind <= kLastWireKind) ||
                           (kind >= 32 && kind < 32U + protocol::kAgreementKinds) ||
                           (kind >= 40 && kind < 40U + protocol::kAgreementKinds) ||
                           (kind >= 64 && kind < 64U + protocol::kFailureProofKinds) ||
                           (kind >= 80 && kind < 80U + protocol::kBuntinasKinds) ||
                           (kind >= 96 && kind < 96U + protocol::kBinomialGraphKinds);
        EXPECT_EQ(decode(encode(header), 0, GroupId{kToken}).has_value(), known) << kind;
    }
}

TEST(Wire, AKindWithoutPayloadMayNotBringOne) {
    for (const unsigned kind : {5U, 6U, 7U, 16U, 17U, 18U, 69U, 70U, 71U, 81U, 82U, 83U, 97U}) {
        WireHeader header = tree_message(4);
        header.kind =
            static_cast<std::uint8_t>(kind == 5U ? static_cast<unsigned>(protocol::MessageKind::query) : kind);
        EXPECT_FALSE(decode(encode(header), 4, GroupId{kToken})) << kind;
    }
}

TEST(Wire, MessagesOfAgreementsBringWhatTheirMachineWrote) {
    for (unsigned kind = 0; kind < protocol::kAgreementKinds; ++kind) {
        WireHeader header = tree_message(300);
        header.kind = static_cast<std::uint8_t>(kFirstAgreementKind + kind);
        EXPECT_TRUE(decode(encode(header), 300, GroupId{kToken})) << kind;
        EXPECT_FALSE(decode(encode(header), 299, GroupId{kToken})) << kind;
    }
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
