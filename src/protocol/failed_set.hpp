// The set of failed members of a group, kept as sorted disjoint intervals so that 64K ranks of which a few died are
// a few words. Members are ring indices (ranks, or hosts where hosts are the members), before rotation to a root.
//
// Driver-owned: one set per group, shared read-only by all protocol objects of that group. insert() may allocate;
// it is only called when somebody died. Look-ups never allocate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace coppice::protocol {

class FailedSet {
  public:
    struct Interval {
        std::uint32_t first = 0;
        std::uint32_t last = 0;  // inclusive
        bool operator==(const Interval&) const = default;
    };

    // True when `member` was not in the set before.
    bool insert(std::uint32_t member);
    bool contains(std::uint32_t member) const;
    std::uint32_t count() const { return count_; }
    bool empty() const { return count_ == 0; }
    std::span<const Interval> intervals() const { return intervals_; }

  private:
    std::vector<Interval> intervals_;
    std::uint32_t count_ = 0;
};

}  // namespace coppice::protocol
