// Forgetting safely: how far has every live rank consumed?
//
// A payload may be dropped only when every live rank has it, for whoever is colored may have to serve again after a
// death; neighbours' credits would not show that. So counts ride up a fixed tree of nodes about once per half window
// (each count is the minimum over a subtree) and the root's answer rides down. Nobody starts an operation W or more
// ahead of the answer: that bounds every buffer of the group, and costs no message of its own per broadcast.
//
// Counts between two multiples are not told unless somebody asks: a rank that is held up (a view is not released, a caller stays away)
// says how far it must be stable for it to go on. That goes to all nodes along the tree, and until it is stable everybody reports
// every advance, and who holds it up. So the window reaches W beyond the slowest rank whatever that one's count is, and as long as
// nobody is held up no message is sent for it.
//
// A pure machine like those of protocol/, but about ranks' memory and not part of any paper. Counts are monotone, so a
// late, repeated or reordered message is harmless. When a node dies its children report to its nearest live ancestor;
// where there is none, to the lowest live node, which is then the top.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "protocol/failed_set.hpp"
#include "topology/tree.hpp"
#include "topology/words.hpp"

namespace coppice::engine {

class Stability {
  public:
    struct Send {
        std::uint32_t node = 0;
        bool up = false;
        std::uint64_t count = 0;  // up: the subtree's minimum; down: the stable count; a question: what is wanted
        Rank slowest{};           // up, down: who holds it back
        bool question = false;
    };

    // `step`: counts are reported when they pass a multiple of it. (Multiples, not growth: nodes whose leaders began at
    // different times would else each lag by up to a step, and the lags would add up to more than the window.)
    // `leaders`, by node: who is named as the slowest of a node that has said nothing yet; none: rank 0.
    Stability(std::uint32_t own_node, std::uint32_t nodes, std::uint64_t step, const protocol::FailedSet& failed_nodes,
              const std::vector<Rank>& leaders = {});

    // Every live rank of this node has consumed everything before `count`; `slowest` is one that has consumed no more.
    void set_local(std::uint64_t count, Rank slowest);
    // A child's report. Reports of nodes that are not children (yet) are kept: the death that makes them children may
    // not be known here. `child_stable` is what the child knows to be stable.
    void report(std::uint32_t node, std::uint64_t count, Rank slowest, std::uint64_t child_stable);
    void learn_stable(std::uint64_t count);
    // Somebody of this node, or of the neighbouring `node`, can go on only when everything before `count` is stable.
    void want(std::uint64_t count) { want(count, own_node_); }
    void want(std::uint64_t count, std::uint32_t node);
    // The parent says who holds all up.
    void learn_holder(Rank holder);
    // A node has failed, or another rank speaks for it now: what was sent to it may be lost.
    void node_changed();
    // From now on every advance is reported at once (a group is about to end).
    void flush() {
        step_ = 1;
        settle();
    }

    std::uint64_t stable() const { return stable_; }
    // The slowest of this subtree.
    Rank slowest() const { return slowest_; }
    // Whom the whole group waits for, if that is known here; somebody may have to ask first (want()).
    std::optional<Rank> holder() const { return is_top() && (slowest_is_known_ || !told_) ? slowest_ : told_; }
    // The same as far as the parent, or whoever speaks for this node, has told it.
    std::optional<Rank> told() const { return told_; }
    std::uint32_t parent() const { return parent_; }

    // The next message to send, if any. A message that could not be sent is asked for again with `node_changed`.
    std::optional<Send> next_send();

  private:
    struct Report {
        std::uint64_t count = 0;
        Rank slowest;
        bool heard = false;
    };
    void find_relatives();
    void settle();
    bool somebody_is_held_up() const { return wanted_ > stable_; }
    void ask_all_but(std::uint32_t node);
    bool is_top() const { return parent_ == own_node_; }
    std::uint32_t live_parent(std::uint32_t node) const;

    topology::Tree tree_;
    const protocol::FailedSet& failed_nodes_;
    std::uint32_t own_node_;
    std::uint32_t nodes_;
    std::uint64_t step_;
    std::uint32_t parent_ = 0;
    std::vector<std::uint32_t> children_;
    std::vector<std::uint32_t> downs_;  // children that have to be told
    std::vector<std::uint32_t> asks_;   // neighbours that have to be asked
    std::vector<Report> reports_;       // by node
    Report local_;
    std::uint64_t least_ = 0;  // of this subtree
    std::uint64_t reported_ = 0;
    bool report_again_ = false;
    std::uint64_t stable_ = 0;
    std::uint64_t wanted_ = 0;
    Rank slowest_;
    bool slowest_is_known_ =
        false;                  // its node has said so, which a rank that has just become leader may have yet to hear
    std::optional<Rank> told_;  // since the last advance of what is stable
};

}  // namespace coppice::engine
