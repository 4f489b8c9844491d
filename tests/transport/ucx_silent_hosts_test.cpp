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

#include <optional>

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
    // nanoseconds after that.
    std::uint64_t found_after(ucx::SilentHosts& hosts, std::uint64_t from_ns, std::uint64_t to_ns) {
        std::optional<testing::Shortage> shortage;
        hosts.look(now_ns());
        const std::uint64_t lost_at = now_ns();
        lose_it();
        while (true) {
            const std::uint64_t now = now_ns() - lost_at;
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

TEST(UcxSilentHosts, AWorkersAddressTellsWhereItListens) {
    const IpAddress host{.version = 4, .bytes = {10, 98, 0, 2}};
    const IpAddress other{.version = 4, .bytes = {10, 98, 0, 1}};
    std::vector<std::byte> address(12);
    EXPECT_FALSE(ucx::listens_at({}, host));
    for (const unsigned byte : {10U, 98U, 0U, 2U, 7U, 0U})
        address.push_back(static_cast<std::byte>(byte));
    EXPECT_TRUE(ucx::listens_at(address, host));
    EXPECT_FALSE(ucx::listens_at(address, other));
    EXPECT_FALSE(ucx::listens_at(address, {.version = 6, .bytes = host.bytes}));
}

}  // namespace
}  // namespace coppice::transport
