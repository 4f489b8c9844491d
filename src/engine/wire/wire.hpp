// The engine's message header: what stands in front of every payload between two ranks of a group.
//
// Both sides run on machines of the same byte order and word size (checked when the group is formed), so the header
// travels as it is in memory. Nothing in it is trusted: decode() checks what can be checked without the group's state.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/words.hpp"
#include "engine/wire/channel.hpp"

namespace coppice::engine {

inline constexpr std::uint16_t kWireVersion = 15;

// Which group a message belongs to. The epoch numbers the memberships that came of one another by shrinking, from 0.
struct GroupId {
    std::uint32_t token = 0;  // drawn for the group: what does not carry it is none of ours
    Epoch epoch{0};

    bool operator==(const GroupId&) const = default;
};

// A bit of `length`: what is broadcast is the descriptor of a payload (wire/descriptor.hpp).
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

namespace detail {

// Where in its word a field is.
constexpr std::uint64_t bits_in_word(std::size_t word, const WireHeader& field) {
    return std::bit_cast<std::array<std::uint64_t, sizeof field / sizeof(std::uint64_t)>>(field)[word];
}
inline constexpr std::uint64_t kKind = bits_in_word(0, {.version = 0, .tag = Tag(Channel{}, UINT8_MAX)});
inline constexpr std::uint64_t kDetail = bits_in_word(3, {.version = 0, .tag = {}, .detail = UINT32_MAX});
static_assert(offsetof(WireHeader, tag) < 8 && offsetof(WireHeader, sequence) == 8 &&
              offsetof(WireHeader, stable) == 16 && offsetof(WireHeader, detail) / 8 == 3 &&
              offsetof(WireHeader, length) == 32);

}  // namespace detail

// A header that was found right, so that the next one need not be looked at field by field where it says the same.
class Familiar {
  public:
    // `header` has passed decode(), in front of a payload of that length.
    void is(const WireHeader& header, std::size_t payload_length) {
        header_ = header;
        payload_length_ = payload_length;
        const ChannelRow& row = row_of(header.tag.channel);
        kinds_ = header.length == 0 ? (std::uint32_t{1} << row.kinds) - 1 : row.with_payload;
        kinds_ &= ~row.with_failures;  // whether these may be heard depends on which deaths are known
    }
    // Null unless the bytes are a header that would pass decode(), too, of the same channel, with the same root, `stable` and
    // length. Good until the next call.
    const WireHeader* recognize(std::span<const std::byte> bytes, std::size_t payload_length) {
        if (bytes.size() != kShortHeader || payload_length != payload_length_) return nullptr;
        // Word by word, each read once. Most fields are two to a word or more.
        const auto word = [](const void* at, std::size_t number) {
            std::uint64_t read;
            std::memcpy(&read, static_cast<const std::byte*>(at) + number * sizeof read, sizeof read);
            return read;
        };
        const std::uint64_t names = word(bytes.data(), 0);
        const std::uint64_t about = word(bytes.data(), 3);
        const std::uint64_t different =
            ((names ^ word(&header_, 0)) & ~detail::kKind) | ((about ^ word(&header_, 3)) & ~detail::kDetail) |
            (word(bytes.data(), 2) ^ word(&header_, 2)) | (word(bytes.data(), 4) ^ word(&header_, 4));
        const auto kind = static_cast<std::uint8_t>(names >> std::countr_zero(detail::kKind));
        if (different != 0 || kind >= 32 || (kinds_ >> kind & 1) == 0) return nullptr;
        header_.tag.kind = kind;
        header_.sequence = word(bytes.data(), 1);
        header_.detail = static_cast<std::uint32_t>(about >> std::countr_zero(detail::kDetail));
        return &header_;
    }
    // From now on none is.
    void forget() { payload_length_ = SIZE_MAX; }

  private:
    WireHeader header_;
    std::size_t payload_length_ = SIZE_MAX;  // none is familiar yet
    std::uint32_t kinds_ = 0;                // that may come, a bit for each
};

}  // namespace coppice::engine
