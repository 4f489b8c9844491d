#include "simulation/gossip_simulation.hpp"

#include "protocol/baselines/binomial_graph.hpp"
#include "simulation/family_simulator.hpp"
#include "simulation/shortcut_simulator.hpp"

namespace coppice::simulation {
namespace {

using protocol::BinomialGraph;
using protocol::FailureProofGossip;
using protocol::FailureProofGossipPlan;
using protocol::Gossip;
using protocol::GossipKind;
using protocol::GossipPlan;

std::optional<Step> start_of(const GossipPlan& plan) {
    if (plan.spec.by_rounds || plan.spec.kind == GossipKind::gossip) return std::nullopt;
    return static_cast<Step>(plan.correction_start());
}

struct GossipFamily {
    using Machine = Gossip;

    GossipPlan plan;

    std::uint32_t processes() const { return plan.processes; }
    Gossip make(Position position, const protocol::FailedSet& failed, std::uint64_t seed) const {
        return Gossip(plan, position, 0, failed, position.value == 0, seed);
    }
    std::optional<Step> correction_start() const { return start_of(plan); }

    Promise promise(const Faults& faults) const {
        Promise promise;
        if (root_dies(faults)) return promise;
        promise.finishes = true;
        promise.refuses_nothing = true;
        if (plan.spec.kind == GossipKind::checked) {
            // Deaths on the way need notices.
            if (faults.dying.empty() || faults.notice_after) promise.covers = kAnyGap;
        } else if (plan.spec.kind == GossipKind::opportunistic && faults.dying.empty() && !faults.notice_after) {
            promise.covers = plan.spec.corrections;
        }
        return promise;
    }
};

struct FailureProofGossipFamily {
    using Machine = FailureProofGossip;

    FailureProofGossipPlan plan;

    std::uint32_t processes() const { return plan.gossip.processes; }
    FailureProofGossip make(Position position, const protocol::FailedSet& failed, std::uint64_t seed) const {
        return FailureProofGossip(plan, position, 0, failed, position.value == 0, seed);
    }
    std::optional<Step> correction_start() const { return start_of(plan.gossip); }

    Promise promise(const Faults& faults) const {
        Promise promise;
        promise.refuses_nothing = true;
        promise.finishes = true;
        if (faults.dying.size() > plan.gossip.spec.failures && !faults.notice_after) return promise;
        promise.all_or_none = true;
        if (!root_dies(faults)) promise.covers = kAnyGap;
        return promise;
    }
};

struct BinomialGraphFamily {
    using Machine = BinomialGraph;

    std::uint32_t count = 1;
    BinomialGraph::Directions directions = BinomialGraph::Directions::right;

    std::uint32_t processes() const { return count; }
    BinomialGraph make(Position position, const protocol::FailedSet& failed, std::uint64_t /*seed*/) const {
        return BinomialGraph(count, position, 0, failed, position.value == 0, directions);
    }
    std::optional<Step> correction_start() const { return std::nullopt; }

    Promise promise(const Faults& faults) const {
        Promise promise;
        promise.refuses_nothing = true;
        promise.finishes = true;
        const std::size_t failures = faults.dead.size() + faults.dying.size();
        if (!root_dies(faults) && failures < BinomialGraph::degree(count)) promise.covers = kAnyGap;
        return promise;
    }
};

protocol::GossipModel model_of(const GossipSetup& setup) {
    return {setup.processes, setup.active == 0 ? setup.processes : setup.active, setup.model.latency,
            setup.model.interval()};
}

template <class Family>
std::unique_ptr<Simulator> simulator_of(const Family& family, const GossipSetup& setup) {
    const auto machines = [family, setup]() -> std::unique_ptr<Simulator> {
        return std::make_unique<FamilySimulator<Family>>(family, setup.model, setup.options);
    };
    const bool takes_any = setup.shortcuts && setup.options.give_up_at == kLastStep;
    std::unique_ptr<Shortcut> shortcut = takes_any ? make_shortcut(family.plan, setup.model) : nullptr;
    if (!shortcut) return machines();
    return std::make_unique<ShortcutSimulator>(
        std::move(shortcut), setup.model, setup.processes, family.correction_start(),
        [family](const Faults& faults) { return family.promise(faults); }, machines);
}

}  // namespace

tl::expected<GossipPlan, std::string> gossip_plan(const GossipSetup& setup) {
    return protocol::make_gossip_plan(setup.spec, model_of(setup), setup.delta, setup.hop);
}

tl::expected<std::unique_ptr<Simulator>, std::string> make_simulator(const GossipSetup& setup) {
    if (const auto reason = reason_against(setup.model)) return tl::unexpected(*reason);
    if (setup.spec.kind == GossipKind::failure_proof) {
        auto plan = protocol::make_failure_proof_gossip_plan(setup.spec, model_of(setup), setup.delta, setup.hop,
                                                             Nanoseconds{0});
        if (!plan) return tl::unexpected(plan.error());
        return simulator_of(FailureProofGossipFamily{*plan}, setup);
    }
    auto plan = gossip_plan(setup);
    if (!plan) return tl::unexpected(plan.error());
    return simulator_of(GossipFamily{*plan}, setup);
}

tl::expected<std::unique_ptr<Simulator>, std::string> make_simulator(const BinomialGraphSetup& setup) {
    if (const auto reason = reason_against(setup.model)) return tl::unexpected(*reason);
    return std::make_unique<FamilySimulator<BinomialGraphFamily>>(
        BinomialGraphFamily{setup.processes, setup.directions}, setup.model, setup.options);
}

std::uint64_t bytes_needed(const GossipSetup& setup) {
    if (setup.spec.kind == GossipKind::failure_proof) {
        return Simulation<FailureProofGossip, Checker>::bytes_needed(setup.model, setup.processes);
    }
    return Simulation<Gossip, Checker>::bytes_needed(setup.model, setup.processes);
}

std::uint64_t bytes_needed(const BinomialGraphSetup& setup) {
    return Simulation<BinomialGraph, Checker>::bytes_needed(setup.model, setup.processes);
}

}  // namespace coppice::simulation
