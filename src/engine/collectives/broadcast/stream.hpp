// Broadcasts of one root that follow each other within microseconds. Their messages to a rank may leave together: over tcp a
// system call costs more than all else that a root does.
//
// The first ones of a row leave at once, so a program that broadcasts now and then never waits for this. Of a longer row a
// broadcast's messages stay for kMostTogether − 1 more at most, and no longer than kLongestNs while the root comes back. Where it
// does not, the progress thread sees to them (ProgressThread::watch_closely()): the others have waited for nothing. So a row that
// ends while messages stay makes the next ones stay only in a longer row: a program that waits for the others by its own means
// after each broadcast, or after some, has all of them leave at once after fourteen such rows.
#pragma once

#include <algorithm>
#include <cstdint>

namespace coppice::engine {

class Stream {
  public:
    static constexpr std::uint64_t kCloseNs = 10'000;    // from the end of one to the begin of the next
    static constexpr std::uint64_t kLongestNs = 40'000;  // that messages stay
    static constexpr std::uint32_t kLeast = 4;           // in a row, before any stays
    // After a row that ended while messages stayed it takes kLonger times as many, and half as many after each batch that left.
    static constexpr std::uint32_t kLonger = 2;
    static constexpr std::uint32_t kMostLeast = 1 << 16;
    static constexpr std::uint32_t kMostTogether = 16;

    // This rank begins a broadcast of its own. Whether its messages may stay for the next one's.
    bool may_stay(std::uint64_t now_ns) {
        const bool follows = now_ns - ended_ns_ < kCloseNs;
        ended_ns_ = now_ns;
        if (!follows && staying_ > 0) least_ = std::min(kLonger * least_, kMostLeast);
        row_ = follows ? row_ + 1 : 0;
        if (row_ < least_) return leave();
        if (staying_ == 0) since_ns_ = now_ns;
        if (staying_ + 1 >= kMostTogether || now_ns - since_ns_ >= kLongestNs) {
            least_ = std::max(least_ / 2, kLeast);
            return leave();
        }
        ++staying_;
        return true;
    }
    // A call of this rank waits, so what stays leaves now.
    void let_go() { staying_ = 0; }
    // One that took time, to send or to wait, has ended.
    void ended(std::uint64_t now_ns) { ended_ns_ = now_ns; }

  private:
    bool leave() {
        staying_ = 0;
        return false;
    }

    std::uint64_t ended_ns_ = 0;
    std::uint64_t since_ns_ = 0;  // when the oldest that stay came
    std::uint32_t row_ = 0;
    std::uint32_t least_ = kLeast;
    std::uint32_t staying_ = 0;
};

}  // namespace coppice::engine
