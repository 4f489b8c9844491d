#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace coppice::sim {

std::string duration(double seconds) {
    if (seconds < 100) return fmt::format("{:.0f} s", seconds);
    if (seconds < 6000) return fmt::format("{:.0f} min", seconds / 60);
    return fmt::format("{:.1f} h", seconds / 3600);
}

Progress::Progress(std::string what, std::uint64_t total)
    : what_(std::move(what)),
      total_(total),
      visible_(isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_(start_) {}

void Progress::at(std::uint64_t done, std::uint64_t total) {
    total_ = total;
    if (!visible_ || done == 0) return;
    const Clock::time_point now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(200)) return;
    last_ = now;
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    const double left = elapsed / static_cast<double>(done) * static_cast<double>(total_ - done);
    fmt::print(stderr, "\r\033[K{} of {} {}, {} left", done, total_, what_, duration(left));
    std::fflush(stderr);
    shown_ = true;
}

void Progress::clear() {
    if (shown_) fmt::print(stderr, "\r\033[K");
    shown_ = false;
}

}  // namespace coppice::sim
