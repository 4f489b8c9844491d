// Numbers that are spread and summed up: for hashes, seeds and checksums against accidents. Nothing here is a secret.
//
// Every room may include this header; it includes nothing of ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace coppice {

// The odd number nearest to 2^64 divided by the golden ratio: steps of it visit every word, far apart from each other.
inline constexpr std::uint64_t kWeyl = 0x9e3779b97f4a7c15U;

// Neighbouring words become unrelated ones: the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA'14).
constexpr std::uint64_t mix(std::uint64_t word) {
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9U;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebU;
    return word ^ (word >> 31);
}

// Two words become one, by a single wide multiplication: for users that hash a lot.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a ^ kWeyl) * (b ^ 0xd1342543de82ef95U);
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) {
    const auto* from = static_cast<const unsigned char*>(data);
    seed = mix(seed, bytes + 0x2545f4914f6cdd1dU);
    std::uint64_t word = 0;
    std::size_t at = 0;
    for (; at + sizeof word <= bytes; at += sizeof word) {
        std::memcpy(&word, from + at, sizeof word);
        seed = mix(seed ^ word, seed + at);
    }
    if (at == bytes) return seed;
    word = 0;
    std::memcpy(&word, from + at, bytes - at);
    return mix(seed ^ word, seed + at);
}

// FNV-1a, byte by byte: against damage on the way, not against malice.
template <class Word>
constexpr Word fnv1a(std::span<const std::byte> bytes) {
    static_assert(sizeof(Word) == 4 || sizeof(Word) == 8);
    Word sum = static_cast<Word>(sizeof(Word) == 8 ? 0xcbf29ce484222325U : 2166136261U);
    for (const std::byte byte : bytes)
        sum = (sum ^ static_cast<Word>(byte)) * static_cast<Word>(sizeof(Word) == 8 ? 0x100000001b3U : 16777619U);
    return sum;
}

}  // namespace coppice
