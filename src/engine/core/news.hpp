// What has come to a group at this rank and has yet to be attended to, and how much of what came was none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/wire/wire.hpp"

namespace coppice::engine {

class News {
  public:
    // Something has changed that is looked at rarely: it is looked at when this round, or the next one, ends.
    void look_soon() { look_soon_ = true; }
    bool is_looked_at_soon() const { return look_soon_; }
    // The passenger has something to pass on.
    void count_moved() { count_moved_ = true; }
    void pass_count_on() { count_moved_ = false; }
    bool wait() const { return count_moved_ || look_soon_; }
    void attend() { look_soon_ = count_moved_ = false; }
    // A component has done work that takes long, and may have more: a caller that waits goes on at once.
    void note_work() { ++work_; }
    std::size_t take_work() { return std::exchange(work_, 0); }

    void note_garbage() { ++garbage_; }
    void note_refused() { ++refused_; }
    std::uint64_t garbage() const { return garbage_; }
    std::uint64_t refused() const { return refused_; }

    // Of a channel that is frequent, with the count that the passenger has accepted last. Nothing is familiar but while this rank takes
    // part as ever (Core::takes_part_as_ever): what changes that forgets it.
    Familiar& familiar() { return familiar_; }

  private:
    Familiar familiar_;
    bool look_soon_ = false;
    bool count_moved_ = false;
    std::size_t work_ = 0;  // since the last progress
    std::uint64_t garbage_ = 0;
    std::uint64_t refused_ = 0;
};

}  // namespace coppice::engine
