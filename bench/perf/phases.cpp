#include "perf/phases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

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

std::optional<Failure> measure_rounds(Session& session, const Rounds& rounds) {
    measure_stamp_t* row = measure_row(session.area(), session.rank());
    if (auto failure = session.barrier()) return failure;
    std::uint64_t number = 0;
    // Nobody returns from one before everybody has called it.
    for (; number < rounds.count && !session.over(number, 1); ++number) {
        if (number == rounds.warmup) session.limit(rounds.for_s);
        measure_stamp_t stamp{};
        if (auto failure = rounds.once(number, stamp)) return failure;
        if (auto failure = session.parted()) return failure;
        if (number >= rounds.warmup) row[number - rounds.warmup] = stamp;
    }
    rounds.done(number);
    if (auto failure = session.barrier()) return failure;
    const auto dead_are_known = [&] {
        for (std::uint32_t rank = 0; rank < session.ranks(); ++rank)
            if (!session.is_dead(rank) && !rounds.has_ended(rank)) return false;
        return true;
    };
    if (!session.is_apart()) {
        if (auto failure = session.wait_for_notices(dead_are_known)) return failure;
    }
    std::optional<Failure> trouble;
    auto failure = session.barrier([&] {
        const nlohmann::json figures = rounds.report();
        if (!rounds.file.empty()) trouble = write_json(rounds.file, figures);
    });
    return failure ? failure : trouble;
}

std::optional<Failure> write_json(const std::string& file, const nlohmann::json& figures) {
    std::ofstream out(file);
    out << figures.dump(2) << '\n';
    out.close();
    if (!out) return Failure{kExitFailed, fmt::format("--out_json: cannot write {}", file)};
    return std::nullopt;
}

}  // namespace perf
