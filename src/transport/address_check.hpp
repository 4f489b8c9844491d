// What the addresses of all transports have in common: whether a rank of this version, on this kind of machine, has made them, and
// what is said if not. Where these facts stand in an address is each transport's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "base/words.hpp"

namespace coppice::transport {

// Written and read as a number, so that another byte order shows itself. Before it stand single bytes only.
inline constexpr std::uint32_t kByteOrderMark = 0x01020304;

struct AddressHead {
    bool ours = false;  // it has the size, and begins as an address of this transport does
    std::uint8_t version = 0;
    std::uint8_t word_size = 0;
    std::uint32_t byte_order = 0;
};

// COPPICE_ERR_MISMATCH, which names `transport` and `rank`, unless it is of `version` and of a machine like this one. `bytes`: of the
// whole address, for the error.
Result<void> check_address(std::string_view transport, Seat rank, const AddressHead& head, std::uint8_t version,
                           std::size_t bytes);
// COPPICE_ERR_MISMATCH for one that is not what was sent.
tl::unexpected<Error> damaged_address(std::string_view transport, Seat rank);

// FNV-1a: against damage on the way through a bootstrap, not against malice.
std::uint32_t checksum_of(std::span<const std::byte> bytes);

}  // namespace coppice::transport
