// CRC-32C (Castagnoli), by which a landed message proves that all of it is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace coppice::transport {

// Continues from `crc` (0 to begin): crc32c(b, crc32c(a)) is that of a followed by b. Uses the processor's instruction
// where it has one (SSE 4.2), else a table; both give the same.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);

// The table's way, for tests.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t crc = 0);

}  // namespace coppice::transport
