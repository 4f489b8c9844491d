// What runs came to: one object or row for each (JSON, CSV), or how their figures are distributed (table).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "setup_options.hpp"
#include "simulation/model.hpp"

namespace coppice::sim {

// What every run of a report has in common.
struct Heading {
    const Experiment* experiment = nullptr;
    std::vector<std::string_view> kinds{};
    std::optional<simulation::Step> correction_start{};
    std::uint64_t first_seed = 1;
};

class Report {
  public:
    virtual ~Report() = default;
    virtual void add(std::uint64_t seed, const simulation::Outcome& outcome) = 0;
    virtual void finish() {}
};

// "table", "csv", "json".
inline constexpr std::array<const char*, 3> kFormats{"table", "csv", "json"};
std::unique_ptr<Report> make_report(const std::string& format, const Heading& heading);

}  // namespace coppice::sim
