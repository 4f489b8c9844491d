#include "reproduce/output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace coppice::sim {
namespace {

constexpr double kPaperRuns = 1e5;

std::string csv_field(const std::string& text) {
    if (text.find_first_of(",\"\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char letter : text)
        quoted.append(letter == '"' ? 2 : 1, letter);
    return quoted + '"';
}

// At most six digits, no trailing zeros.
std::string number(double value) {
    if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
    if (value == std::floor(value) && std::abs(value) < 1e9) return fmt::format("{:.0f}", value);
    return fmt::format("{:.4g}", value);
}

std::string bound_of(const Claim& claim) {
    if (claim.measured.empty()) return "";
    if (claim.least == claim.most) return number(claim.least);
    if (std::isinf(claim.least) || claim.least <= -1e9) return "≤ " + number(claim.most);
    if (std::isinf(claim.most)) return "≥ " + number(claim.least);
    return fmt::format("{} to {}", number(claim.least), number(claim.most));
}

std::string our_bounds(const std::vector<Judgement>& judgements) {
    std::string list;
    for (const Judgement& judgement : judgements) {
        const Claim& claim = *judgement.claim;
        if (!claim.ours.empty()) list += fmt::format("- {} {}: {}.\n", claim.text, bound_of(claim), claim.ours);
    }
    return list.empty() ? list : "\nBounds that the paper does not give, and why we take these:\n\n" + list;
}

const char* in_words(Verdict verdict) {
    switch (verdict) {
        case Verdict::holds:
            return "holds";
        case Verdict::does_not_hold:
            return "**does not hold**";
        default:
            return "not comparable";
    }
}

nlohmann::json curve_of(const Study& experiment, const Results& results, const Panel& panel,
                        const std::string& series) {
    nlohmann::json curve{{"label", series}, {"x", nlohmann::json::array()}, {"y", nlohmann::json::array()}};
    for (const double x : results.xs(series)) {
        const Height height = panel.height(results.at(series, x), results.cell(series, x));
        curve["x"].push_back(x);
        curve["y"].push_back(height.y);
        if (!height.low) continue;
        curve["low"].push_back(*height.low);
        curve["high"].push_back(*height.high);
    }
    static constexpr std::array<const char*, 5> kStyles{"line", "whiskers", "ribbon", "points", "bars"};
    curve["style"] = kStyles[static_cast<std::size_t>(experiment.style)];
    // Corrected trees are dashed, as in the papers.
    curve["dashed"] = series.find(", checked") != std::string::npos || series.find(", optimized") != std::string::npos;
    return curve;
}

nlohmann::json pairs_of(const Results& results, const std::string& series) {
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> all;
    for (const double x : results.xs(series)) {
        for (const auto& [pair, times] : results.at(series, x).pairs)
            all[pair] += times;
    }
    nlohmann::json curve{
        {"label", series}, {"style", "points"}, {"x", nlohmann::json::array()}, {"y", nlohmann::json::array()}};
    for (const auto& [pair, times] : all) {
        curve["x"].push_back(pair.first);
        curve["y"].push_back(pair.second);
    }
    return curve;
}

std::vector<double> all_xs(const Results& results, const Panel& panel) {
    std::vector<double> xs;
    for (const std::string& series : results.series()) {
        if (panel.shows && !panel.shows(series)) continue;
        for (const double x : results.xs(series)) {
            if (!panel.pairs) xs.push_back(x);
            for (const auto& [pair, times] : results.at(series, x).pairs) {
                if (panel.pairs) xs.push_back(static_cast<double>(pair.first));
            }
        }
    }
    std::sort(xs.begin(), xs.end());
    xs.erase(std::unique(xs.begin(), xs.end()), xs.end());
    return xs;
}

void add_formulas(nlohmann::json& curves, const Study& experiment, const Results& results, std::size_t panel) {
    for (const Formula& formula : experiment.formulas) {
        if (formula.panel != panel) continue;
        nlohmann::json curve{{"label", formula.name},
                             {"style", experiment.style == Style::bars ? "bars" : "line"},
                             {"formula", true},
                             {"x", nlohmann::json::array()},
                             {"y", nlohmann::json::array()}};
        for (const double x : all_xs(results, experiment.panels[panel])) {
            const auto y = formula.value(x);
            if (!y) continue;
            curve["x"].push_back(x);
            curve["y"].push_back(*y);
        }
        curves.push_back(std::move(curve));
    }
}

}  // namespace

std::string csv_of(const Study& experiment, const Results& results) {
    std::string csv =
        fmt::format("experiment,series,{},ranks,L,o,dead,gossip_time,first_seed,runs,incomplete_runs,unreached_ranks",
                    experiment.axis.column);
    auto out = std::back_inserter(csv);
    for (const std::string_view metric : kMetricNames) {
        for (const char* statistic : {"mean", "sd", "p5", "p50", "p95", "p99", "p99.9", "max"})
            fmt::format_to(out, ",{}_{}", metric, statistic);
    }
    csv += ",cpu_seconds\n";
    for (const std::string& series : results.series()) {
        for (const double x : results.xs(series)) {
            const Cell& cell = results.cell(series, x);
            const Figures& figures = results.at(series, x);
            const auto* gossip = std::get_if<GossipProtocol>(&cell.protocol);
            fmt::format_to(out, "{},{},{},{},{},{},{},{},{},{},{},{}", experiment.name, csv_field(series), x,
                           cell.ranks, cell.model.latency, cell.model.overhead, cell.dead_count + cell.dead.size(),
                           gossip == nullptr ? "" : std::to_string(gossip->spec.limit), cell.first_seed, figures.runs,
                           figures.incomplete, figures.unreached);
            for (const Histogram& values : figures.metrics) {
                if (values.empty()) {
                    csv += ",,,,,,,,";
                    continue;
                }
                fmt::format_to(out, ",{:.6g},{:.6g},{},{},{},{},{},{}", values.mean(), values.deviation(),
                               values.percentile(0.05), values.percentile(0.5), values.percentile(0.95),
                               values.percentile(0.99), values.percentile(0.999), values.most());
            }
            fmt::format_to(out, ",{:.3f}\n", figures.cpu_seconds);
        }
    }
    return csv;
}

std::string plot_of(const Study& experiment, const Results& results) {
    nlohmann::ordered_json plot{{"name", experiment.name},          {"title", experiment.title},
                                {"source", experiment.source},      {"x_label", experiment.axis.label},
                                {"x_scale", experiment.axis.scale}, {"panels", nlohmann::json::array()}};
    for (std::size_t i = 0; i < experiment.panels.size(); ++i) {
        const Panel& panel = experiment.panels[i];
        nlohmann::json curves = nlohmann::json::array();
        for (const std::string& series : results.series()) {
            if (panel.shows && !panel.shows(series)) continue;
            curves.push_back(panel.pairs ? pairs_of(results, series) : curve_of(experiment, results, panel, series));
        }
        add_formulas(curves, experiment, results, i);
        plot["panels"].push_back({{"title", panel.title},
                                  {"y_label", panel.y_label},
                                  {"log_y", panel.log_y},
                                  {"from_zero", panel.from_zero},
                                  {"curves", std::move(curves)}});
    }
    return plot.dump(1) + '\n';
}

std::string count_of(const std::vector<Judgement>& judgements) {
    const auto count = [&](Verdict verdict) {
        return std::count_if(judgements.begin(), judgements.end(),
                             [verdict](const Judgement& judgement) { return judgement.verdict == verdict; });
    };
    return fmt::format("{} of {} claims hold, {} {} not, {} not comparable", count(Verdict::holds), judgements.size(),
                       count(Verdict::does_not_hold), count(Verdict::does_not_hold) == 1 ? "does" : "do",
                       count(Verdict::not_comparable));
}

std::string projection_of(const Results& results, unsigned threads) {
    double seconds = 0;
    double broadcasts = 0;
    for (const std::string& series : results.series()) {
        for (const double x : results.xs(series)) {
            // What was merged of others ran with them, and the paper corrected everything.
            const Figures& figures = results.at(series, x);
            if (series.starts_with("all ") || figures.of(Metric::correction).empty()) continue;
            seconds += figures.cpu_seconds / static_cast<double>(figures.runs) * kPaperRuns;
            broadcasts += kPaperRuns;
        }
    }
    return fmt::format(
        "The paper's full scale, {:.0f} broadcasts, would take {:.1f} h of CPU time: {:.1f} h with {} thread{}.",
        broadcasts, seconds / 3600, seconds / 3600 / threads, threads, threads == 1 ? "" : "s");
}

std::string summary_of(const Study& experiment, const Results& results, const std::vector<Judgement>& judgements,
                       const Written& written) {
    std::string page =
        fmt::format("# {}: {}\n\n{}, by `coppice-sim reproduce {}{}`. {}.\n\n", experiment.name, experiment.title,
                    experiment.source, experiment.name, written.scale, count_of(judgements));
    auto out = std::back_inserter(page);
    fmt::format_to(out, "![{0}]({0}.svg)\n\n{1}\n\n", experiment.name, experiment.reading);
    page +=
        "## What the paper says, and what came out\n\n| claim | where | measured | figure | the claim holds for | "
        "verdict |\n"
        "|---|---|---|---|---|---|\n";
    for (const Judgement& judgement : judgements) {
        const Claim& claim = *judgement.claim;
        fmt::format_to(out, "| {} | {} | {} | {} | {} | {} |\n", claim.text, claim.where, claim.measured,
                       judgement.figure ? number(*judgement.figure) : "",
                       claim.measure ? bound_of(claim) + (claim.ours.empty() ? "" : " (ours)") : "",
                       in_words(judgement.verdict));
    }
    std::string notes;
    for (const Judgement& judgement : judgements) {
        const std::string& note = judgement.why.empty() ? judgement.claim->remark : judgement.why;
        if (!note.empty() && judgement.verdict != Verdict::holds)
            notes += fmt::format("- {} ({}): {}.\n", judgement.claim->text, in_words(judgement.verdict), note);
    }
    if (!notes.empty()) page += "\nWhy:\n\n" + notes;
    page += our_bounds(judgements);
    if (!experiment.remarks.empty())
        page += "\n## Where this is not what the paper did\n\n" + experiment.remarks + "\n";
    if (experiment.projects) page += "\n## How long it takes\n\n" + projection_of(results, written.threads) + "\n";

    page +=
        "\n## What was run\n\nRun i of a point has the seed FIRST SEED + i, which draws the dead and the gossip. Every "
        "run was "
        "checked for what the protocol promises.\n\n| series | points | first seed | broadcasts for each point | left "
        "somebody out |\n|---|---|---|---|---|\n";
    for (const std::string& series : results.series()) {
        std::uint64_t least = UINT64_MAX;
        std::uint64_t most = 0;
        std::uint64_t incomplete = 0;
        for (const double x : results.xs(series)) {
            const Figures& figures = results.at(series, x);
            least = std::min(least, figures.runs);
            most = std::max(most, figures.runs);
            incomplete += figures.incomplete;
        }
        fmt::format_to(out, "| {} | {} | {} | {} | {} |\n", series, results.xs(series).size(),
                       results.cell(series, results.xs(series).front()).first_seed,
                       least == most ? std::to_string(least) : fmt::format("{} to {}", least, most), incomplete);
    }
    const std::string command =
        results.cell(results.series().front(), results.xs(results.series().front()).back()).command();
    if (!command.empty()) page += fmt::format("\nOne of the points by hand: `{}`\n", command);
    return page;
}

std::string overview_of(const std::vector<Line>& lines) {
    std::string page = "# The papers' figures, reproduced\n\n| experiment | | source | claims |\n|---|---|---|---|\n";
    auto out = std::back_inserter(page);
    for (const Line& line : lines)
        fmt::format_to(out, "| [{0}]({0}.md) | {1} | {2} | {3} |\n", line.name, line.title, line.source,
                       count_of(line.judgements));
    page += "\nWhat does not hold:\n\n";
    for (const Line& line : lines) {
        for (const Judgement& judgement : line.judgements) {
            if (judgement.verdict != Verdict::does_not_hold) continue;
            fmt::format_to(out, "- {}, {}: {} Measured: {} ({}; it would hold for {}).{}\n", line.name,
                           judgement.claim->where, judgement.claim->text, number(*judgement.figure),
                           judgement.claim->measured, bound_of(*judgement.claim),
                           judgement.claim->remark.empty() ? "" : " Note: " + judgement.claim->remark + ".");
        }
    }
    return page;
}

}  // namespace coppice::sim
