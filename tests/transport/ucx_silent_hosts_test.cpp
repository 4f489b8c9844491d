// Which connections are looked at, of those that the sets of a worker's descriptors have.
#include "transport/ucx/silent_hosts.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/process.hpp"

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

}  // namespace
}  // namespace coppice::transport
