// Puts the clocks of several hosts in order, by what must have come before what.
//
// Processes of one host read one clock. Of two clocks a cause on one and its effect on the other bound the difference: a payload is
// given to a group before it is anywhere else in it; and whoever leaves an agreement, a barrier or the making of a group does so after every
// rank that is through it has entered. The last kind bounds it from both sides. Within the bounds that come of all
// operations together the difference is taken in the middle; where a side is open, what the hosts' clocks of the world say, as far as that is within.
//
// The bounds are difference constraints: the shortest paths between clocks are the tightest ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "records.hpp"

namespace coppice::trace {

struct Clock {
    std::string name;
    std::string host;            // of a process that reads it
    std::int64_t offset_ns = 0;  // to be added to its times; the first one's is 0
    // How far that may be off, with all causes before their effects; unbounded: nothing is known from that side.
    std::int64_t least_ns = 0, most_ns = 0;
};
inline constexpr std::int64_t kUnbounded = INT64_MAX / 4;

struct Order {
    std::vector<Clock> clocks;
    std::vector<std::size_t> clock_of;  // of each trace
    std::uint64_t arrows = 0;           // causes and effects on different clocks that were used
    bool consistent = true;  // false: clocks have run at different speeds; some effects come before their causes
};
Order put_in_order(const std::vector<Trace>& traces);

}  // namespace coppice::trace
