#include "protocol/baselines/binomial_graph.hpp"

#include <bit>

#include "topology/ring.hpp"

namespace coppice::protocol {

BinomialGraph::BinomialGraph(std::uint32_t processes, Position self, std::uint32_t root_member, const FailedSet& failed,
                             bool has_payload, Directions directions)
    : failed_(&failed),
      processes_(processes),
      self_(self.value),
      root_member_(root_member),
      degree_(static_cast<std::uint8_t>(degree(processes))),
      directions_(directions) {
    if (has_payload) result_ = BroadcastResult::colored;
    if (!failed.empty()) learn_of_failures();
}

std::uint32_t BinomialGraph::degree(std::uint32_t processes) {
    return static_cast<std::uint32_t>(std::bit_width(processes - 1));
}

// In the interleaved binomial tree p's children are p + 2^x for all 2^x > p: from the first of them upwards, then
// round.
Position BinomialGraph::neighbour(std::uint32_t processes, Position self, std::uint32_t index) {
    const std::uint32_t first = static_cast<std::uint32_t>(std::bit_width(self.value));
    const std::uint32_t exponent = (first + index) % degree(processes);
    return topology::right_neighbour(self, std::uint32_t{1} << exponent, processes);
}

Position BinomialGraph::neighbour(std::uint32_t index) const {
    const Position right = neighbour(processes_, Position{self_}, index % degree_);
    if (index < degree_) return right;
    return topology::left_neighbour(Position{self_}, topology::distance_right(Position{self_}, right, processes_),
                                    processes_);
}

bool BinomialGraph::is_served_twice(std::uint32_t index) const {
    return index >= degree_ &&
           std::has_single_bit(topology::distance_right(Position{self_}, neighbour(index), processes_));
}

bool BinomialGraph::failed(Position position) const {
    return !failed_->empty() && failed_->contains(topology::to_member(position, root_member_, processes_));
}

// ------------------------------------------------------------------------------------------------------------ events

bool BinomialGraph::receive(const BinomialGraphMessage& message) {
    if (message.to.value != self_ || message.from.value >= processes_ || message.from.value == self_) return false;
    if (message.kind == BinomialGraphMessageKind::verdict) {
        if (colored() || message.from.value != 0) return false;
        result_ = BroadcastResult::root_failed;
        return true;
    }
    if (message.kind != BinomialGraphMessageKind::forward) return false;
    if (!std::has_single_bit(topology::distance_right(message.from, message.to, processes_)) &&
        (directions_ == Directions::right ||
         !std::has_single_bit(topology::distance_right(message.to, message.from, processes_))))
        return false;
    // A member that has given up has told its caller: too late.
    if (result_ == BroadcastResult::pending) result_ = BroadcastResult::colored;
    return true;
}

void BinomialGraph::peer_failed(Position position) {
    if (position.value < processes_ && position.value != self_) learn_of_failures();
}

void BinomialGraph::peer_restarted(Position position) {
    if (position.value >= processes_ || position.value == self_) return;
    for (std::uint32_t index = 0; index < sent_; ++index) {
        if (neighbour(index) != position) continue;
        if (directions_ == Directions::both) {
            sent_ = 0;
            break;
        }
        resend_ |= std::uint32_t{1} << index;
    }
    told_ = 0;
}

void BinomialGraph::origin_lost() {
    if (self_ == 0 && result_ == BroadcastResult::pending) result_ = BroadcastResult::root_failed;
}

void BinomialGraph::learn_of_failures() {
    if (result_ != BroadcastResult::pending || self_ == 0) return;
    if (failed(Position{0})) {
        result_ = BroadcastResult::root_failed;
    } else if (!may_be_reached()) {
        result_ = BroadcastResult::orphaned;
    }
}

bool BinomialGraph::may_be_reached() const {
    for (std::uint32_t exponent = 0; exponent < degree_; ++exponent) {
        const std::uint32_t distance = std::uint32_t{1} << exponent;
        if (!failed(topology::left_neighbour(Position{self_}, distance, processes_))) return true;
        if (directions_ == Directions::both &&
            !failed(topology::right_neighbour(Position{self_}, distance, processes_)))
            return true;
    }
    return false;
}

// ------------------------------------------------------------------------------------------------------------- sends

std::optional<BinomialGraphMessage> BinomialGraph::next_send(Nanoseconds /*now*/) {
    if (colored()) return next_forward();
    if (self_ == 0 && result_ == BroadcastResult::root_failed) return next_verdict();
    return std::nullopt;
}

std::optional<BinomialGraphMessage> BinomialGraph::next_forward() {
    while (sent_ < last_index() || resend_ != 0) {
        const bool again = resend_ != 0;
        const auto index = again ? static_cast<std::uint32_t>(std::countr_zero(resend_)) : std::uint32_t{sent_};
        if (again) {
            resend_ &= resend_ - 1;
        } else {
            ++sent_;
        }
        if (is_served_twice(index)) continue;
        const Position to = neighbour(index);
        if (!failed(to)) return BinomialGraphMessage{BinomialGraphMessageKind::forward, Position{self_}, to};
    }
    return std::nullopt;
}

std::optional<BinomialGraphMessage> BinomialGraph::next_verdict() {
    while (told_ + 1 < processes_) {
        const Position to{++told_};
        if (!failed(to)) return BinomialGraphMessage{BinomialGraphMessageKind::verdict, Position{self_}, to};
    }
    return std::nullopt;
}

bool BinomialGraph::finished() const {
    if (colored()) return sent_ == last_index() && resend_ == 0;
    return result_ != BroadcastResult::pending && (self_ != 0 || told_ + 1 >= processes_);
}

}  // namespace coppice::protocol
