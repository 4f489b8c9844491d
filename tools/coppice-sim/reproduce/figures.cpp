#include "reproduce/figures.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace coppice::sim {
namespace {

nlohmann::json written(const Histogram& histogram) {
    auto json = nlohmann::json::array();
    for (const auto& [value, times] : histogram.values())
        json.push_back({value, times});
    return json;
}

}  // namespace

void Histogram::add(std::uint64_t value, std::uint64_t times) {
    values_[value] += times;
    count_ += times;
}

void Histogram::add(const Histogram& other) {
    for (const auto& [value, times] : other.values_)
        add(value, times);
}

double Histogram::mean() const {
    double sum = 0;
    for (const auto& [value, times] : values_)
        sum += static_cast<double>(value) * static_cast<double>(times);
    return empty() ? 0 : sum / static_cast<double>(count_);
}

double Histogram::deviation() const {
    const double center = mean();
    double sum = 0;
    for (const auto& [value, times] : values_) {
        const double distance = static_cast<double>(value) - center;
        sum += distance * distance * static_cast<double>(times);
    }
    return empty() ? 0 : std::sqrt(sum / static_cast<double>(count_));
}

std::uint64_t Histogram::percentile(double share) const {
    const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
    std::uint64_t seen = 0;
    for (const auto& [value, times] : values_) {
        seen += times;
        if (seen >= wanted) return value;
    }
    return most();
}

void Figures::add(const simulation::Outcome& outcome, std::optional<simulation::Step> correction_start) {
    ++runs;
    incomplete += outcome.unreached.empty() ? 0 : 1;
    unreached += outcome.unreached.size();
    of(Metric::coloring).add(outcome.coloring_latency);
    of(Metric::quiescence).add(outcome.quiescence_latency);
    of(Metric::messages).add(outcome.messages);
    of(Metric::gap).add(outcome.gaps.largest);
    if (!correction_start || outcome.quiescence_latency < *correction_start) return;
    const std::uint64_t correction = outcome.quiescence_latency - *correction_start;
    of(Metric::correction).add(correction);
    ++pairs[{outcome.gaps.largest, correction}];
}

void Figures::add(const Figures& other) {
    runs += other.runs;
    incomplete += other.incomplete;
    unreached += other.unreached;
    cpu_seconds += other.cpu_seconds;
    for (std::size_t metric = 0; metric < metrics.size(); ++metric)
        metrics[metric].add(other.metrics[metric]);
    for (const auto& [pair, times] : other.pairs)
        pairs[pair] += times;
}

void to_json(nlohmann::json& json, const Figures& figures) {
    json["runs"] = figures.runs;
    json["incomplete"] = figures.incomplete;
    json["unreached"] = figures.unreached;
    json["cpu_seconds"] = figures.cpu_seconds;
    for (std::size_t metric = 0; metric < kMetricNames.size(); ++metric)
        json[std::string(kMetricNames[metric])] = written(figures.metrics[metric]);
    auto& pairs = json["pairs"] = nlohmann::json::array();
    for (const auto& [pair, times] : figures.pairs)
        pairs.push_back({pair.first, pair.second, times});
}

void from_json(const nlohmann::json& json, Figures& figures) {
    figures = {};
    json.at("runs").get_to(figures.runs);
    json.at("incomplete").get_to(figures.incomplete);
    json.at("unreached").get_to(figures.unreached);
    json.at("cpu_seconds").get_to(figures.cpu_seconds);
    for (std::size_t metric = 0; metric < kMetricNames.size(); ++metric) {
        for (const auto& entry : json.at(std::string(kMetricNames[metric])))
            figures.metrics[metric].add(entry.at(0).get<std::uint64_t>(), entry.at(1).get<std::uint64_t>());
    }
    for (const auto& entry : json.at("pairs")) {
        figures.pairs[{entry.at(0).get<std::uint64_t>(), entry.at(1).get<std::uint64_t>()}] +=
            entry.at(2).get<std::uint64_t>();
    }
}

}  // namespace coppice::sim
