#include "simulation/tally.hpp"

#include <algorithm>
#include <bit>

namespace coppice::simulation {

void tally(Outcome& outcome, std::uint32_t processes, const PositionSet& dead, const PositionSet& colored) {
    for (std::size_t word = 0; word < dead.words(); ++word) {
        outcome.failed += static_cast<std::uint32_t>(std::popcount(dead.word(word)));
        outcome.reached += static_cast<std::uint32_t>(std::popcount(colored.word(word) & ~dead.word(word)));
        for (std::uint64_t left = ~colored.word(word) & ~dead.word(word); left != 0; left &= left - 1) {
            const auto position = static_cast<std::uint32_t>(word * 64 + static_cast<unsigned>(std::countr_zero(left)));
            if (position < processes) outcome.unreached.push_back(Position{position});
        }
    }
}

Gaps measure_gaps(const PositionSet& disseminated, std::uint32_t processes) {
    std::vector<std::uint32_t> lengths;
    for_each_gap(disseminated, processes,
                 [&](std::uint32_t /*first*/, std::uint32_t length) { lengths.push_back(length); });

    Gaps gaps;
    std::sort(lengths.begin(), lengths.end());
    for (const std::uint32_t length : lengths) {
        if (gaps.histogram.empty() || gaps.histogram.back().first != length) gaps.histogram.emplace_back(length, 0);
        ++gaps.histogram.back().second;
    }
    if (!lengths.empty()) gaps.largest = lengths.back();
    return gaps;
}

}  // namespace coppice::simulation
