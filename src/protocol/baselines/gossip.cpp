// The intuition: gossip colors half of the members almost as fast as the fastest tree, and no death can cut anybody
// off. But it finds the last few members slowly, as most messages then reach members that have the payload already.
// With high probability only short runs of neighbours on the ring are left out. The members around them reach these in
// a few steps.
#include "protocol/baselines/gossip.hpp"

#include <algorithm>
#include <bit>

#include "topology/ring.hpp"

namespace coppice::protocol {
namespace {

// How often a member is drawn again when the one drawn is known to have failed, before the turn is given up.
constexpr int kDraws = 8;

constexpr std::uint32_t bit(std::uint32_t offset) {
    return std::uint32_t{1} << (offset - 1);
}

}  // namespace

Gossip::Gossip(const GossipPlan& plan, Position self, std::uint32_t root_member, const FailedSet& failed,
               bool has_payload, std::uint64_t seed)
    : plan_(&plan), failed_(&failed), chance_(seed, self.value), self_(self.value), root_member_(root_member) {
    if (has_payload) {
        phase_ = Phase::gossiping;
        gossiped_ = true;
    }
    root_dead_ = self_ != 0 && this->failed(Position{0});
}

bool Gossip::failed(Position position) const {
    return !failed_->empty() && failed_->contains(topology::to_member(position, root_member_, plan_->processes));
}

// ------------------------------------------------------------------------------------------------------------ events

bool Gossip::receive(const GossipMessage& message) {
    if (message.to.value != self_ || message.from.value == self_) return false;
    if (message.from.value >= plan_->processes) return false;
    switch (message.kind) {
        case GossipMessageKind::gossip:
            return receive_gossip(message);
        case GossipMessageKind::correction_left:
        case GossipMessageKind::correction_right:
            return receive_correction(message);
    }
    return false;
}

bool Gossip::receive_gossip(const GossipMessage& message) {
    const std::uint32_t limit = plan_->spec.limit;
    if (by_rounds() ? message.round == 0 || message.round > limit : message.round != 0) return false;
    if (!gossiped_) {
        gossiped_ = true;
        phase_ = Phase::gossiping;
        clock_ = by_rounds() ? std::min(message.round + plan_->hop, limit) : 0;
    } else if (message.round == limit && phase_ == Phase::gossiping) {
        clock_ = limit;
    }
    return true;
}

bool Gossip::receive_correction(const GossipMessage& message) {
    if ((!is_checked() && !is_opportunistic()) || message.round != 0) return false;
    if (is_checked()) hear(message.kind, message.from);
    if (phase_ == Phase::uncolored) phase_ = root_dead_ && is_checked() ? Phase::correcting : Phase::done;
    return true;
}

void Gossip::peer_failed(Position position) {
    if (position.value >= plan_->processes || position.value == self_) return;
    if (position.value == 0) root_dead_ = true;
    forget(position);
    if (phase_ == Phase::done && is_checked() && (gossiped_ || root_dead_)) phase_ = Phase::correcting;
}

// ------------------------------------------------------------------------------------------------------------- sends

std::optional<GossipMessage> Gossip::next_send(Nanoseconds now) {
    if (phase_ == Phase::gossiping) {
        if (!gossip_is_over(now)) {
            if (const std::optional<GossipMessage> next = next_gossip(now)) return next;
        }
        if (!gossip_is_over(now)) return std::nullopt;
        end_gossip();
    }
    if (phase_ != Phase::correcting) return std::nullopt;
    if (!by_rounds()) {
        if (now.value < clock_) return std::nullopt;
        clock_ = 0;
    }
    if (is_checked()) return next_checked(now);
    if (is_opportunistic()) return next_opportunistic();
    phase_ = Phase::done;
    return std::nullopt;
}

Nanoseconds Gossip::next_timer() const {
    return by_rounds() || clock_ == 0 ? kNever : Nanoseconds{clock_};
}

bool Gossip::gossip_is_over(Nanoseconds now) const {
    return (by_rounds() ? clock_ : now.value) >= plan_->spec.limit || plan_->processes == 1;
}

void Gossip::end_gossip() {
    if (plan_->spec.kind == GossipKind::gossip) {
        phase_ = Phase::done;
        clock_ = 0;
        return;
    }
    phase_ = Phase::correcting;
    if (!by_rounds()) clock_ = static_cast<std::uint32_t>(plan_->correction_start());
}

std::optional<GossipMessage> Gossip::next_gossip(Nanoseconds now) {
    if (by_rounds()) {
        while (clock_ < plan_->spec.limit) {
            ++clock_;
            if (const std::optional<Position> to = draw()) {
                return GossipMessage{GossipMessageKind::gossip, Position{self_}, *to, clock_};
            }
        }
        return std::nullopt;
    }
    if (now.value < clock_) return std::nullopt;
    clock_ = 0;
    if (const std::optional<Position> to = draw()) {
        return GossipMessage{GossipMessageKind::gossip, Position{self_}, *to, 0};
    }
    clock_ = static_cast<std::uint32_t>(now.value + plan_->overhead);
    return std::nullopt;
}

std::optional<Position> Gossip::draw() {
    for (int i = 0; i < kDraws; ++i) {
        const std::uint32_t other = chance_.below(plan_->processes - 1);
        const Position to{other < self_ ? other : other + 1};
        if (!failed(to)) return to;
    }
    return std::nullopt;
}

// -------------------------------------------------------------------------------------------------------- correction

// A fixed number of offsets, heard from or not.
std::optional<GossipMessage> Gossip::next_opportunistic() {
    while (left_ + right_ < plan_->spec.corrections && !all_are_served()) {
        if (const std::optional<GossipMessage> next = step(left_ < right_)) return next;
    }
    phase_ = Phase::done;
    return std::nullopt;
}

std::optional<GossipMessage> Gossip::next_checked(Nanoseconds now) {
    while (!all_are_served() && (is_open(false) || is_open(true))) {
        const bool to_left = lefts_turn_;
        lefts_turn_ = !lefts_turn_;
        if (is_open(to_left)) {
            if (const std::optional<GossipMessage> next = step(to_left)) return next;
        } else if (!by_rounds() && !plan_->gives_turns_away) {
            clock_ = static_cast<std::uint32_t>(now.value + plan_->overhead);
            return std::nullopt;
        }
    }
    phase_ = Phase::done;
    return std::nullopt;
}

// To the next offset on that side, or nothing if the member there is known to have failed.
std::optional<GossipMessage> Gossip::step(bool to_left) {
    const Position self{self_};
    const Position to = to_left ? topology::left_neighbour(self, ++left_, plan_->processes)
                                : topology::right_neighbour(self, ++right_, plan_->processes);
    if (failed(to)) {
        // The turn is not spent.
        lefts_turn_ = to_left;
        return std::nullopt;
    }
    return GossipMessage{to_left ? GossipMessageKind::correction_left : GossipMessageKind::correction_right, self, to,
                         0};
}

// Nobody has been heard from there yet, or there is still a member to send to, up to the nearest one heard from.
bool Gossip::is_open(bool to_left) const {
    const std::uint32_t heard = to_left ? heard_left_ : heard_right_;
    const std::uint32_t nearest = heard != 0 ? static_cast<std::uint32_t>(std::countr_zero(heard)) + 1
                                  : to_left  ? far_left_
                                             : far_right_;
    return nearest == 0 || (to_left ? left_ : right_) < nearest;
}

// What travels to the right comes from the left.
void Gossip::hear(GossipMessageKind kind, Position from) {
    const bool from_left = kind == GossipMessageKind::correction_right;
    const Position self{self_};
    const std::uint32_t offset = from_left ? topology::distance_left(self, from, plan_->processes)
                                           : topology::distance_right(self, from, plan_->processes);
    if (offset <= kRemembered) {
        (from_left ? heard_left_ : heard_right_) |= bit(offset);
        return;
    }
    std::uint32_t& far = from_left ? far_left_ : far_right_;
    if (far == 0 || offset < far) far = offset;
}

// `from` has failed: as if it had never spoken.
void Gossip::forget(Position from) {
    const std::uint32_t left = topology::distance_left(Position{self_}, from, plan_->processes);
    const std::uint32_t right = plan_->processes - left;
    if (left <= kRemembered) heard_left_ &= ~bit(left);
    if (right <= kRemembered) heard_right_ &= ~bit(right);
    if (far_left_ == left) far_left_ = 0;
    if (far_right_ == right) far_right_ = 0;
}

std::string_view to_string(GossipMessageKind kind) {
    switch (kind) {
        case GossipMessageKind::gossip:
            return "gossip";
        case GossipMessageKind::correction_left:
            return "correction_left";
        case GossipMessageKind::correction_right:
            return "correction_right";
    }
    return "unknown";
}

}  // namespace coppice::protocol
