// Positions of trees as arithmetic.
//
// Lamé trees (binomial is k = 1, optimal with o | L is k = 2 + L/o). Let V be R of Equation 1 without its
// repeated ones, V[j] = R(j + k − 1): 1, 2, 3, …; V[j] = V[j−1] + V[j−k]. Take the largest V not above a
// position away from it, and again from what remains, until nothing does: a position is a sum of Vs.
// Interleaved, the parent lacks the largest of them (Equation 2 read backwards); in order, it lacks the
// smallest. So both numberings share one table.
//
// LogP order (optimal with o ∤ L). Time runs in slots. All processes whose first send falls into slots ≡ t
// mod o send together in slot t, in the order of their positions; their receivers get consecutive positions
// and first send 2o + L slots later. table_[t] is the position that slot t's first send goes to, hence
// table_[t+1] − table_[t] is the number of its senders, and both directions of an edge are a few look-ups in
// that table. Where o | L this is the same tree as the closed form.
#include "topology/tree.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <numeric>

namespace coppice::topology {
namespace {

constexpr std::uint32_t bit(std::uint32_t exponent) {
    return 1U << exponent;
}

std::uint32_t width(std::uint32_t value) {
    return static_cast<std::uint32_t>(std::bit_width(value));
}

std::uint32_t lowest_bit(std::uint32_t value) {
    return static_cast<std::uint32_t>(std::countr_zero(value));
}

std::uint32_t above(std::uint32_t count, std::uint32_t floor) {
    return count > floor ? count - floor : 0;
}

}  // namespace

struct Tree::Subtree {
    std::uint32_t size = 1;    // of the position's subtree
    std::uint32_t parent = 0;  // meaningless at the root
    std::uint32_t depth = 0;
};

tl::expected<Tree, std::string> Tree::make(const TreeSpec& spec, std::uint32_t processes) {
    if (processes == 0 || processes > kMaxProcesses) {
        return tl::unexpected<std::string>("a tree has 1 to " + std::to_string(kMaxProcesses) + " processes, not " +
                                           std::to_string(processes));
    }
    if (auto reason = reason_against(spec)) return tl::unexpected<std::string>(std::move(*reason));
    return Tree(spec, processes);
}

Tree::Tree(const TreeSpec& spec, std::uint32_t processes) : spec_(spec), processes_(processes) {
    const bool in_order = spec.numbering == Numbering::in_order;
    switch (spec.shape) {
        case TreeShape::chain:
            break;
        case TreeShape::star:
            layout_ = Layout::star;
            break;
        case TreeShape::binomial:
            layout_ = in_order ? Layout::binomial_in_order : Layout::binomial;
            break;
        case TreeShape::lame:
            make_lame(spec.order, spec.numbering);
            break;
        case TreeShape::kary:
            make_kary();
            break;
        case TreeShape::optimal: {
            const std::uint32_t unit = std::gcd(spec.overhead, spec.latency);
            if (unit == spec.overhead) {
                make_lame(2ULL + spec.latency / unit, spec.numbering);
            } else {
                make_log_p(spec.overhead / unit, spec.latency / unit);
            }
            break;
        }
    }
    index_table();
}

void Tree::make_lame(std::uint64_t order, Numbering numbering) {
    layout_ = numbering == Numbering::in_order ? Layout::lame_in_order : Layout::lame;
    order_ = static_cast<std::uint32_t>(order);
    for (std::uint64_t next = 1; next < processes_;) {
        table_.push_back(static_cast<std::uint32_t>(next));
        const std::size_t size = table_.size();
        next += size >= order_ ? table_[size - order_] : 1;
    }
}

void Tree::make_kary() {
    order_ = spec_.order;
    if (order_ == 1) return;  // a chain
    switch (spec_.numbering) {
        case Numbering::interleaved:
            layout_ = Layout::kary;
            break;
        case Numbering::in_order:
            layout_ = Layout::kary_in_order;
            break;
        case Numbering::level_order:
            layout_ = Layout::kary_level_order;
            break;
    }
    std::uint64_t power = 1;
    for (std::uint64_t first = 0; first < processes_;) {
        table_.push_back(static_cast<std::uint32_t>(first));
        // Larger powers mean the same as kMaxProcesses: no children.
        powers_.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(power, kMaxProcesses)));
        first += power;
        power *= order_;  // was below 2^31 if the loop goes on
    }
}

void Tree::make_log_p(std::uint32_t overhead, std::uint32_t latency) {
    layout_ = Layout::log_p;
    gap_ = overhead;
    delay_ = 2 * overhead + latency;
    // Senders only multiply by two at most from slot to slot, so the last entry stays below 2·kMaxProcesses.
    table_.push_back(1);
    while (table_.back() < processes_) {
        const auto slot = static_cast<std::int64_t>(table_.size()) - 1;
        const std::uint32_t sending = slot == 0 ? 1 : senders(slot - gap_) + senders(slot - delay_);
        table_.push_back(table_.back() + sending);
    }
}

void Tree::index_table() {
    for (std::uint32_t octave = 1; octave < octaves_.size(); ++octave) {
        const std::uint64_t bound = 1ULL << (octave - 1);
        const auto end =
            std::partition_point(table_.begin(), table_.end(), [bound](std::uint32_t entry) { return entry < bound; });
        octaves_[octave] = static_cast<std::uint32_t>(end - table_.begin());
    }
}

// How many entries of table_ are not above `value`.
std::uint32_t Tree::entries_up_to(std::uint32_t value) const {
    const std::uint32_t octave = width(value);
    std::uint32_t low = octaves_[octave];
    std::uint32_t high = octaves_[octave + 1];
    constexpr std::uint32_t kShort = 6;
    while (high - low > kShort) {
        const std::uint32_t middle = low + (high - low) / 2;
        if (table_[middle] <= value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    while (low < high && table_[low] <= value)
        ++low;
    return low;
}

// Lamé, interleaved: the index in table_ of the distance to the first child (s' of Equation 2).
std::uint32_t Tree::first_step(std::uint32_t position) const {
    return position == 0 ? 0 : order_ - 1 + entries_up_to(position);
}

// Lamé, in order: the index in table_ of the smallest of the distances that `position` > 0 is the sum of.
std::uint32_t Tree::last_term(std::uint32_t position) const {
    for (;;) {
        const std::uint32_t term = entries_up_to(position) - 1;
        if (table_[term] == position) return term;
        position -= table_[term];
    }
}

Tree::Subtree Tree::find_in_order(std::uint32_t position) const {
    Subtree found{processes_, 0, 0};
    for (std::uint32_t at = 0; at != position;) {
        // The first `larger` children have subtrees of small + 1.
        const std::uint32_t below = found.size - 1;
        const std::uint32_t small = below / order_;
        const std::uint32_t larger = below % order_;
        const std::uint32_t offset = position - at - 1;
        std::uint32_t start = 0;
        if (offset < larger * (small + 1)) {
            found.size = small + 1;
            start = offset - offset % found.size;
        } else {
            found.size = small;
            const std::uint32_t skipped = larger * (small + 1);
            start = offset - (offset - skipped) % found.size;
        }
        found.parent = at;
        ++found.depth;
        at += 1 + start;
    }
    return found;
}

// LogP order: how many processes send in `slot`; none before the first.
std::uint32_t Tree::senders(std::int64_t slot) const {
    if (slot < 0) return 0;
    const auto at = static_cast<std::size_t>(slot);
    return table_[at + 1] - table_[at];
}

// LogP order: the slot of a process's first send. May lie beyond the table: then it has no children.
std::uint32_t Tree::first_slot(std::uint32_t position) const {
    return position == 0 ? 0 : entries_up_to(position) - 1 + delay_;
}

// LogP order: which of its slots' senders a process is, given the slot of its first send, which is within the
// table.
std::uint32_t Tree::ordinal(std::uint32_t position, std::uint32_t slot) const {
    if (position == 0) return 0;
    return senders(static_cast<std::int64_t>(slot) - gap_) + (position - table_[slot - delay_]);
}

std::uint32_t Tree::log_p_child_count(std::uint32_t position) const {
    const std::uint32_t first = first_slot(position);
    if (first >= table_.size()) return 0;
    const std::uint32_t slots = entries_up_to(processes_ - 1 - ordinal(position, first));
    return slots <= first ? 0 : (slots - 1 - first) / gap_ + 1;
}

std::uint32_t Tree::log_p_parent(std::uint32_t position) const {
    const std::uint32_t slot = entries_up_to(position) - 1;
    const std::uint32_t sender = position - table_[slot];
    // The sender's first send is in the earliest slot ≡ slot mod gap_ that had more senders than `sender`.
    std::uint32_t low = 0;
    std::uint32_t high = slot / gap_;
    const std::uint32_t remainder = slot % gap_;
    while (low < high) {
        const std::uint32_t middle = low + (high - low) / 2;
        if (senders(std::int64_t{remainder} + std::int64_t{middle} * gap_) > sender) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    const std::uint32_t first = remainder + low * gap_;
    if (first == 0) return 0;
    return table_[first - delay_] + sender - senders(static_cast<std::int64_t>(first) - gap_);
}

std::optional<Position> Tree::parent(Position position) const {
    const std::uint32_t p = position.value;
    assert(p < processes_);
    if (p == 0) return std::nullopt;
    switch (layout_) {
        case Layout::chain:
            return Position{p - 1};
        case Layout::star:
            return Position{0};
        case Layout::binomial:
            return Position{p - std::bit_floor(p)};
        case Layout::binomial_in_order:
            return Position{p & (p - 1)};
        case Layout::lame:
            return Position{p - table_[entries_up_to(p) - 1]};
        case Layout::lame_in_order:
            return Position{p - table_[last_term(p)]};
        case Layout::kary: {
            const std::uint32_t level = entries_up_to(p) - 1;
            return Position{table_[level - 1] + (p - table_[level]) % powers_[level - 1]};
        }
        case Layout::kary_in_order:
            return Position{find_in_order(p).parent};
        case Layout::kary_level_order:
            return Position{(p - 1) / order_};
        case Layout::log_p:
            return Position{log_p_parent(p)};
    }
    return std::nullopt;
}

std::uint32_t Tree::child_count_of_others(Position position) const {
    const std::uint32_t p = position.value;
    assert(p < processes_);
    const std::uint32_t beyond = processes_ - 1 - p;  // positions after p
    switch (layout_) {
        case Layout::chain:
            return beyond > 0 ? 1 : 0;
        case Layout::star:
            return p == 0 ? beyond : 0;
        case Layout::binomial:
            break;
        case Layout::binomial_in_order:
            return p == 0 ? width(beyond) : std::min(lowest_bit(p), width(beyond));
        case Layout::lame:
            return above(entries_up_to(beyond), first_step(p));
        case Layout::lame_in_order: {
            const std::uint32_t fitting = entries_up_to(beyond);
            if (p == 0) return fitting;
            return std::min(above(last_term(p) + 1, order_), fitting);
        }
        case Layout::kary:
            return std::min(order_, beyond / powers_[entries_up_to(p) - 1]);
        case Layout::kary_in_order:
            return std::min(order_, find_in_order(p).size - 1);
        case Layout::kary_level_order: {
            const std::uint64_t before = std::uint64_t{p} * order_ + 1;  // of its first child
            return before >= processes_
                       ? 0
                       : std::min<std::uint32_t>(order_, processes_ - static_cast<std::uint32_t>(before));
        }
        case Layout::log_p:
            return log_p_child_count(p);
    }
    return 0;
}

Position Tree::child_of_others(Position position, std::uint32_t index) const {
    const std::uint32_t p = position.value;
    assert(p < processes_);
    std::uint32_t distance = 0;
    switch (layout_) {
        case Layout::chain:
            distance = 1;
            break;
        case Layout::star:
            distance = index + 1;
            break;
        case Layout::binomial:
            break;
        case Layout::binomial_in_order:
            distance = bit(child_count(position) - 1 - index);
            break;
        case Layout::lame:
            distance = table_[first_step(p) + index];
            break;
        case Layout::lame_in_order:
            distance = table_[child_count(position) - 1 - index];
            break;
        case Layout::kary:
            distance = (index + 1) * powers_[entries_up_to(p) - 1];
            break;
        case Layout::kary_in_order: {
            const std::uint32_t below = find_in_order(p).size - 1;
            distance = 1 + index * (below / order_) + std::min(index, below % order_);
            break;
        }
        case Layout::kary_level_order:
            distance = p * (order_ - 1) + index + 1;
            break;
        case Layout::log_p: {
            const std::uint32_t first = first_slot(p);
            distance = table_[first + index * gap_] + ordinal(p, first) - p;
            break;
        }
    }
    assert(distance < processes_ - p);
    return Position{p + distance};
}

std::uint32_t Tree::depth(Position position) const {
    const std::uint32_t p = position.value;
    switch (layout_) {
        case Layout::chain:
            return p;
        case Layout::star:
            return p == 0 ? 0 : 1;
        case Layout::binomial:
        case Layout::binomial_in_order:
            return static_cast<std::uint32_t>(std::popcount(p));
        case Layout::kary:
        case Layout::kary_level_order:
            return entries_up_to(p) - 1;
        case Layout::kary_in_order:
            return find_in_order(p).depth;
        case Layout::lame:
        case Layout::lame_in_order: {  // the number of terms, whichever of them a parent lacks
            std::uint32_t terms = 0;
            for (std::uint32_t rest = p; rest != 0; ++terms)
                rest -= table_[entries_up_to(rest) - 1];
            return terms;
        }
        case Layout::log_p: {
            std::uint32_t edges = 0;
            for (std::uint32_t at = p; at != 0; ++edges)
                at = log_p_parent(at);
            return edges;
        }
    }
    return 0;
}

}  // namespace coppice::topology
