// The words of the field as types, so that a rank is never taken for a position nor an epoch for a sequence.
//
// Every room may include this header; it includes nothing of ours.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <type_traits>

namespace coppice {

// A number that only mixes with its own kind. `value` is public on purpose: arithmetic is done on plain
// numbers, in few places, and the result is wrapped again.
template <class Tag, class Representation>
struct Number {
    Representation value{};

    constexpr Number() = default;
    constexpr explicit Number(Representation v) : value(v) {}
    constexpr auto operator<=>(const Number&) const = default;
};

// A process's number in a group, 0 … P−1.
using Rank = Number<struct RankTag, std::uint32_t>;

// A process's number in the transports: its place in a transport set, as long as it has it. The first group's ranks have the seats of
// the same numbers, those of later groups any: the engine's Router translates.
using Seat = Number<struct SeatTag, std::uint32_t>;

// The number of a node of a group: of the ranks of one host, or of one rank where every rank is a position of its own.
using Node = Number<struct NodeTag, std::uint32_t>;

// Where a rank (or a host) stands in the tree and on the ring, after placement and after rotation to the
// root: the root's position is always 0.
using Position = Number<struct PositionTag, std::uint32_t>;

// The number of a group's membership. It moves when a rank is fenced out of it.
using Epoch = Number<struct EpochTag, std::uint32_t>;

// The number of an operation in its group, from 0, the same at every rank.
using Sequence = Number<struct SequenceTag, std::uint64_t>;

// A point in time or a span of it, on whatever clock the driver has (CLOCK_MONOTONIC or LogP steps).
using Nanoseconds = Number<struct NanosecondsTag, std::uint64_t>;

// A plain number becomes one of these only where it says so, and none becomes another.
static_assert(!std::is_convertible_v<std::uint32_t, Rank> && !std::is_convertible_v<Rank, std::uint32_t>);
static_assert(!std::is_constructible_v<Rank, Seat> && !std::is_constructible_v<Seat, Rank>);
static_assert(!std::is_constructible_v<Node, Rank> && !std::is_constructible_v<Rank, Node>);
static_assert(!std::is_constructible_v<Position, Node> && !std::is_constructible_v<Node, Position>);
static_assert(!std::is_constructible_v<Position, Rank> && !std::is_constructible_v<Rank, Position>);
static_assert(sizeof(Seat) == sizeof(std::uint32_t) && std::is_trivially_copyable_v<Seat>);

inline constexpr Nanoseconds kNever{UINT64_MAX};

// The largest group: positions are 32-bit and sums of two of them must not wrap.
inline constexpr std::uint32_t kMaxProcesses = 1U << 31;

}  // namespace coppice

template <class Tag, class Representation>
struct std::hash<coppice::Number<Tag, Representation>> {
    std::size_t operator()(coppice::Number<Tag, Representation> number) const noexcept {
        return std::hash<Representation>{}(number.value);
    }
};
