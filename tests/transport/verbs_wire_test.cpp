// What of the verbs transport needs no device: slots that prove themselves, cards, addresses, messages, credits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "transport/conformance.hpp"
#include "transport/crc32c.hpp"
#include "transport/landing.hpp"
#include "transport/verbs/device.hpp"
#include "transport/verbs/wire.hpp"

namespace coppice::testing {

namespace {

using namespace transport;
using namespace transport::verbs;

constexpr std::uint32_t kSeed = 0x1234;
constexpr std::uint16_t kSlots = 4;

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

// What write number `number` puts into its slot.
Bytes write_of(std::uint32_t number, const Bytes& header, const Bytes& payload, std::uint32_t seed = kSeed) {
    Prefix prefix{.stamp = number,
                  .payload_size = static_cast<std::uint16_t>(payload.size()),
                  .header_size = static_cast<std::uint8_t>(header.size())};
    seal(prefix, seed, header, payload);
    Bytes bytes(sizeof prefix + header.size() + payload.size());
    std::memcpy(bytes.data(), &prefix, sizeof prefix);
    std::copy(header.begin(), header.end(), bytes.begin() + sizeof prefix);
    std::copy(payload.begin(), payload.end(),
              bytes.begin() + static_cast<std::ptrdiff_t>(sizeof prefix + header.size()));
    return bytes;
}

class LandingSlots : public ::testing::Test {
  protected:
    LandingSlots() { landing_.attach(memory_.data(), kSlots, kSeed); }
    std::byte* slot(std::uint32_t number) { return memory_.data() + (number - 1) % kSlots * kSlotStride; }
    void land(std::uint32_t number, const Bytes& bytes) { std::copy(bytes.begin(), bytes.end(), slot(number)); }
    bool has_message() { return landing_.peek(view_) == Landing::Found::message; }

    std::vector<std::byte> memory_ = std::vector<std::byte>(kSlots * kSlotStride);
    Landing landing_;
    Landing::View view_;
};

Card some_card() {
    return {.rank = 3,
            .incarnation = 7,
            .token = 0xabcdef,
            .landing_address = 0x1000,
            .word_address = 0x2000,
            .landing_key = 11,
            .word_key = 12,
            .slots = 16,
            .mtu = 4096};
}

const Card kExpected{.rank = 8, .token = 0xabcdef};

}  // namespace

TEST(Crc32c, HasTheValueOfThePublishedCheckString) {
    EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283U);
    EXPECT_EQ(crc32c_portable(bytes_of("123456789")), 0xe3069283U);
}

TEST(Crc32c, IsTheSameInPiecesAndWithoutTheInstruction) {
    // Around and beyond the lengths from which on several streams are put together.
    for (std::size_t i = 0; i < 400; ++i) {
        const std::size_t length = i < 200 ? i : i < 300 ? 768 + i - 250 : (i - 299) * 811;
        const Bytes bytes = pattern(length, length);
        const std::uint32_t whole = crc32c(bytes);
        EXPECT_EQ(whole, crc32c_portable(bytes));
        const std::span<const std::byte> span(bytes);
        const std::size_t cut = length / 3;
        EXPECT_EQ(whole, crc32c(span.subspan(cut), crc32c(span.first(cut))));
    }
}

TEST_F(LandingSlots, DeliverWritesOfEverySizeInOrderOverManyLaps) {
    std::uint32_t number = 1;
    for (const std::size_t size : {0U, 1U, 7U, 100U, 8192U, 3U, 8191U, 64U, 0U, 5000U, 1U}) {
        EXPECT_FALSE(has_message());
        const Bytes header = pattern(number, number % 49), payload = pattern(number, size);
        land(number, write_of(number, header, payload));
        ASSERT_TRUE(landing_.changed());
        ASSERT_TRUE(has_message());
        EXPECT_TRUE(std::equal(header.begin(), header.end(), view_.header));
        EXPECT_TRUE(std::ranges::equal(view_.payload, payload));
        landing_.advance();
        EXPECT_EQ(landing_.consumed(), number);
        ++number;
    }
}

// Whatever the order in which the bytes of a write become visible, nothing is seen before the last of them.
TEST_F(LandingSlots, AreNotValidBeforeEveryByteHasLandedInWhateverOrder) {
    std::uint64_t random = 42;
    const auto next = [&random] { return random = random * 6364136223846793005U + 1442695040888963407U, random >> 33; };
    for (std::uint32_t number = 1; number <= 40; ++number) {
        const Bytes bytes = write_of(number, pattern(number, 40), pattern(number, 200 + number));
        std::vector<std::size_t> order(bytes.size());
        std::iota(order.begin(), order.end(), 0U);
        for (std::size_t at = order.size() - 1; at > 0; --at)
            std::swap(order[at], order[next() % (at + 1)]);
        std::size_t missing = static_cast<std::size_t>(
            std::ranges::count_if(order, [&](std::size_t at) { return slot(number)[at] != bytes[at]; }));
        for (const std::size_t at : order) {
            if (slot(number)[at] == bytes[at]) continue;
            ASSERT_FALSE(has_message()) << "write " << number << " with " << missing << " bytes missing";
            slot(number)[at] = bytes[at];
            --missing;
        }
        ASSERT_TRUE(has_message());
        landing_.advance();
    }
}

TEST_F(LandingSlots, RefuseWhatIsFlippedForeignOrFromAnotherLap) {
    const Bytes good = write_of(1, pattern(1, 16), pattern(2, 50));
    for (std::size_t at = 0; at < good.size(); ++at) {
        Bytes bad = good;
        bad[at] ^= std::byte{0x10};
        land(1, bad);
        EXPECT_FALSE(has_message()) << "byte " << at;
    }
    land(1, write_of(1, pattern(1, 16), pattern(2, 50), kSeed + 1));  // of another pair of ranks
    EXPECT_FALSE(has_message());
    land(1, write_of(1 + kSlots, pattern(1, 16), pattern(2, 50)));
    EXPECT_FALSE(has_message());
    land(1, good);
    EXPECT_TRUE(has_message());
}

TEST_F(LandingSlots, CountGarbageOnceAndStillTakeTheWriteThatFollows) {
    const Bytes nonsense = pattern(9, kSlotStride);
    land(1, nonsense);
    EXPECT_EQ(landing_.peek(view_), Landing::Found::garbage);
    EXPECT_EQ(landing_.peek(view_), Landing::Found::nothing);
    // With the right stamp it might still be on its way; after long enough it is counted.
    const std::uint32_t stamp = 1;
    std::memcpy(slot(1), &stamp, sizeof stamp);
    std::uint32_t garbage = 0;
    for (std::uint32_t look = 0; look < 2 * Landing::kPatience; ++look)
        garbage += landing_.peek(view_) == Landing::Found::garbage;
    EXPECT_EQ(garbage, 1U);
    land(1, write_of(1, {}, pattern(1, 8)));
    EXPECT_TRUE(has_message());
}

TEST_F(LandingSlots, NeverReadBeyondASlotWhateverItsSizesSay) {
    for (std::uint32_t size = 0; size <= 0xffff; size += 257) {
        Prefix prefix{.stamp = 1, .payload_size = static_cast<std::uint16_t>(size), .header_size = 255};
        std::memcpy(slot(1), &prefix, sizeof prefix);
        EXPECT_FALSE(has_message());
        prefix.header_size = 0;
        prefix.kind = static_cast<Kind>(77);
        std::memcpy(slot(1), &prefix, sizeof prefix);
        EXPECT_FALSE(has_message());
    }
}

TEST(Credit, StopsAtTheBoundAndBelievesOnlyWhatCanBeTrue) {
    Credit credit;
    credit.attach(4);
    for (int i = 0; i < 4; ++i) {
        ASSERT_TRUE(credit.has_room());
        credit.wrote();
    }
    EXPECT_FALSE(credit.has_room());
    EXPECT_TRUE(credit.is_low());
    credit.learn(5);  // more than was written
    EXPECT_FALSE(credit.has_room());
    credit.learn(3);
    credit.learn(2);  // late news
    EXPECT_TRUE(credit.has_room());
    EXPECT_FALSE(credit.is_low());
    EXPECT_EQ(credit.next_stamp(), 5U);
    EXPECT_EQ(credit.next_offset(), 0U);
}

TEST(Credit, GoesOnBeyondTheWidthOfTheCountsOnTheWire) {
    Credit credit;
    credit.attach(16);
    for (std::uint32_t number = 1; number <= 200'000; ++number) {
        ASSERT_TRUE(credit.has_room());
        ASSERT_EQ(credit.next_stamp(), number);
        credit.wrote();
        if (number % 7 == 0) credit.learn(static_cast<std::uint16_t>(number));
    }
}

TEST(VerbsMessage, IsParsedOnlyIfItsSizesAreThoseThatArrived) {
    const Bytes good = write_of(0, pattern(1, 48), pattern(2, 300));
    ASSERT_TRUE(parse_message(good));
    for (std::size_t length = 0; length < good.size(); ++length)
        EXPECT_FALSE(parse_message(std::span(good).first(length)));
    for (std::uint64_t seed = 0; seed < 5000; ++seed) {
        const Bytes nonsense = pattern(seed, seed % 100);
        const auto prefix = parse_message(nonsense);
        if (prefix) {
            EXPECT_EQ(sizeof(Prefix) + prefix->header_size + prefix->payload_size, nonsense.size());
        }
    }
}

TEST(VerbsCard, ComesBackAsItWas) {
    const Bytes bytes = encode(some_card());
    ASSERT_EQ(bytes.size(), kCardBytes);
    const auto [card, refusal] = decode_card(bytes, kExpected);
    ASSERT_EQ(refusal, Refusal::none);
    EXPECT_EQ(card.rank, 3U);
    EXPECT_EQ(card.incarnation, 7U);
    EXPECT_EQ(card.landing_address, 0x1000U);
    EXPECT_EQ(card.word_address, 0x2000U);
    EXPECT_EQ(card.landing_key, 11U);
    EXPECT_EQ(card.word_key, 12U);
    EXPECT_EQ(card.slots, 16);
    EXPECT_EQ(card.mtu, 4096);
}

TEST(VerbsCard, IsReadWithThePaddingThatConnectionManagersAdd) {
    Bytes bytes = encode(some_card());
    bytes.resize(196);
    EXPECT_EQ(decode_card(bytes, kExpected).refusal, Refusal::none);
}

TEST(VerbsCard, IsRefusedWithTheReason) {
    const auto reason = [](const auto& change) {
        Card card = some_card();
        change(card);
        return decode_card(encode(card), kExpected).refusal;
    };
    EXPECT_EQ(reason([](Card& card) { card.token = 1; }), Refusal::stranger);
    EXPECT_EQ(reason([](Card& card) { card.rank = 8; }), Refusal::stranger);
    EXPECT_EQ(reason([](Card& card) { card.slots = 0; }), Refusal::garbage);
    EXPECT_EQ(reason([](Card& card) { card.slots = kMaxSlots + 1; }), Refusal::garbage);
    EXPECT_EQ(reason([](Card& card) { card.mtu = 0; }), Refusal::garbage);
    Bytes other_version = encode(some_card());
    other_version[4] = std::byte{kWireVersion + 1};
    EXPECT_EQ(decode_card(other_version, kExpected).refusal, Refusal::version);
}

TEST(VerbsCard, IsGarbageWithAnyBitFlippedAtAnyLengthAndMadeOfAnything) {
    const Bytes good = encode(some_card());
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
        Bytes bad = good;
        bad[bit / 8] ^= std::byte{static_cast<unsigned char>(1U << (bit % 8))};
        EXPECT_NE(decode_card(bad, kExpected).refusal, Refusal::none) << "bit " << bit;
    }
    for (std::size_t length = 0; length < good.size(); ++length)
        EXPECT_EQ(decode_card(std::span(good).first(length), kExpected).refusal, Refusal::garbage);
    for (std::uint64_t seed = 0; seed < 1000; ++seed)
        EXPECT_EQ(decode_card(pattern(seed, 196), kExpected).refusal, Refusal::garbage);
}

TEST(VerbsRefusal, ComesBackAndIsNotFoundInNonsense) {
    EXPECT_EQ(decode_refusal(encode(Refusal::fenced)), Refusal::fenced);
    EXPECT_EQ(decode_refusal({}), Refusal::none);
    for (std::uint64_t seed = 0; seed < 200; ++seed)
        EXPECT_EQ(decode_refusal(pattern(seed, 148)), Refusal::none);
    for (std::uint8_t reason = 0; reason < 8; ++reason)
        EXPECT_STRNE(to_string(static_cast<Refusal>(reason)), "");
}

TEST(VerbsAddress, ComesBackForBothFamilies) {
    Address v6;
    v6.where.sin6_family = AF_INET6;
    v6.where.sin6_port = 4711;
    v6.where.sin6_scope_id = 5;
    std::memset(&v6.where.sin6_addr, 0x21, 16);
    v6.rank = 2;
    v6.group_size = 9;
    const auto back = decode_address(Seat{2}, encode(v6));
    ASSERT_TRUE(back);
    EXPECT_EQ(std::memcmp(&back->where, &v6.where, sizeof v6.where), 0);
    EXPECT_EQ(back->rank, 2U);
    EXPECT_EQ(back->group_size, 9U);

    Address v4;
    auto& where = reinterpret_cast<sockaddr_in&>(v4.where);
    where.sin_family = AF_INET;
    where.sin_port = 99;
    where.sin_addr.s_addr = 0x0100000a;
    const auto back4 = decode_address(Seat{0}, encode(v4));
    ASSERT_TRUE(back4);
    EXPECT_EQ(std::memcmp(&back4->where, &v4.where, sizeof(sockaddr_in)), 0);
}

TEST(VerbsAddress, IsRefusedWithAnyBitFlipped) {
    Address address;
    address.where.sin6_family = AF_INET6;
    const Bytes good = encode(address);
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
        Bytes bad = good;
        bad[bit / 8] ^= std::byte{static_cast<unsigned char>(1U << (bit % 8))};
        const auto back = decode_address(Seat{5}, bad);
        ASSERT_FALSE(back) << "bit " << bit;
        EXPECT_EQ(back.error().status, COPPICE_ERR_MISMATCH);
        EXPECT_NE(back.error().message.find("rank 5"), std::string::npos);
    }
}

TEST(PathMtu, IsTheLargestThatFits) {
    EXPECT_EQ(mtu_of(4096), IBV_MTU_4096);
    EXPECT_EQ(mtu_of(1500), IBV_MTU_1024);
    EXPECT_EQ(mtu_of(1024), IBV_MTU_1024);
    EXPECT_EQ(mtu_of(100), IBV_MTU_256);
    EXPECT_EQ(mtu_of(65535), IBV_MTU_4096);
    EXPECT_EQ(mtu_bytes(IBV_MTU_2048), 2048U);
}

}  // namespace coppice::testing
