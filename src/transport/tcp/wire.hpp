// What follows the handshake on a connection: frames, and how much of them may be under way.
//
// Pure functions: they look only at bytes that are there, and say no to everything that a peer of this version would not have
// written.
//
// Why there are credits: a receiver whose process is stopped, or busy, reads nothing. Were its kernel's buffer to fill, the
// window would close, and a closed window looks like a cut cable to TCP_USER_TIMEOUT. So a sender stays below what the
// receiver's kernel is able to hold (room), and the receiver's library tells what it has consumed. All counts are in units of
// cost_of(), which is what a frame takes at worst in that kernel's memory, and not what it has in bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/transport.hpp"

namespace coppice::transport::tcp {

enum class Kind : std::uint8_t {
    data = 1,         // the engine's, by send(); below `credit` are those that cost
    written = 2,      // the engine's, by write()
    credit = 3,       // says nothing but what its head does
    goodbye = 4,      // the sender leaves in peace
    goodbye_ack = 5,  // the goodbye was read: nothing is under way any more
    fenced = 6,       // the sender takes the receiver for dead
};

// The largest payload of a frame, where the receiver has room for it (largest_payload()).
inline constexpr std::size_t kMaxLarge = 128 * 1024;

// Both sides have the same byte order (their addresses say so), so it travels as it is.
struct FrameHead {
    std::uint32_t payload_size : 20 = 0;
    std::uint32_t header_size : 6 = 0;
    Kind kind : 6 = Kind::data;
    std::uint32_t consumed = 0;  // of the receiver's own frames, since the beginning, modulo 2^32
};
static_assert(sizeof(FrameHead) == 8);
inline constexpr std::size_t kMaxFrame = sizeof(FrameHead) + kMaxHeader + kMaxLarge;

struct Frame {
    FrameHead head;
    std::span<const std::byte> header;
    std::span<const std::byte> payload;
    std::size_t length = 0;  // in all
};

enum class Parsed : std::uint8_t { partial, frame, garbage };

// The frame at the beginning of `bytes`. `partial`: head and length are known if `length` is not 0, the header if it is not empty or
// there is none; the payload is what is there of it.
Parsed parse_frame(std::span<const std::byte> bytes, Frame& frame);

inline bool costs(Kind kind) {
    return kind == Kind::data || kind == Kind::written;
}

// A kernel accounts for a packet of its own, and at most twice its bytes.
constexpr std::uint32_t cost_of(std::size_t length) {
    return static_cast<std::uint32_t>(2 * length + 2304);
}

// No rank offers less: what is accepted before a connection stands, and the offer is known, stays within.
inline constexpr std::uint32_t kLeastRoom = 64 * 1024;
inline constexpr std::uint32_t kMostRoom = 1024 * 1024;

// What a payload may be so that two such frames are under way at once to a peer with that room: while one is read the next one comes.
constexpr std::size_t largest_payload(std::uint32_t room) {
    const std::size_t half = room / 2;
    const std::size_t fits =
        half < cost_of(sizeof(FrameHead) + kMaxHeader) ? 0 : (half - cost_of(sizeof(FrameHead) + kMaxHeader)) / 2;
    return std::clamp(std::bit_floor(fits), kMaxPayload, kMaxLarge);
}

}  // namespace coppice::transport::tcp
