#include "transport/tcp/connection.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/tcp/socket.hpp"

namespace coppice::transport::tcp {
namespace {

constexpr std::size_t kShort = 512;

bool is_for_later(int error) {
    return error == EAGAIN || error == EINTR || error == ENOBUFS || error == ENOMEM;
}

bool is_large(const FrameHead& head) {
    return head.payload_size > kMaxPayload;
}

iovec part(std::span<const std::byte> bytes) {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

// Not initialized: pages that are never used are never there.
Connection::Connection() : in_(new std::byte[kIn]), out_(new std::byte[kOut]) {}

void Connection::open(Descriptor socket, std::uint32_t room, std::uint32_t own_room) {
    socket_ = std::move(socket);
    room_ = room;
    own_room_ = own_room;
}

std::ptrdiff_t Connection::send_now(std::span<const std::byte> head, std::span<const std::byte> header,
                                    std::span<const std::byte> payload) const {
    // A short copy costs less than a list of parts.
    if (const std::size_t length = head.size() + header.size() + payload.size(); length <= kShort) {
        std::array<std::byte, kShort> whole;
        auto end = std::ranges::copy(head, whole.begin()).out;
        end = std::ranges::copy(header, end).out;
        std::ranges::copy(payload, end);
        return send_some(socket_.get(), std::span(whole).first(length));
    }
    std::array<iovec, 3> parts{part(head), part(header), part(payload)};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = payload.empty() ? 2 : 3;
    return ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

Connection::Sent Connection::send(Kind kind, std::span<const std::byte> header, std::span<const std::byte> payload,
                                  bool may_wait) {
    const FrameHead head{.payload_size = static_cast<std::uint32_t>(payload.size()) & 0xfffff,
                         .header_size = static_cast<std::uint8_t>(header.size() & 0x3f),
                         .kind = kind,
                         .consumed = consumed_};
    const std::size_t length = sizeof head + header.size() + payload.size();
    const std::uint32_t cost = costs(kind) ? cost_of(length) : 0;
    if (cost != 0 && !has_credit(cost)) return Sent::again;
    if (is_large(head) && has_waiting()) return Sent::again;  // a copy costs more than another try
    const auto head_bytes = std::as_bytes(std::span(&head, 1));
    std::size_t gone = 0;
    if (socket_ && !may_wait && !has_waiting()) [[likely]] {
        const std::ptrdiff_t taken = send_now(head_bytes, header, payload);
        if (taken < 0 && !is_for_later(errno)) return Sent::broken;
        if (taken > 0) gone = static_cast<std::size_t>(taken);
    }
    if (gone < length) {
        if (gone == 0 && !fits(length, cost != 0)) return Sent::again;
        for (const auto& bytes : {head_bytes, header, payload}) {
            const std::size_t skipped = std::min(gone, bytes.size());
            append(bytes.subspan(skipped));
            gone -= skipped;
        }
    }
    sent_ += cost;
    told_ = consumed_;
    return Sent::sent;
}

bool Connection::fits(std::size_t length, bool costing) {
    const std::size_t most = costing ? kOut - kReserve : kOut;
    return out_end_ - out_begin_ + length <= most;
}

void Connection::append(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    if (out_begin_ == out_end_) out_begin_ = out_end_ = 0;
    if (out_end_ + bytes.size() > kOut) {
        std::memmove(out_.get(), out_.get() + out_begin_, out_end_ - out_begin_);
        out_end_ -= out_begin_;
        out_begin_ = 0;
    }
    std::memcpy(out_.get() + out_end_, bytes.data(), bytes.size());
    out_end_ += bytes.size();
}

bool Connection::flush() {
    while (has_waiting()) {
        const std::ptrdiff_t taken = send_some(socket_.get(), {out_.get() + out_begin_, out_end_ - out_begin_});
        if (taken < 0) return is_for_later(errno);
        out_begin_ += static_cast<std::size_t>(taken);
    }
    return true;
}

Connection::Read Connection::read() {
    if (large_ == Large::placed || large_ == Large::lost) return read_large();
    if (in_begin_ == in_end_) {
        in_begin_ = in_end_ = 0;
    } else if (kIn - in_begin_ < kMaxFrame) {
        std::memmove(in_.get(), in_.get() + in_begin_, in_end_ - in_begin_);
        in_end_ -= in_begin_;
        in_begin_ = 0;
    }
    const std::size_t most = expects_large_ && in_end_ == 0 ? kShortRead : kAtOnce;
    const std::size_t space = std::min(kIn - in_end_, most);
    const std::ptrdiff_t got = ::recv(socket_.get(), in_.get() + in_end_, space, MSG_DONTWAIT);
    if (got < 0) return is_for_later(errno) ? Read::nothing : Read::broken;
    if (got == 0) return Read::ended;
    in_end_ += static_cast<std::size_t>(got);
    return static_cast<std::size_t>(got) == space ? Read::full : Read::some;
}

// The rest of a payload, and a little more: the head of the next frame, which says where that one's payload is to be.
Connection::Read Connection::read_large() {
    const std::size_t rest = large_head_.payload_size - large_here_;
    const std::size_t of_it = large_ == Large::placed ? rest : std::min(rest, kIn - kShortRead);
    std::array<iovec, 2> parts{iovec{large_ == Large::placed ? large_at_ + large_here_ : in_.get() + kShortRead, of_it},
                               iovec{in_.get(), kShortRead}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = of_it == rest ? 2 : 1;
    const std::ptrdiff_t result = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    if (result < 0) return is_for_later(errno) ? Read::nothing : Read::broken;
    if (result == 0) return Read::ended;
    const auto got = static_cast<std::size_t>(result);
    large_here_ += std::min(got, of_it);
    in_begin_ = 0;
    in_end_ = got - std::min(got, of_it);
    return got == of_it + (of_it == rest ? kShortRead : 0) ? Read::full : Read::some;
}

std::span<const std::byte> Connection::large_header() const {
    return std::span(large_header_).first(large_head_.header_size);
}

void Connection::place_large(std::byte* at) {
    if (large_ == Large::placed && at != large_at_) large_ = Large::lost;
    if (large_ != Large::begun) return;
    if (at == nullptr) return;
    // What is here of it is all that in_ has.
    const std::size_t before = sizeof(FrameHead) + large_head_.header_size;
    large_here_ = in_end_ - in_begin_ - before;
    std::memcpy(at, in_.get() + in_begin_ + before, large_here_);
    in_begin_ = in_end_ = 0;
    large_at_ = at;
    large_ = Large::placed;
}

// Its credits, and those that it brings. False: it can't have consumed what was not sent.
bool Connection::count(const FrameHead& head, std::size_t length) {
    if (head.consumed - acknowledged_ > sent_ - acknowledged_) return false;
    acknowledged_ = head.consumed;
    if (!costs(head.kind)) return true;
    consumed_ += cost_of(length);
    expects_large_ = is_large(head);
    return true;
}

Parsed Connection::next(Frame& frame) {
    if (large_ == Large::placed || large_ == Large::lost) {
        if (large_here_ < large_head_.payload_size) return Parsed::partial;
        const bool is_lost = std::exchange(large_, Large::none) == Large::lost;
        frame.head = large_head_;
        frame.header = large_header();
        frame.payload = {large_at_, large_head_.payload_size};
        frame.length = sizeof(FrameHead) + frame.header.size() + frame.payload.size();
        if (!count(frame.head, frame.length)) return Parsed::garbage;
        if (!is_lost) return Parsed::frame;
    }
    const Parsed parsed = parse_frame({in_.get() + in_begin_, in_end_ - in_begin_}, frame);
    if (parsed == Parsed::frame) {
        large_ = Large::none;
        in_begin_ += frame.length;
        return count(frame.head, frame.length) ? parsed : Parsed::garbage;
    }
    const bool begins = parsed == Parsed::partial && large_ == Large::none && frame.length > 0 &&
                        is_large(frame.head) && frame.header.size() == frame.head.header_size;
    if (begins) {
        large_ = Large::begun;
        large_head_ = frame.head;
        std::ranges::copy(frame.header, large_header_.begin());
    }
    return parsed;
}

void Connection::close() {
    if (!socket_) return;
    // What is unread when a socket is closed makes a reset of the end, and may take with it what the peer has not read yet.
    for (int rounds = 0; rounds < 64; ++rounds)
        if (::recv(socket_.get(), in_.get(), kIn, MSG_DONTWAIT) <= 0) break;
    ::shutdown(socket_.get(), SHUT_RDWR);  // also where a forked child has a copy
    socket_.close();
}

}  // namespace coppice::transport::tcp
