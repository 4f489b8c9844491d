// What the settings mean for the broadcasts of a group.
#include "engine/settings.hpp"
#include "topology/switch_path.hpp"

namespace coppice::engine {

topology::TreeSpec Settings::tree_for(std::uint32_t positions) const {
    return tree ? *tree : topology::automatic_tree(positions);
}

bool Settings::places() const {
    using protocol::CorrectionKind;
    const bool is_known =
        correction.kind == CorrectionKind::opportunistic || correction.kind == CorrectionKind::optimized_opportunistic;
    return algorithm.algorithm == Algorithm::tree && is_known && !correction.one_directional &&
           !correction.synchronized;
}

tl::expected<Plan, std::string> Settings::plan_for(std::uint32_t positions,
                                                   std::span<const topology::Site> sites) const {
    if (places() && topology::is_worth_placing(sites)) {
        const topology::LevelSizes sizes = topology::level_sizes(sites);
        auto placement = topology::Placement::make(
            sites, {.pods = tree_for(sizes.pods), .leaves = tree_for(sizes.leaves), .hosts = tree_for(sizes.hosts)});
        if (!placement) return tl::unexpected(std::move(placement.error()));
        return Plan(std::move(*placement), correction);
    }
    if (algorithm.algorithm == Algorithm::gossip) {
        auto gossip = plan_gossip(algorithm.gossip, positions);
        if (!gossip) return tl::unexpected(std::move(gossip.error()));
        return Plan(Algorithm::gossip, *gossip);
    }
    auto made = topology::Tree::make(tree_for(positions), positions);
    if (!made) return tl::unexpected(std::move(made.error()));
    // What PPoPP'19 takes for real systems, in microseconds.
    constexpr std::uint64_t kLatencyNs = 2000;
    constexpr std::uint64_t kOverheadNs = 1000;
    Nanoseconds start{correction_start_ns.value_or(0)};
    if (correction.synchronized && !correction_start_ns) {
        start = protocol::dissemination_end(*made, kLatencyNs, kOverheadNs);
    }
    return Plan(algorithm.algorithm, {std::move(*made), correction, start});
}

}  // namespace coppice::engine
