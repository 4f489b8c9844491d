// The set of failed members of a group, kept as sorted disjoint intervals so that 64K ranks of which a few
// died are a few words. Members are ring indices (ranks, or hosts where hosts are the members), before
// rotation to a root.
//
// Driver-owned: one set per group, shared read-only by all protocol objects of that group. insert() may
// allocate; it is only called when somebody died. Look-ups never allocate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
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
    // Neither overlapping nor adjacent; ascending.
    std::vector<Interval> intervals_;
    std::uint32_t count_ = 0;
};

inline bool FailedSet::insert(std::uint32_t member) {
    // The first interval that begins above `member`; the one before it may hold or touch it.
    const auto after = std::upper_bound(intervals_.begin(), intervals_.end(), member,
                                        [](std::uint32_t m, const Interval& i) { return m < i.first; });
    const bool has_before = after != intervals_.begin();
    if (has_before && member <= std::prev(after)->last) return false;
    const bool joins_before = has_before && std::prev(after)->last + 1 == member;
    const bool joins_after = after != intervals_.end() && member + 1 == after->first;
    if (joins_before && joins_after) {
        std::prev(after)->last = after->last;
        intervals_.erase(after);
    } else if (joins_before) {
        std::prev(after)->last = member;
    } else if (joins_after) {
        after->first = member;
    } else {
        intervals_.insert(after, Interval{member, member});
    }
    ++count_;
    return true;
}

inline bool FailedSet::contains(std::uint32_t member) const {
    const auto after = std::upper_bound(intervals_.begin(), intervals_.end(), member,
                                        [](std::uint32_t m, const Interval& i) { return m < i.first; });
    return after != intervals_.begin() && member <= std::prev(after)->last;
}

}  // namespace coppice::protocol
