// Runs the points of experiments, part by part; what is in the store already is not run again.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "progress.hpp"
#include "reproduce/experiment.hpp"
#include "reproduce/store.hpp"

namespace coppice::sim {

struct Worked {
    std::uint64_t ran = 0;     // broadcasts
    std::uint64_t reused = 0;  // read from the store
    std::uint64_t left = 0;    // not begun when the time was over
};

struct Pace {
    unsigned threads = 1;
    std::optional<double> minutes{};  // what is not begun by then is left out, but a first part of every point
    std::chrono::seconds report{60};  // how often it is said how long work will take, and Report is called
};

// Work is counted in thousands of ranks that took part in a broadcast.
std::uint64_t work_of(const Study& experiment, const Store& store);

class Campaign {
  public:
    // Minutes are counted from here.
    Campaign(Store& store, const Pace& pace, std::uint64_t total_work);

    // Is given what there is, once there is some of every point. A sentence if it failed, which ends the campaign.
    using Report = std::function<std::optional<std::string>(const Results& so_far)>;

    // A sentence when a promise was broken or the store could not be written. All points grow evenly towards their
    // numbers of broadcasts; those of a point are the first ones by their seeds. Series that are derived are not there
    // yet.
    tl::expected<Results, std::string> run(const Study& experiment, const Report& report);

    const Worked& worked() const { return worked_; }
    void clear_progress() { progress_.clear(); }

  private:
    using Clock = std::chrono::steady_clock;

    // What is in the store already or run now; nothing when the time is over, unless `at_any_time`.
    tl::expected<std::optional<Figures>, std::string> run_part(const Cell& part, bool at_any_time);
    tl::expected<Figures, std::string> run_cell(const Cell& cell);
    tl::expected<Cell, std::string> tuned(const Point& point);

    Store& store_;
    Pace pace_;
    std::optional<Clock::time_point> end_;
    Progress progress_;
    std::uint64_t done_ = 0;
    Worked worked_;
};

// Why the largest simulators of these experiments do not fit; nothing if they do.
std::uint64_t largest_bytes(const Study& experiment);

}  // namespace coppice::sim
