// The tables of experiments, a file for each figure, and what they have in common.
#pragma once

#include <cmath>
#include <limits>

#include "reproduce/experiment.hpp"

namespace coppice::sim {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// PPoPP'19.
Study fig1b(Scale scale, std::uint64_t first_seed);
Study fig6(Scale scale, std::uint64_t first_seed);
Study fig7(Scale scale, std::uint64_t first_seed);
Study fig8(Scale scale, std::uint64_t first_seed);
Study fig9(Scale scale, std::uint64_t first_seed);
Study incomplete(Scale scale, std::uint64_t first_seed);
Study fig10(Scale scale, std::uint64_t first_seed);
Study table1(Scale scale, std::uint64_t first_seed);
Study fig14(Scale scale, std::uint64_t first_seed);
// IPDPS'17.
Study gossip_fig1(Scale scale, std::uint64_t first_seed);
Study gossip_fig3(Scale scale, std::uint64_t first_seed);
Study gossip_fig5(Scale scale, std::uint64_t first_seed);
Study gossip_fig9(Scale scale, std::uint64_t first_seed);
Study gossip_table(Scale scale, std::uint64_t first_seed);
Study gossip_scaling(Scale scale, std::uint64_t first_seed);
// SC'15.
Study era_2a(Scale scale, std::uint64_t first_seed);
Study era_2b(Scale scale, std::uint64_t first_seed);
Study era_2c(Scale scale, std::uint64_t first_seed);
Study era_2d(Scale scale, std::uint64_t first_seed);
Study era_3(Scale scale, std::uint64_t first_seed);
Study era_4(Scale scale, std::uint64_t first_seed);
// ICS'06.
Study membership_fig4(Scale scale, std::uint64_t first_seed);
Study membership_fig5(Scale scale, std::uint64_t first_seed);
Study membership_fig6(Scale scale, std::uint64_t first_seed);
Study membership_fig7(Scale scale, std::uint64_t first_seed);
Study membership_fig8(Scale scale, std::uint64_t first_seed);

// Gossip of this kind whose time and corrections the equations choose (gossip_time.hpp), for all ranks alive.
protocol::GossipSpec gossip_by_equations(protocol::GossipKind kind, std::uint32_t ranks, const simulation::LogP& model,
                                         double delta, std::uint32_t failures = 1);

// Heights of points.
inline std::function<Height(const Figures&, const Cell&)> mean_of(Metric metric, bool with_spread = true) {
    return [metric, with_spread](const Figures& figures, const Cell& /*cell*/) {
        const Histogram& values = figures.of(metric);
        if (!with_spread) return Height{values.mean()};
        return Height{values.mean(), static_cast<double>(values.percentile(0.05)),
                      static_cast<double>(values.percentile(0.95))};
    };
}
inline std::function<Height(const Figures&, const Cell&)> percentile_of(Metric metric, double share) {
    return [metric, share](const Figures& figures, const Cell& /*cell*/) {
        return Height{static_cast<double>(figures.of(metric).percentile(share))};
    };
}
inline Height messages_per_rank(const Figures& figures, const Cell& cell) {
    const Histogram& values = figures.of(Metric::messages);
    const double ranks = cell.ranks;
    return Height{values.mean() / ranks, static_cast<double>(values.percentile(0.05)) / ranks,
                  static_cast<double>(values.percentile(0.95)) / ranks};
}

}  // namespace coppice::sim
