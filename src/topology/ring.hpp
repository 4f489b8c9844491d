// The ring that correction runs on: all positions in a circle, with wrap-around; and the rotation between a
// group's members (ranks, or nodes where hosts act as one) and positions, which puts the root at position 0.
//
// Pure arithmetic on 1 ≤ P ≤ kMaxProcesses. Positions, members and roots are below P; offsets may be any
// number.
#pragma once

#include <algorithm>
#include <cstdint>

#include "topology/words.hpp"

namespace coppice::topology {

// Towards higher positions: the neighbour at `offset` to the right.
constexpr Position right_neighbour(Position position, std::uint32_t offset, std::uint32_t processes) {
    const std::uint32_t step = offset < processes ? offset : offset % processes;
    const std::uint32_t sum = position.value + step;  // below 2·kMaxProcesses: no overflow
    return Position{sum < processes ? sum : sum - processes};
}

constexpr Position left_neighbour(Position position, std::uint32_t offset, std::uint32_t processes) {
    const std::uint32_t step = offset < processes ? offset : offset % processes;
    return Position{position.value >= step ? position.value - step : position.value + (processes - step)};
}

// The offset at which `to` lies to the right of `from`; 0 for the same position.
constexpr std::uint32_t distance_right(Position from, Position to, std::uint32_t processes) {
    return to.value >= from.value ? to.value - from.value : processes - (from.value - to.value);
}

constexpr std::uint32_t distance_left(Position from, Position to, std::uint32_t processes) {
    return distance_right(to, from, processes);
}

// The shorter way round.
constexpr std::uint32_t ring_distance(Position a, Position b, std::uint32_t processes) {
    return std::min(distance_right(a, b, processes), distance_right(b, a, processes));
}

constexpr Position to_position(std::uint32_t member, std::uint32_t root_member, std::uint32_t processes) {
    return left_neighbour(Position{member}, root_member, processes);
}

constexpr std::uint32_t to_member(Position position, std::uint32_t root_member, std::uint32_t processes) {
    return right_neighbour(position, root_member, processes).value;
}

// How many neighbours on each side opportunistic correction over the distance d sends to: offsets 1 … left to
// the left and 1 … right to the right.
struct RingReach {
    std::uint32_t left = 0;
    std::uint32_t right = 0;

    bool operator==(const RingReach&) const = default;
};

// d on each side (or on the right alone), but on a ring too small for that each other member once: nobody is
// sent to twice, and nobody sends to itself. The odd one is on the right.
constexpr RingReach ring_reach(std::uint32_t processes, std::uint32_t distance, bool one_directional) {
    const std::uint32_t others = processes - 1;
    if (one_directional) return {0, std::min(distance, others)};
    const std::uint32_t right = std::min(distance, others - others / 2);
    return {std::min(distance, others - right), right};
}

}  // namespace coppice::topology
