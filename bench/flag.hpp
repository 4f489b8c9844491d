// A flag and some bytes that one process writes and one reads; two of them make a ping-pong.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "measure.h"

namespace bench {

inline constexpr std::size_t kMaxFlagBytes = 4096;
inline constexpr int kFlagBatch = 100;

struct alignas(64) Flag {
    std::uint64_t count;
    char payload[kMaxFlagBytes];
};

class FlagPair {
  public:
    FlagPair(Flag* mine, const Flag* theirs) : mine_(mine), theirs_(theirs) {}

    // A batch of round trips, begun by one side; both sides call it. The mean half round trip, µs.
    double half_round_trip(bool begins, std::size_t bytes) {
        const std::uint64_t start = measure_now();
        for (int i = 0; i < kFlagBatch; ++i) {
            ++count_;
            if (begins) raise(bytes);
            await(bytes);
            if (!begins) raise(bytes);
        }
        return static_cast<double>(measure_now() - start) / 1e3 / kFlagBatch / 2;
    }

  private:
    void raise(std::size_t bytes) {
        std::memcpy(mine_->payload, buffer_, bytes);
        __atomic_store_n(&mine_->count, count_, __ATOMIC_RELEASE);
    }
    void await(std::size_t bytes) {
        while (__atomic_load_n(&theirs_->count, __ATOMIC_ACQUIRE) != count_)
            measure_pause();
        std::memcpy(buffer_, theirs_->payload, bytes);
    }

    Flag* mine_;
    const Flag* theirs_;
    std::uint64_t count_ = 0;
    char buffer_[kMaxFlagBytes] = {};
};

}  // namespace bench
