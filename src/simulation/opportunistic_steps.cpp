#include "simulation/opportunistic_steps.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "simulation/tally.hpp"

namespace coppice::simulation {

using protocol::CorrectionKind;
using protocol::MessageKind;

namespace {

// How far to the right a target is; to the left below 0.
std::int32_t offset_of(std::uint32_t target) {
    const auto distance = static_cast<std::int32_t>(target / 2 + 1);
    return target % 2 == 0 ? distance : -distance;
}

std::uint32_t neighbour(std::uint32_t position, std::int32_t offset, std::uint32_t processes) {
    const std::uint32_t to = position + static_cast<std::uint32_t>(offset);  // wraps below 0, far beyond the processes
    if (to < processes) return to;
    return offset < 0 ? to + processes : to - processes;
}

}  // namespace

bool OpportunisticSteps::applies(const protocol::BroadcastPlan& plan, const LogP& model, const FlatTree& tree) {
    constexpr Step kLongest = 64;
    const protocol::CorrectionSpec& correction = plan.correction;
    const bool is_opportunistic =
        correction.kind == CorrectionKind::opportunistic || correction.kind == CorrectionKind::optimized_opportunistic;
    if (!is_opportunistic || correction.synchronized || correction.one_directional || plan.gossip.rounds != 0)
        return false;
    if (!model.overlap || model.one_sided_ring || model.interval() != model.overhead) return false;
    if (model.overhead > kLongest || model.latency > kLongest) return false;
    // Small groups meet themselves on the other side of the ring. Turns, and children, are counted in 16 bits: of all members no
    // two in a chain of turns that grow have the same.
    constexpr std::uint32_t kMostProcesses = 1U << 16;
    return correction.distance <= kMostTargets / 2 && tree.processes() > 4 * correction.distance &&
           tree.processes() <= kMostProcesses;
}

OpportunisticSteps::OpportunisticSteps(const protocol::BroadcastPlan& plan, const LogP& model, FlatTree tree)
    : tree_(std::move(tree)),
      overhead_(model.overhead),
      latency_(model.latency),
      processes_(tree_.processes()),
      targets_(2 * plan.correction.distance),
      fresh_(processes_),
      heard_by_tree_(processes_),
      disseminated_(processes_),
      down_(std::bit_ceil(overhead_ + 1), Agenda(processes_)),
      around_(std::bit_ceil(overhead_ + 1), Agenda(processes_)) {
    // A message waits at most for one of each target, and one of the parent.
    const std::uint32_t steps = std::bit_ceil(latency_ + (2 + targets_ + 1) * overhead_ + 1);
    for (std::uint32_t step = 0; step < steps; ++step)
        effects_.emplace_back(processes_);
    prepare_targets(plan.correction.kind == CorrectionKind::optimized_opportunistic);
    prepare_members();
}

// needless() and relies_on_others_for() of the machine.
void OpportunisticSteps::prepare_targets(bool is_optimized) {
    const auto reach = static_cast<std::int32_t>(targets_ / 2);
    takes_turns_ = is_optimized;
    for (std::uint32_t from = 0; from < targets_; ++from) {
        offsets_[from] = offset_of(from);
        reasons_[from].fill(static_cast<Targets>(1U << from));
        for (std::uint32_t target = 0; target < targets_ && is_optimized; ++target) {
            const std::int32_t own = std::abs(offset_of(target));
            const std::int32_t others = std::abs(offset_of(target) - offset_of(from));
            const bool self_is_left = offset_of(target) > 0;
            const auto bit = static_cast<Targets>(1U << target);
            if (others > reach) continue;
            reasons_[from][kSenderFirst] |= bit;
            if (others < own || (others == own && !self_is_left)) reasons_[from][kSameTurn] |= bit;
        }
    }
}

void OpportunisticSteps::prepare_members() {
    for (std::uint32_t position = 0; position < processes_; ++position) {
        for (std::uint32_t target = 0; target < targets_; ++target) {
            const std::uint32_t other = neighbour(position, offset_of(target), processes_);
            const auto bit = static_cast<Targets>(1U << target);
            const bool is_own_child = other != 0 && tree_.parents[other] == position;
            const bool is_served_by_root = other == 0 || tree_.parents[other] == 0;
            if (is_own_child || is_served_by_root) fresh_[position].needless |= bit;
            if (position != 0 && tree_.parents[position] == other) heard_by_tree_[position] |= bit;
        }
    }
}

const Outcome* OpportunisticSteps::run(std::span<const Position> dead, std::uint64_t /*seed*/) {
    start(dead);
    for (Step now = 0; now <= last_; ++now) {
        take_effect(now);
        send_down(now);
        send_around(now);
    }
    conclude(dead);
    return &outcome_;
}

// Nothing is left in agendas and lines from the run before.
void OpportunisticSteps::start(std::span<const Position> dead) {
    members_ = fresh_;
    for (const Position position : dead)
        members_[position.value].dead = true;
    disseminated_.clear();
    disseminated_.insert(0);
    outcome_ = Outcome{};
    last_ = 0;
    color(0, members_[0], 0);
}

// ------------------------------------------------------------------------------------------------------ receiving

void OpportunisticSteps::take_effect(Step now) {
    Effects& effects = effects_at(now);
    for (std::uint32_t i = 0; i < effects.tree_count; ++i) {
        const std::uint32_t to = effects.of_tree[i];
        Member& member = members_[to];
        member.needless |= heard_by_tree_[to];
        disseminated_.insert(to);
        if (!member.colored) color(to, member, now);
    }
    for (std::uint32_t i = 0; i < effects.ring_count; ++i) {
        const Correction& correction = effects.of_ring[i];
        Member& member = members_[correction.to];
        learn(member, correction);
        if (!member.colored) color(correction.to, member, now);
    }
    effects.tree_count = 0;
    effects.ring_count = 0;
}

// rely() of the machine. (The root would leave nothing to others, but nobody sends a correction to it.) Without turns all are 0.
void OpportunisticSteps::learn(Member& member, const Correction& correction) {
    const bool took_turn = member.corrections != 0;
    const int later = (correction.turn >= member.turn ? 1 : 0) + (correction.turn > member.turn ? 1 : 0);
    const int order = took_turn ? later : kSenderFirst;
    member.needless |= reasons_[correction.from][static_cast<std::size_t>(order)];
    const auto next_turn = static_cast<std::uint16_t>(correction.turn + 1);
    const bool is_next = takes_turns_ && !took_turn && next_turn > member.turn;
    member.turn = is_next ? next_turn : member.turn;
}

void OpportunisticSteps::color(std::uint32_t position, Member& member, Step now) {
    member.colored = true;
    outcome_.coloring_latency = now;
    due(tree_.child_count(position) != 0 ? down_ : around_, now).insert(position);
}

// -------------------------------------------------------------------------------------------------------- sending

void OpportunisticSteps::send_down(Step now) {
    const Step arrival = now + overhead_ + latency_;
    Agenda& next = due(down_, now + overhead_);
    Agenda& next_around = due(around_, now + overhead_);
    std::uint64_t sent = 0;
    due(down_, now)
        .take(
            [&](std::uint32_t position) {
                Member& member = members_[position];
                const std::uint32_t to = tree_.children[tree_.first_child[position] + member.child++];
                const bool is_last = member.child == tree_.child_count(position);
                if (is_last) next_around.insert(position);
                ++sent;
                if (Effects* effects = line_up(to, arrival)) effects->of_tree[effects->tree_count++] = to;
                return !is_last;
            },
            [&](const PositionWord& senders) { next.insert(senders); });
    outcome_.by_kind[static_cast<std::size_t>(MessageKind::tree)] += sent;
}

void OpportunisticSteps::send_around(Step now) {
    const Step arrival = now + overhead_ + latency_;
    Agenda& next = due(around_, now + overhead_);
    std::array<std::uint64_t, 2> sent{};
    due(around_, now)
        .take(
            [&](std::uint32_t position) {
                Member& member = members_[position];
                const std::uint32_t wanted = ~std::uint32_t{member.needless} >> member.target << member.target;
                const auto target = static_cast<std::uint32_t>(std::countr_zero(wanted));
                if (target >= targets_) return false;
                member.target = static_cast<std::uint8_t>(target + 1);
                ++member.corrections;
                ++sent[target % 2];
                const std::uint32_t to = neighbour(position, offsets_[target], processes_);
                if (Effects* effects = line_up(to, arrival))
                    effects->of_ring[effects->ring_count++] = {to, member.turn, static_cast<std::uint16_t>(target ^ 1)};
                return member.target < targets_;
            },
            [&](const PositionWord& senders) { next.insert(senders); });
    outcome_.by_kind[static_cast<std::size_t>(MessageKind::correction_right)] += sent[0];
    outcome_.by_kind[static_cast<std::size_t>(MessageKind::correction_left)] += sent[1];
}

// Where a message belongs that arrives now: into the step in which it has been served. It vanishes at the dead.
inline OpportunisticSteps::Effects* OpportunisticSteps::line_up(std::uint32_t to, Step arrival) {
    Member& receiver = members_[to];
    if (receiver.dead) {
        outcome_.quiescence_latency = std::max(outcome_.quiescence_latency, arrival);
        last_ = std::max(last_, arrival);  // its sender goes on before
        return nullptr;
    }
    receiver.busy_until = std::max(receiver.busy_until, arrival) + overhead_;
    ++receiver.received;
    last_ = std::max(last_, receiver.busy_until);
    return &effects_at(receiver.busy_until);
}

// ---------------------------------------------------------------------------------------------------- the outcome

void OpportunisticSteps::conclude(std::span<const Position> dead) {
    for (std::uint32_t position = 0; position < processes_; ++position) {
        const Member& member = members_[position];
        outcome_.most_sent = std::max(outcome_.most_sent, std::uint32_t{member.child} + member.corrections);
        outcome_.most_received = std::max(outcome_.most_received, std::uint32_t{member.received});
        outcome_.quiescence_latency = std::max(outcome_.quiescence_latency, member.busy_until);
        if (!member.colored && !member.dead) outcome_.unreached.push_back(Position{position});
    }
    for (const std::uint64_t sent : outcome_.by_kind)
        outcome_.messages += sent;
    outcome_.failed = static_cast<std::uint32_t>(dead.size());
    outcome_.reached = processes_ - outcome_.failed - static_cast<std::uint32_t>(outcome_.unreached.size());
    outcome_.gaps = measure_gaps(disseminated_, processes_);
}

}  // namespace coppice::simulation
