// Runs the points of experiments, part by part; what is in the store already is not run again.
#pragma once

#include <chrono>
#include <cstdint>
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

// Work is counted in thousands of ranks that took part in a broadcast.
std::uint64_t work_of(const Study& experiment, const Store& store);

class Campaign {
  public:
    // With `minutes`, counted from here: what is then not begun is left out, but a first part of every point.
    Campaign(Store& store, unsigned threads, std::uint64_t total_work, std::optional<double> minutes);

    // A sentence when a promise was broken or the store could not be written. All points grow evenly towards their
    // numbers of broadcasts.
    tl::expected<Results, std::string> run(const Study& experiment);

    const Worked& worked() const { return worked_; }
    void clear_progress() { progress_.clear(); }

  private:
    // What is in the store already or run now; nothing when the time is over, unless `at_any_time`.
    tl::expected<std::optional<Figures>, std::string> run_part(const Cell& part, bool at_any_time);
    tl::expected<Figures, std::string> run_cell(const Cell& cell);
    tl::expected<Cell, std::string> tuned(const Point& point);

    Store& store_;
    unsigned threads_;
    std::optional<std::chrono::steady_clock::time_point> end_;
    Progress progress_;
    std::uint64_t done_ = 0;
    Worked worked_;
};

// Why the largest simulators of these experiments do not fit; nothing if they do.
std::uint64_t largest_bytes(const Study& experiment);

}  // namespace coppice::sim
