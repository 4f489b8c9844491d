// Broadcast trees as pure functions of (shape, P, position): no state that grows with P, no I/O.
//
// Source: Küttler et al., "Corrected Trees for Reliable Group Communication", PPoPP'19, §3.2, Equations 1 and 2. (One
// copy of the paper bounds the k-ary children by 0 < i < k; the right bound is 0 < i ≤ k, see Figure 3.) For an optimal
// tree whose o does not divide L the closed form is no tree; there we build in LogP order, after Karp et al., "Optimal
// Broadcast and Summation in the LogP Model", SPAA'93: the rank that can send next takes the next number.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "base/words.hpp"

namespace coppice::topology {

enum class TreeShape : std::uint8_t { kary, binomial, lame, optimal, chain, star };

// interleaved: PPoPP'19 Definition 1 (also called so for optimal with o ∤ L, where it does not hold).
// in_order: depth-first numbering, to compare with; Figures 3 and 4, left. Where a tree is not full,
//  - binomial, Lamé and optimal are the full tree cut off at position P: the first child has the largest
//    subtree and the highest positions, so children descend in send order;
//  - k-ary trees are split as evenly as can be, and children ascend in send order.
// level_order: k-ary only, level after level from the left, as a heap: position p > 0 is a child of ⌊(p − 1)/k⌋. With ranks
// from 1 on and k = 2 that is ⌊p/2⌋, the binary tree of Herault et al., SC'15, §5.1.
enum class Numbering : std::uint8_t { interleaved, in_order, level_order };

struct TreeSpec {
    TreeShape shape = TreeShape::binomial;
    Numbering numbering = Numbering::interleaved;
    std::uint32_t order = 2;     // k of k-ary (children per process) and of Lamé(k); unused elsewhere
    std::uint32_t latency = 2;   // L of optimal(o, L), in steps
    std::uint32_t overhead = 1;  // o of optimal(o, L), in steps

    bool operator==(const TreeSpec&) const = default;
};

// Lamé's k, and the same number of an optimal tree, (2o + L) / gcd(o, L), may not be larger: look-up tables
// grow with it.
inline constexpr std::uint32_t kMaxLameOrder = 1024;

// Why no tree can be made from `spec`; nothing if one can.
std::optional<std::string> reason_against(const TreeSpec& spec);

// Reads "binomial", "kary:4", "lame:2", "optimal" or "optimal:O,L", "chain", "star", each with an optional
// ":inorder" at its end where that numbering exists (not chain, star, nor optimal with o ∤ L), or "kary:4:heap". Strict: no
// blanks, signs or leading zeros. The error lists the known names. to_string() writes what parse_tree()
// reads.
tl::expected<TreeSpec, std::string> parse_tree(std::string_view text);
std::string to_string(const TreeSpec& spec);
const std::vector<std::string_view>& known_trees();

// The tree that groups take where none is chosen. Up to 16 positions a star is no slower than a tree (with L = 2o, 16
// ranks: 18 steps against 16 and a correction that starts then), and under it everybody hears from the root itself:
// nobody depends on another's life, so opportunistic correction has nothing to send. Beyond, binomial.
TreeSpec automatic_tree(std::uint32_t positions);

// A tree over positions 0 … P−1 with its root at 0. Make one per group and share it: a copy copies the
// tables, a few hundred bytes (at worst, near kMaxLameOrder, some hundred KiB). Nothing in it grows with P
// but by log P.
//
// All look-ups are const, allocate nothing, and may be called from any thread. `position` must be below
// processes(). child() and child_count() take constant time, the in-order Lamé and k-ary ones O(depth);
// parent() likewise, O(log P) in an optimal tree with o ∤ L; depth() takes O(depth) parent()s at worst.
class Tree {
  public:
    // Refuses P = 0 or P > kMaxProcesses and what reason_against() objects to. O(log P) time and memory; for
    // optimal with o ∤ L both are proportional to the steps that a broadcast to P processes takes, after
    // division by gcd(o, L).
    static tl::expected<Tree, std::string> make(const TreeSpec& spec, std::uint32_t processes);

    const TreeSpec& spec() const { return spec_; }
    std::uint32_t processes() const { return processes_; }

    // The position that sends to `position`; none for the root. Always the lower of the two.
    std::optional<Position> parent(Position position) const;
    // Whether it is `position` that sends to `child`.
    bool is_parent(Position position, Position child) const {
        if (layout_ == Layout::binomial) {
            return child.value != 0 && child.value - std::bit_floor(child.value) == position.value;
        }
        return parent(child) == position;
    }

    // Children in send order, 0 ≤ index < child_count(position).
    std::uint32_t child_count(Position position) const {
        if (layout_ != Layout::binomial) return child_count_of_others(position);
        const auto below = static_cast<std::uint32_t>(std::bit_width(processes_ - 1 - position.value));
        const auto own = static_cast<std::uint32_t>(std::bit_width(position.value));
        return below > own ? below - own : 0;
    }
    Position child(Position position, std::uint32_t index) const {
        if (layout_ != Layout::binomial) return child_of_others(position, index);
        return Position{position.value + (1U << (static_cast<std::uint32_t>(std::bit_width(position.value)) + index))};
    }

    // Edges between the root and `position`.
    std::uint32_t depth(Position position) const;

  private:
    // How positions are computed; several shapes share a layout (kary:1 is a chain, optimal with o | L is a
    // Lamé tree).
    enum class Layout : std::uint8_t {
        chain,
        star,
        binomial,
        binomial_in_order,
        lame,
        lame_in_order,
        kary,
        kary_in_order,
        kary_level_order,
        log_p,
    };
    // A position of the in-order k-ary tree with the size of its subtree, and how it was reached.
    struct Subtree;

    Tree(const TreeSpec& spec, std::uint32_t processes);
    void make_lame(std::uint64_t order, Numbering numbering);
    void make_kary();
    void make_log_p(std::uint32_t overhead, std::uint32_t latency);
    void index_table();

    // Of trees of another layout than binomial.
    std::uint32_t child_count_of_others(Position position) const;
    Position child_of_others(Position position, std::uint32_t index) const;

    std::uint32_t entries_up_to(std::uint32_t value) const;
    std::uint32_t first_step(std::uint32_t position) const;
    std::uint32_t last_term(std::uint32_t position) const;
    Subtree find_in_order(std::uint32_t position) const;
    std::uint32_t senders(std::int64_t slot) const;
    std::uint32_t first_slot(std::uint32_t position) const;
    std::uint32_t ordinal(std::uint32_t position, std::uint32_t slot) const;
    std::uint32_t log_p_child_count(std::uint32_t position) const;
    std::uint32_t log_p_parent(std::uint32_t position) const;

    TreeSpec spec_;
    std::uint32_t processes_ = 1;
    Layout layout_ = Layout::chain;
    std::uint32_t order_ = 1;  // k of k-ary and Lamé
    std::uint32_t gap_ = 1;    // log_p: slots between two sends of one process
    std::uint32_t delay_ = 1;  // log_p: slots from a send to the first send of its receiver
    // Ascending. Lamé: the distances below P. k-ary: the first position of each level. log_p: the position
    // that the first send of each slot goes to.
    std::vector<std::uint32_t> table_;
    std::vector<std::uint32_t> powers_;  // k-ary: k^level, at most kMaxProcesses
    // octaves_[b]: how many entries of table_ are below 2^(b−1); from there a search is short.
    std::array<std::uint32_t, 34> octaves_{};
};

}  // namespace coppice::topology
