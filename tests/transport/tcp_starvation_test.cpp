// Ranks that live and are not heard of for a while, as their processes are stopped, or starved: nobody takes them for
// dead.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>

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
using transport::tcp::Strangers;

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kLongerThanAnyPatience = 7 * kSecond;

Identity identity_of(Seat self) {
    const auto options = tcp_options(self, 3);
    return {.token = options.group_token,
            .self = self,
            .group_size = 3,
            .room = 1 << 20,
            .buffer = 1 << 20,
            .secret = options.secret};
}

void poll_for(TcpGroup& group, std::uint64_t time_ns, std::initializer_list<std::size_t> ranks) {
    for (const std::uint64_t end = now_ns() + time_ns; now_ns() < end; usleep(1000))
        for (const std::size_t rank : ranks)
            group.wires[rank]->poll(group.recorders[rank]);
}

// A listener whose process runs, if it does at all, when the test says so.
class Listener {
  public:
    explicit Listener(int backlog) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
        endpoint_.ip = {127, 0, 0, 1};
        auto address = transport::tcp::to_socket(endpoint_);
        COPPICE_CHECK(::bind(socket_.get(), address.get(), address.length) == 0);
        COPPICE_CHECK(::listen(socket_.get(), backlog) == 0);
        endpoint_.port = transport::own_end(socket_.get())->port;
    }
    const Endpoint& endpoint() const { return endpoint_; }
    Descriptor accept() const { return transport::tcp::accept_from(socket_.get()); }
    // Until the kernel takes no more.
    void fill() {
        for (int count = 0; count < 4; ++count)
            crowd_.push_back(transport::tcp::start_connecting(endpoint_, 1 << 16));
        COPPICE_CHECK(becomes([&] { return transport::tcp::is_connected(crowd_.front().get()); }));
    }
    void drain() {
        crowd_.clear();
        while (accept()) {
        }
    }

  private:
    Descriptor socket_;
    Endpoint endpoint_;
    std::deque<Descriptor> crowd_;
};

Attempt::Outcome drive(Attempt& attempt) {
    pollfd one{
        .fd = attempt.socket(), .events = static_cast<short>(attempt.wants_write() ? POLLOUT : POLLIN), .revents = 0};
    if (attempt.socket() < 0)
        usleep(1000);
    else if (::poll(&one, 1, 10) == 1)
        if (const auto outcome = attempt.on_ready(now_ns()); outcome != Attempt::Outcome::waits) return outcome;
    return attempt.on_time(now_ns());
}

// The kernel of a stopped process drops what its listener has no room for: it answers neither a SYN, nor an opening.
TEST(TcpStarvation, AListenerWhoseQueueIsFullIsNotDead) {
    for (const bool full_at_once : {true, false}) {
        Listener listener(0);
        if (full_at_once) listener.fill();
        const Identity identity = identity_of(Seat(0)), its = identity_of(Seat(1));
        std::deque<Attempt> attempts;
        for (int count = 0; count < 3; ++count) {
            attempts.emplace_back(identity, Seat(1), 0, std::vector{listener.endpoint()});
            ASSERT_EQ(attempts.back().start(now_ns()), Attempt::Outcome::waits);
        }
        for (const std::uint64_t end = now_ns() + 2 * kLongerThanAnyPatience; now_ns() < end;)
            for (Attempt& attempt : attempts)
                ASSERT_EQ(drive(attempt), Attempt::Outcome::waits) << attempt.why();
        listener.drain();
        Strangers strangers(its);
        Attempt::Outcome outcome = Attempt::Outcome::waits;
        const std::uint64_t deadline = now_ns() + kDeadlineNs;
        std::vector<Strangers::Proven> proven;
        while (outcome == Attempt::Outcome::waits) {
            ASSERT_LT(now_ns(), deadline);
            if (Descriptor socket = listener.accept())
                strangers.add(strangers.next_place(), std::move(socket), now_ns());
            for (std::size_t place = 0; place < Strangers::kMost; ++place)
                if (strangers.move(place) == Strangers::Outcome::proven) {
                    proven.push_back(strangers.take(place));
                    transport::tcp::send_some(proven.back().socket.get(), proven.back().handshake.welcome());
                }
            outcome = drive(attempts.front());
        }
        EXPECT_EQ(outcome, Attempt::Outcome::open);
    }
}

// It had connected, but this process did not run, and sees first that the time is over.
TEST(TcpStarvation, ARankThatComesLateToItsOwnAttemptFindsItConnected) {
    const Listener listener(8);
    const Identity identity = identity_of(Seat(0));
    Attempt attempt(identity, Seat(1), 0, {listener.endpoint()});
    ASSERT_EQ(attempt.start(now_ns()), Attempt::Outcome::waits);
    ASSERT_TRUE(becomes([&] { return transport::tcp::is_connected(attempt.socket()); }));
    EXPECT_EQ(attempt.on_time(now_ns() + 60 * kSecond), Attempt::Outcome::waits);
    EXPECT_EQ(attempt.tries(), 1U);
    EXPECT_FALSE(attempt.wants_write());
}

TEST(TcpStarvation, AStoppedRankIsWaitedForBeforeAndWithinItsHandshake) {
    TcpGroup group(3);
    ASSERT_EQ(group.try_send(0, 1, 0, {}), SendStatus::sent);
    poll_for(group, kSecond / 10, {0, 1});  // perhaps some of the handshake
    ASSERT_EQ(group.try_send(2, 1, 0, {}), SendStatus::sent);
    poll_for(group, kLongerThanAnyPatience, {0, 2});
    EXPECT_TRUE(group.nobody_failed());
    group.poll_until([&] { return group.recorders[1].messages.size() == 2; });
    EXPECT_TRUE(group.nobody_failed());
    EXPECT_EQ(group.wires[1]->counters().garbage, 0U);
}

// It has accepted, and then it is starved; what it is sent meanwhile counts, though its clock says that the time is
// over.
TEST(TcpStarvation, AStarvedAcceptorReadsBeforeItJudges) {
    TcpGroup group(3);
    const Identity second = identity_of(Seat(2));
    const RawPeer peer(*group.wires[0]);
    auto handshake = Handshake::initiate(second, Seat(0), 0, transport::tcp::draw_nonce());
    group.poll();
    peer.send(handshake.opening());
    usleep(kLongerThanAnyPatience / 1000);
    Bytes bytes;
    const auto await = [&] {
        bytes.clear();
        group.poll_until([&] {
            const Bytes more = peer.receive(handshake.wanted() - bytes.size());
            bytes.insert(bytes.end(), more.begin(), more.end());
            return bytes.size() == handshake.wanted();
        });
    };
    await();
    peer.send(handshake.take(bytes));
    usleep(kLongerThanAnyPatience / 1000);
    await();
    handshake.take(bytes);
    EXPECT_EQ(handshake.state(), Handshake::State::done);
    EXPECT_EQ(group.wires[0]->counters().garbage, 0U);
}

// It has been silent for nearly all of its time, and speaks while the acceptor does not run, whose clock goes off
// first.
TEST(TcpStarvation, WhatWaitsInASocketIsHeardBeforeItsTimeIsOver) {
    TcpGroup group(3);
    const Identity second = identity_of(Seat(2));
    const RawPeer peer(*group.wires[0]);
    auto handshake = Handshake::initiate(second, Seat(0), 0, transport::tcp::draw_nonce());
    poll_for(group, Strangers::kPatienceNs - Strangers::kLookNs / 2, {0});
    usleep(Strangers::kLookNs / 1000);
    peer.send(handshake.opening());
    Bytes challenge;
    group.poll_until([&] {
        const Bytes more = peer.receive(handshake.wanted() - challenge.size());
        challenge.insert(challenge.end(), more.begin(), more.end());
        return challenge.size() == handshake.wanted();
    });
    handshake.take(challenge);
    EXPECT_EQ(handshake.state(), Handshake::State::under_way);
    EXPECT_EQ(group.wires[0]->counters().garbage, 0U);
}

// Far more often than a wrong proof may be.
TEST(TcpStarvation, ARankThatIsBusyIsAskedAgainForAsLongAsItTakes) {
    const Listener listener(8);
    const Identity identity = identity_of(Seat(0)), its = identity_of(Seat(1));
    Attempt attempt(identity, Seat(1), 0, {listener.endpoint()});
    ASSERT_EQ(attempt.start(now_ns()), Attempt::Outcome::waits);
    const auto challenge = Handshake::accept(its, {}).busy();
    while (attempt.tries() < Attempt::kMostRefusals + 10) {
        if (const Descriptor socket = listener.accept()) {
            const std::uint32_t tries = attempt.tries();
            transport::tcp::send_some(socket.get(), challenge);
            while (attempt.tries() == tries)
                ASSERT_EQ(drive(attempt), Attempt::Outcome::waits) << attempt.why();
        }
        ASSERT_EQ(drive(attempt), Attempt::Outcome::waits) << attempt.why();
    }
}

// ------------------------------------------------------------------------------------------------- being fenced ---

// It had shown its proof when it fenced: the other end may hold the connection to stand, and must not see it end.
TEST(TcpStarvation, ARankFencedWhileAConnectionComesToStandIsTold) {
    for (int rounds = 0; rounds < 12; ++rounds) {  // how far the handshake has come
        TcpGroup group(2);
        ASSERT_EQ(group.try_send(0, 1, 0, {}), SendStatus::sent);
        for (int round = 0; round < rounds; ++round)
            group.wires[round % 2]->poll(group.recorders[round % 2]);
        group.wires[0]->fence(Seat(1));
        ASSERT_EQ(group.try_send(1, 0, 0, {}), SendStatus::sent);
        group.poll_until([&] { return !group.recorders[1].fenced_by.empty(); });
        EXPECT_TRUE(group.nobody_failed());
    }
}

// Its connection broke, and it was fenced for that: when it connects again, it hears of it.
TEST(TcpStarvation, ARankThatConnectsAgainAfterItsConnectionBrokeIsTold) {
    TcpGroup group(2);
    group.send(0, 1, 0, pattern(1, 3000));
    group.send(1, 0, 0, pattern(1, 3000));
    group.poll_until([&] { return group.recorders[0].messages.size() + group.recorders[1].messages.size() == 2; });
    auto again = make_tcp(tcp_options(Seat(1), 2));
    ASSERT_TRUE(again->add_peer(Seat(0), group.wires[0]->address()).has_value());
    std::swap(group.wires[1], again);
    again.reset();
    group.poll_until([&] { return group.recorders[0].failed(Seat(1)); });
    group.wires[0]->fence(Seat(1));
    ASSERT_EQ(group.try_send(1, 0, 1, {}), SendStatus::sent);
    group.poll_until([&] { return !group.recorders[1].fenced_by.empty(); });
    EXPECT_TRUE(group.recorders[1].failures.empty());
}

}  // namespace
}  // namespace coppice::testing
