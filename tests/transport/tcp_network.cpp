#include "transport/tcp_network.hpp"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "support/processes.hpp"

namespace coppice::testing {
namespace {

int open_own() {
    return ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

std::string mac_of(std::uint32_t number) {
    return "02:98:00:00:00:0" + std::to_string(number);
}

}  // namespace

Urgent::Urgent() {
    const sched_param first{.sched_priority = 1};
    ::sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
}

Urgent::~Urgent() {
    const sched_param plain{};
    ::sched_setscheduler(0, SCHED_OTHER, &plain);
}

std::string TestNetwork::missing() {
    if (::access("/usr/sbin/tc", X_OK) != 0 && ::access("/sbin/tc", X_OK) != 0) return "there is no tc (iproute2)";
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    return status == 0 ? "" : "network namespaces need root here";
}

TestNetwork::TestNetwork(std::uint32_t hosts) {
    const int own = open_own();
    for (std::uint32_t host = 0; host <= hosts; ++host) {
        COPPICE_CHECK(::unshare(CLONE_NEWNET) == 0);
        namespaces_.push_back(open_own());
    }
    COPPICE_CHECK(::setns(own, CLONE_NEWNET) == 0);
    ::close(own);
    run(0, "ip link add bridge type bridge forward_delay 0 && ip link set bridge up");
    for (std::uint32_t host = 1; host <= hosts; ++host) {
        const std::string number = std::to_string(host);
        // The pair is made where the bridge is; its other end moves.
        run(0, "ip link add port" + number + " type veth peer name veth" + number + " netns /proc/" +
                   std::to_string(::getpid()) + "/fd/" + std::to_string(namespaces_[host]) + " && ip link set port" +
                   number + " master bridge up");
        run(host, "ip link set lo up && ip link set veth" + number + " address " + mac_of(host) +
                      " && ip addr add 10.98.0." + number + "/24 dev veth" + number + " && ip addr add fd98::" +
                      number + "/64 dev veth" + number + " nodad && ip link set veth" + number + " up");
    }
}

TestNetwork::~TestNetwork() {
    for (const int one : namespaces_)
        ::close(one);
}

void TestNetwork::join(std::uint32_t host) const {
    COPPICE_CHECK(::setns(namespaces_[host + 1], CLONE_NEWNET) == 0);
}

void TestNetwork::run(std::uint32_t host, const std::string& commands) const {
    const pid_t child = ::fork();
    if (child == 0) {
        if (::setns(namespaces_[host], CLONE_NEWNET) != 0) ::_exit(1);
        ::execl("/bin/sh", "sh", "-c", ("PATH=$PATH:/usr/sbin:/sbin; " + commands).c_str(), nullptr);
        ::_exit(127);
    }
    int status = 0;
    COPPICE_CHECK(::waitpid(child, &status, 0) == child && status == 0);
}

// By this process itself: on a machine that is overloaded another one would start seconds later.
void TestNetwork::set_link(std::uint32_t host, bool up) const {
    const int own = open_own();
    COPPICE_CHECK(::setns(namespaces_[host + 1], CLONE_NEWNET) == 0);
    const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request{};
    ("veth" + std::to_string(host + 1)).copy(request.ifr_name, IFNAMSIZ - 1);
    COPPICE_CHECK(::ioctl(socket, SIOCGIFFLAGS, &request) == 0);
    request.ifr_flags = static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    COPPICE_CHECK(::ioctl(socket, SIOCSIFFLAGS, &request) == 0);
    ::close(socket);
    COPPICE_CHECK(::setns(own, CLONE_NEWNET) == 0);
    ::close(own);
}

void TestNetwork::cut(std::uint32_t host) const {
    set_link(host, false);
}
void TestNetwork::mend(std::uint32_t host) const {
    set_link(host, true);
}

std::uint64_t TestNetwork::cut_for(std::uint32_t host, std::uint64_t time_ns, int times, std::uint64_t pause_ns) const {
    std::uint64_t longest = 0;
    for (int count = 0; count < times; ++count) {
        const std::uint64_t began = now_ns();
        cut(host);
        ::usleep(static_cast<useconds_t>(time_ns / 1000));
        mend(host);
        longest = std::max(longest, now_ns() - began);
        ::usleep(static_cast<useconds_t>(pause_ns / 1000));
    }
    return longest;
}

void TestNetwork::pin_addresses(std::uint32_t host) const {
    for (std::uint32_t other = 1; other < namespaces_.size(); ++other)
        if (other != host + 1)
            run(host + 1, "ip neigh replace 10.98.0." + std::to_string(other) + " lladdr " + mac_of(other) +
                              " nud permanent dev veth" + std::to_string(host + 1));
}

void TestNetwork::bound_backlog(std::uint32_t host, std::uint32_t most) const {
    run(host + 1, "echo " + std::to_string(most) + " > /proc/sys/net/core/somaxconn");
}

void TestNetwork::cut_outgoing(std::uint32_t host) const {
    run(host + 1, "tc qdisc add dev veth" + std::to_string(host + 1) + " root blackhole");
}

}  // namespace coppice::testing
