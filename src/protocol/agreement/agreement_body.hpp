// What an UP or a DOWN carries.
//
//   flags  operation  lag  size (2 bytes, little endian)  value  [failed]  [acknowledged]
//
// The sets are written (failed_codec.hpp) only when they have members, which flags say. Both are relative to the set
// agreed upon one window of agreements before, which every contributor knows: without new failures they are not there
// at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/agreement/failed_codec.hpp"
#include "protocol/failed_set.hpp"

namespace coppice::protocol {

// The operation's code of a flush, which has no value.
inline constexpr std::uint8_t kFlushCode = 0xf0;

struct AgreementBody {
    std::uint8_t operation = 0;
    // Contributors differ in operation or size.
    bool mismatched = false;
    // UP: somebody had not acknowledged all of the earlier agreed set. DOWN: not everybody had acknowledged all of the
    // agreed set.
    bool unacknowledged = false;
    // Some contributor knew of a change of members that waits.
    bool change_waits = false;
    // How many of the agreements directly before this one some contributor had not returned from.
    std::uint8_t lag = 0;
    std::span<const std::byte> value;
    const FailedSet* failed = nullptr;        // null: empty
    const FailedSet* acknowledged = nullptr;  // UP only: acknowledged by every contributor

    // Appends.
    void write(std::vector<std::byte>& out) const;
};

inline constexpr std::size_t kBodyHeader = 5;

// The longest body in a group of so many ranks, whichever have failed.
constexpr std::size_t longest_body(std::size_t max_value, std::uint32_t ranks) {
    return kBodyHeader + max_value + 2 * longest_failed(ranks);
}

// Reads what write() wrote and nothing else: false for any other bytes, values longer than `max_value` and ranks from
// `ranks` on. The body points into `bytes` and to the two sets.
bool read_body(std::span<const std::byte> bytes, std::size_t max_value, std::uint32_t ranks, FailedSet& failed,
               FailedSet& acknowledged, AgreementBody& body);

}  // namespace coppice::protocol
