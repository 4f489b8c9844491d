// Which members were reached in the end: the part of an outcome that does not depend on the clock.
#pragma once

#include <bit>
#include <cstdint>

#include "simulation/model.hpp"
#include "simulation/position_set.hpp"

namespace coppice::simulation {

// Fills in failed, reached and unreached.
void tally(Outcome& outcome, std::uint32_t processes, const PositionSet& dead, const PositionSet& colored);

// Hands each run of positions that are not in `set`, on the ring, to `use(first, length)`: those in order, then the one around position 0.
template <class Use>
void for_each_gap(const PositionSet& set, std::uint32_t processes, Use&& use) {
    std::uint32_t first = processes;  // the first position of the set
    std::uint32_t last = 0;           // the last one so far
    const auto found = [&](std::uint32_t position) {
        if (first == processes) {
            first = position;
        } else if (position - last > 1) {
            use(last + 1, position - last - 1);
        }
        last = position;
    };
    for (std::size_t word = 0; word < set.words(); ++word) {
        const auto base = static_cast<std::uint32_t>(word * 64);
        std::uint64_t bits = set.word(word);
        if (bits == ~std::uint64_t{0}) {
            found(base);
            last = base + 63;
            continue;
        }
        for (; bits != 0; bits &= bits - 1)
            found(base + static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
    const std::uint32_t around = first == processes ? processes : first + (processes - 1 - last);
    if (around > 0) use(first == processes ? 0 : (last + 1) % processes, around);
}

// Runs of positions that are not in `disseminated`, on the ring.
Gaps measure_gaps(const PositionSet& disseminated, std::uint32_t processes);

}  // namespace coppice::simulation
