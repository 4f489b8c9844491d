// What many broadcasts of one kind came to: whole distributions, so that parts can be put together exactly.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "simulation/model.hpp"

namespace coppice::sim {

// How often each value came.
class Histogram {
  public:
    void add(std::uint64_t value, std::uint64_t times = 1);
    void add(const Histogram& other);

    bool empty() const { return count_ == 0; }
    std::uint64_t count() const { return count_; }
    double mean() const;
    double deviation() const;  // standard deviation of the population
    // The smallest value that at least this share of all does not exceed.
    std::uint64_t percentile(double share) const;
    std::uint64_t least() const { return empty() ? 0 : values_.begin()->first; }
    std::uint64_t most() const { return empty() ? 0 : values_.rbegin()->first; }
    const std::map<std::uint64_t, std::uint64_t>& values() const { return values_; }

  private:
    std::map<std::uint64_t, std::uint64_t> values_;
    std::uint64_t count_ = 0;
};

enum class Metric : std::uint8_t { coloring, quiescence, correction, messages, gap };
inline constexpr std::array<std::string_view, 5> kMetricNames{"coloring", "quiescence", "correction", "messages",
                                                              "gap"};

struct Figures {
    std::uint64_t runs = 0;
    std::uint64_t incomplete = 0;  // runs that left a live rank out
    std::uint64_t unreached = 0;   // live ranks left out, in all runs together
    double cpu_seconds = 0;
    std::array<Histogram, kMetricNames.size()> metrics;
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> pairs;  // (g_max, correction latency): how often

    const Histogram& of(Metric metric) const { return metrics[static_cast<std::size_t>(metric)]; }
    Histogram& of(Metric metric) { return metrics[static_cast<std::size_t>(metric)]; }

    void add(const simulation::Outcome& outcome, std::optional<simulation::Step> correction_start);
    void add(const Figures& other);
};

void to_json(nlohmann::json& json, const Figures& figures);
// Throws nlohmann::json::exception when it is none.
void from_json(const nlohmann::json& json, Figures& figures);

}  // namespace coppice::sim
