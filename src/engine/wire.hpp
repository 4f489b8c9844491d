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

#include "engine/machine.hpp"
#include "protocol/agreement/agreement.hpp"

namespace coppice::engine {

inline constexpr std::uint16_t kWireVersion = 4;

// The engine's own kinds stand between those of the machines (machine.hpp).
enum class WireKind : std::uint8_t {
    first_control = 16,
    failure_notice = 16,  // rank `detail` has failed
    stability_up = 17,    // every live rank below me has consumed everything before `sequence`; `detail` is the slowest
    stability_down = 18,  // `stable` is the news; `detail` is the slowest of all
    revocation = 19,      // rank `detail` has revoked the group; `sequence` 1: an answer, that this is known
    left = 20,            // the sender has left this group in peace
    heartbeat = 21,       // says nothing but that its sender lives
    stability_ask = 22,   // somebody can go on only when everything before `sequence` is stable
    leaving_ask = 23,     // the sender leaves and waits for you: for whom do you wait?
    leaving_answer = 24,  // for rank `detail`; `sequence` 1: which has said that it does not leave yet
    // The agreement machine's kinds follow, with its message as the payload, or a part of it; `sequence` is the agreement,
    // `detail` how many bytes of the message follow in other parts (assembly.hpp).
    first_agreement = 32,
    // The same of agreements on who goes on in a group that is shrunk from this one.
    first_succession = 40,
};
inline constexpr std::uint8_t kLastWireKind = 24;
inline constexpr std::uint8_t kFirstAgreementKind = static_cast<std::uint8_t>(WireKind::first_agreement);
inline constexpr std::uint8_t kFirstSuccessionKind = static_cast<std::uint8_t>(WireKind::first_succession);

constexpr bool is_control(std::uint8_t kind) {
    return kind >= static_cast<std::uint8_t>(WireKind::first_control) && kind <= kLastWireKind;
}

// Which group a message belongs to. The epoch numbers the memberships that came of one another by shrinking, from 0.
struct GroupId {
    std::uint32_t token = 0;  // drawn for the group: what does not carry it is none of ours
    Epoch epoch{0};

    bool operator==(const GroupId&) const = default;
};

struct WireHeader {
    std::uint32_t token = 0;
    std::uint16_t version = kWireVersion;
    std::uint8_t kind = 0;
    std::uint8_t reserved = 0;
    std::uint64_t sequence = 0;
    std::uint64_t stable = 0;  // the sender's knowledge, on every message
    std::uint32_t root = 0;
    std::uint32_t detail = 0;
    std::uint32_t length = 0;
    std::uint32_t epoch = 0;
    std::uint64_t more = 0;  // only kinds for which is_long() holds bring it along
};
static_assert(sizeof(WireHeader) == 48);
inline constexpr std::size_t kShortHeader = 40;

using WireBytes = std::array<std::byte, sizeof(WireHeader)>;

constexpr std::size_t header_size(std::uint8_t kind) {
    return is_long(kind) ? sizeof(WireHeader) : kShortHeader;
}

// A header as it travels: without what its kind does not use.
struct Encoded {
    WireBytes bytes;
    std::size_t size;

    operator std::span<const std::byte>() const { return {bytes.data(), size}; }
};

inline Encoded encode(const WireHeader& header) {
    Encoded encoded{{}, header_size(header.kind)};
    std::memcpy(encoded.bytes.data(), &header, sizeof header);
    return encoded;
}

constexpr bool is_agreement(std::uint8_t kind) {
    return kind >= kFirstAgreementKind && kind - kFirstAgreementKind < protocol::kAgreementKinds;
}
constexpr bool is_succession(std::uint8_t kind) {
    return kind >= kFirstSuccessionKind && kind - kFirstSuccessionKind < protocol::kAgreementKinds;
}

// None when the bytes can't be a header of this group with a payload of this length.
inline std::optional<WireHeader> decode(std::span<const std::byte> bytes, std::size_t payload_length,
                                        const GroupId& group) {
    WireHeader header;
    if (bytes.size() < kShortHeader || bytes.size() > sizeof header) return std::nullopt;
    std::memcpy(&header, bytes.data(), bytes.size());
    if (bytes.size() != header_size(header.kind)) return std::nullopt;
    const bool of_machine = is_machine_kind(header.kind);
    const bool agreement = is_agreement(header.kind) || is_succession(header.kind);
    const bool known = of_machine || agreement || is_control(header.kind);
    const bool may_carry = agreement || (of_machine && carries_payload(header.kind));
    const bool payload_fits = may_carry || payload_length == 0;
    if (header.token != group.token || header.version != kWireVersion || header.epoch != group.epoch.value || !known ||
        header.length != payload_length || !payload_fits) {
        return std::nullopt;
    }
    return header;
}

}  // namespace coppice::engine
