// Random numbers that are the same on every machine and with every standard library: a run is a seed.
#pragma once

#include <cstdint>

#include "protocol/chance.hpp"

namespace coppice::simulation {

// Every seed, small ones too, gives an independent stream.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() { return protocol::next_word(state_); }

    // 0 … bound − 1, bound > 0, all equally likely: the few draws that would favour some are drawn again.
    std::uint32_t below(std::uint32_t bound) {
        const std::uint32_t surplus = (0U - bound) % bound;
        for (;;) {
            const std::uint64_t product = (next() >> 32) * bound;
            if (static_cast<std::uint32_t>(product) >= surplus) return static_cast<std::uint32_t>(product >> 32);
        }
    }

    bool one_in(std::uint32_t times) { return below(times) == 0; }

  private:
    std::uint64_t state_;
};

}  // namespace coppice::simulation
