#include "perf/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "perf/levels.hpp"
#include "perf/phases.hpp"

namespace perf {

namespace {

nlohmann::json to_json(const measure_stats_t& stats) {
    return {{"t_min", stats.min},           {"t_max", stats.max},         {"t_typical", stats.typical},
            {"t_avg", stats.average},       {"t_stdev", stats.deviation}, {"percentile_99", stats.p99},
            {"percentile_99_9", stats.p999}};
}

std::string chosen(const std::string& option, const char* variable) {
    if (!option.empty()) return option;
    const char* value = std::getenv(variable);
    return value != nullptr && *value != '\0' ? value : "default";
}

struct Spread {
    double min = 0, median = 0, max = 0;
};

Spread spread(std::vector<double>& values) {
    const measure_stats_t stats = measure_statistics(values.data(), values.size());
    return {stats.min, stats.typical, stats.max};
}

}  // namespace

Report::Report(Session& session, const GroupSettings& group, const BroadcastSettings& settings,
               const Schedule& schedule)
    : session_(session), settings_(settings), schedule_(schedule) {
    json_ = {{"benchmark", "broadcast"},
             {"version", coppice_version()},
             {"ranks", session.ranks()},
             {"positions", session.info().hosts},
             {"window", session.info().window},
             {"tree", chosen(group.tree, "COPPICE_TREE")},
             {"algorithm", chosen(group.algorithm, "COPPICE_ALGORITHM")},
             {"correction", chosen(group.correction, "COPPICE_CORRECTION")},
             {"hierarchy", chosen(group.hierarchy, "COPPICE_HIERARCHY")},
             {"transport", session.info().transports},
             {"root", settings.root},
             {"warmup", settings.warmup},
             {"verify", settings.verify},
             {"view", settings.view},
             {"back_to_back", settings.back_to_back},
             {"dead_before_the_run", settings.dead},
             {"unit", "us"},
             {"sizes", nlohmann::json::array()},
             {"died", nlohmann::json::array()}};
}

void Report::headings() const {
    const auto text = [this](const char* key) { return json_[key].get<std::string>(); };
    fmt::print(
        "# coppice {} broadcast: {} ranks, {} positions, root {}, algorithm {}, tree {}, correction {}, hierarchy {}, "
        "transport {}, window {}\n",
        text("version"), session_.ranks(), session_.info().hosts, settings_.root, text("algorithm"), text("tree"),
        text("correction"), text("hierarchy"), text("transport"), session_.info().window);
    fmt::print("# {}\n", settings_.metric == "osu" ? "osu: mean over live ranks of the call's duration"
                                                   : "done: the root's call -> the last live rank has the payload");
    fmt::print("{}{}   MB/s[typical]\n", MEASURE_HEADINGS, settings_.metric == "both" ? "   osu_avg[usec]" : "");
    std::fflush(stdout);
}

void Report::size_done(std::uint64_t bytes, std::uint64_t first, std::uint64_t measured, std::uint64_t elapsed_ns) {
    measured_ = measured;
    std::vector<double> done, osu;
    done.reserve(measured);
    osu.reserve(measured);
    for (std::uint64_t i = 0; i < measured; ++i) {
        double one_done = 0, one_osu = 0;
        if (!measure_evaluate(session_.area(), i, schedule_.root_of(first + i), &one_done, &one_osu)) continue;
        done.push_back(one_done);
        osu.push_back(one_osu);
    }
    const measure_stats_t done_stats = measure_statistics(done.data(), done.size());
    const measure_stats_t osu_stats = measure_statistics(osu.data(), osu.size());
    measure_print(stdout, bytes, settings_.metric == "osu" ? &osu_stats : &done_stats);
    if (settings_.metric == "both") fmt::print(" {:<15.2f}", osu_stats.average);
    const double typical = settings_.metric == "osu" ? osu_stats.typical : done_stats.typical;
    const double megabytes = typical > 0 ? static_cast<double>(bytes) / typical : 0;  // bytes a µs
    fmt::print(" {:<.2f}\n", megabytes);
    nlohmann::json line = {{"bytes", bytes}, {"iterations", done_stats.count}, {"megabytes_per_second", megabytes}};
    if (settings_.metric != "osu") line["done"] = to_json(done_stats);
    if (settings_.metric != "done") line["osu"] = to_json(osu_stats);
    if (settings_.back_to_back && elapsed_ns > 0) {
        const double rate = static_cast<double>(measured) * 1e9 / static_cast<double>(elapsed_ns);
        fmt::print("# {:.0f} broadcasts per second\n", rate);
        line["broadcasts_per_second"] = rate;
    }
    std::fflush(stdout);
    json_["sizes"].push_back(std::move(line));
}

void Report::counts_done() {
    struct Column {
        const char* name;
        std::uint64_t coppice_group_counts_t::*value;
    };
    static constexpr Column kColumns[] = {{"sends", &coppice_group_counts_t::sends},
                                          {"writes", &coppice_group_counts_t::writes},
                                          {"doorbells", &coppice_group_counts_t::doorbells},
                                          {"work_requests", &coppice_group_counts_t::work_requests},
                                          {"signalled", &coppice_group_counts_t::signalled},
                                          {"probes", &coppice_group_counts_t::probes},
                                          {"busy_polls", &coppice_group_counts_t::busy_polls},
                                          {"copies", &coppice_group_counts_t::copies},
                                          {"registrations", &coppice_group_counts_t::registrations},
                                          {"takeovers", &coppice_group_counts_t::takeovers},
                                          {"thread_rounds", &coppice_group_counts_t::thread_rounds},
                                          {"thread_events", &coppice_group_counts_t::thread_events},
                                          {"chunks", &coppice_group_counts_t::chunks},
                                          {"chunks_sent", &coppice_group_counts_t::chunks_sent},
                                          {"chunks_again", &coppice_group_counts_t::chunks_again},
                                          {"chunks_damaged", &coppice_group_counts_t::chunks_damaged},
                                          {"chunks_read", &coppice_group_counts_t::chunks_read},
                                          {"reads", &coppice_group_counts_t::reads},
                                          {"unregistered", &coppice_group_counts_t::unregistered}};
    fmt::print("# counted per broadcast (0 beyond sends and writes where no device is driven by the library)\n# rank ");
    for (const Column& column : kColumns)
        fmt::print(" {:>14}", column.name);
    nlohmann::json ranks = nlohmann::json::array();
    for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank) {
        if (session_.is_dead(rank)) continue;
        const coppice_group_counts_t& counts = Record(session_.area(), rank).tally().counts;
        nlohmann::json entry = {{"rank", rank}};
        fmt::print("\n  {:<4} ", rank);
        for (const Column& column : kColumns) {
            fmt::print(" {:>14.3f}", static_cast<double>(counts.*column.value) / static_cast<double>(measured_));
            entry[column.name] = counts.*column.value;
        }
        ranks.push_back(std::move(entry));
    }
    fmt::print("\n");
    std::fflush(stdout);
    json_["sizes"].back()["counts"] = std::move(ranks);
}

bool Report::dead_before_run(std::uint32_t rank) const {
    return std::find(settings_.dead.begin(), settings_.dead.end(), rank) != settings_.dead.end();
}

// A victim can't say when it was killed; its last time stamp is a lower bound, so the delay printed is an upper bound.
void Report::deaths(std::uint64_t start_ns) {
    std::uint32_t survivors = 0;
    for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank)
        survivors += session_.is_dead(rank) ? 0 : 1;
    if (!settings_.dead.empty()) {
        fmt::print("{} of {} ranks dead before the run\n", settings_.dead.size(), session_.ranks());
    }
    fmt::print("{}\n", session_.losses([this](std::uint32_t rank) { return !dead_before_run(rank); }));
    if (session_.is_apart()) return;  // whose clocks would the times be of?
    for (std::uint32_t victim = 0; victim < session_.ranks(); ++victim) {
        if (!session_.is_dead(victim) || dead_before_run(victim)) continue;
        const std::uint64_t last_sign = Record(session_.area(), victim).tally().last_sign;
        std::vector<double> since_start, since_sign;
        nlohmann::json by_rank = nlohmann::json::object();
        for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank) {
            const std::uint64_t noticed = Record(session_.area(), rank).noticed(victim);
            if (session_.is_dead(rank) || noticed == 0) continue;
            since_start.push_back(noticed > start_ns ? static_cast<double>(noticed - start_ns) / 1e6 : 0);
            since_sign.push_back(noticed > last_sign ? static_cast<double>(noticed - last_sign) / 1e3 : 0);
            by_rank[std::to_string(rank)] = since_start.back();
        }
        const std::size_t witnesses = since_start.size();
        const Spread start = spread(since_start), sign = spread(since_sign);
        const auto to_object = [](const Spread& s) {
            return nlohmann::json{{"min", s.min}, {"median", s.median}, {"max", s.max}};
        };
        nlohmann::json entry = {{"rank", victim},
                                {"cut_off", session_.is_cut_off(victim)},
                                {"noticed_by", witnesses},
                                {"ms_after_start", to_object(start)},
                                {"noticed_ms", by_rank}};
        fmt::print("rank {}: noticed by {} of {} survivors, ms after the start: min {:.3f} median {:.3f} max {:.3f}; ",
                   victim, witnesses, survivors, start.min, start.median, start.max);
        if (last_sign == 0) {
            fmt::print("it died before its first broadcast\n");
        } else {
            fmt::print("us after its last sign of life: min {:.0f} median {:.0f} max {:.0f}\n", sign.min, sign.median,
                       sign.max);
            entry["us_after_last_sign"] = to_object(sign);
        }
        json_["died"].push_back(std::move(entry));
    }
}

// Of those that are left, by the highest level that a message crossed, as levels are called in levels.hpp.
void Report::messages_by_level() {
    std::array<std::uint64_t, kCrossed.size()> sent{};
    std::uint64_t broadcasts = 0;
    bool all_live = true;
    for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank) {
        all_live = all_live && !session_.is_dead(rank);
        if (session_.is_dead(rank)) continue;
        const Tally& tally = Record(session_.area(), rank).tally();
        broadcasts = std::max(broadcasts, tally.finished);
        for (std::size_t level = 0; level < sent.size(); ++level)
            sent[level] += tally.sent[level];
    }
    if (broadcasts == 0 || sent == decltype(sent){}) return;
    nlohmann::json levels = nlohmann::json::object();
    std::string text;
    for (std::size_t level = 0; level < sent.size(); ++level) {
        const double each = static_cast<double>(sent[level]) / static_cast<double>(broadcasts);
        levels[std::string(kCrossed[level])] = each;
        text += fmt::format("{}{} {:.2f}", level == 0 ? "" : ", ", kCrossed[level], each);
    }
    fmt::print("# messages per broadcast{}, by the level that they crossed: {}\n",
               all_live ? "" : ", of the ranks that are left", text);
    json_["messages_per_broadcast"] = std::move(levels);
}

void Report::summary(std::uint64_t start_ns) {
    deaths(start_ns);
    messages_by_level();
    Tally total;
    for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank) {
        if (session_.is_dead(rank)) continue;
        const Tally& tally = Record(session_.area(), rank).tally();
        total.deliveries += tally.deliveries;
        total.lost += tally.lost;
        total.corrupt += tally.corrupt;
        total.duplicate += tally.duplicate;
        total.root_failed += tally.root_failed;
    }
    if (total.root_failed != 0) {
        fmt::print("{} broadcasts of dead roots were refused at survivors\n", total.root_failed);
    }
    if (settings_.verify) {
        fmt::print("{} deliveries to survivors, every byte of each verified\n", total.deliveries);
        fmt::print("lost {} corrupt {} duplicate {}\n", total.lost, total.corrupt, total.duplicate);
    } else {
        fmt::print("lost {} ({} deliveries; contents are checked with --verify)\n", total.lost, total.deliveries);
    }
    std::fflush(stdout);
    clean_ = total.lost == 0 && total.corrupt == 0 && total.duplicate == 0;
    json_["deliveries"] = total.deliveries;
    json_["lost"] = total.lost;
    json_["root_failed"] = total.root_failed;
    if (settings_.verify) {
        json_["corrupt"] = total.corrupt;
        json_["duplicate"] = total.duplicate;
    }
}

std::optional<Failure> Report::write_json() const {
    return perf::write_json(settings_.json_file, json_);
}

}  // namespace perf
