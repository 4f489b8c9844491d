// From which position each one takes the chunks of a large payload, so that all links carry chunks at the same time.
//
// Few positions form a chain: every one receives each chunk once and passes it on once. Many form a binary tree, as the last one of a
// long chain would wait for all before it; each chunk is then passed on twice. Pure functions; the source of a position is
// nearer to the root's, so to go from source to source ends there.
#pragma once

#include "base/words.hpp"

namespace coppice::topology {

inline constexpr std::uint32_t kLongestChain = 16;

// Of any position but the root's, which is 0.
constexpr Position pipeline_source(Position position, std::uint32_t positions) {
    return Position{positions <= kLongestChain ? position.value - 1 : (position.value - 1) / 2};
}

// The positions that take from this one: from `first` on, `count` of them.
struct PipelineTargets {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};
constexpr PipelineTargets pipeline_targets(Position position, std::uint32_t positions) {
    const std::uint32_t first = positions <= kLongestChain ? position.value + 1 : 2 * position.value + 1;
    const std::uint32_t most = positions <= kLongestChain ? 1 : 2;
    return {first, first >= positions ? 0 : first + most > positions ? positions - first : most};
}

}  // namespace coppice::topology
