#include "simulation/gossip_rounds.hpp"

#include <algorithm>

#include "simulation/tally.hpp"

namespace coppice::simulation {

using protocol::GossipKind;
using protocol::GossipMessageKind;

namespace {

// What a row of members sends to the row of their receivers. Those who hear of somebody close their direction to them, if it is
// theirs to close. Returns how many messages that is.
template <std::uint32_t kRow, bool kChecked>
inline std::uint32_t send_to_row(Round now, Round arrival, const Round* __restrict closes, Round* __restrict sent,
                                 Round* __restrict busy_until, Round* __restrict received, const Round* __restrict live,
                                 Round* __restrict closes_back) {
    Round messages = 0;
    for (std::uint32_t i = 0; i < kRow; ++i) {
        const auto one = static_cast<Round>(now < closes[i] ? 1 : 0);
        const auto all = static_cast<Round>(-one);
        const Round before = busy_until[i];
        const auto after = static_cast<Round>(std::max(before, arrival) + live[i]);
        busy_until[i] = static_cast<Round>((after & all) | (before & ~all));
        received[i] = static_cast<Round>(received[i] + (live[i] & all));
        sent[i] = static_cast<Round>(sent[i] + one);
        messages = static_cast<Round>(messages + one);
        if constexpr (kChecked) {
            const Round at = closes_back[i];
            closes_back[i] = static_cast<Round>((std::min(at, after) & all) | (at & ~all));
        }
    }
    return static_cast<std::uint32_t>(messages);
}

}  // namespace

bool GossipRounds::applies(const protocol::GossipPlan& plan, const LogP& model) {
    if (plan.spec.kind == GossipKind::failure_proof || plan.gives_turns_away) return false;
    if (!GossipPhase::applies(plan, model)) return false;
    // Nobody comes round to itself.
    return plan.spec.kind != GossipKind::opportunistic ||
           (plan.spec.corrections < plan.processes - 1 && plan.spec.corrections < kLastRound / 4);
}

GossipRounds::GossipRounds(const protocol::GossipPlan& plan, const LogP& model)
    : kind_(plan.spec.kind),
      rounds_(kind_ == GossipKind::opportunistic ? plan.spec.corrections : plan.processes - 1),
      gossip_(plan, model) {}

const Outcome* GossipRounds::run(std::span<const Position> dead, std::uint64_t seed) {
    gossip_.run(dead, seed);
    for (Direction& direction : directions_)
        open(direction);
    if (kind_ != GossipKind::gossip && !correct()) return nullptr;
    conclude();
    return outcome_.quiescence_latency < gossip_.steps(kLastRound) ? &outcome_ : nullptr;
}

void GossipRounds::open(Direction& direction) const {
    const PositionSet& reached = gossip_.reached();
    const std::size_t rows = reached.words();
    direction.closes.assign(rows * kRow, 0);
    direction.open.assign(rows, 1);
    direction.messages = 0;
    for (std::uint32_t position = 0; position < gossip_.processes(); ++position) {
        const int all = -static_cast<int>(reached.contains(position));
        direction.closes[position] = static_cast<Round>(kNeverRound & all);
    }
}

// Not if somebody goes round all of the ring, or on for too long.
bool GossipRounds::correct() {
    const std::int32_t longest = kLastRound - gossip_.correction_start() - 2 * gossip_.latency();
    bool any = true;
    for (std::uint32_t round = 0; any; round += 2) {
        if (!is_checked() && round >= rounds_) return true;
        any = send(round);
        if (is_checked() || round + 1 < rounds_) any = send(round + 1) || any;
        if (is_checked() && any && (round + 3 >= rounds_ || static_cast<std::int32_t>(round) >= longest)) return false;
    }
    return true;
}

bool GossipRounds::send(std::uint32_t round) {
    Direction& own = directions_[round % 2];
    Direction& other = directions_[1 - round % 2];
    const std::uint32_t processes = gossip_.processes();
    // As a way to the right in either case.
    const std::uint32_t distance = round / 2 + 1;
    const std::uint32_t offset = round % 2 == 0 ? distance : processes - distance;
    const auto now = static_cast<Round>(gossip_.correction_start() + static_cast<std::int32_t>(round));
    bool any = false;
    for (std::uint32_t row = 0; row < own.open.size(); ++row) {
        if (own.open[row] == 0) continue;
        const bool sends = send_row(row, offset, now, own, other);
        own.open[row] = sends ? 1 : 0;
        any = any || sends;
    }
    return any;
}

bool GossipRounds::send_row(std::uint32_t row, std::uint32_t offset, Round now, Direction& own, Direction& other) {
    const std::uint32_t processes = gossip_.processes();
    const std::uint32_t from = row * kRow;
    const std::uint32_t to = from + offset < processes ? from + offset : from + offset - processes;
    if (from + kRow > processes || to + kRow > processes) return send_one_by_one(row, offset, now, own, other);
    Ports& ports = gossip_.ports();
    const auto send = is_checked() ? send_to_row<kRow, true> : send_to_row<kRow, false>;
    const std::uint32_t sent =
        send(now, static_cast<Round>(now + 1 + gossip_.latency()), &own.closes[from], &ports.sent[from],
             &ports.busy_until[to], &ports.received[to], &ports.live[to], &other.closes[to]);
    own.messages += sent;
    return sent != 0;
}

// Where the ring begins, or the receivers' row does not end before it does.
bool GossipRounds::send_one_by_one(std::uint32_t row, std::uint32_t offset, Round now, Direction& own,
                                   Direction& other) {
    const std::uint32_t processes = gossip_.processes();
    Ports& ports = gossip_.ports();
    bool any = false;
    for (std::uint32_t from = row * kRow; from < std::min((row + 1) * kRow, processes); ++from) {
        if (now >= own.closes[from]) continue;
        const std::uint32_t to = from + offset < processes ? from + offset : from + offset - processes;
        const Round effect = ports.line_up(to, static_cast<Round>(now + 1 + gossip_.latency()));
        ports.sent[from] = static_cast<Round>(ports.sent[from] + 1);
        if (is_checked()) other.closes[to] = std::min(other.closes[to], effect);
        ++own.messages;
        any = true;
    }
    return any;
}

// ---------------------------------------------------------------------------------------------------- the outcome

void GossipRounds::conclude() {
    outcome_ = gossip_.conclude();
    const auto by_kind = [this](GossipMessageKind kind) -> std::uint64_t& {
        return outcome_.by_kind[static_cast<std::size_t>(kind)];
    };
    by_kind(GossipMessageKind::gossip) = outcome_.messages;
    by_kind(GossipMessageKind::correction_right) = directions_[0].messages;
    by_kind(GossipMessageKind::correction_left) = directions_[1].messages;
    outcome_.messages += directions_[0].messages + directions_[1].messages;
    for_each_gap(gossip_.reached(), gossip_.processes(),
                 [this](std::uint32_t first, std::uint32_t length) { conclude_run(first, length); });
    outcome_.reached = gossip_.processes() - outcome_.failed - static_cast<std::uint32_t>(outcome_.unreached.size());
}

// Those of a run that are live are reached by the first message from either side.
void GossipRounds::conclude_run(std::uint32_t first, std::uint32_t length) {
    for (std::uint32_t i = 0; i < length; ++i) {
        const std::uint32_t position = first + i;  // the root is reached: no run goes around it
        if (gossip_.is_dead(position)) continue;
        const std::uint32_t round = std::min(2 * i, 2 * (length - 1 - i) + 1);
        if (kind_ == GossipKind::gossip || round >= rounds_) {
            outcome_.unreached.push_back(Position{position});
            continue;
        }
        const std::int32_t colored =
            gossip_.correction_start() + static_cast<std::int32_t>(round) + gossip_.latency() + 2;
        outcome_.coloring_latency = std::max(outcome_.coloring_latency, gossip_.steps(colored));
    }
}

}  // namespace coppice::simulation
