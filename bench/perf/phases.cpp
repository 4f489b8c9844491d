#include "perf/phases.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace perf {

nlohmann::json show_phase(Session& session, const std::string& phase, const char* operations, std::uint64_t bytes,
                          std::span<const std::uint64_t> which) {
    if (which.empty()) return nullptr;
    std::vector<double> done, mean;
    for (const std::uint64_t i : which) {
        std::uint64_t start = 0, end = 0, durations = 0, ranks = 0;
        for (std::uint32_t rank = 0; rank < session.ranks(); ++rank) {
            if (session.is_dead(rank)) continue;
            const measure_stamp_t stamp = measure_row(session.area(), rank)[i];
            start = std::max(start, stamp.start);
            end = std::max(end, stamp.end);
            durations += stamp.end - stamp.start;
            ++ranks;
        }
        done.push_back(static_cast<double>(end - start) / 1e3);
        mean.push_back(static_cast<double>(durations) / static_cast<double>(ranks) / 1e3);
    }
    const measure_stats_t stats = measure_statistics(done.data(), done.size());
    const measure_stats_t means = measure_statistics(mean.data(), mean.size());
    measure_print(stdout, bytes, &stats);
    fmt::print(" {} (mean over ranks of the call: {:.2f})\n", phase, means.typical);
    return {
        {"phase", phase},         {operations, stats.count},    {"t_min", stats.min}, {"t_typical", stats.typical},
        {"t_avg", stats.average}, {"percentile_99", stats.p99}, {"t_max", stats.max}, {"call_typical", means.typical}};
}

}  // namespace perf
