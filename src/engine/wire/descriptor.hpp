// What is broadcast in the place of a payload that is too large for one message: how much there is to pull, and in which pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "transport/crc32c.hpp"
#include "transport/transport.hpp"

namespace coppice::engine {

// What one broadcast carries at most: a bound on what a descriptor may make a rank believe.
inline constexpr std::uint64_t kMaxBroadcast = std::uint64_t{1} << 40;
inline constexpr std::uint32_t kLeastChunk = 1024;
inline constexpr std::uint32_t kMostChunk = 1024 * 1024;

struct Descriptor {
    std::uint64_t bytes = 0;
    std::uint32_t chunk = 0;  // bytes of each chunk but the last
    std::uint32_t check = 0;  // CRC-32C of the two above

    static Descriptor of(std::uint64_t bytes, std::uint32_t chunk) {
        Descriptor made{.bytes = bytes, .chunk = chunk};
        made.check = made.sum();
        return made;
    }
    // None for what no root has sent.
    static std::optional<Descriptor> read(std::span<const std::byte> from) {
        Descriptor read;
        if (from.size() != sizeof read) return std::nullopt;
        std::memcpy(&read, from.data(), sizeof read);
        const bool fits = read.check == read.sum() && read.chunk >= kLeastChunk && read.chunk <= kMostChunk &&
                          read.bytes > 0 && read.bytes <= kMaxBroadcast;
        if (!fits) return std::nullopt;
        return read;
    }

    bool operator==(const Descriptor&) const = default;
    std::uint32_t chunks() const { return static_cast<std::uint32_t>((bytes + chunk - 1) / chunk); }
    std::uint64_t at(std::uint32_t number) const { return std::uint64_t{number} * chunk; }
    std::size_t length(std::uint32_t number) const {
        return static_cast<std::size_t>(number + 1 < chunks() ? chunk : bytes - at(number));
    }
    std::span<const std::byte> as_bytes() const { return std::as_bytes(std::span(this, 1)); }

  private:
    std::uint32_t sum() const { return transport::crc32c(as_bytes().first(offsetof(Descriptor, check))); }
};
static_assert(sizeof(Descriptor) == 16);
static_assert(kMaxBroadcast / kLeastChunk <= UINT32_MAX / 2);

}  // namespace coppice::engine
