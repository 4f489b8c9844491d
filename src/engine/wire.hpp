// The engine's message header: what stands in front of every payload between two ranks of a group.
//
// Both sides run on machines of the same byte order and word size (checked when the group is formed), so the header
// travels as it is in memory. Nothing in it is trusted: decode() checks what can be checked without the group's state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "protocol/broadcast.hpp"

namespace coppice::engine {

inline constexpr std::uint16_t kWireVersion = 1;

// The machine's kinds keep their numbers; the engine's own follow.
enum class WireKind : std::uint8_t {
    first_control = 16,
    failure_notice = 16,  // rank `detail` has failed
    stability_up = 17,    // every live rank below me has consumed everything before `sequence`; `detail` is the slowest
    stability_down = 18,  // `stable` is the news
};
inline constexpr std::uint8_t kLastWireKind = 18;

struct WireHeader {
    std::uint32_t token = 0;  // of the group: what does not carry it is none of ours
    std::uint16_t version = kWireVersion;
    std::uint8_t kind = 0;
    std::uint8_t reserved = 0;
    std::uint64_t sequence = 0;
    std::uint64_t stable = 0;  // the sender's knowledge, on every message
    std::uint32_t root = 0;
    std::uint32_t detail = 0;
    std::uint32_t length = 0;
    std::uint32_t epoch = 0;
};
static_assert(sizeof(WireHeader) == 40);

using WireBytes = std::array<std::byte, sizeof(WireHeader)>;

inline WireBytes encode(const WireHeader& header) {
    WireBytes bytes;
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
}

// None when the bytes can't be a header of this group with a payload of this length.
inline std::optional<WireHeader> decode(std::span<const std::byte> bytes, std::size_t payload_length,
                                        std::uint32_t token, Epoch epoch) {
    WireHeader header;
    if (bytes.size() != sizeof header) return std::nullopt;
    std::memcpy(&header, bytes.data(), sizeof header);
    const bool control = header.kind >= static_cast<std::uint8_t>(WireKind::first_control);
    const bool known = control ? header.kind <= kLastWireKind : header.kind < protocol::kMessageKinds;
    const bool payload_fits = control || !protocol::carries_payload(static_cast<protocol::MessageKind>(header.kind))
                                  ? payload_length == 0
                                  : true;
    if (header.token != token || header.version != kWireVersion || header.epoch != epoch.value || !known ||
        header.length != payload_length || !payload_fits) {
        return std::nullopt;
    }
    return header;
}

}  // namespace coppice::engine
