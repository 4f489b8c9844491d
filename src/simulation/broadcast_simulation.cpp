#include "simulation/broadcast_simulation.hpp"

#include "protocol/failure_proof_broadcast.hpp"
#include "simulation/family_simulator.hpp"
#include "simulation/reach.hpp"
#include "simulation/shortcut_simulator.hpp"

namespace coppice::simulation {
namespace {

using protocol::Broadcast;
using protocol::BroadcastPlan;
using protocol::CorrectionKind;

struct BroadcastFamily {
    using Machine = Broadcast;

    std::shared_ptr<const BroadcastPlan> plan;
    LogP model;
    Nanoseconds dissemination_end;  // without faults
    bool is_even = true;            // all messages travel equally long

    std::uint32_t processes() const { return plan->tree.processes(); }

    Broadcast make(Position position, const protocol::FailedSet& failed, std::uint64_t seed) const {
        return Broadcast(*plan, position, 0, failed, position.value == 0, seed);
    }

    std::optional<Step> correction_start() const {
        if (!plan->correction.synchronized) return std::nullopt;
        return static_cast<Step>(plan->correction_start.value);
    }

    Promise promise(const Faults& faults) const;
};

// Nobody dies on the way and nobody is told.
std::vector<Position> left_out(const BroadcastPlan& plan, const std::vector<Position>& dead,
                               const Promise::Disseminated& disseminated) {
    const bool by_chance = reach_rule(plan) == ReachRule::gossip;
    if (dead.empty() && !by_chance) return {};
    Reach reach(plan);
    return by_chance ? reach.left_out_of_gossip(dead, disseminated) : reach.left_out(dead);
}

Promise BroadcastFamily::promise(const Faults& faults) const {
    const protocol::CorrectionSpec& correction = plan->correction;
    Promise promise;
    if (faults.notice_after) {
        // Service after death: a live root's payload reaches every live member, everybody comes to an end, and with a
        // dead root all have it or nobody. Not so for what has no correction, nor for the rule that is not live.
        const bool corrected = correction.kind != CorrectionKind::none &&
                               correction.kind != CorrectionKind::acknowledged &&
                               correction.kind != CorrectionKind::optimized_paper;
        if (corrected && !root_dies(faults)) promise.covers = kAnyGap;
        promise.all_or_none = corrected;
        promise.finishes = !root_dies(faults);
        return promise;
    }
    promise.refuses_nothing = true;
    if (!faults.dying.empty()) return promise;
    if (!root_dies(faults) && is_exact(*plan)) {
        promise.leaves_out = [shared = plan, dead = faults.dead](const Promise::Disseminated& disseminated) {
            return left_out(*shared, dead, disseminated);
        };
    }
    promise.finishes = correction.kind != CorrectionKind::acknowledged || faults.dead.empty();
    const bool lemma3 = is_even && correction.kind == CorrectionKind::checked && correction.synchronized &&
                        model.overlap && plan->gossip.rounds == 0 && plan->correction_start >= dissemination_end &&
                        !model.one_sided_ring && model.interval() == model.overhead && model.latency > 0;
    if (lemma3 && !root_dies(faults)) promise.lemma3_start = correction_start();
    return promise;
}

// All or none while no more than f die on the way, told or not.
struct FailureProofFamily {
    using Machine = protocol::FailureProofBroadcast;

    std::shared_ptr<const protocol::FailureProofPlan> plan;

    std::uint32_t processes() const { return plan->broadcast.tree.processes(); }

    Machine make(Position position, const protocol::FailedSet& failed, std::uint64_t seed) const {
        return Machine(*plan, position, 0, failed, position.value == 0, seed);
    }

    std::optional<Step> correction_start() const {
        if (!plan->broadcast.correction.synchronized) return std::nullopt;
        return static_cast<Step>(plan->broadcast.correction_start.value);
    }

    Promise promise(const Faults& faults) const {
        Promise promise;
        const bool covered = faults.dying.size() <= plan->settings.failures || faults.notice_after;
        promise.all_or_none = covered;
        if (!root_dies(faults)) {
            if (covered) promise.covers = kAnyGap;
            promise.finishes = covered;
        }
        promise.refuses_nothing = faults.dying.empty() && !faults.notice_after;
        return promise;
    }
};

template <class Wire>
Step run_dissemination(const topology::Tree& tree, const LogP& model, const Wire& wire) {
    const BroadcastPlan plan{tree, {.kind = CorrectionKind::none}};
    Onlooker nobody;
    Simulation<Broadcast, Onlooker, Wire> simulation(model, tree.processes(), wire);
    const auto make = [&plan](Position position, const protocol::FailedSet& failed) {
        return Broadcast(plan, position, 0, failed, position.value == 0);
    };
    return simulation.run({}, make, nobody).coloring_latency;
}

// When the dissemination ends if nobody fails.
Step dissemination_end(const topology::Tree& tree, const LogP& model, const std::shared_ptr<const Network>& network) {
    if (network) return run_dissemination(tree, model, NetworkWire(network));
    if (model.interval() == model.overhead) {
        return static_cast<Step>(protocol::dissemination_end(tree, model.latency, model.overhead).value);
    }
    return run_dissemination(tree, model, EvenWire{});
}

template <class Family>
std::unique_ptr<Simulator> simulator_of(Family family, const BroadcastSetup& setup) {
    if (!setup.network) return std::make_unique<FamilySimulator<Family>>(std::move(family), setup.model, setup.options);
    return std::make_unique<FamilySimulator<Family, NetworkWire>>(std::move(family), setup.model, setup.options,
                                                                  NetworkWire(setup.network));
}

std::unique_ptr<Simulator> simulator_with_shortcut(const BroadcastFamily& family, const BroadcastSetup& setup) {
    const bool takes_any = setup.shortcuts && !setup.network && setup.options.give_up_at == kLastStep;
    std::unique_ptr<Shortcut> shortcut = takes_any ? make_shortcut(*family.plan, setup.model) : nullptr;
    if (!shortcut) return simulator_of(family, setup);
    return std::make_unique<ShortcutSimulator>(
        std::move(shortcut), setup.model, setup.processes, family.correction_start(),
        [family](const Faults& faults) { return family.promise(faults); },
        [family, setup] { return simulator_of(family, setup); });
}

}  // namespace

tl::expected<std::unique_ptr<Simulator>, std::string> make_simulator(const BroadcastSetup& setup) {
    if (const auto reason = reason_against(setup.model)) return tl::unexpected(*reason);
    auto tree = topology::Tree::make(setup.tree, setup.processes);
    if (!tree) return tl::unexpected(tree.error());
    const bool is_corrected =
        setup.correction.kind != CorrectionKind::none && setup.correction.kind != CorrectionKind::acknowledged;
    if (setup.gossip.rounds != 0 && !is_corrected) {
        return tl::unexpected("gossip needs a correction, and " + to_string(setup.correction) + " is none");
    }
    BroadcastPlan plan{std::move(*tree), setup.correction, Nanoseconds{0}, setup.gossip};
    if (setup.network && setup.network->positions() != setup.processes)
        return tl::unexpected(std::string("the network has another number of hosts"));
    const Nanoseconds end{dissemination_end(plan.tree, setup.model, setup.network)};
    if (setup.correction.synchronized) {
        plan.correction_start = setup.correction_start ? Nanoseconds{*setup.correction_start} : end;
    }
    if (setup.correction.kind == CorrectionKind::failure_proof) {
        const Step farthest = setup.network ? setup.network->times().latency.back() : setup.model.latency;
        const Nanoseconds timeout =
            protocol::failure_proof_timeout(setup.processes, farthest, setup.model.interval(), end.value);
        auto shared = std::make_shared<protocol::FailureProofPlan>(protocol::make_failure_proof_plan(plan, timeout));
        return simulator_of(FailureProofFamily{std::move(shared)}, setup);
    }
    auto shared = std::make_shared<BroadcastPlan>(std::move(plan));
    return simulator_with_shortcut({std::move(shared), setup.model, end, setup.network == nullptr}, setup);
}

std::uint64_t bytes_needed(const BroadcastSetup& setup) {
    if (setup.correction.kind == CorrectionKind::failure_proof) {
        return Simulation<protocol::FailureProofBroadcast, Checker>::bytes_needed(setup.model, setup.processes);
    }
    return Simulation<Broadcast, Checker>::bytes_needed(setup.model, setup.processes);
}

}  // namespace coppice::simulation
