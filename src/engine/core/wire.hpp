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

#include "base/words.hpp"
#include "engine/core/channel.hpp"

namespace coppice::engine {

inline constexpr std::uint16_t kWireVersion = 10;

// Which group a message belongs to. The epoch numbers the memberships that came of one another by shrinking, from 0.
struct GroupId {
    std::uint32_t token = 0;  // drawn for the group: what does not carry it is none of ours
    Epoch epoch{0};

    bool operator==(const GroupId&) const = default;
};

// A bit of `length`: what is broadcast is the descriptor of a payload (collectives/payload/descriptor.hpp).
inline constexpr std::uint32_t kDescribed = std::uint32_t{1} << 31;

struct WireHeader {
    std::uint32_t token = 0;
    std::uint16_t version = kWireVersion;
    Tag tag;
    std::uint64_t sequence = 0;
    std::uint64_t stable = 0;  // the sender's knowledge, on every message
    std::uint32_t root = 0;
    std::uint32_t detail = 0;
    std::uint32_t length = 0;
    std::uint32_t epoch = 0;
    std::uint64_t more = 0;  // only channels whose row is_long bring it along
};
static_assert(sizeof(WireHeader) == 48);
inline constexpr std::size_t kShortHeader = 40;

using WireBytes = std::array<std::byte, sizeof(WireHeader)>;

constexpr std::size_t header_size(Channel channel) {
    return row_of(channel).is_long ? sizeof(WireHeader) : kShortHeader;
}

// A header as it travels, without what its channel does not use: where it is, or as a copy.
inline std::span<const std::byte> bytes_of(const WireHeader& header) {
    return std::as_bytes(std::span(&header, 1)).first(header_size(header.tag.channel));
}
struct Encoded {
    WireBytes bytes;
    std::size_t size;

    operator std::span<const std::byte>() const { return {bytes.data(), size}; }
};

inline Encoded encode(const WireHeader& header) {
    Encoded encoded{{}, header_size(header.tag.channel)};
    std::memcpy(encoded.bytes.data(), &header, sizeof header);
    return encoded;
}

// None when the bytes can't be a header of this group with a payload of this length.
inline std::optional<WireHeader> decode(std::span<const std::byte> bytes, std::size_t payload_length,
                                        const GroupId& group) {
    std::optional<WireHeader> read(std::in_place);  // the only thing that is returned: so it is made where it is wanted
    WireHeader& header = *read;
    const bool is_long = bytes.size() == sizeof header;
    if (!is_long && bytes.size() != kShortHeader) {
        read.reset();
        return read;
    }
    std::memcpy(static_cast<void*>(&header), bytes.data(), kShortHeader);
    if (is_long) std::memcpy(&header.more, bytes.data() + kShortHeader, sizeof header.more);
    const bool fits = is_known(header.tag) && row_of(header.tag.channel).is_long == is_long &&
                      header.token == group.token && header.version == kWireVersion &&
                      header.epoch == group.epoch.value && (header.length & ~kDescribed) == payload_length &&
                      (header.length == 0 || carries_payload(header.tag));
    if (!fits) read.reset();
    return read;
}

// A header that was found right, so that the next one need not be looked at field by field where it says the same.
class Familiar {
  public:
    // `header` has passed decode(), in front of a payload of that length.
    void is(const WireHeader& header, std::size_t payload_length) {
        header_ = header;
        payload_length_ = payload_length;
        const ChannelRow& row = row_of(header.tag.channel);
        kinds_ = header.length == 0 ? (std::uint32_t{1} << row.kinds) - 1 : row.with_payload;
    }
    // Null unless the bytes are a header that would pass decode(), too, of the same channel, with the same root, `stable` and
    // length. Good until the next call.
    const WireHeader* recognize(std::span<const std::byte> bytes, std::size_t payload_length) {
        if (bytes.size() != kShortHeader || payload_length != payload_length_) return nullptr;
        WireHeader read;
        std::memcpy(static_cast<void*>(&read), bytes.data(), kShortHeader);
        const bool is_same = read.token == header_.token && read.version == header_.version &&
                             read.tag.channel == header_.tag.channel && read.stable == header_.stable &&
                             read.root == header_.root && read.length == header_.length && read.epoch == header_.epoch;
        if (!is_same || read.tag.kind >= 32 || (kinds_ >> read.tag.kind & 1) == 0) return nullptr;
        header_.tag.kind = read.tag.kind;
        header_.sequence = read.sequence;
        header_.detail = read.detail;
        return &header_;
    }

  private:
    WireHeader header_;
    std::size_t payload_length_ = SIZE_MAX;  // none is familiar yet
    std::uint32_t kinds_ = 0;                // that may come, a bit for each
};

}  // namespace coppice::engine
