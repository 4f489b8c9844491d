// How far long work is and how long it will still take, on a line of standard error that is written over and over;
// nothing where that is no terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace coppice::sim {

// "40 s", "12 min", "3.1 h"
std::string duration(double seconds);

class Progress {
  public:
    Progress(std::string what, std::uint64_t total);
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void at(std::uint64_t done) { at(done, total_); }
    void at(std::uint64_t done, std::uint64_t total);  // where the total becomes known on the way
    // Before something else is written to the terminal.
    void clear();

  private:
    using Clock = std::chrono::steady_clock;

    std::string what_;
    std::uint64_t total_;
    bool visible_;
    bool shown_ = false;
    Clock::time_point start_;
    Clock::time_point last_;
};

}  // namespace coppice::sim
