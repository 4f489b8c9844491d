// One connection to a peer after its handshake: frames out, frames in, credits.
//
// - A frame on an idle connection is one system call from where it is, without a copy; what the kernel does not take waits
//   here, and the frames after it; so do frames that may wait for others. Nothing is allocated once this object is there.
// - No frame that costs leaves, or waits here, beyond what the peer has room for; those that cost nothing are few.
// - Frames are read into one buffer and parsed in place.
#pragma once

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
    // The peer should hear how much was consumed.
    bool owes_credit() const { return consumed_ - told_ >= own_room_ / 4; }

    // Nothing is sent or received any more. What was sent still arrives where the kernel can see to that.
    void close();

  private:
    static constexpr std::size_t kIn = 64 * 1024;
    static constexpr std::size_t kOut = 128 * 1024;
    static constexpr std::size_t kReserve = 1024;  // for frames that cost nothing
    static_assert(kIn > 2 * kMaxFrame && kOut > 2 * kMaxFrame);

    bool has_credit(std::uint32_t cost) const { return sent_ - acknowledged_ + cost <= room_; }
    bool fits(std::size_t length, bool costing);
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
    std::unique_ptr<std::byte[]> out_;
    std::size_t out_begin_ = 0, out_end_ = 0;
};

}  // namespace coppice::transport::tcp
