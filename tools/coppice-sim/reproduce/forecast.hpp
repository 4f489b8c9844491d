// How long the points of an experiment will still take: by what each has taken so far, and a guess for those of which
// nothing has run yet.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "reproduce/cell.hpp"

namespace coppice::sim {

class Forecast {
  public:
    Forecast(std::string name, unsigned threads, std::chrono::seconds every)
        : name_(std::move(name)), threads_(threads), every_(every) {}

    // So many broadcasts of this point are still to be run. Points are counted from 0 in the order of these calls.
    void expect(const Cell& cell, std::uint64_t runs);
    // These have run, now or in an earlier program.
    void ran_before(std::size_t point, const Figures& figures);
    void ran(std::size_t point, const Figures& figures);

    // Of the time of day, by how much of it the broadcasts that ran got.
    double seconds_left() const;
    std::uint64_t broadcasts_left() const;

    // On standard error, the first time and whenever the last sentence is so old.
    void say();

  private:
    using Clock = std::chrono::steady_clock;
    struct Left {
        double guess = 0;  // CPU seconds for a broadcast
        double cpu_seconds = 0;
        std::uint64_t ran = 0;
        std::uint64_t left = 0;
    };

    std::string name_;
    unsigned threads_;
    std::chrono::seconds every_;
    std::vector<Left> points_;
    double cpu_seconds_ = 0;  // of what this program ran
    Clock::time_point start_ = Clock::now();
    Clock::time_point said_{};
};

}  // namespace coppice::sim
