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
// Opportunistic correction alone, and no answer when the root dies: that is what Broadcast has beyond this.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

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
};

constexpr bool carries_payload(PlacedKind /*kind*/) {
    return true;
}
constexpr bool is_correction(PlacedKind kind) {
    return kind != PlacedKind::tree;
}
std::string_view to_string(PlacedKind kind);

struct PlacedMessage {
    PlacedKind kind = PlacedKind::tree;
    Position from;
    Position to;

    bool operator==(const PlacedMessage&) const = default;
};

// What all machines of a broadcast have in common. Immutable; outlives them.
struct PlacedPlan {
    topology::Placement placement;
    std::uint32_t root = 0;      // the host that it starts from
    std::uint32_t distance = 1;  // d: corrections a side, on either ring; 0 for the tree alone

    // Positions are hosts, counted from the root.
    std::uint32_t host(Position position) const {
        const std::uint32_t before_wrap = placement.hosts() - root;
        return position.value < before_wrap ? position.value + root : position.value - before_wrap;
    }
    Position position(std::uint32_t host) const {
        return Position{host >= root ? host - root : host + (placement.hosts() - root)};
    }
};

class PlacedBroadcast {
  public:
    using Message = PlacedMessage;

    // `failed` holds positions; it and `plan` outlive the machine.
    PlacedBroadcast(const PlacedPlan& plan, Position self, const FailedSet& failed);

    bool receive(const PlacedMessage& message);
    void peer_failed(Position position);
    std::optional<PlacedMessage> next_send(Nanoseconds now);
    Nanoseconds next_timer() const { return kNever; }

    bool colored() const { return colored_; }
    bool finished() const { return colored_ && idle_; }

  private:
    // One side of one ring: how many places were passed, and how many of them are not known to be dead.
    struct Side {
        std::uint32_t passed = 0;
        std::uint32_t served = 0;
        // Places, up to kRemembered off, that have spoken: bit (offset − 1).
        std::uint64_t heard = 0;
    };
    static constexpr std::uint32_t kRemembered = 64;

    bool failed(std::uint32_t host) const { return failed_->contains(plan_->position(host).value); }
    // The host of a leaf that is the number `which` behind its leader, of those not known to have failed: the last one where there
    // are fewer; nothing when there is none.
    std::optional<std::uint32_t> entry(std::uint32_t leaf, std::uint32_t which) const;
    bool leads() const;
    bool is_expected(const PlacedMessage& message) const;
    void hear(const PlacedMessage& message);

    std::optional<PlacedMessage> next_tree();
    std::optional<PlacedMessage> next_on_leaves();
    std::optional<PlacedMessage> next_on_hosts();
    // The next place of the ring to send to, as its offset to the right; nothing when both sides are served.
    template <class Target>
    std::optional<PlacedMessage> next_on_ring(Side& right, Side& left, std::uint32_t places, Target&& target);
    PlacedMessage message(PlacedKind kind, std::uint32_t host) const { return {kind, self_, plan_->position(host)}; }

    const PlacedPlan* plan_;
    const FailedSet* failed_;
    Side leaf_right_;
    Side leaf_left_;
    Side host_right_;
    Side host_left_;
    Position self_;
    std::uint32_t host_;
    std::uint32_t child_leaf_ = 0;
    std::uint32_t child_host_ = 0;
    bool colored_;
    bool idle_ = false;
};

static_assert(sizeof(PlacedBroadcast) <= 128, "a machine fits two cache lines");
static_assert(Machine<PlacedBroadcast>);

}  // namespace coppice::protocol
