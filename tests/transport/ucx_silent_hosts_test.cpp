// Which connections are looked at, of those that the sets of a worker's descriptors have, and what is lacking then.
#include "transport/ucx/silent_hosts.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/process.hpp"
#include "support/shortage.hpp"
#include "transport/ucx/wire.hpp"
#include "transport/ucx_support.hpp"

namespace {
bool has_no_timers = false;
}

// The library's calls come here.
extern "C" int timerfd_create(int clock, int flags) noexcept {
    if (!has_no_timers) return static_cast<int>(::syscall(SYS_timerfd_create, clock, flags));
    errno = EMFILE;
    return -1;
}

namespace coppice::transport {
namespace {

struct Connection {
    int here = -1;
    int there = -1;
};

Connection connect_on_loopback() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener, name, length), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, name, &length), 0);
    const int there = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(there, name, length), 0);
    const int here = accept(listener, nullptr, nullptr);
    close(listener);
    return {here, there};
}

bool is_asked_when_idle(int socket) {
    int value = 0;
    socklen_t length = sizeof value;
    return getsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &value, &length) == 0 && value != 0;
}

void add(int set, int descriptor) {
    epoll_event event{};
    event.events = EPOLLIN;
    ASSERT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event), 0);
}

// As where UCX closes a connection and opens another between two looks.
TEST(UcxSilentHosts, AnotherConnectionOfTheSameNumberIsANewOne) {
    const process::Use use;
    const int sleeps_on = epoll_create1(EPOLL_CLOEXEC);
    const int set = epoll_create1(EPOLL_CLOEXEC);
    add(sleeps_on, set);
    const Connection first = connect_on_loopback();
    const Connection second = connect_on_loopback();
    add(set, first.here);
    {
        ucx::SilentHosts hosts(sleeps_on);
        hosts.look(1'000'000'000);
        EXPECT_TRUE(is_asked_when_idle(first.here));
        ASSERT_FALSE(is_asked_when_idle(second.here));
        ASSERT_EQ(dup2(second.here, first.here), first.here);
        close(second.here);
        add(set, first.here);
        hosts.look(2'000'000'000);
        EXPECT_TRUE(is_asked_when_idle(first.here));
    }
    for (const int descriptor : {first.here, first.there, second.there, set, sleeps_on})
        close(descriptor);
}

// A worker's sets, with a connection whose other end says nothing any more.
class UcxSilentHost : public ::testing::Test {
  protected:
    UcxSilentHost() : connection_(connect_on_loopback()) {
        add(sleeps_on_, set_);
        add(set_, connection_.here);
    }
    ~UcxSilentHost() override {
        for (const int descriptor : {connection_.here, connection_.there, set_, sleeps_on_})
            close(descriptor);
    }

    // Whatever comes to the other end is dropped.
    void lose_it() const {
        sock_filter program[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
        const sock_fprog filter{.len = 1, .filter = program};
        ASSERT_EQ(setsockopt(connection_.there, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter), 0);
        ASSERT_EQ(send(connection_.here, "?", 1, MSG_NOSIGNAL), 1);
    }
    // Looks as often as a transport does, with no descriptor left from `from` until `to` after the loss. When it was found, in
    // nanoseconds after that, of which no more than 2 * kLookNs count between two looks: this process may have waited for a core.
    std::uint64_t found_after(ucx::SilentHosts& hosts, std::uint64_t from_ns, std::uint64_t to_ns) {
        std::optional<testing::Shortage> shortage;
        hosts.look(now_ns());
        std::uint64_t looked_at = now_ns();
        lose_it();
        for (std::uint64_t now = 0;;) {
            const std::uint64_t passed = now_ns() - looked_at;
            looked_at += passed;
            now += std::min(passed, 2 * Silence::kLookNs);
            if (now >= to_ns) shortage.reset();
            if (now >= from_ns && now < to_ns && !shortage) shortage.emplace();
            const auto found = hosts.look(now_ns());
            EXPECT_EQ(found.is_blind, shortage.has_value());
            if (!found.lost.empty()) {
                EXPECT_EQ(found.lost.size(), 1U);
                EXPECT_TRUE(found.lost[0].host.is_loopback());
                EXPECT_EQ(found.lost[0].what.find("nothing was heard of 127.0.0.1:"), 0U);
                return now;
            }
            if (now > 20 * kSecond) return now;
            usleep(Silence::kLookNs / 1000);
        }
    }

    static constexpr std::uint64_t kSecond = 1'000'000'000;
    static constexpr std::uint64_t kAtOnce = 9 * kSecond / 2;
    const process::Use use_;
    const int sleeps_on_ = epoll_create1(EPOLL_CLOEXEC);
    const int set_ = epoll_create1(EPOLL_CLOEXEC);
    const Connection connection_;
};

TEST_F(UcxSilentHost, IsFoundAsSoonWhereTheSetsCannotBeReadForAWhile) {
    ucx::SilentHosts hosts(sleeps_on_);
    EXPECT_LT(found_after(hosts, 2 * kSecond, 11 * kSecond / 4), kAtOnce);
}

TEST_F(UcxSilentHost, IsFoundAsSoonWhereTheSetsCannotBeReadAnyMore) {
    ucx::SilentHosts hosts(sleeps_on_);
    EXPECT_LT(found_after(hosts, 0, UINT64_MAX), kAtOnce);
}

// Its number is another connection's, which is not known yet.
TEST_F(UcxSilentHost, IsNotLookedAtByItsNumberWhereTheSetsCannotBeRead) {
    const Connection other = connect_on_loopback();
    ucx::SilentHosts hosts(sleeps_on_);
    hosts.look(now_ns());
    ASSERT_EQ(dup2(other.here, connection_.here), connection_.here);
    close(other.here);
    const testing::Shortage shortage;
    EXPECT_TRUE(hosts.look(now_ns()).is_blind);
    EXPECT_FALSE(is_asked_when_idle(connection_.here));
    close(other.there);
}

// UCX may tell the kernel what its user wants after a connection stands.
TEST_F(UcxSilentHost, IsAskedOftenEnoughWhateverUcxsUserWants) {
    ucx::SilentHosts hosts(sleeps_on_);
    for (int look = 0; look < 2; ++look) {
        const int seldom = 60;
        ASSERT_EQ(setsockopt(connection_.here, IPPROTO_TCP, TCP_KEEPIDLE, &seldom, sizeof seldom), 0);
        const int on = 1;
        ASSERT_EQ(setsockopt(connection_.here, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on), 0);
        hosts.look(now_ns());
        int idle = 0;
        socklen_t length = sizeof idle;
        ASSERT_EQ(getsockopt(connection_.here, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &length), 0);
        EXPECT_EQ(idle, 2);
    }
}

TEST_F(UcxSilentHost, ItIsSaidWhereNoTimerWakes) {
    EXPECT_EQ(ucx::SilentHosts(sleeps_on_).wake_error(), 0);
    EXPECT_EQ(ucx::SilentHosts(-1).wake_error(), 0);
    EXPECT_EQ(ucx::SilentHosts(connection_.here).wake_error(), EINVAL);  // no set to be put into
    has_no_timers = true;
    ucx::SilentHosts hosts(sleeps_on_);
    has_no_timers = false;
    EXPECT_EQ(hosts.wake_error(), EMFILE);
    hosts.wake_at(now_ns());
    EXPECT_FALSE(hosts.look(now_ns()).is_blind);
}

// Nothing of what it finds depends on the timer, and a rank that sleeps has to wake by itself.
TEST(UcxSilentHosts, ATransportWithoutATimerSaysSoAndIsNotSleptOnForLong) {
    testing::in_child([] {
        COPPICE_CHECK(testing::make_ucx(testing::ucx_options(Seat(0), 2))->capabilities().arm_is_complete);
        has_no_timers = true;
        const auto wire = testing::make_ucx(testing::ucx_options(Seat(0), 2));
        COPPICE_CHECK(!wire->capabilities().arm_is_complete);
        COPPICE_CHECK(wire->last_error().find("no timer") != std::string_view::npos);
        COPPICE_CHECK(wire->last_error().find("ulimit -n") != std::string_view::npos);
    });
}

// The last trouble is another one: what is lacking is said all the same.
TEST(UcxSilentHosts, WhatATransportDoesWithoutIsSaidInItsOtherErrors) {
    testing::in_child([] {
        has_no_timers = true;
        const auto wire = testing::make_ucx(testing::ucx_options(Seat(0), 2));
        auto peer = testing::make_ucx(testing::ucx_options(Seat(1), 2));
        COPPICE_CHECK(wire->add_peer(Seat(1), peer->address()).has_value());
        testing::Recorder recorder;
        wire->watch(Seat(1));
        testing::poll_until(*wire, recorder, [&] {
            peer->poll(recorder);
            return wire->connected(Seat(1));
        });
        peer.reset();
        testing::poll_until(*wire, recorder, [&] { return recorder.failed(Seat(1)); });
        const std::string error(wire->last_error());
        for (const char* word : {"the connection to rank 1", "firewall", "; there is no timer", "ulimit -n"})
            if (error.find(word) == std::string::npos) throw testing::CheckFailed(error);
    });
}

// UCX's address of a worker that listens at 10.98.0.<last>.
std::vector<std::byte> address_at(unsigned last) {
    std::vector<std::byte> address(12);
    for (const unsigned byte : {10U, 98U, 0U, last, 7U, 0U})
        address.push_back(static_cast<std::byte>(byte));
    return address;
}

ucx::SilentHosts::Lost lost_at(std::uint8_t last) {
    const IpAddress host{.version = 4, .bytes = {10, 98, 0, last}};
    return {.host = host, .what = "nothing was heard of " + to_string(host) + ":4000 for 3400 ms"};
}

constexpr std::string_view kUnheard2 = "; nothing was heard of 10.98.0.2:4000 for 3400 ms";

TEST(UcxSaidOf, AnErrorTellsOfItsOwnHostAlone) {
    std::vector lost{lost_at(1), lost_at(2)};
    EXPECT_EQ(ucx::said_of(address_at(2), lost, ""), kUnheard2);
    EXPECT_EQ(ucx::said_of(address_at(3), lost, ""), "");
    EXPECT_EQ(ucx::said_of(address_at(3), lost, "no such thing"), "; UCX says: no such thing");
    lost.clear();
    EXPECT_EQ(ucx::said_of(address_at(2), lost, ""), "");
    EXPECT_EQ(ucx::said_of(address_at(2), lost, "10.98.0.2 is gone"), "; UCX says: 10.98.0.2 is gone");
}

TEST(UcxSaidOf, WhatUcxSaysOfAnotherLostHostIsSaidInTheErrorOfThatHost) {
    std::vector lost{lost_at(1), lost_at(2)};
    const std::string complaint = "send to 10.98.0.2:4000 failed";
    EXPECT_EQ(ucx::said_of(address_at(3), lost, complaint), "");
    EXPECT_EQ(ucx::said_of(address_at(1), lost, ""), "; nothing was heard of 10.98.0.1:4000 for 3400 ms");
    EXPECT_EQ(ucx::said_of(address_at(2), lost, ""), std::string(kUnheard2) + "; UCX says: " + complaint);
}

// With two connections to it.
TEST(UcxSaidOf, WhatUcxSaysOfAnotherLostHostIsSaidOnce) {
    std::vector lost{lost_at(2), lost_at(2)};
    EXPECT_EQ(ucx::said_of(address_at(1), lost, "10.98.0.2 is gone"), "");
    EXPECT_EQ(ucx::said_of(address_at(2), lost, ""),
              std::string(kUnheard2) + "; UCX says: 10.98.0.2 is gone" + std::string(kUnheard2));
}

TEST(UcxSaidOf, WhatUcxSaysOfItsOwnHostIsSaid) {
    std::vector lost{lost_at(1), lost_at(2)};
    EXPECT_EQ(ucx::said_of(address_at(2), lost, "10.98.0.2:4000 is gone"),
              std::string(kUnheard2) + "; UCX says: 10.98.0.2:4000 is gone");
}

TEST(UcxSaidOf, AnAddressThatBeginsOrEndsAsThatOfALostHostIsAnother) {
    for (const std::string complaint : {"10.98.0.21 is gone", "110.98.0.2:4000 is gone", "1.10.98.0.2 is gone"}) {
        std::vector lost{lost_at(2)};
        EXPECT_EQ(ucx::said_of(address_at(21), lost, complaint), "; UCX says: " + complaint);
    }
    const IpAddress host{.version = 6, .bytes = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
    for (const std::string complaint : {"fd00::2:4000 is gone", "[fd00::2]:4000 is gone", "gone: fd00::2"}) {
        std::vector<ucx::SilentHosts::Lost> lost{{.host = host, .what = "lost"}};
        EXPECT_EQ(ucx::said_of(address_at(3), lost, complaint), "") << complaint;
    }
    for (const std::string complaint : {"afd00::2 is gone", "1:fd00::2 is gone", "fd00::21 is gone"}) {
        std::vector<ucx::SilentHosts::Lost> lost{{.host = host, .what = "lost"}};
        EXPECT_EQ(ucx::said_of(address_at(3), lost, complaint), "; UCX says: " + complaint);
    }
}

TEST(UcxSilentHosts, AWorkersAddressTellsWhereItListens) {
    const IpAddress host{.version = 4, .bytes = {10, 98, 0, 2}};
    const IpAddress other{.version = 4, .bytes = {10, 98, 0, 1}};
    const auto address = address_at(2);
    EXPECT_FALSE(ucx::listens_at({}, host));
    EXPECT_TRUE(ucx::listens_at(address, host));
    EXPECT_FALSE(ucx::listens_at(address, other));
    EXPECT_FALSE(ucx::listens_at(address, {.version = 6, .bytes = host.bytes}));
}

}  // namespace
}  // namespace coppice::transport
