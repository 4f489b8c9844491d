#include "protocol/placed_broadcast.hpp"

#include <algorithm>
#include <array>

#include "topology/ring.hpp"

namespace coppice::protocol {

using topology::distance_left;
using topology::distance_right;
using topology::left_neighbour;
using topology::Placement;
using topology::right_neighbour;

std::string_view to_string(PlacedKind kind) {
    switch (kind) {
        case PlacedKind::tree:
            return "tree";
        case PlacedKind::leaf_right:
            return "leaf_right";
        case PlacedKind::leaf_left:
            return "leaf_left";
        case PlacedKind::host_right:
            return "host_right";
        case PlacedKind::host_left:
            return "host_left";
        case PlacedKind::rescue:
            return "rescue";
        case PlacedKind::query:
            return "query";
        case PlacedKind::denial:
            return "denial";
        case PlacedKind::verdict:
            return "verdict";
    }
    return "unknown";
}

namespace {

constexpr std::uint8_t kFirstOfCore = static_cast<std::uint8_t>(PlacedKind::rescue);
constexpr std::array kOfCore{MessageKind::rescue, MessageKind::query, MessageKind::denial, MessageKind::verdict};

bool is_of_core(PlacedKind kind) {
    return kind >= PlacedKind::rescue && kind <= PlacedKind::verdict;
}
MessageKind plain(PlacedKind kind) {
    return kOfCore[static_cast<std::uint8_t>(kind) - kFirstOfCore];
}
PlacedKind placed(MessageKind kind) {
    const auto at = std::ranges::find(kOfCore, kind) - kOfCore.begin();
    return static_cast<PlacedKind>(kFirstOfCore + at);
}

}  // namespace

// Under a star nobody but the root has children, and failure-proof correction is left to its owner.
PlacedPlan make_placed_plan(topology::Placement placement, std::uint32_t distance) {
    auto star = topology::Tree::make({topology::TreeShape::star}, placement.hosts());
    return {std::move(placement), distance, {std::move(*star), {.kind = CorrectionKind::failure_proof}}};
}

PlacedBroadcast::PlacedBroadcast(const PlacedPlan& plan, Position self, std::uint32_t root_member,
                                 const FailedSet& failed, bool has_payload, std::uint64_t /*seed*/)
    : core_(plan.core, self, root_member, failed, has_payload),
      plan_(&plan),
      failed_(&failed),
      self_(self),
      root_(root_member),
      host_(topology::to_member(self, root_member, plan.placement.hosts())) {}

std::optional<std::uint32_t> PlacedBroadcast::entry(std::uint32_t leaf, std::uint32_t which) const {
    const Placement& placement = plan_->placement;
    const auto hosts = placement.hosts_of(leaf);
    const std::size_t leader = placement.index_in_leaf(placement.leader(root_, leaf));
    std::optional<std::uint32_t> found;
    std::uint32_t live = 0;
    for (std::size_t offset = 0; offset < hosts.size() && live <= which; ++offset) {
        const std::uint32_t host = hosts[(leader + offset) % hosts.size()];
        if (failed(host)) continue;
        found = host;
        ++live;
    }
    return found;
}

bool PlacedBroadcast::leads() const {
    if (failed_->empty()) return plan_->placement.behind_leader(root_, host_) == 0;
    return entry(plan_->placement.leaf_of(host_), 0) == host_;
}

// ---------------------------------------------------------------------------------------------------- events ---

bool PlacedBroadcast::is_expected(const PlacedMessage& message) const {
    const Placement& placement = plan_->placement;
    if (message.to != self_ || message.from == self_ || message.from.value >= placement.hosts()) return false;
    if (message.detail != 0) return false;
    const std::uint32_t from = host_at(message.from);
    const std::uint32_t from_leaf = placement.leaf_of(from);
    const std::uint32_t own_leaf = placement.leaf_of(host_);
    switch (message.kind) {
        case PlacedKind::tree:
            // From another leaf, any host may stand in for the leader.
            if (from_leaf == own_leaf) return placement.parent(root_, host_) == from;
            return placement.parent_leaf(root_, own_leaf) == from_leaf;
        case PlacedKind::leaf_right:
        case PlacedKind::leaf_left:
            return plan_->distance > 0 && from_leaf != own_leaf;
        case PlacedKind::host_right:
        case PlacedKind::host_left:
            return plan_->distance > 0 && from_leaf == own_leaf;
        default:
            return false;
    }
    return false;
}

// Who has spoken has the payload, and passes it on where it stands.
void PlacedBroadcast::hear(const PlacedMessage& message) {
    const Placement& placement = plan_->placement;
    const std::uint32_t from = host_at(message.from);
    const auto remember = [](Side& right, Side& left, Position self, Position other, std::uint32_t places) {
        const std::uint32_t to_right = distance_right(self, other, places);
        const std::uint32_t to_left = distance_left(self, other, places);
        if (to_right <= kRemembered) right.heard |= std::uint64_t{1} << (to_right - 1);
        if (to_left <= kRemembered) left.heard |= std::uint64_t{1} << (to_left - 1);
    };
    const Position own_leaf{placement.leaf_of(host_)};
    const Position from_leaf{placement.leaf_of(from)};
    if (own_leaf != from_leaf) {
        remember(leaf_right_, leaf_left_, own_leaf, from_leaf, placement.leaves());
        return;
    }
    const auto hosts = static_cast<std::uint32_t>(placement.hosts_of(own_leaf.value).size());
    remember(host_right_, host_left_, Position{placement.index_in_leaf(host_)}, Position{placement.index_in_leaf(from)},
             hosts);
}

bool PlacedBroadcast::receive(const PlacedMessage& message) {
    if (is_of_core(message.kind)) return core_.receive({plain(message.kind), message.from, message.to, message.detail});
    // To the one inside it is a payload, from wherever.
    if (!is_expected(message) || !core_.receive({MessageKind::rescue, message.from, message.to, 0})) return false;
    hear(message);
    return true;
}

// What was said before may have been lost with its sender: nothing of it counts any more, and everything is said again.
void PlacedBroadcast::peer_failed(Position position) {
    if (position.value >= plan_->placement.hosts() || position == self_) return;
    core_.peer_failed(position);
    say_again();
}

// As if the member that its new process stands for had heard nothing.
void PlacedBroadcast::peer_restarted(Position position) {
    if (position.value >= plan_->placement.hosts() || position == self_) return;
    core_.peer_restarted(position);
    say_again();
}

void PlacedBroadcast::say_again() {
    child_leaf_ = 0;
    child_host_ = 0;
    for (Side* side : {&leaf_right_, &leaf_left_, &host_right_, &host_left_})
        *side = Side{};
    idle_ = 0;
}

// ----------------------------------------------------------------------------------------------------- sends ---

std::optional<PlacedMessage> PlacedBroadcast::next_send(Nanoseconds now) {
    if (asks_core()) {
        if (const auto next = core_.next_send(now))
            return PlacedMessage{placed(next->kind), next->from, next->to, next->detail};
    }
    if (!colored() || idle_ != 0) return std::nullopt;
    if (const auto next = next_tree()) return next;
    if (plan_->distance > 0) {
        if (const auto next = next_on_leaves()) return next;
        if (const auto next = next_on_hosts()) return next;
    }
    idle_ = 1;
    return std::nullopt;
}

// Far ones first.
std::optional<PlacedMessage> PlacedBroadcast::next_tree() {
    const Placement& placement = plan_->placement;
    const std::uint32_t leaf = placement.leaf_of(host_);
    const std::uint32_t child_leaves = placement.child_leaf_count(root_, leaf);
    while (child_leaf_ < child_leaves && leads()) {
        const auto target = entry(placement.child_leaf(root_, leaf, child_leaf_++), 0);
        if (target) return message(PlacedKind::tree, *target);
    }
    const std::uint32_t beyond = placement.behind_leader(root_, host_) == 0 ? child_leaves : 0;
    const std::uint32_t child_hosts = placement.child_count(root_, host_) - beyond;
    while (child_host_ < child_hosts) {
        const std::uint32_t target = placement.child(root_, host_, beyond + child_host_++);
        if (!failed(target)) return message(PlacedKind::tree, target);
    }
    return std::nullopt;
}

bool PlacedBroadcast::is_served(std::uint32_t host) const {
    const auto parent = plan_->placement.parent(root_, host);
    return parent == host_ || (parent == root_ && !failed(root_));
}

// `target(to_right, offset, heard)` returns whether that place counts, and the message for it unless it needs none.
template <class Target>
std::optional<PlacedMessage> PlacedBroadcast::next_on_ring(Side& right, Side& left, std::uint32_t places,
                                                           Target&& target) {
    while (right.passed + left.passed < places - 1) {
        const bool right_open = right.served < plan_->distance;
        const bool left_open = left.served < plan_->distance;
        if (!right_open && !left_open) break;
        const bool to_right = right_open && (!left_open || right.served <= left.served);
        Side& side = to_right ? right : left;
        const std::uint32_t offset = ++side.passed;
        const bool heard = offset <= kRemembered && (side.heard >> (offset - 1) & 1) != 0;
        const auto [counts, message] = target(to_right, offset, heard);
        if (counts) ++side.served;
        if (message) return message;
    }
    return std::nullopt;
}

std::optional<PlacedMessage> PlacedBroadcast::next_on_leaves() {
    const Placement& placement = plan_->placement;
    const std::uint32_t leaves = placement.leaves();
    if (leaves == 1 || !leads()) return std::nullopt;
    const Position own{placement.leaf_of(host_)};
    using Answer = std::pair<bool, std::optional<PlacedMessage>>;
    return next_on_ring(leaf_right_, leaf_left_, leaves, [&](bool to_right, std::uint32_t offset, bool heard) {
        const Position leaf = to_right ? right_neighbour(own, offset, leaves) : left_neighbour(own, offset, leaves);
        const auto host = entry(leaf.value, to_right ? 0 : 1);
        if (!host) return Answer{false, std::nullopt};
        // A child's leader was sent to; but where it may be dead, the host behind it was not.
        const bool is_child = to_right && placement.parent_leaf(root_, leaf.value) == own.value;
        if (heard || is_child || is_served(*host)) return Answer{true, std::nullopt};
        return Answer{true, message(to_right ? PlacedKind::leaf_right : PlacedKind::leaf_left, *host)};
    });
}

std::optional<PlacedMessage> PlacedBroadcast::next_on_hosts() {
    const Placement& placement = plan_->placement;
    const auto hosts = placement.hosts_of(placement.leaf_of(host_));
    const auto places = static_cast<std::uint32_t>(hosts.size());
    const Position own{placement.index_in_leaf(host_)};
    using Answer = std::pair<bool, std::optional<PlacedMessage>>;
    return next_on_ring(host_right_, host_left_, places, [&](bool to_right, std::uint32_t offset, bool heard) {
        const Position place = to_right ? right_neighbour(own, offset, places) : left_neighbour(own, offset, places);
        const std::uint32_t host = hosts[place.value];
        if (failed(host)) return Answer{false, std::nullopt};
        if (heard || is_served(host)) return Answer{true, std::nullopt};
        return Answer{true, message(to_right ? PlacedKind::host_right : PlacedKind::host_left, host)};
    });
}

}  // namespace coppice::protocol
