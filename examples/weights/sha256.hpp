// SHA-256 (FIPS 180-4), so that the example needs no other library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weights {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::span<const std::byte> bytes);
std::string to_hex(const Digest& digest);

}  // namespace weights
