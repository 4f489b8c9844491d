// What a verified broadcast carries: bytes that follow from (sequence, root, offset), so that any wrong byte
// shows, and the kind of wrong can be told: another broadcast's payload, or no broadcast's at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace perf {

enum class Verdict : std::uint8_t {
    right,
    earlier,  // a whole payload, but of an earlier broadcast: delivered twice
    later,    // a whole payload, but of a later broadcast: one was passed over
    corrupt,  // torn, foreign, of the wrong size, or anything else
};

// Which rank broadcasts what: the root of each sequence number.
struct Schedule {
    std::uint32_t ranks = 1;
    std::uint32_t root = 0;
    bool rotate = false;

    std::uint32_t root_of(std::uint64_t sequence) const {
        return rotate ? static_cast<std::uint32_t>(sequence % ranks) : root;
    }
};

void fill_payload(std::span<std::byte> payload, std::uint64_t sequence, std::uint32_t root);

// `payload` as it was delivered for `sequence`; `bytes` is what its root sent. Payloads of up to kNeighbours
// broadcasts before and after are recognised, from 4 bytes on (fewer bytes agree by chance too often).
inline constexpr std::uint64_t kNeighbours = 2048;
Verdict check_payload(std::span<const std::byte> payload, std::size_t bytes, std::uint64_t sequence,
                      const Schedule& schedule);

}  // namespace perf
