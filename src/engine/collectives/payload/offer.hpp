// Where a rank's chunks of one payload can be read, as its holder tells it to one that has asked and can.
//
// Two pieces of memory are open: the payload's, and a desk. On the desk lies one word that only its owner writes, `have`, how many leading chunks are
// there; and behind it, at kChecksAt, a CRC-32C for each of these. A desk's checks are the root's own, handed on from reader to reader
// as they were read, unless chunks came in messages.
//
// With the word goes a check of it and of all that it is about, as a device reads both in no particular order, and so that a word which
// was not written as it is read, by a bug, another version or a rank that knows no better, is not believed. It keeps nobody from telling
// lies on purpose, who could as well show wrong chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/mix.hpp"
#include "base/words.hpp"
#include "engine/wire/descriptor.hpp"
#include "transport/crc32c.hpp"

namespace coppice::engine {

struct Offer {
    std::uint64_t chunks = 0;  // addresses
    std::uint64_t desk = 0;
    std::uint32_t chunks_key = 0;
    std::uint32_t desk_key = 0;
    std::uint32_t of = 0;     // the descriptor's check
    std::uint32_t check = 0;  // CRC-32C of all above

    void seal() { check = sum(); }
    std::span<const std::byte> as_bytes() const { return std::as_bytes(std::span(this, 1)); }
    // None for what can't be, of that payload.
    static std::optional<Offer> read(std::span<const std::byte> from, const Descriptor& descriptor);

  private:
    std::uint32_t sum() const { return transport::crc32c(as_bytes().first(offsetof(Offer, check))); }
};
static_assert(sizeof(Offer) == 32);

// The word, as it is read.
struct HaveWord {
    std::uint64_t have = 0;
    std::uint64_t seal = 0;

    // What a word is about: which payload, and whose.
    static std::uint64_t seed_of(const Descriptor& descriptor, std::uint32_t token, Sequence sequence, Rank owner) {
        return mix(mix(descriptor.bytes, std::uint64_t{descriptor.chunk} << 32 | owner.value),
                   mix(token, sequence.value));
    }
    static std::uint64_t sealed(std::uint64_t seed, std::uint64_t have) { return mix(seed, have); }
    // None for one that is torn, forged or of something else.
    std::optional<std::uint32_t> chunks(std::uint64_t seed, std::uint32_t all) const {
        if (have > all || seal != sealed(seed, have)) return std::nullopt;
        return static_cast<std::uint32_t>(have);
    }
};

inline constexpr std::size_t kChecksAt = 64;  // on a desk, behind its word
constexpr std::size_t desk_bytes(std::uint32_t chunks) {
    return kChecksAt + std::size_t{chunks} * sizeof(std::uint32_t);
}

inline std::optional<Offer> Offer::read(std::span<const std::byte> from, const Descriptor& descriptor) {
    Offer read;
    if (from.size() != sizeof read) return std::nullopt;
    std::memcpy(&read, from.data(), sizeof read);
    const auto fits = [](std::uint64_t address, std::uint64_t bytes) {
        return address != 0 && bytes <= UINT64_MAX - address;
    };
    const bool is_it = read.check == read.sum() && read.of == descriptor.check && fits(read.chunks, descriptor.bytes) &&
                       fits(read.desk, desk_bytes(descriptor.chunks()));
    if (!is_it) return std::nullopt;
    return read;
}

}  // namespace coppice::engine
