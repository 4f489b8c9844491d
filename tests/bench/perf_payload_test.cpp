// coppice-perf's own eyes: a wrong payload must not pass, and is called by its right name.
#include "perf/payload.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace perf {
namespace {

constexpr Schedule kFixed{.ranks = 8, .root = 3, .rotate = false};
constexpr Schedule kRotating{.ranks = 8, .root = 0, .rotate = true};

std::vector<std::byte> payload_of(std::uint64_t sequence, std::size_t bytes, const Schedule& schedule) {
    std::vector<std::byte> payload(bytes);
    fill_payload(payload, sequence, schedule.root_of(sequence));
    return payload;
}

TEST(Payload, TheRightOnePassesAtEverySize) {
    for (const Schedule& schedule : {kFixed, kRotating}) {
        for (std::size_t bytes = 0; bytes <= 300; ++bytes) {
            EXPECT_EQ(check_payload(payload_of(5000, bytes, schedule), bytes, 5000, schedule), Verdict::right) << bytes;
        }
    }
}

TEST(Payload, EveryWrongByteShows) {
    for (std::size_t at = 0; at < 100; ++at) {
        std::vector<std::byte> payload = payload_of(77, 100, kFixed);
        payload[at] ^= std::byte{1};
        EXPECT_EQ(check_payload(payload, 100, 77, kFixed), Verdict::corrupt) << at;
    }
}

TEST(Payload, AnEarlierOneIsADuplicateAndALaterOneMeansALoss) {
    for (const Schedule& schedule : {kFixed, kRotating}) {
        for (const std::uint64_t distance : {std::uint64_t{1}, std::uint64_t{31}, std::uint64_t{32}, kNeighbours}) {
            EXPECT_EQ(check_payload(payload_of(9000 - distance, 64, schedule), 64, 9000, schedule), Verdict::earlier);
            EXPECT_EQ(check_payload(payload_of(9000 + distance, 64, schedule), 64, 9000, schedule), Verdict::later);
        }
    }
}

TEST(Payload, APieceOfTwoBroadcastsIsTorn) {
    std::vector<std::byte> payload = payload_of(10, 1024, kFixed);
    const std::vector<std::byte> next = payload_of(11, 1024, kFixed);
    std::copy(next.begin() + 512, next.end(), payload.begin() + 512);
    EXPECT_EQ(check_payload(payload, 1024, 10, kFixed), Verdict::corrupt);
    EXPECT_EQ(check_payload(payload, 1024, 11, kFixed), Verdict::corrupt);
}

TEST(Payload, AnotherRootsBytesAreForeign) {
    std::vector<std::byte> payload(64);
    fill_payload(payload, 10, kFixed.root + 1);
    EXPECT_EQ(check_payload(payload, 64, 10, kFixed), Verdict::corrupt);
}

TEST(Payload, AWrongSizeIsCorrupt) {
    EXPECT_EQ(check_payload(payload_of(10, 63, kFixed), 64, 10, kFixed), Verdict::corrupt);
    EXPECT_EQ(check_payload(payload_of(10, 65, kFixed), 64, 10, kFixed), Verdict::corrupt);
    EXPECT_EQ(check_payload({}, 64, 10, kFixed), Verdict::corrupt);
}

}  // namespace
}  // namespace perf
