// One connection to a peer after its handshake: frames out, frames in, credits.
//
// - A frame on an idle connection is one system call from where it is, without a copy; what the kernel does not take waits
//   here, and the frames after it; so do frames that may wait for others. Nothing is allocated once this object is there.
// - No frame that costs leaves, or waits here, beyond what the peer has room for; those that cost nothing are few.
// - Frames are read into one buffer and parsed in place, but the payload of a large one is read to where it is to be (large_place()),
//   with the head of what follows it, in one system call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/tcp/descriptor.hpp"
#include "transport/tcp/wire.hpp"

namespace coppice::transport::tcp {

class Connection {
  public:
    // Without a socket yet: what is sent waits, up to kLeastRoom.
    Connection();

    // From now on it stands. `room`: the peer's; `own_room`: what it may have under way to us.
    void open(Descriptor socket, std::uint32_t room, std::uint32_t own_room);
    bool is_open() const { return static_cast<bool>(socket_); }
    int socket() const { return socket_.get(); }

    enum class Sent : std::uint8_t { sent, again, broken };
    // `may_wait`: for a flush(), which the caller sees to.
    Sent send(Kind kind, std::span<const std::byte> header, std::span<const std::byte> payload, bool may_wait = false);

    // Sends of what waits as much as goes. False: the connection is broken (errno).
    bool flush();
    bool has_waiting() const { return out_begin_ != out_end_; }

    // One system call. `full`: there may be more at once.
    enum class Read : std::uint8_t { nothing, some, full, ended, broken };
    Read read();
    // The next frame that was read; good until the next read(). Its credits are counted, and those that it brings.
    Parsed next(Frame& frame);

    // Whether a large frame has begun of which the payload is not all here, and its place may be said: before each read().
    bool has_large() const { return large_ == Large::begun || large_ == Large::placed; }
    std::span<const std::byte> large_header() const;
    std::size_t large_size() const { return large_head_.payload_size; }
    std::size_t large_here() const { return large_ == Large::placed ? large_here_ : 0; }
    // Where its payload is to be. None: at the first time, it is read like others; later, what has been read of it is worth nothing
    // any more, and next() leaves it out. So it is where another place is said than before.
    void place_large(std::byte* at);
    // What a frame's payload may be now.
    std::size_t largest() const { return is_open() ? largest_payload(room_) : kMaxPayload; }
    // The peer should hear how much was consumed.
    bool owes_credit() const { return consumed_ - told_ >= own_room_ / 4; }

    // Nothing is sent or received any more. What was sent still arrives where the kernel can see to that.
    void close();

  private:
    static constexpr std::size_t kAtOnce = 64 * 1024;
    static constexpr std::size_t kIn = kAtOnce + kMaxFrame;
    static constexpr std::size_t kOut = 128 * 1024 + kMaxFrame;
    static constexpr std::size_t kReserve = 1024;  // for frames that cost nothing
    // Read with, or in place of, the beginning of a large payload: more of that would have to be copied.
    static constexpr std::size_t kShortRead = 512;

    enum class Large : std::uint8_t {
        none,
        begun,   // it lies in in_, as far as it is here
        placed,  // it lies at large_at_
        lost,    // nobody wants it any more
    };

    bool has_credit(std::uint32_t cost) const { return sent_ - acknowledged_ + cost <= room_; }
    bool fits(std::size_t length, bool costing);
    Read read_large();
    bool count(const FrameHead& head, std::size_t length);
    void append(std::span<const std::byte> bytes);
    std::ptrdiff_t send_now(std::span<const std::byte> head, std::span<const std::byte> header,
                            std::span<const std::byte> payload) const;

    Descriptor socket_;
    std::uint32_t room_ = kLeastRoom;
    std::uint32_t own_room_ = kMostRoom;
    // All modulo 2^32.
    std::uint32_t sent_ = 0;          // cost of what was sent
    std::uint32_t acknowledged_ = 0;  // of that the peer has consumed
    std::uint32_t consumed_ = 0;      // cost of what was consumed here
    std::uint32_t told_ = 0;          // of that the peer has been told
    std::unique_ptr<std::byte[]> in_;
    std::size_t in_begin_ = 0, in_end_ = 0;
    Large large_ = Large::none;
    bool expects_large_ = false;  // the last frame that costs was one
    FrameHead large_head_;
    std::array<std::byte, kMaxHeader> large_header_{};
    std::byte* large_at_ = nullptr;
    std::size_t large_here_ = 0;  // of its payload
    std::unique_ptr<std::byte[]> out_;
    std::size_t out_begin_ = 0, out_end_ = 0;
};

}  // namespace coppice::transport::tcp
