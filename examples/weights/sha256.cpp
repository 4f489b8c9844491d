#include "sha256.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

namespace weights {
namespace {

using Block = std::array<std::uint8_t, 64>;
using State = std::array<std::uint32_t, 8>;

constexpr std::array<std::uint32_t, 64> kPrimes = [] {
    std::array<std::uint32_t, 64> primes{};
    std::size_t found = 0;
    for (std::uint32_t number = 2; found < primes.size(); ++number) {
        const bool is_prime = std::none_of(primes.begin(), primes.begin() + static_cast<std::ptrdiff_t>(found),
                                           [number](std::uint32_t prime) { return number % prime == 0; });
        if (is_prime) primes[found++] = number;
    }
    return primes;
}();

// The standard's constants: the first 32 bits behind the point of the primes' square and cube roots. A long double has 64.
std::uint32_t behind_the_point(long double root) {
    return static_cast<std::uint32_t>((root - std::floor(root)) * 4294967296.0L);
}
const State kStart = [] {
    State start{};
    for (std::size_t i = 0; i < start.size(); ++i)
        start[i] = behind_the_point(std::sqrt(static_cast<long double>(kPrimes[i])));
    return start;
}();
const std::array<std::uint32_t, 64> kRound = [] {
    std::array<std::uint32_t, 64> round{};
    for (std::size_t i = 0; i < round.size(); ++i)
        round[i] = behind_the_point(std::cbrt(static_cast<long double>(kPrimes[i])));
    return round;
}();

void take(State& state, const std::uint8_t* block) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i, block += 4)
        w[i] = std::uint32_t{block[0]} << 24 | std::uint32_t{block[1]} << 16 | std::uint32_t{block[2]} << 8 | block[3];
    for (std::size_t i = 16; i < w.size(); ++i) {
        const std::uint32_t low = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
        const std::uint32_t high = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + low + w[i - 7] + high;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t i = 0; i < w.size(); ++i) {
        const std::uint32_t choice = (e & f) ^ (~e & g);
        const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
        const std::uint32_t first =
            h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice + kRound[i] + w[i];
        const std::uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
        h = g;
        g = f;
        f = e;
        e = d + first;
        d = c;
        c = b;
        b = a;
        a = first + second;
    }
    const State add{a, b, c, d, e, f, g, h};
    std::transform(state.begin(), state.end(), add.begin(), state.begin(), std::plus<>());
}

}  // namespace

Digest sha256(std::span<const std::byte> bytes) {
    State state = kStart;
    const auto* at = reinterpret_cast<const std::uint8_t*>(bytes.data());
    std::size_t left = bytes.size();
    for (; left >= sizeof(Block); at += sizeof(Block), left -= sizeof(Block))
        take(state, at);
    // The rest, a bit that is set, and how many bits there were.
    std::array<std::uint8_t, 2 * sizeof(Block)> end{};
    std::copy_n(at, left, end.begin());
    end[left] = 0x80;
    const std::size_t size = left + 9 <= sizeof(Block) ? sizeof(Block) : end.size();
    const std::uint64_t bits = std::uint64_t{bytes.size()} * 8;
    for (std::size_t i = 0; i < 8; ++i)
        end[size - 1 - i] = static_cast<std::uint8_t>(bits >> 8 * i);
    for (std::size_t i = 0; i < size; i += sizeof(Block))
        take(state, end.data() + i);
    Digest digest{};
    for (std::size_t i = 0; i < digest.size(); ++i)
        digest[i] = static_cast<std::uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
    return digest;
}

std::string to_hex(const Digest& digest) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t byte : digest) {
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
    }
    return text;
}

}  // namespace weights
