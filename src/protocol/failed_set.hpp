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
    std::span<const Interval> intervals() const& { return intervals_; }
    std::span<const Interval> intervals() const&& = delete;  // a set that is gone before its intervals are read

    // O(log of this one's intervals) for each interval of the other one.
    bool includes(const FailedSet& other) const;
    // Whole sets, in time linear in the intervals of both.
    // True when anything was added.
    bool unite(const FailedSet& other);
    void intersect(const FailedSet& other);
    void subtract(const FailedSet& other);
    // Adds an interval that begins beyond the last one; false, and nothing is changed, when it does not.
    bool append(Interval interval);
    // Keeps its memory.
    void clear();
    // The lowest member that is not in the set.
    std::uint32_t lowest_absent() const {
        return intervals_.empty() || intervals_.front().first > 0 ? 0 : intervals_.front().last + 1;
    }

    bool operator==(const FailedSet& other) const { return intervals_ == other.intervals_; }

  private:
    // Takes `made` as the new content.
    void take(std::vector<Interval>& made);

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

inline void FailedSet::take(std::vector<Interval>& made) {
    intervals_.swap(made);
    count_ = 0;
    for (const Interval& interval : intervals_)
        count_ += interval.last - interval.first + 1;
}

inline void FailedSet::clear() {
    intervals_.clear();
    count_ = 0;
}

inline bool FailedSet::append(Interval interval) {
    if (interval.first > interval.last) return false;
    if (!intervals_.empty() && interval.first <= intervals_.back().last) return false;
    count_ += interval.last - interval.first + 1;
    if (!intervals_.empty() && intervals_.back().last + 1 == interval.first) {
        intervals_.back().last = interval.last;
    } else {
        intervals_.push_back(interval);
    }
    return true;
}

inline bool FailedSet::includes(const FailedSet& other) const {
    auto at = intervals_.begin();
    for (const Interval& interval : other.intervals_) {
        if (at != intervals_.end() && at->last < interval.first) {
            at = std::lower_bound(std::next(at), intervals_.end(), interval.first,
                                  [](const Interval& i, std::uint32_t first) { return i.last < first; });
        }
        if (at == intervals_.end() || at->first > interval.first || at->last < interval.last) return false;
    }
    return true;
}

inline bool FailedSet::unite(const FailedSet& other) {
    if (includes(other)) return false;
    std::vector<Interval> made;
    made.reserve(intervals_.size() + other.intervals_.size());
    auto a = intervals_.begin();
    auto b = other.intervals_.begin();
    while (a != intervals_.end() || b != other.intervals_.end()) {
        const bool first = b == other.intervals_.end() || (a != intervals_.end() && a->first <= b->first);
        const Interval next = first ? *a++ : *b++;
        if (!made.empty() && next.first <= made.back().last + 1) {
            made.back().last = std::max(made.back().last, next.last);
        } else {
            made.push_back(next);
        }
    }
    take(made);
    return true;
}

inline void FailedSet::intersect(const FailedSet& other) {
    std::vector<Interval> made;
    auto b = other.intervals_.begin();
    for (const Interval& a : intervals_) {
        while (b != other.intervals_.end() && b->last < a.first)
            ++b;
        for (auto c = b; c != other.intervals_.end() && c->first <= a.last; ++c)
            made.push_back({std::max(a.first, c->first), std::min(a.last, c->last)});
    }
    take(made);
}

inline void FailedSet::subtract(const FailedSet& other) {
    if (intervals_.empty() || other.intervals_.empty()) return;
    std::vector<Interval> made;
    auto b = other.intervals_.begin();
    for (const Interval& a : intervals_) {
        while (b != other.intervals_.end() && b->last < a.first)
            ++b;
        std::uint64_t from = a.first;
        for (auto c = b; c != other.intervals_.end() && c->first <= a.last; ++c) {
            if (c->first > from) made.push_back({static_cast<std::uint32_t>(from), c->first - 1});
            from = std::uint64_t{c->last} + 1;
        }
        if (from <= a.last) made.push_back({static_cast<std::uint32_t>(from), a.last});
    }
    take(made);
}

}  // namespace coppice::protocol
