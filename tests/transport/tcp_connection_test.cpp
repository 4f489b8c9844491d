// Connections by themselves: large payloads that are read straight to their place, in whatever pieces they come.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "transport/conformance.hpp"
#include "transport/tcp/connection.hpp"

namespace coppice::testing {
namespace {

using transport::kMaxHeader;
using transport::kMaxPayload;
using transport::tcp::Connection;
using transport::tcp::cost_of;
using transport::tcp::Descriptor;
using transport::tcp::Frame;
using transport::tcp::FrameHead;
using transport::tcp::Kind;
using transport::tcp::kLeastRoom;
using transport::tcp::kMaxLarge;
using transport::tcp::kMostRoom;
using transport::tcp::largest_payload;
using transport::tcp::Parsed;

TEST(TcpConnection, TwoOfTheLargestPayloadsFitIntoTheRoomOfAPeer) {
    const auto frame = [](std::size_t payload) { return cost_of(sizeof(FrameHead) + kMaxHeader + payload); };
    EXPECT_EQ(largest_payload(0), kMaxPayload);
    EXPECT_EQ(largest_payload(kLeastRoom), kMaxPayload);
    EXPECT_EQ(largest_payload(UINT32_MAX), kMaxLarge);
    for (std::uint32_t room = kLeastRoom; room <= kMostRoom; room += 1000) {
        const std::size_t largest = largest_payload(room);
        EXPECT_GE(largest, largest_payload(room - 1000)) << room;
        EXPECT_TRUE(largest == kMaxPayload || 2 * frame(largest) <= room) << room;
    }
    EXPECT_EQ(largest_payload(319'488), 64U * 1024) << "what Debian's kernels grant";
}

// One end is a connection, the other one bytes of the test's own.
class LargePayloads : public ::testing::Test {
  protected:
    LargePayloads() {
        int ends[2] = {};
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        connection_.open(Descriptor(ends[0]), kMostRoom, kMostRoom);
        other_ = ends[1];
        const int buffer = 1 << 20;
        EXPECT_EQ(setsockopt(other_, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer), 0);
    }
    ~LargePayloads() override { ::close(other_); }

    struct Message {
        Bytes header;
        Bytes payload;
        bool operator==(const Message&) const = default;
    };
    static Message message_of(std::uint64_t seed, std::size_t bytes) {
        return {.header = pattern(seed, 16 + seed % 33), .payload = pattern(seed, bytes)};
    }
    static Bytes bytes_of(const Message& message) {
        FrameHead head{.kind = Kind::data};
        head.payload_size = message.payload.size() & 0xfffff;
        head.header_size = message.header.size() & 0x3f;
        Bytes bytes(sizeof head + message.header.size() + message.payload.size());
        std::memcpy(bytes.data(), &head, sizeof head);
        const auto behind = std::ranges::copy(message.header, bytes.begin() + sizeof head).out;
        std::ranges::copy(message.payload, behind);
        return bytes;
    }

    // What the transport does with a connection that has something.
    void read() {
        while (true) {
            if (connection_.has_large()) connection_.place_large(place_);
            const Connection::Read got = connection_.read();
            ASSERT_NE(got, Connection::Read::broken);
            if (got == Connection::Read::nothing || got == Connection::Read::ended) return;
            Frame frame;
            Parsed parsed = connection_.next(frame);
            for (; parsed == Parsed::frame; parsed = connection_.next(frame)) {
                if (frame.payload.data() == memory_.data()) ++placed_;
                received_.push_back({.header = Bytes(frame.header.begin(), frame.header.end()),
                                     .payload = Bytes(frame.payload.begin(), frame.payload.end())});
            }
            ASSERT_EQ(parsed, Parsed::partial);
        }
    }
    void write(std::span<const std::byte> bytes) {
        while (!bytes.empty()) {
            const ssize_t taken = ::send(other_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
            if (taken > 0) bytes = bytes.subspan(static_cast<std::size_t>(taken));
            if (taken < 0) {
                ASSERT_EQ(errno, EAGAIN);
                read();
            }
        }
    }

    Connection connection_;
    int other_ = -1;
    Bytes memory_ = Bytes(kMaxLarge);
    std::byte* place_ = memory_.data();
    std::vector<Message> received_;
    std::size_t placed_ = 0;
};

std::vector<std::size_t> some_sizes() {
    return {20'000, 0, kMaxLarge, kMaxLarge, 100, 8192, 8193, 3, 65'536, 9000, 8193, kMaxLarge, 1, 2, 30'000};
}

TEST_F(LargePayloads, ComeToTheirPlaceBetweenSmallOnesInWhateverPiecesTheyCome) {
    std::vector<Message> sent;
    Bytes all;
    std::size_t large = 0;
    for (const std::size_t size : some_sizes()) {
        sent.push_back(message_of(sent.size(), size));
        const Bytes bytes = bytes_of(sent.back());
        all.insert(all.end(), bytes.begin(), bytes.end());
        large += size > kMaxPayload ? 1 : 0;
    }
    for (const std::size_t piece :
         {std::size_t{23}, std::size_t{61}, std::size_t{513}, std::size_t{8200}, std::size_t{70'000}, all.size()}) {
        received_.clear();
        placed_ = 0;
        for (std::size_t at = 0; at < all.size(); at += piece) {
            ASSERT_NO_FATAL_FAILURE(write(std::span(all).subspan(at, std::min(piece, all.size() - at))));
            ASSERT_NO_FATAL_FAILURE(read());
        }
        ASSERT_EQ(received_, sent) << piece;
        // One that is here as a whole before it is looked at need not be.
        EXPECT_TRUE(piece >= 8000 || placed_ == large) << piece;
    }
}

TEST_F(LargePayloads, ComeLikeOthersWhereTheyHaveNoPlace) {
    place_ = nullptr;
    std::vector<Message> sent;
    for (const std::size_t size : some_sizes()) {
        sent.push_back(message_of(sent.size(), size));
        const Bytes bytes = bytes_of(sent.back());
        ASSERT_NO_FATAL_FAILURE(write(std::span(bytes).first(bytes.size() / 2)));
        ASSERT_NO_FATAL_FAILURE(read());
        ASSERT_NO_FATAL_FAILURE(write(std::span(bytes).subspan(bytes.size() / 2)));
        ASSERT_NO_FATAL_FAILURE(read());
    }
    EXPECT_EQ(received_, sent);
    EXPECT_EQ(placed_, 0U);
}

// Where another place is said, too: what is there already would be missing in that.
TEST_F(LargePayloads, AreLeftOutWhenTheirPlaceIsTakenAwayMeanwhile) {
    Bytes elsewhere(kMaxLarge);
    for (std::byte* const place : {static_cast<std::byte*>(nullptr), elsewhere.data()}) {
        for (const std::size_t size : {std::size_t{8193}, kMaxLarge}) {
            received_.clear();
            place_ = memory_.data();
            const Message lost = message_of(1, size), next = message_of(2, size);
            const Bytes bytes = bytes_of(lost);
            ASSERT_NO_FATAL_FAILURE(write(std::span(bytes).first(5000)));
            ASSERT_NO_FATAL_FAILURE(read());
            ASSERT_TRUE(connection_.has_large());
            place_ = place;
            ASSERT_NO_FATAL_FAILURE(write(std::span(bytes).subspan(5000, 2000)));
            ASSERT_NO_FATAL_FAILURE(read());
            EXPECT_FALSE(connection_.has_large()) << "nobody is asked again";
            std::ranges::fill(memory_, std::byte{0x77});
            place_ = memory_.data();
            ASSERT_NO_FATAL_FAILURE(write(std::span(bytes).subspan(7000)));
            ASSERT_NO_FATAL_FAILURE(read());
            EXPECT_TRUE(received_.empty());
            EXPECT_TRUE(std::ranges::all_of(memory_, [](std::byte one) { return one == std::byte{0x77}; }));
            EXPECT_TRUE(std::ranges::all_of(elsewhere, [](std::byte one) { return one == std::byte{0}; }));
            ASSERT_NO_FATAL_FAILURE(write(bytes_of(next)));
            ASSERT_NO_FATAL_FAILURE(read());
            ASSERT_EQ(received_, std::vector{next});
        }
    }
}

TEST_F(LargePayloads, MayBeginBeforeTheyHaveAPlace) {
    const Message message = message_of(5, 100'000);
    const Bytes bytes = bytes_of(message);
    place_ = nullptr;
    ASSERT_NO_FATAL_FAILURE(write(std::span(bytes).first(3000)));
    ASSERT_NO_FATAL_FAILURE(read());
    place_ = memory_.data();
    ASSERT_NO_FATAL_FAILURE(write(std::span(bytes).subspan(3000)));
    ASSERT_NO_FATAL_FAILURE(read());
    EXPECT_EQ(received_, std::vector{message});
    EXPECT_EQ(placed_, 1U);
}

TEST_F(LargePayloads, AreGarbageBeyondTheBound) {
    FrameHead head{.kind = Kind::data};
    head.payload_size = (kMaxLarge + 1) & 0xfffff;
    ASSERT_NO_FATAL_FAILURE(write(std::as_bytes(std::span(&head, 1))));
    ASSERT_EQ(connection_.read(), Connection::Read::some);
    Frame frame;
    EXPECT_EQ(connection_.next(frame), Parsed::garbage);
    EXPECT_FALSE(connection_.has_large());
}

// What the kernel does not take at once waits as a copy; the payload is the caller's again.
TEST_F(LargePayloads, LeaveWholeThroughAKernelThatTakesLittle) {
    const int little = 4096;
    ASSERT_EQ(setsockopt(connection_.socket(), SOL_SOCKET, SO_SNDBUF, &little, sizeof little), 0);
    Bytes arrived;
    Bytes expected;
    const auto drain = [&] {
        Bytes some(65'536);
        for (ssize_t got = 0; (got = ::recv(other_, some.data(), some.size(), MSG_DONTWAIT)) > 0;)
            arrived.insert(arrived.end(), some.begin(), some.begin() + got);
    };
    for (std::uint64_t i = 0; i < 3; ++i) {
        Message message = message_of(i, kMaxLarge - i);
        const Bytes bytes = bytes_of(message);
        expected.insert(expected.end(), bytes.begin(), bytes.end());
        ASSERT_EQ(connection_.send(Kind::data, message.header, message.payload), Connection::Sent::sent);
        std::ranges::fill(message.payload, std::byte{0});
        EXPECT_TRUE(connection_.has_waiting());
        EXPECT_EQ(connection_.send(Kind::data, message.header, message.payload), Connection::Sent::again)
            << "a second one waits where it is";
        while (connection_.has_waiting()) {
            ASSERT_TRUE(connection_.flush());
            drain();
        }
        drain();
    }
    EXPECT_EQ(arrived, expected);
}

}  // namespace
}  // namespace coppice::testing
