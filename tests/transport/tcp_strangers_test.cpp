// Strangers that speak to a rank, and ranks that misbehave.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <deque>

#include "transport/tcp_support.hpp"

namespace coppice::testing {
namespace {

using transport::SendStatus;
using transport::tcp::FrameHead;
using transport::tcp::Handshake;
using transport::tcp::Identity;
using transport::tcp::Kind;
using transport::tcp::Strangers;

// Ranks 0 and 1 of a group of 3, in this process; the test plays rank 2.
class TcpStrangers : public ::testing::Test {
  protected:
    TcpStrangers() {
        for (std::uint32_t rank = 0; rank < 2; ++rank)
            wires_.push_back(make_tcp(tcp_options(Seat(rank), 3)));
        for (std::uint32_t rank = 0; rank < 2; ++rank)
            COPPICE_CHECK(wires_[rank]->add_peer(Seat(1 - rank), wires_[1 - rank]->address()).has_value());
    }
    void poll() {
        for (std::size_t rank = 0; rank < 2; ++rank)
            wires_[rank]->poll(recorders_[rank]);
    }
    void poll_until(const std::function<bool()>& condition) {
        const std::uint64_t deadline = now_ns() + kDeadlineNs;
        while (!condition()) {
            if (now_ns() > deadline) throw CheckFailed("the deadline passed");
            poll();
        }
    }
    // The ranks still work.
    void talk() {
        const std::size_t before = recorders_[1].messages.size();
        std::uint32_t in_flight = 0;
        const Bytes payload = pattern(1, 100);
        poll_until([&] { return wires_[0]->send(Seat(1), header_of(1), payload, &in_flight) == SendStatus::sent; });
        poll_until([&] { return recorders_[1].messages.size() > before; });
        EXPECT_TRUE(recorders_[0].failures.empty() || recorders_[0].failures[0].peer == Seat(2));
    }
    std::uint64_t garbage() const { return wires_[0]->counters().garbage; }
    void expect_refused(const RawPeer& stranger) {
        poll_until([&] { return stranger.ended(); });
        talk();
    }
    Bytes await(const RawPeer& peer, std::size_t size) {
        Bytes bytes;
        poll_until([&] {
            const Bytes more = peer.receive(size - bytes.size());
            bytes.insert(bytes.end(), more.begin(), more.end());
            return bytes.size() == size;
        });
        return bytes;
    }
    // Shakes hands as rank 2, which knows the secret.
    void join(const RawPeer& peer) {
        auto handshake = Handshake::initiate(second_, Seat(0), 0, transport::tcp::draw_nonce());
        peer.send(handshake.opening());
        peer.send(handshake.take(await(peer, handshake.wanted())));
        handshake.take(await(peer, handshake.wanted()));
        COPPICE_CHECK(handshake.state() == Handshake::State::done);
    }
    static Identity make_second() {
        const auto options = tcp_options(Seat(2), 3);
        return {
            .token = options.group_token, .self = Seat(2), .group_size = 3, .room = 1 << 20, .secret = options.secret};
    }

    const Identity second_ = make_second();
    std::vector<std::unique_ptr<transport::TcpTransport>> wires_;
    Recorder recorders_[2];
};

TEST_F(TcpStrangers, GarbageIsCountedAndItsConnectionEnds) {
    for (const std::size_t length : {40U, 41U, 72U, 5000U}) {
        const RawPeer stranger(*wires_[0]);
        const std::uint64_t before = garbage();
        stranger.send(pattern(length, length));
        expect_refused(stranger);
        EXPECT_EQ(garbage(), before + 1);
    }
    EXPECT_TRUE(recorders_[0].failures.empty());
}

TEST_F(TcpStrangers, AWrongSecretIsRefusedAtTheProof) {
    Identity thief = second_;
    thief.secret.bytes.fill(1);
    const RawPeer stranger(*wires_[0]);
    auto handshake = Handshake::initiate(thief, Seat(0), 0, transport::tcp::draw_nonce());
    stranger.send(handshake.opening());
    stranger.send(handshake.take(await(stranger, handshake.wanted())));
    expect_refused(stranger);
    EXPECT_EQ(garbage(), 1U);
    EXPECT_FALSE(wires_[0]->connected(Seat(2)));
}

TEST_F(TcpStrangers, ARecordedHandshakeIsRefused) {
    auto handshake = Handshake::initiate(second_, Seat(0), 0, transport::tcp::draw_nonce());
    Bytes proof;
    const Bytes opening(handshake.opening().begin(), handshake.opening().end());
    {
        const RawPeer recorded(*wires_[0]);
        recorded.send(opening);
        const auto said = handshake.take(await(recorded, handshake.wanted()));
        proof.assign(said.begin(), said.end());
    }  // ended before it was used
    const RawPeer stranger(*wires_[0]);
    stranger.send(opening);
    await(stranger, 24);
    stranger.send(proof);
    expect_refused(stranger);
    EXPECT_FALSE(wires_[0]->connected(Seat(2)));
}

TEST_F(TcpStrangers, HalfAHandshakeStallsNobodyAndEnds) {
    const RawPeer silent(*wires_[0]), hesitant(*wires_[0]), halfway(*wires_[0]);
    hesitant.send(pattern(1, 1));
    auto handshake = Handshake::initiate(second_, Seat(0), 0, transport::tcp::draw_nonce());
    halfway.send(handshake.opening());
    await(halfway, handshake.wanted());
    talk();
    expect_refused(silent);
    expect_refused(hesitant);
    expect_refused(halfway);
    EXPECT_EQ(garbage(), 3U);
}

TEST_F(TcpStrangers, ThousandsOfConnectionsAreBoundedAndTheOldestGoFirst) {
    rlimit limit{};
    COPPICE_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const std::size_t before = open_descriptors();
    std::deque<std::unique_ptr<RawPeer>> crowd;
    for (int count = 0; count < 3000; ++count) {
        crowd.push_back(std::make_unique<RawPeer>(*wires_[0]));
        if (crowd.size() > 200) crowd.pop_front();
        poll();
    }
    poll_until([&] { return crowd[crowd.size() - Strangers::kMost - 1]->ended(); });
    EXPECT_FALSE(crowd.back()->ended());
    EXPECT_LE(open_descriptors(), before + crowd.size() + Strangers::kMost + 2);
    EXPECT_GT(garbage(), 0U);
    talk();
    EXPECT_EQ(recorders_[1].failures.size() + recorders_[0].failures.size(), 0U);
}

// A rank gets through a crowd: it tries again when it has lost its place.
TEST_F(TcpStrangers, ARankConnectsThroughACrowd) {
    std::deque<std::unique_ptr<RawPeer>> crowd;
    std::uint32_t in_flight = 0;
    const Bytes payload = pattern(1, 100);
    ASSERT_EQ(wires_[1]->send(Seat(0), header_of(1), payload, &in_flight), SendStatus::sent);
    poll_until([&] {
        for (int count = 0; count < 20; ++count)
            crowd.push_back(std::make_unique<RawPeer>(*wires_[0]));
        while (crowd.size() > 100)
            crowd.pop_front();
        return !recorders_[0].messages.empty();
    });
    EXPECT_TRUE(recorders_[1].failures.empty());
}

TEST_F(TcpStrangers, NobodyTakesThePlaceOfARankThatIsConnected) {
    const RawPeer first(*wires_[0]);
    join(first);
    poll_until([&] { return wires_[0]->connected(Seat(2)); });
    const RawPeer second(*wires_[0]);
    auto handshake = Handshake::initiate(second_, Seat(0), 0, transport::tcp::draw_nonce());
    second.send(handshake.opening());
    second.send(handshake.take(await(second, handshake.wanted())));
    expect_refused(second);
    EXPECT_FALSE(first.ended());
    EXPECT_TRUE(recorders_[0].failures.empty());
}

// -------------------------------------------------------------------------------- a rank of the job that misbehaves

Bytes bytes_of(const FrameHead& head) {
    Bytes bytes(sizeof head);
    std::memcpy(bytes.data(), &head, sizeof head);
    return bytes;
}

TEST_F(TcpStrangers, FramesOfARankThatMakeNoSenseEndItsConnectionAlone) {
    const FrameHead heads[] = {{.payload_size = 0xfffff},
                               {.header_size = 63},
                               {.kind = static_cast<Kind>(63)},
                               {.payload_size = 8, .kind = Kind::goodbye},
                               {.kind = Kind::credit, .consumed = 1}};  // of nothing that was sent
    for (const FrameHead& head : heads) {
        const auto lone = make_tcp(tcp_options(Seat(0), 3));
        std::swap(wires_[0], const_cast<std::unique_ptr<transport::TcpTransport>&>(lone));
        recorders_[0] = Recorder();
        const RawPeer peer(*wires_[0]);
        join(peer);
        peer.send(bytes_of(head));
        poll_until([&] { return recorders_[0].failed(Seat(2)); });
        EXPECT_EQ(garbage(), 1U);
        EXPECT_NE(wires_[0]->last_error().find("rank 2"), std::string_view::npos);
        EXPECT_EQ(recorders_[0].failures.size(), 1U);
        std::swap(wires_[0], const_cast<std::unique_ptr<transport::TcpTransport>&>(lone));
    }
    recorders_[0] = Recorder();
    talk();
}

TEST_F(TcpStrangers, ARankOfNonsenseIsCarriedNoFurtherThanItsOwnConnection) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        auto lone = make_tcp(tcp_options(Seat(0), 3));
        std::swap(wires_[0], lone);
        recorders_[0] = Recorder();
        const RawPeer peer(*wires_[0]);
        join(peer);
        // What happens to look like frames is delivered: the engine looks at it further.
        peer.send(pattern(seed, 3000));
        poll_until([&] { return recorders_[0].failed(Seat(2)); });
        std::swap(wires_[0], lone);
    }
    recorders_[0] = Recorder();
    talk();
}

}  // namespace
}  // namespace coppice::testing
