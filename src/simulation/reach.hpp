// Which members a broadcast reaches when some are dead from before its start and the root lives: the promises of
// docs/corrections.md as predicates, without a clock or a machine. What a machine does must agree with them in both
// directions, in every order of its messages (tests/simulation/reach_test.cpp, tests/protocol/reach_test.cpp).
//
// A live member is reached exactly if it is in the smallest set that holds the root and what the rule adds:
//
//   everybody          all live members.
//   chain              the children in the tree of each of the set, and its d nearest neighbours on either side of the
//                      ring (one-directional: on its right) that are not known to be dead.
//   beside_the_tree    synchronized: all that have no dead member above them in the tree, and the d nearest neighbours
//                      of these that are not known to be dead. Where any death is known, those of the neighbours in
//                      turn, and so on.
//   tree               all that have no dead member above them in the tree.
//   acknowledged_tree  the same, but a member sends to its child number i only when the children up to number i − 64
//                      have acknowledged or are known to be dead. So it counts only where members have more than 64
//                      children.
//   gossip             the members that gossip reached, which chance decides, and of each of the set its d nearest
//                      neighbours that are not known to be dead.
//
// A member is known to be dead if it was known before the start, or all have been told of it since. When all deaths are
// known, chain, beside_the_tree and gossip reach everybody: the d nearest neighbours then are live ones, all round the
// ring.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "protocol/broadcast.hpp"

namespace coppice::simulation {

enum class ReachRule : std::uint8_t { everybody, chain, beside_the_tree, tree, acknowledged_tree, gossip };

ReachRule reach_rule(const protocol::BroadcastPlan& plan);

// The optimized rule as printed, with two and more messages a side in both directions, may reach fewer than its rule
// says, never more, as it depends on the order of messages; for all others what the rule says is exact.
bool is_exact(const protocol::BroadcastPlan& plan);

// Keeps its memory from one question to the next: one per thread. `plan` outlives it.
class Reach {
  public:
    explicit Reach(const protocol::BroadcastPlan& plan);

    // The live members that are not reached, ascending. The root is not among `dead`; `known` are some of them. Takes
    // time in proportion to those that the tree leaves out (acknowledged_tree: to all members).
    const std::vector<Position>& left_out(std::span<const Position> dead, std::span<const Position> known = {});

    // For the rule gossip: `reached` says which members got a message of the gossip, before or after any correction.
    // Takes time in proportion to all members.
    const std::vector<Position>& left_out_of_gossip(std::span<const Position> dead,
                                                    const std::function<bool(Position)>& reached,
                                                    std::span<const Position> known = {});

  private:
    enum class State : std::uint8_t { reached, left_out, dead, known_dead };

    void start(std::span<const Position> dead, std::span<const Position> known);
    void cut_off_below(std::span<const Position> dead);
    void cut_off_unacknowledged();
    void spread(bool down_the_tree, bool once);
    bool is_served(std::uint32_t position) const;
    void collect();
    void mark(std::uint32_t position, State state);
    template <class Use>
    void for_neighbours(std::uint32_t position, bool that_serve_it, Use&& use) const;

    const protocol::BroadcastPlan& plan_;
    ReachRule rule_;
    bool any_known_ = false;
    std::vector<State> states_;
    std::vector<std::uint32_t> touched_;  // not `reached`, or no longer
    std::vector<std::uint32_t> open_;
    std::vector<Position> left_out_;
};

}  // namespace coppice::simulation
