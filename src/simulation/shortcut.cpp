#include "simulation/shortcut.hpp"

#include "simulation/checked_rounds.hpp"
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

}  // namespace coppice::simulation
