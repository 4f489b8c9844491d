#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "plans.hpp"
#include "protocol/agreement/agreement_body.hpp"
#include "protocol/agreement/failed_codec.hpp"
#include "protocol/agreement/operation.hpp"

namespace coppice::protocol::testing {
namespace {

std::vector<std::byte> written(const FailedSet& set) {
    std::vector<std::byte> bytes;
    write_failed(set, bytes);
    return bytes;
}

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
    std::vector<std::byte> bytes;
    for (const int value : values)
        bytes.push_back(static_cast<std::byte>(value));
    return bytes;
}

bool reads(const std::vector<std::byte>& bytes, std::uint32_t ranks, FailedSet* set = nullptr) {
    FailedSet read;
    std::span<const std::byte> rest = bytes;
    const bool fine = read_failed(rest, ranks, read) && rest.empty();
    if (set != nullptr) *set = read;
    return fine;
}

TEST(FailedCodec, WhatIsWrittenIsReadAgain) {
    std::mt19937 random(7);
    for (int round = 0; round < 2000; ++round) {
        const std::uint32_t ranks = 1 + below(random, 300);
        const std::uint32_t density = 1 + below(random, 20);
        FailedSet set;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            if (below(random, density) == 0) set.insert(rank);
        }
        FailedSet read;
        ASSERT_TRUE(reads(written(set), ranks, &read)) << round;
        ASSERT_EQ(read, set) << round;
        if (!set.empty()) {
            ASSERT_FALSE(reads(written(set), set.intervals().back().last)) << "a rank beyond the group";
        }
    }
}

TEST(FailedCodec, TheSmallerFormIsTaken) {
    FailedSet runs;
    runs.append({1000, 40000});
    EXPECT_LE(written(runs).size(), 8U);
    FailedSet scattered;
    for (std::uint32_t rank = 0; rank < 4096; rank += 2)
        scattered.insert(rank);
    EXPECT_LE(written(scattered).size(), 4096 / 8 + 5U);
    EXPECT_EQ(written(FailedSet{}).size(), 1U);
    // All of 64K ranks in the worst pattern: a bit each.
    FailedSet worst;
    for (std::uint32_t rank = 0; rank < 65536; rank += 2)
        worst.insert(rank);
    EXPECT_LE(written(worst).size(), 65536 / 8 + 6U);
}

TEST(FailedCodec, RefusesWhatIsNeverWritten) {
    EXPECT_TRUE(reads(bytes_of({1, 1, 3, 2}), 8));
    EXPECT_FALSE(reads({}, 8));
    EXPECT_FALSE(reads(bytes_of({3}), 8)) << "no such form";
    EXPECT_FALSE(reads(bytes_of({0, 0}), 8)) << "more after the end";
    EXPECT_FALSE(reads(bytes_of({1, 0}), 8)) << "ranges of nobody";
    EXPECT_FALSE(reads(bytes_of({1, 1, 3, 0}), 8)) << "an empty range";
    EXPECT_FALSE(reads(bytes_of({1, 2, 0, 1, 0, 1}), 8)) << "ranges that touch";
    EXPECT_FALSE(reads(bytes_of({1, 1, 3, 6}), 8)) << "beyond the group";
    EXPECT_FALSE(reads(bytes_of({1, 1, 0x83, 0, 2}), 8)) << "a number longer than need be";
    EXPECT_FALSE(reads(bytes_of({1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 1}), 8)) << "a number too long";
    EXPECT_FALSE(reads(bytes_of({1, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1}), 8)) << "more ranges than bytes";
    EXPECT_FALSE(reads(bytes_of({2, 0, 1, 0x18}), 8)) << "a bitmap where ranges are as small";
    EXPECT_FALSE(reads(bytes_of({2, 0, 2, 0x55, 0x00}), 16)) << "a bitmap with an empty end";
    EXPECT_FALSE(reads(bytes_of({2, 0, 9, 0x55}), 80)) << "a bitmap that is cut off";
    EXPECT_FALSE(reads(bytes_of({2, 0, 1, 0x55}), 6)) << "a bit beyond the group";
}

TEST(FailedCodec, RandomBytesAreRefusedOrHaveOneForm) {
    std::mt19937 random(11);
    for (int round = 0; round < 200000; ++round) {
        std::vector<std::byte> bytes(below(random, 12));
        for (std::byte& byte : bytes)
            byte = static_cast<std::byte>(below(random, 3) == 0 ? below(random, 4) : random() & 0xff);
        FailedSet set;
        if (reads(bytes, 40, &set)) {
            ASSERT_EQ(written(set), bytes);
        }
    }
}

TEST(Body, DamagedBytesAreRefusedOrHaveOneForm) {
    std::mt19937 random(12);
    int taken = 0;
    for (int round = 0; round < 100000; ++round) {
        const FailedSet failed = set_of({below(random, 40), below(random, 40), below(random, 40)});
        const FailedSet acknowledged = set_of({below(random, 40)});
        const std::vector<std::byte> value(8 * below(random, 3), std::byte{3});
        AgreementBody body;
        body.operation = encode_operation({Operator::max, Element::i64, nullptr, nullptr});
        body.value = value;
        if (below(random, 2) == 0) body.failed = &failed;
        if (below(random, 2) == 0) body.acknowledged = &acknowledged;
        std::vector<std::byte> bytes;
        body.write(bytes);
        for (std::uint32_t damages = below(random, 4); damages > 0; --damages)
            bytes[below(random, static_cast<std::uint32_t>(bytes.size()))] = static_cast<std::byte>(random() & 0xff);
        if (below(random, 3) == 0) bytes.resize(below(random, static_cast<std::uint32_t>(bytes.size() + 2)));
        FailedSet failed_read;
        FailedSet acknowledged_read;
        AgreementBody read;
        if (!read_body(bytes, 16, 40, failed_read, acknowledged_read, read)) continue;
        ++taken;
        std::vector<std::byte> again;
        read.write(again);
        ASSERT_EQ(again, bytes);
    }
    EXPECT_GT(taken, 10000);
}

TEST(Body, WithoutFailuresItIsFiveBytesAndTheValue) {
    AgreementBody body;
    const std::vector<std::byte> value(8, std::byte{7});
    body.value = value;
    std::vector<std::byte> bytes;
    body.write(bytes);
    EXPECT_EQ(bytes.size(), body_bytes(8));
    EXPECT_EQ(bytes.size(), 13U);
}

template <class Number>
Number combined(Operator op, Element element, Number a, Number b) {
    std::byte into[sizeof(Number)];
    std::byte from[sizeof(Number)];
    std::memcpy(into, &a, sizeof(Number));
    std::memcpy(from, &b, sizeof(Number));
    combine({op, element, nullptr, nullptr}, into, from, sizeof(Number));
    std::memcpy(&a, into, sizeof(Number));
    return a;
}

// However the dead are scattered, a body keeps the bound by which receivers know what can't be one.
TEST(Body, IsNeverLongerThanItsBound) {
    std::mt19937 random(11);
    for (const std::uint32_t ranks : {1U, 7U, 8U, 9U, 64U, 1000U, 31632U, 65536U}) {
        for (std::uint32_t kind = 0; kind < 8; ++kind) {
            FailedSet set;
            for (std::uint32_t rank = 0; rank < ranks; ++rank) {
                const bool dead = kind == 0   ? true
                                  : kind < 4  ? rank % (kind + 1) == 0
                                  : kind == 4 ? rank + 1 == ranks
                                              : below(random, 1U << (kind - 4)) == 0;
                if (dead) set.insert(rank);
            }
            const std::vector<std::byte> value(256);
            const AgreementBody body{.value = value, .failed = &set, .acknowledged = &set};
            std::vector<std::byte> bytes;
            body.write(bytes);
            EXPECT_LE(bytes.size(), longest_body(256, ranks)) << ranks << " ranks, kind " << kind;
            EXPECT_LE(written(set).size(), longest_failed(ranks)) << ranks << " ranks, kind " << kind;
        }
    }
}

TEST(Operation, CombinesEveryElementType) {
    EXPECT_EQ(combined<std::uint8_t>(Operator::max, Element::u8, 200, 100), 200);
    EXPECT_EQ(combined<std::int8_t>(Operator::max, Element::i8, -56, 100), 100);
    EXPECT_EQ(combined<std::uint16_t>(Operator::min, Element::u16, 60000, 5), 5);
    EXPECT_EQ(combined<std::int16_t>(Operator::min, Element::i16, -5000, 5), -5000);
    EXPECT_EQ(combined<std::uint32_t>(Operator::max, Element::u32, 4000000000U, 5), 4000000000U);
    EXPECT_EQ(combined<std::int32_t>(Operator::max, Element::i32, -1, 5), 5);
    EXPECT_EQ(combined<std::uint64_t>(Operator::min, Element::u64, 1ULL << 63, 5), 5U);
    EXPECT_EQ(combined<std::int64_t>(Operator::min, Element::i64, INT64_MIN, 5), INT64_MIN);
    EXPECT_EQ(combined<std::uint32_t>(Operator::bit_and, Element::u8, 0xff00ff00U, 0x0ff00ff0U), 0x0f000f00U);
    EXPECT_EQ(combined<std::uint16_t>(Operator::bit_or, Element::u8, 0xf000U, 0x000fU), 0xf00fU);
}

TEST(Operation, CodesAreReadStrictly) {
    int known = 0;
    for (int code = 0; code < 256; ++code) {
        const auto operation = decode_operation(static_cast<std::uint8_t>(code));
        if (!operation) continue;
        ++known;
        EXPECT_EQ(encode_operation(*operation), code);
    }
    EXPECT_EQ(known, 2 + 8 + 8 + 1);
    EXPECT_TRUE(reason_against({Operator::min, Element::u64, nullptr, nullptr}, 12).has_value());
    EXPECT_FALSE(reason_against({Operator::min, Element::u64, nullptr, nullptr}, 16).has_value());
    EXPECT_TRUE(reason_against({Operator::user, {}, nullptr, nullptr}, 8).has_value());
    EXPECT_FALSE(reason_against({Operator::bit_and, {}, nullptr, nullptr}, 0).has_value());
}

}  // namespace
}  // namespace coppice::protocol::testing
