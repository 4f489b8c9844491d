#include "simulation/placed_simulation.hpp"

#include <algorithm>
#include <map>

#include "simulation/family_simulator.hpp"
#include "simulation/position_set.hpp"
#include "simulation/tally.hpp"
#include "topology/ring.hpp"

namespace coppice::simulation {
namespace {

using protocol::PlacedBroadcast;
using protocol::PlacedPlan;
using topology::Placement;

// Places of a ring that are no more than `distance` off, each once: those to the right first where the ring is small.
template <class Use>
void for_neighbours(std::uint32_t place, std::uint32_t places, std::uint32_t distance, Use&& use) {
    const std::uint32_t right = std::min(distance, places / 2);
    const std::uint32_t left = std::min(distance, (places - 1) / 2);
    for (std::uint32_t offset = 1; offset <= right; ++offset)
        use(topology::right_neighbour(Position{place}, offset, places).value, true);
    for (std::uint32_t offset = 1; offset <= left; ++offset)
        use(topology::left_neighbour(Position{place}, offset, places).value, false);
}

class PlacedReach {
  public:
    PlacedReach(const PlacedPlan& plan, std::span<const Position> dead)
        : plan_(plan), placement_(plan.placement), dead_(placement_.hosts()), reached_(placement_.hosts()) {
        for (const Position position : dead)
            dead_.insert(position.value);
        reach(0);
        while (!open_.empty()) {
            const std::uint32_t host = open_.back();
            open_.pop_back();
            serve(host);
        }
    }

    std::vector<Position> left_out() const {
        std::vector<Position> out;
        for (std::uint32_t host = 0; host < placement_.hosts(); ++host) {
            if (!reached_.contains(host) && !dead_.contains(host)) out.push_back(Position{host});
        }
        std::ranges::sort(out);
        return out;
    }

  private:
    void reach(std::uint32_t host) {
        if (dead_.contains(host) || reached_.contains(host)) return;
        reached_.insert(host);
        open_.push_back(host);
    }
    void serve(std::uint32_t host) {
        const std::uint32_t children = placement_.child_count(0, host);
        for (std::uint32_t index = 0; index < children; ++index)
            reach(placement_.child(0, host, index));
        const std::uint32_t leaf = placement_.leaf_of(host);
        const auto hosts = placement_.hosts_of(leaf);
        for_neighbours(placement_.index_in_leaf(host), static_cast<std::uint32_t>(hosts.size()), plan_.distance,
                       [&](std::uint32_t place, bool /*right*/) { reach(hosts[place]); });
        if (placement_.behind_leader(0, host) != 0) return;
        for_neighbours(leaf, placement_.leaves(), plan_.distance, [&](std::uint32_t other, bool right) {
            const auto there = placement_.hosts_of(other);
            const std::uint32_t leader = placement_.leader(0, other);
            reach(right ? leader : there[(placement_.index_in_leaf(leader) + 1) % there.size()]);
        });
    }

    const PlacedPlan& plan_;
    const Placement& placement_;
    PositionSet dead_;  // by host, as reached_
    PositionSet reached_;
    std::vector<std::uint32_t> open_;
};

struct PlacedFamily {
    using Machine = PlacedBroadcast;

    std::shared_ptr<const PlacedPlan> plan;

    std::uint32_t processes() const { return plan->placement.hosts(); }
    PlacedBroadcast make(Position position, const protocol::FailedSet& failed, std::uint64_t /*seed*/) const {
        return {*plan, position, 0, failed, position.value == 0};
    }
    std::optional<Step> correction_start() const { return std::nullopt; }

    Promise promise(const Faults& faults) const {
        Promise promise;
        promise.all_or_none = faults.notice_after && plan->distance > 0;
        if (root_dies(faults)) return promise;
        promise.finishes = true;
        if (faults.notice_after) {
            if (plan->distance > 0) promise.covers = kAnyGap;
            return promise;
        }
        promise.refuses_nothing = true;
        if (!faults.dying.empty()) return promise;
        promise.leaves_out = [shared = plan, dead = faults.dead](const Promise::Disseminated& /*disseminated*/) {
            return left_out(*shared, dead);
        };
        return promise;
    }

    // Runs on the ring of leaves of those in which no host was disseminated to, and on the ring of each other leaf's hosts.
    template <class Run>
    Gaps gaps(const Run& run) const {
        const Placement& placement = plan->placement;
        std::map<std::uint32_t, std::uint32_t> lengths;
        const auto add = [&lengths](const PositionSet& ring, std::uint32_t places) {
            for (const auto& [length, count] : measure_gaps(ring, places).histogram)
                lengths[length] += count;
        };
        PositionSet leaves(placement.leaves());
        for (std::uint32_t leaf = 0; leaf < placement.leaves(); ++leaf) {
            const auto hosts = placement.hosts_of(leaf);
            const auto is_reached = [&](std::uint32_t host) { return run.is_disseminated(Position{host}); };
            const auto reached = static_cast<std::size_t>(std::ranges::count_if(hosts, is_reached));
            if (reached == 0) continue;
            leaves.insert(leaf);
            if (reached == hosts.size()) continue;
            PositionSet ring(static_cast<std::uint32_t>(hosts.size()));
            for (std::uint32_t place = 0; place < hosts.size(); ++place) {
                if (is_reached(hosts[place])) ring.insert(place);
            }
            add(ring, static_cast<std::uint32_t>(hosts.size()));
        }
        add(leaves, placement.leaves());
        Gaps gaps;
        gaps.histogram.assign(lengths.begin(), lengths.end());
        if (!lengths.empty()) gaps.largest = lengths.rbegin()->first;
        return gaps;
    }
};

}  // namespace

std::vector<Position> left_out(const PlacedPlan& plan, std::span<const Position> dead) {
    return PlacedReach(plan, dead).left_out();
}

tl::expected<std::unique_ptr<Simulator>, std::string> make_simulator(const PlacedSetup& setup) {
    if (const auto reason = reason_against(setup.model)) return tl::unexpected(*reason);
    if (setup.network->positions() != setup.plan->placement.hosts())
        return tl::unexpected(std::string("the network has another number of hosts"));
    return std::make_unique<FamilySimulator<PlacedFamily, NetworkWire>>(PlacedFamily{setup.plan}, setup.model,
                                                                        setup.options, NetworkWire(setup.network));
}

std::uint64_t bytes_needed(const PlacedSetup& setup) {
    return Simulation<PlacedBroadcast, Checker, NetworkWire>::bytes_needed(setup.model, setup.plan->placement.hosts());
}

}  // namespace coppice::simulation
