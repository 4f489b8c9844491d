// One broadcast at one host of a network whose switches are known: down a tree of trees, corrected on the ring of leaf switches and
// on the ring of hosts of each leaf (topology/placement.hpp; docs/topology.md).
//
// The intuition: what dies together is one place of a ring. A leaf that is dead as a whole is one place of the ring of
// leaves, a dead host one of its leaf's ring, and each ring is bridged by messages of its own. So a message leaves a leaf only
// for the tree's edges between leaves, and for d neighbours on either side.
//
// A leaf's leader enters other leaves for it. Correction from the left enters a leaf at its leader, correction from the
// right at the host behind the leader: so a dead leader does not cut off its leaf. Nobody waits for anybody.
//
// From peer_failed() on, the next host that is not known to have failed stands in for a dead leader, and ranges pass over hosts,
// and over whole leaves, that are known to have failed. A colored member then sends everything again: with a live root
// every live host gets the payload.
//
// Opportunistic correction alone. What happens when the root has died is Broadcast's (root_failure.cpp): one of them is inside, which
// sends nothing but rescues, queries, denials and verdicts. The driver's duties are those of broadcast.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "protocol/broadcast.hpp"
#include "protocol/failed_set.hpp"
#include "protocol/machine.hpp"
#include "topology/placement.hpp"

namespace coppice::protocol {

enum class PlacedKind : std::uint8_t {
    tree,
    leaf_right,  // correction on the ring of leaves, towards higher places
    leaf_left,
    host_right,  // correction on the ring of a leaf's hosts
    host_left,
    rescue,  // these four as in broadcast.hpp
    query,
    denial,
    verdict,
};
inline constexpr std::uint8_t kPlacedKinds = 9;

constexpr bool carries_payload(PlacedKind kind) {
    return kind <= PlacedKind::rescue;
}
constexpr bool is_correction(PlacedKind kind) {
    return kind > PlacedKind::tree && kind < PlacedKind::rescue;
}
std::string_view to_string(PlacedKind kind);

struct PlacedMessage {
    PlacedKind kind = PlacedKind::tree;
    Position from;
    Position to;
    std::uint32_t detail = 0;  // query, denial: the round; 0 elsewhere

    bool operator==(const PlacedMessage&) const = default;
};

// What all broadcasts of a group have in common. Immutable; outlives its machines.
struct PlacedPlan {
    topology::Placement placement;
    std::uint32_t distance;  // d: corrections a side, on either ring; 0 for the tree alone
    BroadcastPlan core;      // of the Broadcast inside
};
PlacedPlan make_placed_plan(topology::Placement placement, std::uint32_t distance);

class PlacedBroadcast {
  public:
    using Message = PlacedMessage;

    // As Broadcast's: position p is the host (p + root_member) mod P of the placement and of `failed`.
    PlacedBroadcast(const PlacedPlan& plan, Position self, std::uint32_t root_member, const FailedSet& failed,
                    bool has_payload, std::uint64_t seed = 0);

    bool receive(const PlacedMessage& message);
    void peer_failed(Position position);
    void peer_restarted(Position position);
    void origin_lost() { core_.origin_lost(); }
    std::optional<PlacedMessage> next_send(Nanoseconds now);
    Nanoseconds next_timer() const { return kNever; }

    bool colored() const { return core_.colored(); }
    BroadcastResult result() const { return core_.result(); }
    // Colored and through, or given up.
    bool finished() const { return colored() ? idle_ != 0 && !asks_core() : core_.finished(); }

  private:
    // One side of one ring: how many places were passed, and how many of them are not known to be dead.
    struct Side {
        std::uint32_t passed = 0;
        std::uint32_t served = 0;
        // Places, up to kRemembered off, that have spoken: bit (offset − 1).
        std::uint64_t heard = 0;
    };
    static constexpr std::uint32_t kRemembered = 64;

    std::uint32_t host_at(Position position) const {
        return topology::to_member(position, root_, plan_->placement.hosts());
    }
    Position position_of(std::uint32_t host) const {
        return Position{host >= root_ ? host - root_ : host + (plan_->placement.hosts() - root_)};
    }
    bool failed(std::uint32_t host) const { return failed_->contains(host); }
    // Whether the one inside may have something to say. At a colored root it never has; it would serve the root's children.
    bool asks_core() const { return (self_.value != 0 || !core_.colored()) && !core_.finished(); }
    void say_again();
    // The host of a leaf that is the number `which` behind its leader, of those not known to have failed: the last one where there
    // are fewer; nothing when there is none.
    std::optional<std::uint32_t> entry(std::uint32_t leaf, std::uint32_t which) const;
    bool leads() const;
    // By the tree: by this member, or by a root that is not known to have failed. It needs no correction then; what relied on a root is said
    // again once it has failed.
    bool is_served(std::uint32_t host) const;
    bool is_expected(const PlacedMessage& message) const;
    void hear(const PlacedMessage& message);

    std::optional<PlacedMessage> next_tree();
    std::optional<PlacedMessage> next_on_leaves();
    std::optional<PlacedMessage> next_on_hosts();
    // The next place of the ring to send to, as its offset to the right; nothing when both sides are served.
    template <class Target>
    std::optional<PlacedMessage> next_on_ring(Side& right, Side& left, std::uint32_t places, Target&& target);
    PlacedMessage message(PlacedKind kind, std::uint32_t host) const { return {kind, self_, position_of(host)}; }

    Broadcast core_;
    const PlacedPlan* plan_;
    const FailedSet* failed_;
    Side leaf_right_;
    Side leaf_left_;
    Side host_right_;
    Side host_left_;
    Position self_;
    std::uint32_t root_;  // the host at position 0
    std::uint32_t host_;
    std::uint32_t child_leaf_ = 0;
    std::uint32_t child_host_ = 0;
    std::uint32_t idle_ = 0;  // whether; as wide as the others, because explorers compare machines by their bytes
};

static_assert(Machine<PlacedBroadcast>);

}  // namespace coppice::protocol
