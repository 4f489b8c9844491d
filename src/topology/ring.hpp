// The ring that correction runs on: all positions in a circle, with wrap-around; and the rotation from positions, of which the
// root's is 0, to a group's members (ranks, or nodes where hosts act as one).
//
// Pure arithmetic on 1 ≤ P ≤ kMaxProcesses. Positions, members and roots are below P; offsets may be any
// number.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/words.hpp"

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

constexpr std::uint32_t to_member(Position position, std::uint32_t root_member, std::uint32_t processes) {
    return right_neighbour(position, root_member, processes).value;
}

}  // namespace coppice::topology
