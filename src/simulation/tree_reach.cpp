#include "simulation/tree_reach.hpp"

#include "simulation/tally.hpp"

namespace coppice::simulation {

TreeReach::TreeReach(const topology::Tree& tree)
    : tree_(tree), left_out_(tree.processes()), reached_(tree.processes()) {}

Gaps TreeReach::gaps(std::span<const Position> dead) {
    left_out_.clear();
    border_.assign(dead.begin(), dead.end());
    while (!border_.empty()) {
        const Position position = border_.back();
        border_.pop_back();
        if (left_out_.contains(position.value)) continue;
        left_out_.insert(position.value);
        const std::uint32_t children = tree_.child_count(position);
        for (std::uint32_t index = 0; index < children; ++index)
            border_.push_back(tree_.child(position, index));
    }
    const std::uint32_t beyond = tree_.processes() % 64;
    for (std::size_t word = 0; word < reached_.words(); ++word)
        reached_.set_word(word, ~left_out_.word(word));
    if (beyond != 0) {
        const std::size_t last = reached_.words() - 1;
        reached_.set_word(last, reached_.word(last) & ((std::uint64_t{1} << beyond) - 1));
    }
    return measure_gaps(reached_, tree_.processes());
}

}  // namespace coppice::simulation
