// What a world told of one run, for people: what callers were told and what happened to ranks, all of it; and of the traffic
// between ranks, messages and stores to host memory, what is near the last of these.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace coppice::world {

class Transcript {
  public:
    // Of the traffic, so much before the last event, and behind it: where a call never ends there is no later one.
    static constexpr std::size_t kBefore = 400;
    static constexpr std::size_t kBehind = 100;

    void note_event(std::string line) {
        last_event_ = lines_.size();
        lines_.push_back({std::move(line), false});
    }
    void note_traffic(std::string line) { lines_.push_back({std::move(line), true}); }

    // In order. A line says how many are left out, in front and at the end.
    std::vector<std::string> lines() const;

  private:
    struct Line {
        std::string text;
        bool is_traffic;
    };
    std::vector<Line> lines_;
    std::size_t last_event_ = 0;
};

}  // namespace coppice::world
