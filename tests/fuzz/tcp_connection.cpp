// A connection of the tcp transport after its handshake: whatever the other end writes, in whatever pieces it comes, with payloads that
// are read straight to their place, and credits both ways.
#include "transport/tcp/connection.hpp"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "fuzz.hpp"

using namespace coppice::transport::tcp;
using namespace coppice::transport;
using namespace coppice;

namespace {

using Bytes = std::vector<std::byte>;

Bytes pattern(std::size_t bytes, std::uint32_t seed) {
    Bytes made(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        made[i] = static_cast<std::byte>(seed + i + (i >> 8));
    return made;
}

Bytes frame_of(FrameHead head, std::span<const std::byte> header, std::span<const std::byte> payload) {
    head.header_size = header.size() & 0x3f;
    head.payload_size = payload.size() & 0xfffff;
    Bytes bytes(sizeof head + header.size() + payload.size());
    std::memcpy(bytes.data(), &head, sizeof head);
    std::ranges::copy(header, bytes.begin() + sizeof head);
    std::ranges::copy(payload, bytes.begin() + static_cast<std::ptrdiff_t>(sizeof head + header.size()));
    return bytes;
}

// Mostly few: the rest takes long.
std::size_t payload_size(fuzz::Input& input, std::size_t most) {
    const auto number = input.number<std::uint32_t>();
    return number % 8 == 0 ? number / 8 % (most + 1) : number / 8 % 600;
}

class Conversation {
  public:
    Conversation(std::uint32_t room, std::uint32_t own_room) : room_(room) {
        int ends[2];
        FUZZ_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
        connection_.open(Descriptor(ends[0]), room, own_room);
        other_ = ends[1];
    }
    ~Conversation() {
        if (other_ >= 0) ::close(other_);
    }

    // Of the other end: a frame of a kind that there is, or anything; it is written later.
    void prepare(fuzz::Input& input) {
        FrameHead head{.kind = static_cast<Kind>(1 + input.number<std::uint8_t>() % 6)};
        // What it may have consumed, or not.
        const auto credit = input.number<std::uint32_t>();
        head.consumed = credit % 8 == 0 ? credit : acknowledged_ + (credit % (sent_ - acknowledged_ + 1));
        const bool has_parts = costs(head.kind);
        const std::size_t header = has_parts ? input.number<std::uint8_t>() % (kMaxHeader + 1) : 0;
        const std::size_t payload = has_parts ? payload_size(input, kMaxLarge) : 0;
        say(frame_of(head, pattern(header, credit), pattern(payload, credit + 1)));
    }
    void say(std::span<const std::byte> bytes) { unwritten_.insert(unwritten_.end(), bytes.begin(), bytes.end()); }

    void write(std::size_t bytes) {
        bytes = std::min(bytes, unwritten_.size());
        if (bytes == 0) return;
        const auto taken = ::send(other_, unwritten_.data(), bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (taken <= 0) return;
        const auto end = unwritten_.begin() + taken;
        stream_.insert(stream_.end(), unwritten_.begin(), end);
        unwritten_.erase(unwritten_.begin(), end);
    }

    // As the transport does it. False: the connection has ended.
    bool read(std::uint8_t where) {
        if (connection_.has_large()) place_large(where);
        const Connection::Read got = connection_.read();
        FUZZ_CHECK(got != Connection::Read::broken);
        if (got == Connection::Read::ended) return false;
        if (got == Connection::Read::nothing) return true;
        while (true) {
            Frame frame;
            const Parsed parsed = connection_.next(frame);
            skip_lost();
            Frame expected;
            const Parsed there = parse_frame(rest(), expected);
            FUZZ_CHECK((parsed == Parsed::partial) == (there == Parsed::partial));
            if (parsed == Parsed::partial) break;
            const bool is_good = there == Parsed::frame && count(expected);
            FUZZ_CHECK(is_good == (parsed == Parsed::frame));
            if (!is_good) return false;
            check(frame, expected);
            at_ += expected.length;
            placed_ = nullptr;
        }
        return true;
    }

    void send(fuzz::Input& input) {
        const auto kind = static_cast<Kind>(1 + input.number<std::uint8_t>() % 6);
        const auto seed = input.number<std::uint8_t>();
        const bool may_wait = seed % 2 == 0;
        const Bytes header = pattern(costs(kind) ? seed % (kMaxHeader + 1) : 0, seed);
        const Bytes payload = pattern(costs(kind) ? payload_size(input, connection_.largest()) : 0, seed + 1U);
        const std::size_t length = sizeof(FrameHead) + header.size() + payload.size();
        const std::uint32_t cost = costs(kind) ? cost_of(length) : 0;
        const bool has_credit = cost == 0 || sent_ - acknowledged_ + cost <= room_;
        const auto sent = connection_.send(kind, header, payload, may_wait);
        FUZZ_CHECK((sent == Connection::Sent::sent) == has_credit && sent != Connection::Sent::broken);
        if (sent != Connection::Sent::sent) return;
        sent_ += cost;
        FrameHead head{.kind = kind};
        head.consumed = consumed_;
        const Bytes expected = frame_of(head, header, payload);
        Bytes heard;
        while (heard.size() < expected.size()) {
            FUZZ_CHECK(connection_.flush());
            std::array<std::byte, 16384> piece;
            const auto got = ::recv(other_, piece.data(), piece.size(), MSG_DONTWAIT);
            FUZZ_CHECK(got > 0);
            heard.insert(heard.end(), piece.begin(), piece.begin() + got);
        }
        FUZZ_CHECK(heard == expected && !connection_.has_waiting() && !connection_.owes_credit());
    }

    // All that was prepared comes, and nothing that is whole is left over.
    void finish(std::uint8_t where) {
        while (!unwritten_.empty()) {
            write(unwritten_.size());
            if (!read(where)) return;
        }
        ::shutdown(other_, SHUT_WR);
        while (read(where))
            continue;
        Frame frame;
        const Parsed parsed = parse_frame(rest(), frame);
        FUZZ_CHECK(parsed == Parsed::partial || parsed == Parsed::garbage || !count(frame));
    }

  private:
    // Behind the frames that have come out, what the connection has read.
    std::span<const std::byte> rest() const {
        int unread = 0;
        FUZZ_CHECK(::ioctl(connection_.socket(), FIONREAD, &unread) == 0);
        return std::span(stream_).first(stream_.size() - static_cast<std::size_t>(unread)).subspan(at_);
    }

    // Where: nowhere, at one place or at the other one.
    void place_large(std::uint8_t where) {
        FUZZ_CHECK(!is_lost_);
        Frame large;
        FUZZ_CHECK(parse_frame(rest(), large) != Parsed::garbage && large.head.payload_size > kMaxPayload);
        FUZZ_CHECK(fuzz::same(connection_.large_header(), large.header));
        FUZZ_CHECK(connection_.large_size() == large.head.payload_size);
        FUZZ_CHECK(connection_.large_here() < connection_.large_size());
        if (placed_ == nullptr)
            for (Bytes& place : places_)
                place = Bytes(connection_.large_size());
        std::byte* const to = where % 3 == 0 ? nullptr : places_[where % 3 - 1U].data();
        if (placed_ != nullptr && to != placed_) is_lost_ = true;
        if (placed_ == nullptr) placed_ = to;
        connection_.place_large(to);
        FUZZ_CHECK(connection_.has_large() == !is_lost_);
    }

    // Nobody wanted it any more where it was to be.
    void skip_lost() {
        Frame lost;
        if (!is_lost_ || parse_frame(rest(), lost) != Parsed::frame || !count(lost)) return;
        is_lost_ = false;
        placed_ = nullptr;
        at_ += lost.length;
    }

    // False: the other end can't have consumed that much.
    bool count(const Frame& frame) {
        if (frame.head.consumed - acknowledged_ > sent_ - acknowledged_) return false;
        acknowledged_ = frame.head.consumed;
        if (costs(frame.head.kind)) consumed_ += cost_of(frame.length);
        return true;
    }

    void check(const Frame& frame, const Frame& expected) const {
        FUZZ_CHECK(std::memcmp(&frame.head, &expected.head, sizeof frame.head) == 0);
        FUZZ_CHECK(frame.length == expected.length && fuzz::same(frame.header, expected.header));
        FUZZ_CHECK(fuzz::same(frame.payload, expected.payload));
        FUZZ_CHECK(placed_ == nullptr || frame.payload.data() == placed_);
    }

    Connection connection_;
    int other_ = -1;
    Bytes unwritten_;
    Bytes stream_;        // that was written
    std::size_t at_ = 0;  // in it, behind the frames that have come out
    std::array<Bytes, 2> places_;
    std::byte* placed_ = nullptr;  // where the payload that is under way is to be
    bool is_lost_ = false;
    std::uint32_t room_;
    std::uint32_t sent_ = 0;  // as the connection counts
    std::uint32_t acknowledged_ = 0;
    std::uint32_t consumed_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto room = input.number<std::uint32_t>() % (kMostRoom - kLeastRoom + 1) + kLeastRoom;
    Conversation conversation(room, kMostRoom);
    std::uint8_t where = 0;
    // Each is a frame of 128 KiB, at worst.
    for (int commands = 0; commands < 64 && !input.empty(); ++commands) {
        const auto command = input.number<std::uint8_t>();
        switch (command % 8) {
            case 0:
            case 1:
                conversation.prepare(input);
                break;
            case 2:
                conversation.say(input.take(input.number<std::uint8_t>()));
                break;
            case 3:
                conversation.write(input.number<std::uint32_t>() % (2 * kMaxFrame));
                break;
            case 4:
                conversation.write(input.number<std::uint8_t>());
                break;
            case 5:
                where = input.number<std::uint8_t>();
                break;
            case 6:
                conversation.send(input);
                break;
            default:
                if (!conversation.read(where)) return 0;
        }
    }
    conversation.finish(where);
    return 0;
}
