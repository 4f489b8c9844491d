// The distances between parents and children that occur in a tree: who can ever be heard from, under any root.
#include <algorithm>
#include <numeric>

#include "topology/tree.hpp"

namespace coppice::topology {
namespace {

void sort_unique(std::vector<std::uint32_t>& values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

std::vector<std::uint32_t> Tree::distances() const {
    std::vector<std::uint32_t> result;
    switch (layout_) {
        case Layout::chain:
            if (processes_ > 1) result.push_back(1);
            break;
        case Layout::star:
            result.resize(processes_ - 1);
            std::iota(result.begin(), result.end(), 1U);
            break;
        case Layout::binomial:
        case Layout::binomial_in_order:
            for (std::uint32_t power = 1; power < processes_; power *= 2)
                result.push_back(power);
            break;
        case Layout::lame:
        case Layout::lame_in_order:
            return table_;
        case Layout::kary:
        case Layout::kary_in_order:
            return kary_distances();
        case Layout::log_p:
            return log_p_distances();
    }
    return result;
}

std::vector<std::uint32_t> Tree::kary_distances() const {
    std::vector<std::uint32_t> result;
    if (layout_ == Layout::kary) {
        // The lowest position of a level has the most children.
        for (std::size_t level = 0; level < table_.size(); ++level) {
            const std::uint32_t count = child_count(Position{table_[level]});
            for (std::uint32_t i = 1; i <= count; ++i)
                result.push_back(i * powers_[level]);
        }
    } else {
        // The subtrees of one level have at most two sizes, one apart: the first and the last child's all the
        // way down.
        std::uint32_t small = processes_;
        std::uint32_t large = processes_;
        while (large > 1) {
            for (std::uint32_t size = small; size <= large; ++size) {
                const std::uint32_t below = size - 1;
                for (std::uint32_t i = 0; i < std::min(order_, below); ++i) {
                    result.push_back(1 + i * (below / order_) + std::min(i, below % order_));
                }
            }
            large = (large - 1) / order_ + ((large - 1) % order_ != 0 ? 1 : 0);
            small = std::max((small - 1) / order_, 1U);
        }
    }
    sort_unique(result);
    return result;
}

std::vector<std::uint32_t> Tree::log_p_distances() const {
    std::vector<std::uint32_t> result;
    const auto slots = static_cast<std::uint32_t>(table_.size()) - 1;
    for (std::uint32_t slot = 0; slot < slots; slot += gap_)
        result.push_back(table_[slot]);  // the root's
    for (std::uint32_t received = 0; received + delay_ < slots; ++received) {
        if (senders(received) == 0) continue;
        const std::uint32_t lowest = table_[received];  // of all that receive in that slot, it has the most children
        const std::uint32_t first = received + delay_;
        const std::uint32_t at = ordinal(lowest, first);
        for (std::uint32_t slot = first; slot < slots && table_[slot] < processes_ - at; slot += gap_) {
            result.push_back(table_[slot] + at - lowest);
        }
    }
    sort_unique(result);
    return result;
}

}  // namespace coppice::topology
