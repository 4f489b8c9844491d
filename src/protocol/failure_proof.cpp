#include "protocol/failure_proof.hpp"

#include <algorithm>

#include "topology/ring.hpp"

namespace coppice::protocol {

std::string_view to_string(FailureProofKind kind) {
    switch (kind) {
        case FailureProofKind::tree:
            return "tree";
        case FailureProofKind::correction_left:
            return "correction_left";
        case FailureProofKind::correction_right:
            return "correction_right";
        case FailureProofKind::rescue:
            return "rescue";
        case FailureProofKind::gossip:
            return "gossip";
        case FailureProofKind::query:
            return "query";
        case FailureProofKind::denial:
            return "denial";
        case FailureProofKind::verdict:
            return "verdict";
        case FailureProofKind::sos:
            return "sos";
    }
    return "unknown";
}

// A g-node sends to each side at most twice round the ring, the two sides in turn.
Nanoseconds failure_proof_timeout(std::uint32_t processes, std::uint64_t latency, std::uint64_t overhead,
                                  std::uint64_t spread) {
    return Nanoseconds{spread + 4 * std::uint64_t{processes} * overhead + 2 * (2 * overhead + latency)};
}

FailureProofCorrection::FailureProofCorrection(const FailureProofSettings& settings, Position self,
                                               std::uint32_t root_member, const FailedSet& failed)
    : settings_(&settings), failed_(&failed), self_(self.value), root_member_(root_member) {}

std::uint32_t FailureProofCorrection::failures() const {
    const std::uint32_t most = settings_->processes > 2 ? settings_->processes - 2 : 0;
    return std::min(settings_->failures, most);
}

bool FailureProofCorrection::failed(Position position) const {
    return !failed_->empty() && failed_->contains(topology::to_member(position, root_member_, settings_->processes));
}

Position FailureProofCorrection::at(bool left, std::uint32_t offset) const {
    return left ? topology::left_neighbour(Position{self_}, offset, settings_->processes)
                : topology::right_neighbour(Position{self_}, offset, settings_->processes);
}

// ------------------------------------------------------------------------------------------------------------ events

void FailureProofCorrection::join() {
    if (is_g_node_ || role_ == Role::done || role_ == Role::sos) return;
    is_g_node_ = true;
    role_ = Role::joined;
    wake_ = kNever;
    deadline_ = kNever;
}

void FailureProofCorrection::start() {
    if (role_ == Role::joined) role_ = Role::g_node;
}

void FailureProofCorrection::color() {
    if (role_ == Role::uncolored) role_ = Role::c_node;
}

bool FailureProofCorrection::is_possible(const FailureProofMessage& message) const {
    if (!is_correction(message.kind) || message.to.value != self_ || message.from.value == self_) return false;
    if (message.from.value >= settings_->processes || message.known_count > failures() + 1) return false;
    for (std::uint32_t i = 0; i < message.known_count; ++i) {
        if (message.known[i].value >= settings_->processes || message.known[i] == message.from) return false;
    }
    return true;
}

bool FailureProofCorrection::receive(const FailureProofMessage& message) {
    if (!is_possible(message)) return false;
    color();
    if (role_ == Role::done || role_ == Role::sos) return true;
    if (message.kind == FailureProofKind::sos) {
        begin_sos();
        return true;
    }
    const bool from_left = message.kind == FailureProofKind::correction_right;
    learn(from_left, message.from);
    for (std::uint32_t i = 0; i < message.known_count; ++i)
        learn(from_left, message.known[i]);
    return true;
}

// Keeps the nearest f + 1. Behind a final round that has begun on their account they stay what they are.
void FailureProofCorrection::learn(bool left, Position g_node) {
    Side& known_on = side(left);
    if (g_node.value == self_ || side(!left).is_final) return;
    if (known_on.count > 0 && all_known_failed(left) && !failed(g_node)) {
        known_on.known = {};
        known_on.count = 0;
    }
    const std::uint32_t offset = left ? topology::distance_left(Position{self_}, g_node, settings_->processes)
                                      : topology::distance_right(Position{self_}, g_node, settings_->processes);
    auto* const begin = known_on.known.data();
    auto* const end = begin + known_on.count;
    auto* const place = std::lower_bound(begin, end, offset);
    if (place != end && *place == offset) return;
    if (known_on.count <= failures()) {
        ++known_on.count;
    } else if (place == end) {
        return;
    }
    std::copy_backward(place, begin + known_on.count - 1, begin + known_on.count);
    *place = offset;
}

// Whether every g-node known there has failed.
bool FailureProofCorrection::all_known_failed(bool left) const {
    const Side& known_on = side(left);
    for (std::uint32_t i = 0; i < known_on.count; ++i) {
        if (!failed(at(left, known_on.known[i]))) return false;
    }
    return true;
}

// Up to f deaths change nothing. When nobody is left to rely on, nobody was ever known.
void FailureProofCorrection::peer_failed(Position position) {
    if (position.value >= settings_->processes || position.value == self_ || sos_) return;
    const auto forget = [this](bool left) {
        Side& known_on = side(left);
        known_on.known = {};
        known_on.count = 0;
        side(!left).is_final = false;
    };
    bool forgot = false;
    if (is_g_node_) {
        for (const bool left : {true, false}) {
            if (side(left).count == 0 || !all_known_failed(left)) continue;
            forget(left);
            forgot = true;
        }
    } else if (left_.count + right_.count > 0 && all_known_failed(true) && all_known_failed(false)) {
        forget(true);
        forget(false);
        forgot = true;
    }
    if (forgot && role_ == Role::done) reopen();
}

void FailureProofCorrection::peer_restarted(Position position) {
    if (position.value >= settings_->processes || position.value == self_) return;
    if (sos_) {
        if (topology::distance_right(Position{self_}, position, settings_->processes) > sos_sent_) return;
        sos_sent_ = 0;
        role_ = Role::sos;
        return;
    }
    if (!is_g_node_) return;
    left_.sent = 0;
    right_.sent = 0;
    if (role_ == Role::done) reopen();
}

void FailureProofCorrection::reopen() {
    role_ = is_g_node_ ? Role::g_node : Role::c_node;
    deadline_ = kNever;
}

// ------------------------------------------------------------------------------------------------------------- sends

std::optional<FailureProofMessage> FailureProofCorrection::next_send(Nanoseconds now) {
    if (wake_ <= now) wake_ = kNever;
    switch (role_) {
        case Role::uncolored:
        case Role::joined:
        case Role::done:
            return std::nullopt;
        case Role::c_node:
            if (c_node_knows_enough()) {
                role_ = Role::done;
                wake_ = kNever;
                return std::nullopt;
            }
            wait_for_sos(now);
            break;
        case Role::g_node:
            if (const auto next = next_of_g_node(now)) return next;
            break;
        case Role::sos:
            break;
    }
    return role_ == Role::sos ? next_sos() : std::nullopt;
}

void FailureProofCorrection::wait_for_sos(Nanoseconds now) {
    if (deadline_ == kNever) deadline_ = Nanoseconds{now.value + settings_->timeout.value};
    wake_ = deadline_;
    if (deadline_ <= now) begin_sos();
}

void FailureProofCorrection::begin_sos() {
    role_ = Role::sos;
    sos_ = true;
    wake_ = kNever;
}

std::optional<FailureProofMessage> FailureProofCorrection::next_of_g_node(Nanoseconds now) {
    if (deadline_ == kNever) deadline_ = Nanoseconds{now.value + settings_->timeout.value};
    if (settings_->processes == 1) {
        role_ = Role::done;
        return std::nullopt;
    }
    begin_final_round(true);
    begin_final_round(false);
    // In the turn of a closed direction. (Past the deadline there is nothing to wait for but that.)
    if (wake_ != kNever && wake_ != deadline_) return std::nullopt;
    wake_ = kNever;
    while (is_open(true) || is_open(false)) {
        const bool left = lefts_turn_;
        lefts_turn_ = !lefts_turn_;
        if (is_open(left)) {
            if (const auto next = next_on(left)) return next;
            lefts_turn_ = left;  // the turn is not spent
        } else if (settings_->closed_turn.value > 0) {
            wake_ = Nanoseconds{now.value + settings_->closed_turn.value};
            return std::nullopt;
        }
    }
    if ((knows_enough(true) && knows_enough(false)) || knows_all_survivors()) {
        role_ = Role::done;
        wake_ = kNever;
    } else {
        wait_for_sos(now);
    }
    return std::nullopt;
}

// Towards one side, once enough is known on the other.
void FailureProofCorrection::begin_final_round(bool left) {
    if (side(left).is_final || !knows_enough(!left)) return;
    side(left).is_final = true;
    side(left).sent = 0;
}

// Up to the last of the f + 1 nearest g-nodes known there; all round while fewer are known.
bool FailureProofCorrection::is_open(bool left) const {
    const Side& there = side(left);
    const std::uint32_t limit = knows_enough(left) ? there.known[there.count - 1U] : settings_->processes - 1;
    return there.sent < limit;
}

std::optional<FailureProofMessage> FailureProofCorrection::next_on(bool left) {
    const Position target = at(left, ++side(left).sent);
    if (failed(target)) return std::nullopt;
    FailureProofMessage message;
    message.kind = left ? FailureProofKind::correction_left : FailureProofKind::correction_right;
    message.from = Position{self_};
    message.to = target;
    const Side& behind = side(!left);
    message.known_count = behind.count;
    for (std::uint32_t i = 0; i < behind.count; ++i)
        message.known[i] = at(!left, behind.known[i]);
    return message;
}

std::optional<FailureProofMessage> FailureProofCorrection::next_sos() {
    while (sos_sent_ < settings_->processes - 1) {
        const Position target = at(false, ++sos_sent_);
        if (failed(target)) continue;
        FailureProofMessage message;
        message.kind = FailureProofKind::sos;
        message.from = Position{self_};
        message.to = target;
        return message;
    }
    role_ = Role::done;
    return std::nullopt;
}

bool FailureProofCorrection::knows_enough(bool left) const {
    return side(left).count > failures() && (failed_->empty() || !all_known_failed(left));
}

bool FailureProofCorrection::c_node_knows_enough() const {
    if (distinct_known() <= failures()) return knows_all_survivors();
    return failed_->empty() || !all_known_failed(true) || !all_known_failed(false);
}

// So many are known to have failed that nobody can find f + 1 others; but all that are left have the payload.
bool FailureProofCorrection::knows_all_survivors() const {
    const std::uint32_t others = settings_->processes - 1 - failed_->count();
    if (others > failures()) return false;
    std::uint32_t alive = 0;
    for (std::uint32_t i = 0; i < left_.count; ++i)
        alive += failed(at(true, left_.known[i])) ? 0 : 1;
    for (std::uint32_t i = 0; i < right_.count; ++i)
        alive += failed(at(false, right_.known[i])) || is_known_on_the_left(right_.known[i]) ? 0 : 1;
    return alive == others;
}

bool FailureProofCorrection::is_known_on_the_left(std::uint32_t offset_right) const {
    const auto* const end = left_.known.data() + left_.count;
    return std::find(left_.known.data(), end, settings_->processes - offset_right) != end;
}

// G-nodes known on either side; on a small ring the same one may be known on both.
std::uint32_t FailureProofCorrection::distinct_known() const {
    std::uint32_t sum = left_.count;
    for (std::uint32_t i = 0; i < right_.count; ++i) {
        if (!is_known_on_the_left(right_.known[i])) ++sum;
    }
    return sum;
}

}  // namespace coppice::protocol
