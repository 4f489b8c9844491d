#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "joined.hpp"
#include "reproduce/figures.hpp"

namespace coppice::sim {
namespace {

using simulation::Outcome;

std::optional<std::int64_t> correction_latency(const Heading& heading, const Outcome& outcome) {
    if (!heading.correction_start) return std::nullopt;
    if (outcome.quiescence_latency < *heading.correction_start) return 0;  // nobody was there to correct anything
    return std::int64_t{outcome.quiescence_latency} - std::int64_t{*heading.correction_start};
}

// Messages that leave their leaf.
std::uint64_t over_up_links(const Outcome& outcome) {
    return outcome.by_level[1] + outcome.by_level[2];
}

class JsonReport final : public Report {
  public:
    explicit JsonReport(Heading heading) : heading_(std::move(heading)) {}

    void add(std::uint64_t seed, const Outcome& outcome) override {
        nlohmann::ordered_json run;
        run["seed"] = seed;
        run["ranks"] = heading_.experiment->ranks;
        run["coloring_latency"] = outcome.coloring_latency;
        run["quiescence_latency"] = outcome.quiescence_latency;
        if (const auto latency = correction_latency(heading_, outcome)) {
            run["correction_start"] = *heading_.correction_start;
            run["correction_latency"] = *latency;
        }
        run["messages"] = outcome.messages;
        auto& kinds = run["messages_by_kind"] = nlohmann::ordered_json::object();
        for (std::size_t kind = 0; kind < heading_.kinds.size(); ++kind) {
            if (outcome.by_kind[kind] != 0) kinds[std::string(heading_.kinds[kind])] = outcome.by_kind[kind];
        }
        if (heading_.experiment->network) {
            run["messages_within_leaf"] = outcome.by_level[0];
            run["messages_within_pod"] = outcome.by_level[1];
            run["messages_beyond_pod"] = outcome.by_level[2];
            run["up_link_messages"] = over_up_links(outcome);
        }
        run["most_sent"] = outcome.most_sent;
        run["most_received"] = outcome.most_received;
        run["g_max"] = outcome.gaps.largest;
        auto& gaps = run["gaps"] = nlohmann::ordered_json::object();
        for (const auto& [length, count] : outcome.gaps.histogram)
            gaps[std::to_string(length)] = count;
        run["failed"] = outcome.failed;
        run["reached"] = outcome.reached;
        run["unreached"] = outcome.unreached.size();
        auto& ranks = run["unreached_ranks"] = nlohmann::ordered_json::array();
        for (const Position position : outcome.unreached)
            ranks.push_back(heading_.experiment->rank_at(position));
        fmt::print("{}\n", run.dump());
    }

  private:
    Heading heading_;
};

class CsvReport final : public Report {
  public:
    explicit CsvReport(Heading heading) : heading_(std::move(heading)) {
        fmt::print(
            "seed,ranks,failed,coloring_latency,quiescence_latency,correction_latency,messages,most_sent,"
            "most_received,g_max,reached,unreached");
        for (const std::string_view kind : heading_.kinds)
            fmt::print(",messages_{}", kind);
        if (heading_.experiment->network) fmt::print(",messages_within_leaf,messages_within_pod,messages_beyond_pod");
        fmt::print("\n");
    }

    void add(std::uint64_t seed, const Outcome& outcome) override {
        const auto correction = correction_latency(heading_, outcome);
        fmt::print("{},{},{},{},{},{},{},{},{},{},{},{}", seed, heading_.experiment->ranks, outcome.failed,
                   outcome.coloring_latency, outcome.quiescence_latency, correction ? std::to_string(*correction) : "",
                   outcome.messages, outcome.most_sent, outcome.most_received, outcome.gaps.largest, outcome.reached,
                   outcome.unreached.size());
        for (std::size_t kind = 0; kind < heading_.kinds.size(); ++kind)
            fmt::print(",{}", outcome.by_kind[kind]);
        if (heading_.experiment->network)
            fmt::print(",{},{},{}", outcome.by_level[0], outcome.by_level[1], outcome.by_level[2]);
        fmt::print("\n");
    }

  private:
    Heading heading_;
};

class TableReport final : public Report {
  public:
    explicit TableReport(Heading heading) : heading_(std::move(heading)) {}

    void add(std::uint64_t /*seed*/, const Outcome& outcome) override {
        coloring_.add(outcome.coloring_latency);
        quiescence_.add(outcome.quiescence_latency);
        if (const auto latency = correction_latency(heading_, outcome)) {
            correction_.add(static_cast<std::uint64_t>(std::max<std::int64_t>(*latency, 0)));
        }
        messages_.add(outcome.messages);
        up_links_.add(over_up_links(outcome));
        beyond_pods_.add(outcome.by_level[2]);
        most_sent_.add(outcome.most_sent);
        gap_.add(outcome.gaps.largest);
        failed_.add(outcome.failed);
        unreached_.add(outcome.unreached.size());
        if (!outcome.unreached.empty()) ++incomplete_;
        for (std::size_t kind = 0; kind < heading_.kinds.size(); ++kind)
            by_kind_[kind] += outcome.by_kind[kind];
    }

    void finish() override {
        const Experiment& experiment = *heading_.experiment;
        const std::uint64_t runs = messages_.count();
        const simulation::LogP& model = experiment.model;
        const std::string latency =
            experiment.network ? joined(experiment.network->times().latency, ",") : std::to_string(model.latency);
        fmt::print("{}, {} ranks, L={} o={} g={}{}{}\n", experiment.title, experiment.ranks, latency, model.overhead,
                   model.interval(), model.overlap ? "" : ", one port", model.one_sided_ring ? ", one-sided ring" : "");
        fmt::print("{} run{}, seeds {} to {}\n\n", runs, runs == 1 ? "" : "s", heading_.first_seed,
                   heading_.first_seed + (runs == 0 ? 0 : runs - 1));
        if (runs == 0) return;
        fmt::print("{:<26}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "", "mean", "5%", "50%", "95%", "99%", "99.9%",
                   "max");
        row("coloring latency", coloring_);
        row("quiescence latency", quiescence_);
        if (heading_.correction_start) {
            row(fmt::format("correction, from step {}", *heading_.correction_start), correction_);
        }
        row("messages", messages_);
        if (experiment.network) {
            row("over up-links of leaves", up_links_);
            row("over up-links of pods", beyond_pods_);
        }
        row("most sent by a rank", most_sent_);
        row("g_max", gap_);
        row("failed", failed_);
        row("unreached", unreached_);
        fmt::print("\nmessages per rank: {:.4f}", messages_.mean() / experiment.ranks);
        for (std::size_t kind = 0; kind < heading_.kinds.size(); ++kind) {
            if (by_kind_[kind] == 0) continue;
            fmt::print("; {} {:.4f}", heading_.kinds[kind],
                       static_cast<double>(by_kind_[kind]) / static_cast<double>(runs) / experiment.ranks);
        }
        fmt::print("\nlive ranks unreached in {} of {} runs\n", incomplete_, runs);
    }

  private:
    static void row(const std::string& name, const Histogram& values) {
        fmt::print("{:<26}{:>12.3f}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", name, values.mean(),
                   values.percentile(0.05), values.percentile(0.5), values.percentile(0.95), values.percentile(0.99),
                   values.percentile(0.999), values.most());
    }

    Heading heading_;
    Histogram coloring_;
    Histogram quiescence_;
    Histogram correction_;
    Histogram messages_;
    Histogram up_links_;
    Histogram beyond_pods_;
    Histogram most_sent_;
    Histogram gap_;
    Histogram failed_;
    Histogram unreached_;
    std::array<std::uint64_t, simulation::kMaxKinds> by_kind_{};
    std::uint64_t incomplete_ = 0;
};

}  // namespace

std::unique_ptr<Report> make_report(const std::string& format, const Heading& heading) {
    if (format == "json") return std::make_unique<JsonReport>(heading);
    if (format == "csv") return std::make_unique<CsvReport>(heading);
    return std::make_unique<TableReport>(heading);
}

}  // namespace coppice::sim
