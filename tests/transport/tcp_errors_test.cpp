// Errors about a peer: they name its rank, its address with the port, and what to do.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <utility>

#include "transport/silence.hpp"
#include "transport/socket_end.hpp"
#include "transport/tcp/attempt.hpp"
#include "transport/tcp/socket.hpp"
#include "transport/tcp_support.hpp"

namespace coppice::testing {
namespace {

using transport::SendStatus;
using transport::tcp::Attempt;
using transport::tcp::Descriptor;
using transport::tcp::Endpoint;
using transport::tcp::Handshake;
using transport::tcp::Identity;

void expect_all(std::string_view error, std::initializer_list<std::string> words) {
    for (const std::string& word : words)
        EXPECT_NE(error.find(word), std::string_view::npos) << "no \"" << word << "\" in: " << error;
}

std::string listens_at(const transport::TcpTransport& wire) {
    return to_string(wire.endpoints().front());
}

Identity identity_of(Seat self) {
    const auto options = tcp_options(self, 3);
    return {.token = options.group_token,
            .self = self,
            .group_size = 3,
            .room = 1 << 20,
            .buffer = 1 << 20,
            .secret = options.secret};
}

// A listener that shakes hands as rank 2 as far as the test wants.
class Acceptor {
  public:
    Acceptor() {
        endpoint_.ip = {127, 0, 0, 1};
        auto made = transport::tcp::listen_at(endpoint_, 1 << 20);
        COPPICE_CHECK(made.has_value());
        listener_ = std::move(*made);
    }
    const Endpoint& endpoint() const { return endpoint_; }
    // False: nobody has connected yet.
    bool accept() {
        socket_ = transport::tcp::accept_from(listener_.get());
        return static_cast<bool>(socket_);
    }
    // What it is to take next; empty: not all of it is here.
    Bytes wanted(const Handshake& handshake) const {
        Bytes bytes(handshake.wanted());
        const auto all = static_cast<ssize_t>(bytes.size());
        if (::recv(socket_.get(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT) < all) return {};
        COPPICE_CHECK(::recv(socket_.get(), bytes.data(), bytes.size(), 0) == all);
        return bytes;
    }
    void send(std::span<const std::byte> bytes) const {
        COPPICE_CHECK(transport::tcp::send_some(socket_.get(), bytes) == static_cast<std::ptrdiff_t>(bytes.size()));
    }
    void end() { socket_.close(); }
    void reset() {
        transport::reset_at_close(socket_.get());
        end();
    }

  private:
    Endpoint endpoint_;
    Descriptor listener_;
    Descriptor socket_;
};

// Whatever it waits for between two tries is over.
Attempt::Outcome drive(Attempt& attempt) {
    if (attempt.socket() < 0) return attempt.on_time(attempt.wake_ns());
    pollfd one{
        .fd = attempt.socket(), .events = static_cast<short>(attempt.wants_write() ? POLLOUT : POLLIN), .revents = 0};
    return ::poll(&one, 1, 10) == 1 ? attempt.on_ready(now_ns()) : Attempt::Outcome::waits;
}

TEST(TcpErrors, WhereNobodyListens) {
    TcpGroup group(2);
    const std::string where = listens_at(*group.wires[1]);
    group.wires[1].reset();
    ASSERT_EQ(group.try_send(0, 1, 0, {}), SendStatus::sent);
    group.poll_until([&] { return group.recorders[0].failed(Seat(1)); });
    expect_all(group.wires[0]->last_error(), {"no connection to rank 1", where, "nobody listens", "firewall"});
}

TEST(TcpErrors, OfAProcessThatIsGone) {
    TcpGroup group(2);
    const std::string where = listens_at(*group.wires[1]);
    group.send(0, 1, 0, {});
    group.poll_until([&] { return group.recorders[1].messages.size() == 1; });
    group.wires[1].reset();
    group.poll_until([&] { return group.recorders[0].failed(Seat(1)); });
    expect_all(group.wires[0]->last_error(),
               {"the connection to rank 1 at " + where, "its process is gone", "firewall"});
}

// The kernel knows no peer of it any more.
TEST(TcpErrors, OfAConnectionThatIsResetAsSoonAsItStands) {
    const auto wire = make_tcp(tcp_options(Seat(0), 3));
    Recorder recorder;
    Acceptor acceptor;
    ASSERT_TRUE(wire->add_peer(Seat(2), transport::tcp::pack_address(std::vector{acceptor.endpoint()}, 0)).has_value());
    const auto poll_until = [&](auto&& condition) {
        for (const std::uint64_t deadline = now_ns() + kDeadlineNs; !condition(); wire->poll(recorder))
            if (now_ns() > deadline) throw CheckFailed("the deadline passed");
    };
    wire->watch(Seat(2));
    poll_until([&] { return acceptor.accept(); });
    const Identity identity = identity_of(Seat(2));
    Handshake handshake = Handshake::accept(identity, transport::tcp::draw_nonce());
    for (int step = 0; step < 2; ++step) {
        Bytes word;
        poll_until([&] { return !(word = acceptor.wanted(handshake)).empty(); });
        if (const auto answer = handshake.take(word); !answer.empty()) acceptor.send(answer);
    }
    ASSERT_EQ(handshake.state(), Handshake::State::proven);
    acceptor.send(handshake.welcome());
    acceptor.reset();
    poll_until([&] { return recorder.failed(Seat(2)); });
    expect_all(wire->last_error(), {"the connection to rank 2 at " + to_string(acceptor.endpoint()), "firewall"});
}

TEST(TcpErrors, OfOneThatSendsNonsense) {
    const auto wire = make_tcp(tcp_options(Seat(0), 3));
    Recorder recorder;
    const RawPeer peer(*wire);
    const Identity identity = identity_of(Seat(2));
    auto handshake = Handshake::initiate(identity, Seat(0), 0, transport::tcp::draw_nonce());
    peer.send(handshake.opening());
    for (const std::uint64_t deadline = now_ns() + kDeadlineNs; handshake.wanted() > 0; wire->poll(recorder)) {
        COPPICE_CHECK(now_ns() < deadline);
        const Bytes word = peer.receive(handshake.wanted());
        if (word.size() < handshake.wanted()) continue;
        if (const auto answer = handshake.take(word); !answer.empty()) peer.send(answer);
    }
    ASSERT_EQ(handshake.state(), Handshake::State::done);
    peer.send(Bytes(64, std::byte{0xff}));
    for (const std::uint64_t deadline = now_ns() + kDeadlineNs; !recorder.failed(Seat(2)); wire->poll(recorder))
        COPPICE_CHECK(now_ns() < deadline);
    const auto from = transport::own_end(peer.socket());
    ASSERT_TRUE(from.has_value());
    expect_all(wire->last_error(), {"rank 2 at " + to_string(*from), "no rank of this version", "the same Coppice"});
}

TEST(TcpErrors, OfOneThatTakesThisRankForAStranger) {
    const Identity identity = identity_of(Seat(0));
    Acceptor acceptor;
    Attempt attempt(identity, Seat(2), 0, {acceptor.endpoint()});
    Attempt::Outcome outcome = attempt.start(now_ns());
    for (const std::uint64_t deadline = now_ns() + kDeadlineNs; outcome == Attempt::Outcome::waits;) {
        ASSERT_LT(now_ns(), deadline);
        if (acceptor.accept()) acceptor.end();
        outcome = drive(attempt);
    }
    EXPECT_EQ(outcome, Attempt::Outcome::hopeless);
    expect_all(attempt.why(), {to_string(acceptor.endpoint()), "does not take this rank", "another job's?"});
}

// Nothing is sent to them: no connection leads to the address of everybody.
TEST(TcpErrors, OfAHostThatCannotBeReachedNameAllItsAddresses) {
    const Identity identity = identity_of(Seat(0));
    std::vector<Endpoint> endpoints(2);
    for (std::uint16_t number = 0; number < 2; ++number) {
        endpoints[number].ip = {255, 255, 255, 255};
        endpoints[number].port = static_cast<std::uint16_t>(4000 + number);
    }
    Attempt attempt(identity, Seat(2), 0, endpoints);
    Attempt::Outcome outcome = attempt.start(now_ns());
    for (int tries = 0; tries < 1000 && outcome == Attempt::Outcome::waits; ++tries)
        outcome = drive(attempt);
    ASSERT_EQ(outcome, Attempt::Outcome::hopeless);
    expect_all(attempt.why(),
               {"255.255.255.255:4000, 255.255.255.255:4001", "can't be reached", "COPPICE_TCP_INTERFACE"});
}

// The one that is refused may be another host's, too. Each of the two has come to nothing for as long as a lost host is waited for.
TEST(TcpErrors, OfAHostOfWhichOneAddressIsRefusedAndTheOtherCannotBeReached) {
    const Identity identity = identity_of(Seat(0));
    std::vector<Endpoint> endpoints(2);
    endpoints[0].ip = {127, 0, 0, 1};
    endpoints[0].port = 1;
    endpoints[1].ip = {255, 255, 255, 255};
    endpoints[1].port = 4000;
    for (int order = 0; order < 2; ++order, std::swap(endpoints[0], endpoints[1])) {
        Attempt attempt(identity, Seat(2), 0, endpoints);
        const std::uint64_t began = now_ns();
        std::uint64_t now = began;
        Attempt::Outcome outcome = attempt.start(now);
        for (int tries = 0; tries < 1000 && outcome == Attempt::Outcome::waits; ++tries) {
            pollfd one{.fd = attempt.socket(), .events = POLLOUT, .revents = 0};
            if (one.fd >= 0) {
                ASSERT_EQ(::poll(&one, 1, 10'000), 1);
                outcome = attempt.on_ready(now);
            } else {
                now = attempt.wake_ns();
                outcome = attempt.on_time(now);
            }
        }
        ASSERT_EQ(outcome, Attempt::Outcome::hopeless);
        EXPECT_GE(now - began, transport::tcp::kPatienceNs);
        EXPECT_LE(now - began, transport::tcp::kPatienceNs + 2 * Attempt::kLongestPauseNs);
        expect_all(attempt.why(), {"127.0.0.1:1", "255.255.255.255:4000", "can't be reached", "COPPICE_TCP_INTERFACE"});
    }
}

TEST(TcpErrors, OfAddressesThatAreRefused) {
    const auto wire = make_tcp(tcp_options(Seat(0), 3));
    const auto other = make_tcp(tcp_options(Seat(1), 3));
    ASSERT_TRUE(wire->add_peer(Seat(1), transport::tcp::pack_address(other->endpoints(), 1)).has_value());
    const auto later = wire->add_peer(Seat(1), transport::tcp::pack_address(other->endpoints(), 2));
    ASSERT_FALSE(later.has_value());
    expect_all(later.error().message, {"rank 1 at " + listens_at(*other), "twice"});
    const auto earlier = wire->add_peer(Seat(1), other->address());
    ASSERT_FALSE(earlier.has_value());
    expect_all(earlier.error().message, {"rank 1 at " + listens_at(*other), "incarnation 0"});
}

TEST(SocketEnd, IsNamedWithItsPort) {
    transport::SocketEnd end{.ip = {.version = 4, .bytes = {10, 0, 0, 2}}, .port = 4000};
    EXPECT_EQ(to_string(end), "10.0.0.2:4000");
    end.ip = {.version = 6, .bytes = {0xfd}};
    end.ip.bytes[15] = 2;
    EXPECT_EQ(to_string(end), "[fd00::2]:4000");
    EXPECT_FALSE(transport::peer_end(-1).has_value());
}

}  // namespace
}  // namespace coppice::testing
