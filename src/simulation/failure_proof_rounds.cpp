#include "simulation/failure_proof_rounds.hpp"

#include <algorithm>

#include "simulation/tally.hpp"

namespace coppice::simulation {

using protocol::FailureProofKind;

namespace {

// Keeps the nearest ones, each once, whatever the order in which they come: no branch depends on what is known.
template <class Known, class Offset>
inline void learn(Known& known, Offset offset) {
    for (Offset& one : known) {
        const Offset nearer = std::min(one, offset);
        const Offset farther = std::max(one, offset);
        offset = one == offset ? UINT16_MAX : farther;
        one = nearer;
    }
}

}  // namespace

template <std::uint32_t kKnown>
bool FailureProofRounds<kKnown>::applies(const protocol::FailureProofGossipPlan& plan, const LogP& model) {
    return plan.correction.failures + 1 == kKnown && plan.gossip.processes > kKnown + 1 &&
           plan.correction.closed_turn.value == model.overhead && plan.correction.timeout.value >= model.overhead &&
           GossipPhase::applies(plan.gossip, model);
}

template <std::uint32_t kKnown>
FailureProofRounds<kKnown>::FailureProofRounds(const protocol::FailureProofGossipPlan& plan, const LogP& model)
    : processes_(plan.gossip.processes),
      timeout_(plan.correction.timeout.value / model.overhead),
      gossip_(plan.gossip, model),
      members_(processes_) {}

template <std::uint32_t kKnown>
const Outcome* FailureProofRounds<kKnown>::run(std::span<const Position> dead, std::uint64_t seed) {
    gossip_.run(dead, seed);
    start();
    if (!correct()) return nullptr;
    conclude();
    return outcome_.quiescence_latency < gossip_.steps(kLastRound) ? &outcome_ : nullptr;
}

template <std::uint32_t kKnown>
void FailureProofRounds<kKnown>::start() {
    Member fresh{};
    for (const Side side : {kRight, kLeft}) {
        fresh.known[side].fill(kNobody);
        fresh.limit[side] = static_cast<Offset>(processes_ - 1);
    }
    std::fill(members_.begin(), members_.end(), fresh);
    sending_.clear();
    for (std::uint32_t position = 0; position < processes_; ++position) {
        if (!gossip_.reached().contains(position)) continue;
        members_[position].is_g_node = true;
        members_[position].colored = true;
        sending_.push_back(position);
    }
    for (auto& line : lines_)
        line.clear();
    messages_ = {};
    last_colored_ = 0;
    last_effect_ = 0;
}

// Not if somebody would wait for others longer than there are rounds here, or until the timeout.
template <std::uint32_t kKnown>
bool FailureProofRounds<kKnown>::correct() {
    const Round begin = gossip_.correction_start();
    const std::int32_t end = kLastRound - gossip_.latency() - 2;
    for (std::int32_t now = begin; !sending_.empty() || now <= last_effect_; ++now) {
        if (now >= end || static_cast<std::uint64_t>(now - begin) >= timeout_) return false;
        take_effect(static_cast<Round>(now));
        if (!send(static_cast<Round>(now), (now - begin) % 2 == 0 ? kRight : kLeft)) return false;
    }
    return true;
}

// ------------------------------------------------------------------------------------------------------ receiving

template <std::uint32_t kKnown>
void FailureProofRounds<kKnown>::take_effect(Round now) {
    std::vector<Correction>& line = line_at(now);
    for (const Correction& correction : line)
        hear(members_[correction.to], correction, now);
    line.clear();
}

template <std::uint32_t kKnown>
inline void FailureProofRounds<kKnown>::hear(Member& member, const Correction& correction, Round now) {
    if (!member.is_g_node) {
        if (!member.colored) last_colored_ = now;
        member.colored = true;
        return;
    }
    const Side side = correction.side;
    if (member.learned[side]) return;
    Known& known = member.known[side];
    learn(known, correction.offset);
    // At an offset of a whole ring the process may be the receiver itself, or nearer to it than the others. If such a one is among the nearest
    // at last, it is the limit, and put_on_the_way() goes no farther than processes_ - 2.
    for (const Offset behind : correction.behind)
        learn(known, static_cast<Offset>(behind == kNobody ? kNobody : correction.offset + behind));
    if (known.back() == kNobody) return;
    member.learned[side] = true;
    member.limit[side] = known.back();
    member.sent[1 - side] = 0;
}

// -------------------------------------------------------------------------------------------------------- sending

template <std::uint32_t kKnown>
bool FailureProofRounds<kKnown>::send(Round now, Side towards) {
    const auto arrival = static_cast<Round>(now + 1 + gossip_.latency());
    std::size_t kept = 0;
    for (const std::uint32_t position : sending_) {
        Member& member = members_[position];
        if (member.sent[towards] < member.limit[towards]) {
            if (!put_on_the_way(position, member, towards, arrival)) return false;
        } else if (member.sent[1 - towards] >= member.limit[1 - towards]) {
            member.learned = {true, true};  // through
            continue;
        }
        sending_[kept++] = position;
    }
    sending_.resize(kept);
    return true;
}

template <std::uint32_t kKnown>
inline bool FailureProofRounds<kKnown>::put_on_the_way(std::uint32_t from, Member& member, Side towards,
                                                       Round arrival) {
    const Offset offset = ++member.sent[towards];
    if (offset >= processes_ - 1) return false;
    const std::uint32_t to_right = from + (towards == kRight ? offset : processes_ - offset);
    const std::uint32_t to = to_right < processes_ ? to_right : to_right - processes_;
    Ports& ports = gossip_.ports();
    ports.sent[from] = static_cast<Round>(ports.sent[from] + 1);
    ++messages_[towards];
    const Round effect = ports.line_up(to, arrival);
    if (gossip_.is_dead(to)) return true;
    last_effect_ = std::max(last_effect_, effect);
    const Side comes_from = towards == kRight ? kLeft : kRight;
    line_at(effect).push_back({static_cast<Offset>(to), offset, member.known[comes_from], comes_from});
    return static_cast<std::uint32_t>(effect - arrival) + static_cast<std::uint32_t>(gossip_.latency()) + 1 < kLines;
}

// ---------------------------------------------------------------------------------------------------- the outcome

template <std::uint32_t kKnown>
void FailureProofRounds<kKnown>::conclude() {
    outcome_ = gossip_.conclude();
    const auto by_kind = [this](FailureProofKind kind) -> std::uint64_t& {
        return outcome_.by_kind[static_cast<std::size_t>(kind)];
    };
    by_kind(FailureProofKind::gossip) = outcome_.messages;
    by_kind(FailureProofKind::correction_right) = messages_[kRight];
    by_kind(FailureProofKind::correction_left) = messages_[kLeft];
    outcome_.messages += messages_[kRight] + messages_[kLeft];
    outcome_.coloring_latency = std::max(outcome_.coloring_latency, gossip_.steps(last_colored_));
    for (std::uint32_t position = 0; position < processes_; ++position) {
        if (!members_[position].colored && !gossip_.is_dead(position)) outcome_.unreached.push_back(Position{position});
    }
    outcome_.reached = processes_ - outcome_.failed - static_cast<std::uint32_t>(outcome_.unreached.size());
}

template class FailureProofRounds<2>;
template class FailureProofRounds<3>;
template class FailureProofRounds<4>;
template class FailureProofRounds<5>;

}  // namespace coppice::simulation
