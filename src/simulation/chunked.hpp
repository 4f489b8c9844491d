// How long a payload of many bytes takes that goes in chunks, on a LogGP clock (Alexandrov et al., SPAA'95): LogP, and G for each byte.
//
// A message of k bytes that starts at t keeps its sender's port until t + max(g, o) + (k - 1) G, and has arrived at t + o + (k - 1) G + L.
// A receiver's port takes messages one after the other at the same pace, and each takes effect o after its last byte. Sending and
// receiving overlap. Times are steps, and no whole numbers, as G is a small part of one.
//
// Four ways to send it, from rank 0 to all, where nobody dies:
//
//   pull               the machine that ships (protocol/pull/), asking and answering: a chain, or a binary tree of many
//   chain              every rank passes each chunk on to the next one; nobody asks
//   binomial pipeline  in round r a rank exchanges with the one whose number differs in bit r mod log2 P: the root sends the next chunk,
//                      others the last one that their partner lacks (Ganesan and Seshadri, ICDCS'05)
//   scatter+allgather  every rank gets its part along a binomial tree, and the parts go round a ring (van de Geijn)
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace coppice::simulation {

struct LogGP {
    double latency = 2;       // L
    double overhead = 1;      // o
    double gap = 0;           // g; what is below o means o
    double gap_per_byte = 0;  // G
};

enum class Shape : std::uint8_t { pull, chain, binomial_pipeline, scatter_allgather };
inline constexpr std::array kShapes{Shape::pull, Shape::chain, Shape::binomial_pipeline, Shape::scatter_allgather};
std::string_view to_string(Shape shape);

struct ChunkedSetup {
    Shape shape = Shape::pull;
    std::uint32_t ranks = 2;
    std::uint64_t bytes = 0;
    std::uint64_t chunk = 8192;
    std::uint32_t ahead = 64;  // of pull: chunks that are asked for ahead of what is there
    LogGP model{};
};

// Why that can't be simulated, or not in the memory that there should be for it.
std::optional<std::string> reason_against(const ChunkedSetup& setup);

struct ChunkedOutcome {
    double steps = 0;             // until the last rank has all of it
    std::uint64_t messages = 0;   // those that carry no chunk included
    std::uint64_t most_sent = 0;  // bytes, by one rank
    std::uint64_t again = 0;      // chunks that came to a rank that had them
    bool is_everywhere = false;   // each rank has all chunks
};
ChunkedOutcome simulate(const ChunkedSetup& setup);

}  // namespace coppice::simulation
