// Payloads that go in chunks, on the clock of LogGP: what can be worked out by hand, and what the ways to send them are known for.
#include "simulation/chunked.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "simulation/chunked_order.hpp"
#include "topology/pipeline.hpp"

namespace coppice::simulation {
namespace {

constexpr LogGP kModel{.latency = 3, .overhead = 2, .gap = 0, .gap_per_byte = 0.5};

ChunkedOutcome of(Shape shape, std::uint32_t ranks, std::uint64_t bytes, std::uint64_t chunk, LogGP model = kModel) {
    const ChunkedOutcome outcome =
        simulate({.shape = shape, .ranks = ranks, .bytes = bytes, .chunk = chunk, .model = model});
    EXPECT_TRUE(outcome.is_everywhere) << to_string(shape) << " " << ranks << " ranks";
    return outcome;
}

// The first chunk has its way from rank to rank, the others follow at the pace of a port.
TEST(Chunked, AChainTakesWhatCanBeWorkedOutByHand) {
    for (const std::uint32_t ranks : {2U, 3U, 9U}) {
        for (const std::uint64_t chunks : {1U, 2U, 17U}) {
            const double body = 9 * 0.5;
            const double expected = (ranks - 1) * (2 * 2 + 3 + body) + static_cast<double>(chunks - 1) * (2 + body);
            EXPECT_DOUBLE_EQ(of(Shape::chain, ranks, chunks * 10, 10).steps, expected) << ranks << " " << chunks;
        }
    }
}

TEST(Chunked, TheLastChunkIsWhatIsLeft) {
    EXPECT_DOUBLE_EQ(of(Shape::chain, 2, 11, 10).steps, of(Shape::chain, 2, 20, 10).steps - 4.5);
    EXPECT_EQ(of(Shape::chain, 2, 11, 10).most_sent, 11U);
}

// Chunks and log2 P, less one, rounds, which nothing goes below where nobody sends two at once.
TEST(Chunked, ABinomialPipelineOfAPowerOfTwoTakesAsManyRoundsAsItMust) {
    constexpr LogGP kBytesOnly{.latency = 0, .overhead = 0, .gap = 0, .gap_per_byte = 1};
    std::uint32_t bits = 1;
    for (const std::uint32_t ranks : {2U, 4U, 8U, 64U}) {
        const double round = 99;  // a chunk of 100 bytes
        const double steps = of(Shape::binomial_pipeline, ranks, 50 * 100, 100, kBytesOnly).steps;
        EXPECT_NEAR(steps, (50 + bits - 1) * round, 1e-6) << ranks;
        bits = ranks == 8 ? 6 : bits + 1;
    }
}

// A round is what a port takes for a chunk; nothing else takes time.
std::uint64_t rounds_of(Shape shape, std::uint32_t ranks, std::uint64_t chunks) {
    constexpr LogGP kBytesOnly{.latency = 0, .overhead = 0, .gap = 0, .gap_per_byte = 1};
    const ChunkedOutcome outcome = of(shape, ranks, chunks * 101, 101, kBytesOnly);
    EXPECT_EQ(outcome.again, 0U) << to_string(shape) << " " << ranks << " ranks";
    return static_cast<std::uint64_t>(std::llround(outcome.steps / 100));
}

// What ships: a chain's last rank waits for all before it. A tree takes two rounds for each level at most, as each rank sends a chunk to two,
// and two for each chunk behind the first.
TEST(Chunked, WhatShipsTakesTheRoundsOfItsForm) {
    for (std::uint32_t ranks = 2; ranks <= 200; ++ranks) {
        const std::uint64_t levels = std::bit_width(ranks) - 1U;
        for (const std::uint64_t chunks : {1U, 2U, 9U, 40U}) {
            const std::uint64_t rounds = rounds_of(Shape::pull, ranks, chunks);
            if (ranks <= topology::kLongestChain) {
                EXPECT_EQ(rounds, ranks - 1 + chunks - 1) << ranks << " ranks, " << chunks << " chunks";
                continue;
            }
            EXPECT_GE(rounds, levels + 2 * (chunks - 1)) << ranks << " ranks, " << chunks << " chunks";
            EXPECT_LE(rounds, 2 * levels + 2 * (chunks - 1)) << ranks << " ranks, " << chunks << " chunks";
        }
    }
}

// Where there are not as many as a power of two, some have no partner in some rounds. Each gets each chunk once in any case.
TEST(Chunked, ABinomialPipelineOfAnyNumberTakesThreeTimesTheRoundsOfAPowerOfTwoAtMost) {
    for (std::uint32_t ranks = 2; ranks <= 200; ++ranks) {
        const std::uint64_t bits = std::bit_width(ranks - 1);
        for (const std::uint64_t chunks : {1U, 2U, 9U, 40U, 100U}) {
            const std::uint64_t least = chunks + bits - 1;
            const std::uint64_t rounds = rounds_of(Shape::binomial_pipeline, ranks, chunks);
            EXPECT_GE(rounds, least) << ranks << " ranks, " << chunks << " chunks";
            EXPECT_LE(rounds, std::has_single_bit(ranks) ? least : 3 * least)
                << ranks << " ranks, " << chunks << " chunks";
        }
    }
}

TEST(Chunked, ScatterAndAllgatherSendTwiceWhatTheRootMustSend) {
    constexpr LogGP kBytesOnly{.latency = 0, .overhead = 0, .gap = 0, .gap_per_byte = 1};
    const std::uint32_t ranks = 16;
    const double bytes = 1 << 20;
    const double steps = of(Shape::scatter_allgather, ranks, 1 << 20, 4096, kBytesOnly).steps;
    EXPECT_GT(steps, 1.7 * bytes);
    EXPECT_LT(steps, 2.0 * bytes);
}

// Whatever the number of ranks: everybody has everything in the end, and nothing comes twice but in the ring of an allgather.
TEST(Chunked, EveryRankGetsEveryChunk) {
    for (std::uint32_t ranks = 2; ranks <= 35; ++ranks) {
        for (const Shape shape : kShapes) {
            for (const std::uint64_t bytes : {1U, 10U, 95U, 400U}) {
                const ChunkedOutcome outcome = of(shape, ranks, bytes, 10);
                EXPECT_TRUE(outcome.again == 0 || shape == Shape::scatter_allgather) << to_string(shape);
                EXPECT_GE(outcome.most_sent, bytes);
            }
        }
    }
}

// What ships asks, so it sends more messages; with credit enough that costs the first way only.
TEST(Chunked, WhatShipsKeepsUpWithAChainThatIsNotAsked) {
    const ChunkedOutcome chain = of(Shape::chain, 8, 1 << 20, 8192);
    const ChunkedOutcome pull = of(Shape::pull, 8, 1 << 20, 8192);
    EXPECT_GT(pull.messages, chain.messages);
    EXPECT_GT(pull.steps, chain.steps);
    EXPECT_LT(pull.steps, 1.01 * chain.steps);
    const ChunkedOutcome starved = simulate({.shape = Shape::pull,
                                             .ranks = 8,
                                             .bytes = 1 << 20,
                                             .chunk = 1024,
                                             .ahead = 1,
                                             .model = {.latency = 1e4, .overhead = 2, .gap = 0, .gap_per_byte = 0.5}});
    EXPECT_GT(starved.steps, 1000 * 1e4) << "a chunk at a time, and the way there and back";
}

// A binary tree sends each chunk twice, and has the shorter way.
TEST(Chunked, WhatShipsIsABinaryTreeOfManyRanks) {
    EXPECT_EQ(of(Shape::pull, 16, 1 << 16, 1024).most_sent, std::uint64_t{1} << 16);
    EXPECT_EQ(of(Shape::pull, 17, 1 << 16, 1024).most_sent, std::uint64_t{1} << 17);
}

TEST(Chunked, WhatMakesNoSenseIsRefused) {
    const auto refused = [](ChunkedSetup setup) { return reason_against(setup).has_value(); };
    EXPECT_FALSE(refused({.ranks = 2, .bytes = 1, .chunk = 1}));
    EXPECT_TRUE(refused({.ranks = 1, .bytes = 1, .chunk = 1}));
    EXPECT_TRUE(refused({.ranks = 2, .bytes = 0, .chunk = 1}));
    EXPECT_TRUE(refused({.ranks = 2, .bytes = 1, .chunk = 0}));
    EXPECT_TRUE(refused({.ranks = 2, .bytes = 1, .chunk = 1, .ahead = 0}));
    EXPECT_TRUE(refused({.ranks = 2, .bytes = 1, .chunk = 1, .model = {.latency = -1}}));
    EXPECT_TRUE(refused({.ranks = 2, .bytes = UINT64_MAX, .chunk = 1}));
    EXPECT_TRUE(refused({.ranks = 1000, .bytes = std::uint64_t{1} << 30, .chunk = 1024}));
}

}  // namespace
}  // namespace coppice::simulation
