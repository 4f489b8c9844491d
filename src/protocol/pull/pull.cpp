#include "protocol/pull/pull.hpp"

#include <algorithm>

#include "topology/pipeline.hpp"

namespace coppice::protocol {

std::string_view to_string(PullKind kind) {
    switch (kind) {
        case PullKind::ask:
            return "ask";
        case PullKind::credit:
            return "credit";
        case PullKind::chunk:
            return "chunk";
        case PullKind::need:
            return "need";
        case PullKind::query:
            return "query";
        case PullKind::denial:
            return "denial";
        case PullKind::complete:
            return "complete";
        case PullKind::verdict:
            return "verdict";
    }
    return "?";
}

Pull::Pull(const PullPlan& plan, Rank self, Rank root, const FailedSet& failed)
    : plan_(&plan), failed_(failed), self_(self.value), root_(root.value) {
    if (!failed.empty()) learn_of_failures();
}

// ---------------------------------------------------------------------------------------------------------- facts ---

void Pull::learn(std::uint32_t chunks) {
    chunks_ = chunks;
    turn_to(0);
    const std::uint32_t leader = leader_of(plan_->nodes->node_of(Rank(self_)));
    watches_ = has_asked_ = was_heard_ = plan_->shows && source_ != kNobody && source_ == leader;
}

void Pull::hold(std::uint32_t chunks, std::uint32_t have) {
    chunks_ = chunks;
    have_ = have;
}

bool Pull::receive(const PullMessage& message) {
    if (message.to.value != self_ || message.from.value == self_ || message.from.value >= ranks()) return false;
    switch (message.kind) {
        case PullKind::ask:
            return receive_ask(message);
        case PullKind::credit:
            return receive_credit(message);
        case PullKind::chunk:
            return receive_chunk(message);
        default:
            return receive_verdicts_message(message);
    }
}

bool Pull::receive_ask(const PullMessage& message) {
    if (message.first > message.end || (chunks_ > 0 && message.end > chunks_)) return false;
    const auto known = std::ranges::find(streams_, message.from.value, &Stream::to);
    const Stream asked{message.from.value, message.first, message.end};
    if (known != streams_.end()) {
        *known = asked;
    } else if (message.first < message.end) {
        streams_.push_back(asked);
    }
    return true;
}

void Pull::is_read_by(Rank rank) {
    const auto known = std::ranges::find(streams_, rank.value, &Stream::to);
    const Stream none{rank.value, 0, 0};
    if (known != streams_.end())
        *known = none;
    else
        streams_.push_back(none);
}

bool Pull::receive_credit(const PullMessage& message) {
    if (chunks_ > 0 && message.end > chunks_) return false;
    const auto known = std::ranges::find(streams_, message.from.value, &Stream::to);
    if (known == streams_.end()) return false;
    known->end = std::max(known->end, message.end);
    return true;
}

bool Pull::receive_chunk(const PullMessage& message) {
    if (chunks_ == 0 || message.first >= chunks_) return false;
    if (!takes(message.first)) return true;  // once more, from a source that was left
    ++have_;
    was_heard_ = true;
    // From a rank that this one had left: nothing more is wanted of the other.
    if (complete() && source_ != message.from.value) leave_source();
    return true;
}

void Pull::shown(Rank by, std::uint32_t chunks) {
    const bool counts = watched() == by || (lacks(kTheDeadAreLookedAt) && !complete() && !given_up_);
    if (!counts || chunks <= have_ || chunks > chunks_) return;
    have_ = chunks;
    was_heard_ = true;
}

void Pull::not_shown(Rank by) {
    if (watched() != by) return;
    watches_ = has_asked_ = false;
}

void Pull::spoiled(Rank from) {
    if (from.value != source_ || complete()) return;
    leave_source();
    turn_to(number_ + 1);
}

void Pull::peer_failed(Rank rank) {
    if (rank.value == self_ || rank.value >= ranks()) return;
    std::erase_if(streams_, [rank](const Stream& stream) { return stream.to == rank.value; });
    failed_.insert(rank.value);
    if (left_ == rank.value) left_ = kNobody;
    learn_of_failures();
    if (source_ == rank.value && !lacks(kSourcesAreNotReplaced)) turn_to(0);
}

// -------------------------------------------------------------------------------------------------------- sources ---

std::optional<Rank> Pull::watched() const {
    if (!watches_ || !is_waiting()) return std::nullopt;
    return Rank(source_);
}

std::optional<Rank> Pull::source() const {
    if (!is_waiting()) return std::nullopt;
    return Rank(source_);
}

// One that has left it wants no more either.
bool Pull::has_been_sent_all(std::uint32_t rank) const {
    const auto stream = std::ranges::find(streams_, rank, &Stream::to);
    return stream != streams_.end() && (stream->next >= chunks_ || stream->end == 0);
}

bool Pull::is_wanted() const {
    if (!complete()) return false;
    const auto is_being_served = [this](const Stream& stream) { return stream.end > 0 && stream.next < chunks_; };
    if (std::ranges::any_of(streams_, is_being_served)) return true;
    const topology::Nodes& nodes = *plan_->nodes;
    const std::uint32_t own_node = nodes.node_of(Rank(self_));
    if (leader_of(own_node) != self_) return false;
    const auto may_come = [this](std::uint32_t rank) { return !failed(rank) && !has_been_sent_all(rank); };
    if (!plan_->shows && std::ranges::any_of(nodes.members(own_node),
                                             [&](Rank rank) { return rank.value != self_ && may_come(rank.value); }))
        return true;
    const std::uint32_t root_node = nodes.node_of(Rank(root_));
    const Position position{(own_node + nodes.count() - root_node) % nodes.count()};
    const topology::PipelineTargets targets = topology::pipeline_targets(position, nodes.count());
    for (std::uint32_t i = 0; i < targets.count; ++i) {
        const std::uint32_t leader = leader_of((targets.first + i + root_node) % nodes.count());
        if (leader != kNobody && may_come(leader)) return true;
    }
    return false;
}

std::uint32_t Pull::leader_of(std::uint32_t node) const {
    const auto leader = plan_->nodes->leader_for(node, Rank(root_), [this](Rank rank) { return !failed(rank.value); });
    return leader ? leader->value : kNobody;
}

// The ranks to ask, best first: one that is known to have everything; up the pipeline, where each has more than the one behind it,
// to the root; then everybody, round the ring. kNobody when none lives.
std::uint32_t Pull::candidate(std::uint32_t number) const {
    const auto is_it = [&number, this](std::uint32_t rank) {
        return rank != kNobody && rank != self_ && !failed(rank) && number-- == 0;
    };
    if (is_it(holder_)) return holder_;
    const topology::Nodes& nodes = *plan_->nodes;
    const std::uint32_t root_node = nodes.node_of(Rank(root_));
    std::uint32_t node = nodes.node_of(Rank(self_));
    if (const std::uint32_t leader = leader_of(node); is_it(leader)) return leader;
    Position position{(node + nodes.count() - root_node) % nodes.count()};
    while (position.value > 0) {
        position = topology::pipeline_source(position, nodes.count());
        node = (position.value + root_node) % nodes.count();
        if (const std::uint32_t leader = leader_of(node); is_it(leader)) return leader;
    }
    const std::uint32_t start = self_ + number % ranks();
    for (std::uint32_t distance = 1; distance <= ranks(); ++distance) {
        const std::uint32_t rank = (start + distance) % ranks();
        if (rank != self_ && !failed(rank)) return rank;
    }
    return kNobody;
}

void Pull::turn_to(std::uint32_t number) {
    number_ = number;
    source_ = candidate(number);
    watches_ = has_asked_ = false;
}

// It is to send no more: one that was not asked has nothing to hear of that.
void Pull::leave_source() {
    if (!watches_) left_ = source_;
}

// Twice as long after each time that everybody has been asked in vain: all may need longer for a chunk than the patience, and each that
// is left begins it anew.
Nanoseconds Pull::until_silent(Nanoseconds now) const {
    const std::uint32_t rounds = std::min(number_ / ranks(), kMostDoublings);
    return Nanoseconds{now.value + (plan_->patience.value << rounds)};
}

std::optional<PullMessage> Pull::next_ask(Nanoseconds now) {
    if (left_ != kNobody) {
        const std::uint32_t to = left_;
        left_ = kNobody;
        if (to != source_ || complete() || given_up_) return message(PullKind::ask, to);
    }
    if (chunks_ == 0 || complete() || given_up_) return std::nullopt;
    if (was_heard_) wake_ = until_silent(now);
    was_heard_ = false;
    if (is_waiting() && now >= wake_ && !lacks(kSilenceIsNotHeard)) {
        const std::uint32_t silent = source_;
        const bool was_asked = !watches_;
        turn_to(number_ + 1);
        has_asked_ = was_asked && source_ == silent;  // there is no other
        wake_ = until_silent(now);
        if (was_asked && !has_asked_) return message(PullKind::ask, silent);
    }
    if (source_ == kNobody || watches_) return std::nullopt;
    const std::uint32_t from = lacks(kEverythingAnew) ? 0 : have_;
    const std::uint32_t end = std::min(chunks_ - from, plan_->credit) + from;
    if (!has_asked_) {
        has_asked_ = true;
        asked_end_ = end;
        wake_ = until_silent(now);
        return message(PullKind::ask, source_, from, end);
    }
    // In halves, and the rest whatever it is.
    if (end == asked_end_ || (end < chunks_ && end < asked_end_ + (plan_->credit + 1) / 2)) return std::nullopt;
    asked_end_ = end;
    return message(PullKind::credit, source_, 0, end);
}

// One chunk for each that wants some, in turn.
std::optional<PullMessage> Pull::next_chunk() {
    if (given_up_) return std::nullopt;
    const std::uint32_t have = lacks(kAnythingIsServed) ? chunks_ : have_;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
        turn_ = turn_ + 1 < streams_.size() ? turn_ + 1 : 0;
        Stream& stream = streams_[turn_];
        if (stream.next >= std::min(stream.end, have)) continue;
        return message(PullKind::chunk, stream.to, stream.next++);
    }
    return std::nullopt;
}

std::optional<PullMessage> Pull::next_send(Nanoseconds now) {
    if (root_dead_ || given_up_) {
        if (const auto next = next_of_verdict()) return next;
    }
    if (const auto ask = next_ask(now)) return ask;
    return next_chunk();
}

void Pull::append_state(std::vector<std::uint32_t>& words) const {
    words.insert(words.end(), {chunks_, have_, source_, number_, asked_end_, left_, turn_, holder_, said_need_to_,
                               said_need_in_, asker_, asked_round_, round_, ask_next_, tell_next_});
    std::uint32_t bits = 0;
    for (const bool bit : {has_asked_, watches_, was_heard_, root_dead_, given_up_, has_to_ask_})
        bits = bits << 1 | (bit ? 1U : 0U);
    words.push_back(bits);
    for (const Stream& stream : streams_)
        words.insert(words.end(), {stream.to, stream.next, stream.end});
    for (const FailedSet::Interval& interval : failed_.intervals())
        words.insert(words.end(), {interval.first, interval.last});
    words.push_back(kNobody);
    words.insert(words.end(), needy_.begin(), needy_.end());
    words.push_back(kNobody);
    for (const bool denied : denied_)
        words.push_back(denied ? 1 : 0);
}

}  // namespace coppice::protocol
