#include "simulation/shortcut.hpp"

#include <type_traits>

#include "simulation/checked_rounds.hpp"
#include "simulation/failure_proof_rounds.hpp"
#include "simulation/gossip_rounds.hpp"
#include "simulation/opportunistic_steps.hpp"

namespace coppice::simulation {

std::unique_ptr<Shortcut> make_shortcut(const protocol::BroadcastPlan& plan, const LogP& model) {
    const protocol::CorrectionKind kind = plan.correction.kind;
    const bool may_apply = kind == protocol::CorrectionKind::checked ||
                           kind == protocol::CorrectionKind::opportunistic ||
                           kind == protocol::CorrectionKind::optimized_opportunistic;
    if (!may_apply || plan.gossip.rounds != 0) return nullptr;
    FlatTree tree(plan.tree, model);
    if (CheckedRounds::applies(plan, model, tree)) return std::make_unique<CheckedRounds>(plan, model, std::move(tree));
    if (OpportunisticSteps::applies(plan, model, tree))
        return std::make_unique<OpportunisticSteps>(plan, model, std::move(tree));
    return nullptr;
}

std::unique_ptr<Shortcut> make_shortcut(const protocol::GossipPlan& plan, const LogP& model) {
    return GossipRounds::applies(plan, model) ? std::make_unique<GossipRounds>(plan, model) : nullptr;
}

std::unique_ptr<Shortcut> make_shortcut(const protocol::FailureProofGossipPlan& plan, const LogP& model) {
    std::unique_ptr<Shortcut> shortcut;
    const auto take = [&]<std::uint32_t kKnown>(std::integral_constant<std::uint32_t, kKnown> /*known*/) {
        using Rounds = FailureProofRounds<kKnown>;
        if (Rounds::applies(plan, model)) shortcut = std::make_unique<Rounds>(plan, model);
    };
    take(std::integral_constant<std::uint32_t, 2>{});
    take(std::integral_constant<std::uint32_t, 3>{});
    take(std::integral_constant<std::uint32_t, 4>{});
    take(std::integral_constant<std::uint32_t, 5>{});
    return shortcut;
}

}  // namespace coppice::simulation
