// Which incarnation of each rank a transport speaks with: numbers are given again to other processes (Transport::forget).
#pragma once

#include <cstdint>
#include <vector>

#include "base/words.hpp"

namespace coppice::transport {

class Incarnations {
  public:
    enum class Is : std::uint8_t {
        right,
        earlier,  // over: it was forgotten, or its successor is here
        later,    // of a rank whose earlier one has not been forgotten yet
    };
    Is judge(Seat rank, std::uint32_t incarnation) const {
        if (rank.value >= ranks_.size()) return Is::right;
        const One& known = ranks_[rank.value];
        if (incarnation < known.least) return Is::earlier;
        return known.is_known && incarnation != known.least ? Is::later : Is::right;
    }
    // What a rank that was never added is until it says otherwise.
    std::uint32_t least(Seat rank) const { return rank.value < ranks_.size() ? ranks_[rank.value].least : 0; }
    // From now on it is this one: it was added, or heard from, and judged right.
    void set(Seat rank, std::uint32_t incarnation) { of(rank) = {incarnation & kMost, true}; }
    // Any later one will do.
    void forget(Seat rank) {
        One& known = of(rank);
        known = {(known.least + 1) & kMost, false};
    }

  private:
    // How many processes may have a number, one after the other.
    static constexpr std::uint32_t kMost = UINT32_MAX >> 1;
    struct One {  // there are as many as ranks
        std::uint32_t least : 31 = 0;
        std::uint32_t is_known : 1 = 0;
    };
    static_assert(sizeof(One) == 4);
    One& of(Seat rank) {
        if (rank.value >= ranks_.size()) ranks_.resize(rank.value + std::size_t{1});
        return ranks_[rank.value];
    }

    std::vector<One> ranks_;  // grows as ranks are heard of
};

}  // namespace coppice::transport
