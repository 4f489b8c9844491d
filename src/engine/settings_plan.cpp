// What the settings mean for the broadcasts of a group.
#include <algorithm>

#include "engine/settings.hpp"
#include "topology/switch_path.hpp"

namespace coppice::engine {

namespace {

// The one of star and optimal tree that reaches all first, by LogP with o = 1. Of equally fast ones the star, under which corrections have
// nothing to send.
topology::TreeSpec fastest_tree(std::uint32_t positions, std::uint32_t latency) {
    constexpr std::uint32_t kOverhead = 1;
    const topology::TreeSpec star{.shape = topology::TreeShape::star};
    const topology::TreeSpec optimal{.shape = topology::TreeShape::optimal,
                                     .latency = std::min(latency, topology::kMaxLameOrder - 2 * kOverhead),
                                     .overhead = kOverhead};
    const auto shortest = topology::Tree::make(optimal, positions);
    if (!shortest || positions < 2) return star;
    const std::uint64_t star_end = std::uint64_t{positions - 2} * kOverhead + 2 * kOverhead + latency;
    return star_end <= protocol::dissemination_end(*shortest, latency, kOverhead).value ? star : optimal;
}

}  // namespace

topology::TreeSpec Settings::tree_for(std::uint32_t positions, std::string_view level) const {
    if (tree) return *tree;
    if (measured.empty()) return topology::automatic_tree(positions);
    return fastest_tree(positions, level_called(measured, level).latency);
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
        auto placement = topology::Placement::make(sites, {.pods = tree_for(sizes.pods, "network"),
                                                           .leaves = tree_for(sizes.leaves, "pod"),
                                                           .hosts = tree_for(sizes.hosts, "leaf")});
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
