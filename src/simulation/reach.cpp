#include "simulation/reach.hpp"

#include <algorithm>

#include "topology/ring.hpp"

namespace coppice::simulation {

using protocol::CorrectionKind;

ReachRule reach_rule(const protocol::BroadcastPlan& plan) {
    switch (plan.correction.kind) {
        case CorrectionKind::none:
            return ReachRule::tree;
        case CorrectionKind::acknowledged:
            return ReachRule::acknowledged_tree;
        case CorrectionKind::opportunistic:
        case CorrectionKind::opportunistic_paper:
        case CorrectionKind::optimized_opportunistic:
        case CorrectionKind::optimized_paper:
            if (plan.gossip.rounds != 0) return ReachRule::gossip;
            return plan.correction.synchronized ? ReachRule::beside_the_tree : ReachRule::chain;
        default:
            return ReachRule::everybody;
    }
}

bool is_exact(const protocol::BroadcastPlan& plan) {
    return plan.correction.kind != CorrectionKind::optimized_paper || plan.correction.one_directional ||
           plan.correction.distance == 1;
}

Reach::Reach(const protocol::BroadcastPlan& plan)
    : plan_(plan), rule_(reach_rule(plan)), states_(plan.tree.processes(), State::reached) {}

const std::vector<Position>& Reach::left_out(std::span<const Position> dead, std::span<const Position> known) {
    left_out_.clear();
    if (dead.empty() || rule_ == ReachRule::everybody) return left_out_;
    start(dead, known);
    cut_off_below(dead);
    if (rule_ == ReachRule::acknowledged_tree) cut_off_unacknowledged();
    if (rule_ == ReachRule::chain) spread(true, false);
    if (rule_ == ReachRule::beside_the_tree) spread(false, !any_known_);
    collect();
    return left_out_;
}

const std::vector<Position>& Reach::left_out_of_gossip(std::span<const Position> dead,
                                                       const std::function<bool(Position)>& reached,
                                                       std::span<const Position> known) {
    start(dead, known);
    for (std::uint32_t position = 0; position < plan_.tree.processes(); ++position) {
        if (states_[position] == State::reached && !reached(Position{position})) mark(position, State::left_out);
    }
    if (plan_.correction.kind != CorrectionKind::none) spread(false, false);
    collect();
    return left_out_;
}

void Reach::mark(std::uint32_t position, State state) {
    if (states_[position] == State::reached) touched_.push_back(position);
    states_[position] = state;
}

void Reach::start(std::span<const Position> dead, std::span<const Position> known) {
    for (const std::uint32_t position : touched_)
        states_[position] = State::reached;
    touched_.clear();
    any_known_ = !known.empty();
    for (const Position position : dead)
        mark(position.value, State::dead);
    for (const Position position : known)
        mark(position.value, State::known_dead);
}

void Reach::cut_off_below(std::span<const Position> dead) {
    open_.clear();
    for (const Position position : dead)
        open_.push_back(position.value);
    while (!open_.empty()) {
        const Position parent{open_.back()};
        open_.pop_back();
        const std::uint32_t children = plan_.tree.child_count(parent);
        for (std::uint32_t index = 0; index < children; ++index) {
            const std::uint32_t child = plan_.tree.child(parent, index).value;
            if (states_[child] != State::reached) continue;
            mark(child, State::left_out);
            open_.push_back(child);
        }
    }
}

void Reach::cut_off_unacknowledged() {
    constexpr std::uint32_t kAwaited = 64;
    const std::uint32_t processes = plan_.tree.processes();
    // Whose whole subtree is reached, so that it acknowledges. Parents stand before their children.
    std::vector<bool> acknowledges(processes, true);
    std::vector<std::uint32_t> first_missing(processes, 0);
    for (std::uint32_t position = processes; position-- > 0;) {
        const std::uint32_t children = plan_.tree.child_count(Position{position});
        std::uint32_t& index = first_missing[position];
        while (index < children) {
            const std::uint32_t child = plan_.tree.child(Position{position}, index).value;
            if (!acknowledges[child] && states_[child] != State::known_dead) break;
            ++index;
        }
        acknowledges[position] = index == children && states_[position] == State::reached;
    }
    for (std::uint32_t position = 0; position < processes; ++position) {
        const std::uint32_t children = plan_.tree.child_count(Position{position});
        const bool reached = states_[position] == State::reached;
        for (std::uint32_t index = reached ? first_missing[position] + kAwaited : 0; index < children; ++index) {
            const std::uint32_t child = plan_.tree.child(Position{position}, index).value;
            if (states_[child] == State::reached) mark(child, State::left_out);
        }
    }
}

// The neighbours that `position` serves, or those that serve it.
template <class Use>
void Reach::for_neighbours(std::uint32_t position, bool that_serve_it, Use&& use) const {
    const std::uint32_t processes = plan_.tree.processes();
    const auto go = [&](bool to_right) {
        std::uint32_t found = 0;
        for (std::uint32_t offset = 1; offset < processes && found < plan_.correction.distance; ++offset) {
            const std::uint32_t neighbour = (to_right ? topology::right_neighbour(Position{position}, offset, processes)
                                                      : topology::left_neighbour(Position{position}, offset, processes))
                                                .value;
            if (states_[neighbour] == State::known_dead) continue;
            ++found;
            use(neighbour);
        }
    };
    if (!plan_.correction.one_directional || !that_serve_it) go(true);
    if (!plan_.correction.one_directional || that_serve_it) go(false);
}

bool Reach::is_served(std::uint32_t position) const {
    bool served = false;
    for_neighbours(position, true, [&](std::uint32_t neighbour) { served |= states_[neighbour] == State::reached; });
    return served;
}

// From those reached to their neighbours, and, unless `once`, on from these.
void Reach::spread(bool down_the_tree, bool once) {
    open_.clear();
    for (const std::uint32_t position : touched_) {
        if (states_[position] == State::left_out && is_served(position)) open_.push_back(position);
    }
    if (once) {
        for (const std::uint32_t position : open_)
            states_[position] = State::reached;
        return;
    }
    while (!open_.empty()) {
        const std::uint32_t position = open_.back();
        open_.pop_back();
        if (states_[position] != State::left_out) continue;
        states_[position] = State::reached;
        const auto reach = [this](std::uint32_t other) {
            if (states_[other] == State::left_out) open_.push_back(other);
        };
        for_neighbours(position, false, reach);
        const std::uint32_t children = down_the_tree ? plan_.tree.child_count(Position{position}) : 0;
        for (std::uint32_t index = 0; index < children; ++index)
            reach(plan_.tree.child(Position{position}, index).value);
    }
}

void Reach::collect() {
    left_out_.clear();
    for (const std::uint32_t position : touched_) {
        if (states_[position] == State::left_out) left_out_.push_back(Position{position});
    }
    std::sort(left_out_.begin(), left_out_.end(), [](Position a, Position b) { return a.value < b.value; });
}

}  // namespace coppice::simulation
