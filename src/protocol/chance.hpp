// A small seeded generator for machines that need chance: eight bytes of state, the same numbers everywhere. A machine
// is handed its seed; this room has no source of chance of its own.
//
// SplitMix64 (Steele, Lea, Flood, OOPSLA'14): a finalizer over a Weyl sequence (base/mix.hpp). Good enough for simulations, tests and
// seeds; nothing here is a secret.
#pragma once

#include <cstdint>

#include "base/mix.hpp"

namespace coppice::protocol {

// One word of the sequence, and on to the next.
constexpr std::uint64_t next_word(std::uint64_t& state) {
    return mix(state += kWeyl);
}

class Chance {
  public:
    // For a machine that draws nothing.
    constexpr Chance() = default;
    // Streams of one seed (one for each member, say) have nothing to do with each other.
    constexpr Chance(std::uint64_t seed, std::uint64_t stream) : state_(mix(mix(seed) + kWeyl * (stream + 1))) {}

    constexpr std::uint64_t next() { return next_word(state_); }

    // 0 … bound − 1, bound ≥ 1. Skewed by less than bound / 2^64.
    constexpr std::uint32_t below(std::uint32_t bound) {
        const std::uint64_t drawn = next();
        const std::uint64_t low = (drawn & 0xffffffffU) * bound;
        return static_cast<std::uint32_t>(((drawn >> 32) * bound + (low >> 32)) >> 32);
    }

  private:
    std::uint64_t state_ = 0;
};

}  // namespace coppice::protocol
