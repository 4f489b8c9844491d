#include "simulation/buntinas_simulation.hpp"

#include "protocol/baselines/buntinas.hpp"
#include "simulation/family_simulator.hpp"

namespace coppice::simulation {
namespace {

struct BuntinasFamily {
    using Machine = protocol::BuntinasBroadcast;

    std::uint32_t ranks = 2;

    std::uint32_t processes() const { return ranks; }
    std::optional<Step> correction_start() const { return std::nullopt; }

    Machine make(Position position, const protocol::FailedSet& failed, std::uint64_t /*seed*/) const {
        return Machine(ranks, position, 0, failed, position.value == 0);
    }

    // Without notices it waits for the dead for ever. With them everybody live is reached, if the root lives.
    Promise promise(const Faults& faults) const {
        const bool anybody_dies = !faults.dead.empty() || !faults.dying.empty();
        Promise promise;
        if (!root_dies(faults) && (faults.notice_after || !anybody_dies)) {
            promise.covers = kAnyGap;
            promise.finishes = true;
        }
        promise.refuses_nothing = !anybody_dies;
        return promise;
    }
};

}  // namespace

tl::expected<std::unique_ptr<Simulator>, std::string> make_simulator(const BuntinasSetup& setup) {
    if (const auto reason = reason_against(setup.model)) return tl::unexpected(*reason);
    return std::make_unique<FamilySimulator<BuntinasFamily>>(BuntinasFamily{setup.processes}, setup.model,
                                                             setup.options);
}

std::uint64_t bytes_needed(const BuntinasSetup& setup) {
    return Simulation<protocol::BuntinasBroadcast, Checker>::bytes_needed(setup.model, setup.processes);
}

}  // namespace coppice::simulation
