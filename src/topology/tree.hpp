// Broadcast trees as pure functions of (shape, P, position): no state that grows with P, no I/O.
//
// Source: Küttler et al., "Corrected Trees for Reliable Group Communication", PPoPP'19, §3.2, Equations 1 and 2.
// (One copy of the paper bounds the k-ary children by 0 < i < k; the right bound is 0 < i ≤ k, see Figure 3.)
// For an optimal tree whose o does not divide L the closed form is no tree; there we build in LogP order, after
// Karp et al., "Optimal Broadcast and Summation in the LogP Model", SPAA'93: whoever can send next takes the next rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/words.hpp"

namespace coppice::topology {

enum class TreeShape : std::uint8_t { kary, binomial, lame, optimal, chain, star };

// interleaved: PPoPP'19 Definition 1. in_order: depth-first numbering, to compare with.
enum class Numbering : std::uint8_t { interleaved, in_order };

struct TreeSpec {
    TreeShape shape = TreeShape::binomial;
    Numbering numbering = Numbering::interleaved;
    std::uint32_t order = 2;     // k of k-ary (children per process) and of Lamé(k); unused elsewhere
    std::uint32_t latency = 2;   // L of optimal(o, L), in steps
    std::uint32_t overhead = 1;  // o of optimal(o, L), in steps

    bool operator==(const TreeSpec&) const = default;
};

// Reads "binomial", "kary:4", "lame:2", "optimal" or "optimal:O,L", "chain", "star", each with an optional
// ":inorder" at its end where that numbering exists. The error lists the known names.
tl::expected<TreeSpec, std::string> parse_tree(std::string_view text);
std::string to_string(const TreeSpec& spec);
const std::vector<std::string_view>& known_trees();

// A tree over positions 0 … P−1 with its root at 0. Cheap to copy is not promised: make one per group and share it.
// All look-ups are const and may be called from any thread.
class Tree {
  public:
    // Refuses P = 0 or P > kMaxProcesses, order 0, and numberings that a shape does not have.
    static tl::expected<Tree, std::string> make(const TreeSpec& spec, std::uint32_t processes);

    const TreeSpec& spec() const { return spec_; }
    std::uint32_t processes() const { return processes_; }

    // The position that sends to `position`; none for the root.
    std::optional<Position> parent(Position position) const;

    // Children in send order, 0 ≤ index < child_count(position).
    std::uint32_t child_count(Position position) const;
    Position child(Position position, std::uint32_t index) const;

    // Edges between the root and `position`.
    std::uint32_t depth(Position position) const;

    // The distances (child − parent) that occur, ascending. Under every root a rank hears down the tree only from
    // { rank − distance mod P }: O(log P) in-neighbours for the interleaved shapes other than star, which has P−1.
    // In-order trees have up to O(P) of them.
    std::vector<std::uint32_t> distances() const;

  private:
    Tree(const TreeSpec& spec, std::uint32_t processes);
    // The builder of this room adds what look-ups need.
    TreeSpec spec_;
    std::uint32_t processes_ = 1;
};

}  // namespace coppice::topology
