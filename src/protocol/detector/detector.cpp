#include "protocol/detector/detector.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace coppice::protocol {

std::string_view to_string(DetectorKind kind) {
    switch (kind) {
        case DetectorKind::heartbeat:
            return "heartbeat";
        case DetectorKind::notice:
            return "notice";
        case DetectorKind::watch:
            return "watch";
        case DetectorKind::probe:
            return "probe";
    }
    return "?";
}

Detector::Detector(const DetectorPlan& plan, Rank self)
    : nodes_(plan.nodes),
      period_(plan.period),
      bound_(plan.bound),
      self_(self.value),
      own_node_(plan.nodes->node_of(self)),
      row_(0),
      rows_(0) {
    assert(bound_.value == 0 || (period_.value > 0 && period_.value <= bound_.value / 2));
    for (std::uint32_t node = 0; node < nodes_->count(); ++node)
        rows_ = std::max(rows_, static_cast<std::uint32_t>(nodes_->members(node).size()));
    const auto local_peers = nodes_->members(own_node_);
    row_ = static_cast<std::uint32_t>(std::ranges::lower_bound(local_peers, self) - local_peers.begin());
    const std::uint32_t nodes = nodes_->count();
    for (std::uint32_t distance = 1; distance < nodes; distance *= 2) {
        targets_.push_back({.distance = distance, .to_right = true});
        if (2 * distance != nodes) targets_.push_back({.distance = distance, .to_right = false});
    }
    choose_targets();
    choose_observed();
}

// ------------------------------------------------------------------------------------------------------ the rings ---

// The rank before or behind `rank` on the observers' ring: through the nodes row by row.
std::uint32_t Detector::step(std::uint32_t rank, bool forward) const {
    std::uint32_t node = nodes_->node_of(Rank(rank));
    auto local_peers = nodes_->members(node);
    auto row = static_cast<std::uint32_t>(std::ranges::lower_bound(local_peers, Rank(rank)) - local_peers.begin());
    const std::uint32_t nodes = nodes_->count();
    do {
        if (forward) {
            if (++node == nodes) row = row + 1 == rows_ ? 0 : row + 1;
            node = node == nodes ? 0 : node;
        } else {
            if (node == 0) row = row == 0 ? rows_ - 1 : row - 1;
            node = node == 0 ? nodes - 1 : node - 1;
        }
        local_peers = nodes_->members(node);
    } while (row >= local_peers.size());
    return local_peers[row].value;
}

std::uint32_t Detector::neighbour(bool forward) const {
    std::uint32_t rank = step(self_, forward);
    while (rank != self_ && absent(rank))
        rank = step(rank, forward);
    return rank == self_ ? kNobody : rank;
}

void Detector::choose_observed() {
    observer_ = neighbour(false);
    const std::uint32_t next = neighbour(true);
    if (next == observed_) return;
    observed_ = next;
    must_watch_ = next != kNobody;
    adopting_ = next == kNobody ? kNobody : step(self_, true);
    heard_ = false;
    // It has to learn first which rank observes it.
    silence_ = -static_cast<std::int64_t>(bound_.value);
}

std::optional<Rank> Detector::leader(std::uint32_t node) const {
    for (const Rank rank : nodes_->members(node)) {
        if (!absent(rank.value)) return rank;
    }
    return std::nullopt;
}

std::uint32_t Detector::leader_from(const Target& target) const {
    const std::uint32_t nodes = nodes_->count();
    for (std::uint32_t distance = target.distance; distance < nodes; ++distance) {
        const std::uint32_t node = (own_node_ + (target.to_right ? distance : nodes - distance)) % nodes;
        if (const auto found = leader(node)) return found->value;
    }
    return kNobody;
}

void Detector::choose_targets() {
    is_leader_ = leader(own_node_) == Rank(self_);
    for (Target& target : targets_) {
        const std::uint32_t now = leader_from(target);
        // A leader that is new there has not heard of anything. (Nor has anybody from one that has just become its
        // node's leader: it has told nothing so far, and its predecessor may have taken what it knew to the grave.)
        if (now != target.leader) target.told = 0;
        target.leader = now;
    }
}

// ---------------------------------------------------------------------------------------------------------- facts ---

bool Detector::note_failure(std::uint32_t rank) {
    if (!failed_.insert(rank)) return false;
    news_.emplace_back(rank);
    note_absence();
    return true;
}

void Detector::note_absence() {
    choose_targets();
    choose_observed();
}

bool Detector::peer_failed(Rank rank) {
    return rank.value != self_ && note_failure(rank.value);
}

void Detector::peers_failed(const FailedSet& ranks) {
    assert(!ranks.contains(self_));
    FailedSet fresh = ranks;
    fresh.subtract(failed_);
    if (!failed_.unite(fresh)) return;
    for (const FailedSet::Interval& interval : fresh.intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last; ++rank)
            news_.emplace_back(rank);
    }
    note_absence();
}

void Detector::begin_without(const FailedSet& ranks) {
    assert(!ranks.contains(self_));
    if (failed_.unite(ranks)) note_absence();
}

void Detector::peer_left(Rank rank) {
    if (rank.value != self_ && left_.insert(rank.value)) note_absence();
}

void Detector::give_up() {
    if (!failed_.insert(self_)) return;
    news_.emplace_back(self_);
    is_leader_ = true;
}

bool Detector::receive(const DetectorMessage& message) {
    if (message.from.value >= nodes_->ranks() || message.from.value == self_ || !is_message(message.kind) ||
        message.about.value >= nodes_->ranks()) {
        return false;
    }
    heard(message.from);
    if (message.kind == DetectorKind::heartbeat) return true;
    if (message.about.value == self_) {
        fenced_ = true;
        return true;
    }
    if (note_failure(message.about.value)) untold_.push_back(message.about);
    return true;
}

// ---------------------------------------------------------------------------------------------------------- pulled ---

std::optional<Rank> Detector::next_failed() {
    if (handed_out_ < untold_.size()) return untold_[handed_out_++];
    untold_.clear();
    handed_out_ = 0;
    return std::nullopt;
}

// How long the observed rank has been silent while this one listened.
void Detector::listen(Nanoseconds now) {
    if (!clock_runs_) {
        clock_runs_ = true;
        looked_ = now.value;
        next_beat_ = now.value;
        next_probe_ = now.value + period_.value;
    }
    const std::uint64_t gap = std::min(now.value - looked_, period_.value);
    looked_ = now.value;
    if (heard_) {
        heard_ = false;
        silence_ = 0;
    } else {
        silence_ += static_cast<std::int64_t>(gap);
    }
    if (observed_ == kNobody || silence_ < static_cast<std::int64_t>(bound_.value)) return;
    const std::uint32_t silent = observed_;
    note_failure(silent);
    silent_.insert(silent);
    untold_.emplace_back(silent);
}

std::optional<DetectorMessage> Detector::next_notice() {
    if (!is_leader_) return std::nullopt;
    if (news_.empty()) return std::nullopt;
    for (auto target = targets_.begin(); target != targets_.end(); ++target) {
        if (target->leader == kNobody) continue;
        // Where many are dead several places lead to the same node.
        const auto same = [&](const Target& other) { return other.leader == target->leader; };
        if (std::find_if(targets_.begin(), target, same) != target) continue;
        if (target->told < news_.size()) {
            return message(DetectorKind::notice, target->leader, news_[target->told++].value);
        }
    }
    return std::nullopt;
}

std::optional<DetectorMessage> Detector::next_adoption() {
    while (adopting_ != kNobody) {
        const std::uint32_t between = adopting_;
        adopting_ = between == observed_ ? kNobody : step(between, true);
        if (between != observed_ && failed_.contains(between)) {
            return message(DetectorKind::notice, observed_, between);
        }
    }
    return std::nullopt;
}

std::optional<DetectorMessage> Detector::next_send(Nanoseconds now) {
    if (fenced_) return std::nullopt;
    if (bound_.value > 0) listen(now);
    if (const auto notice = next_notice()) return notice;
    if (must_watch_) {
        must_watch_ = false;
        return message(DetectorKind::watch, observed_, observed_);
    }
    if (bound_.value == 0) return std::nullopt;
    if (const auto notice = next_adoption()) return notice;
    if (now.value >= next_beat_) {
        next_beat_ = now.value + period_.value;
        if (observer_ != kNobody) return message(DetectorKind::heartbeat, observer_, observer_);
    }
    const bool silent = silence_ >= static_cast<std::int64_t>(period_.value);
    if (silent && observed_ != kNobody && now.value >= next_probe_) {
        next_probe_ = now.value + period_.value;
        return message(DetectorKind::probe, observed_, observed_);
    }
    return std::nullopt;
}

Nanoseconds Detector::next_timer() const {
    if (bound_.value == 0 || fenced_) return kNever;
    if (!clock_runs_) return Nanoseconds(0);
    // No gap counts for more than a period, so there is nothing to wait for that is further away.
    const std::int64_t left = std::max<std::int64_t>(static_cast<std::int64_t>(bound_.value) - silence_, 0);
    return Nanoseconds(std::min(next_beat_, looked_ + std::min(period_.value, static_cast<std::uint64_t>(left))));
}

// --------------------------------------------------------------------------------------------------------- looking ---

std::optional<Rank> Detector::observed() const {
    return observed_ == kNobody ? std::nullopt : std::optional(Rank(observed_));
}

std::optional<Rank> Detector::observer() const {
    return observer_ == kNobody ? std::nullopt : std::optional(Rank(observer_));
}

void Detector::append_state(std::vector<std::uint32_t>& words) const {
    for (const Rank rank : news_)
        words.push_back(rank.value);
    words.push_back(kNobody);
    for (const FailedSet::Interval& interval : left_.intervals())
        words.insert(words.end(), {interval.first, interval.last});
    words.push_back(kNobody);
    for (const Target& target : targets_)
        words.push_back(target.told);
    for (std::size_t i = handed_out_; i < untold_.size(); ++i)
        words.push_back(untold_[i].value);
    words.insert(words.end(), {kNobody, static_cast<std::uint32_t>(must_watch_), static_cast<std::uint32_t>(fenced_)});
}

}  // namespace coppice::protocol
