// A stranger to the job that reaches the listener of a rank's UCX.
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "support/ucx_listener.hpp"
#include "transport/ucx/listeners.hpp"
#include "transport/ucx_support.hpp"

namespace coppice::testing {
namespace {

using transport::Admission;
using transport::IpAddress;

IpAddress loopback(std::uint8_t last) {
    return {.version = 4, .bytes = {127, 0, 0, last}};
}

int socket_from(std::uint8_t last) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(0x7F000000U + last);
    COPPICE_CHECK(bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0);
    return fd;
}

int listener_on_loopback() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    COPPICE_CHECK(bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 && listen(fd, 8) == 0);
    return fd;
}

// Calls 127.0.0.1 from 127.0.0.`last`.
bool strike(std::uint16_t port, std::uint8_t last) {
    const int fd = socket_from(last);
    const bool reached = strike_listener(
        fd, {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}});
    close(fd);
    return reached;
}

void exchange_messages(Group& group) {
    for (std::uint32_t i = 0; i < 20; ++i)
        group.send(i % 2, 1 - i % 2, pattern(i, 100));
    group.poll_until([&] { return group.recorders[0].messages.size() + group.recorders[1].messages.size() >= 20; });
    for (const auto& recorder : group.recorders)
        COPPICE_CHECK(recorder.messages.size() == 10 && recorder.failures.empty());
}

TEST(UcxStrangers, ThirteenBytesFromAHostThatIsNotOfTheJobDoNotArrive) {
    in_child([] {
        Group group(2, Admission{.hosts = {loopback(1)}});
        for (const auto& wire : group.wires) {
            COPPICE_CHECK(wire->listeners() > 0);
            COPPICE_CHECK(wire->open_to_strangers().empty());
        }
        for (const std::uint16_t port : listening_ports()) {
            COPPICE_CHECK(!strike(port, 66));
            for (int round = 0; round < 100; ++round)
                for (std::size_t rank = 0; rank < group.wires.size(); ++rank)
                    group.wires[rank]->poll(group.recorders[rank]);
        }
        exchange_messages(group);
    });
}

void expect_stranger_is_heard(int listener) {
    const int fd = socket_from(66);
    sockaddr_in to{};
    socklen_t length = sizeof to;
    COPPICE_CHECK(getsockname(listener, reinterpret_cast<sockaddr*>(&to), &length) == 0);
    COPPICE_CHECK(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 || errno == EINPROGRESS);
    pollfd heard{.fd = listener, .events = POLLIN, .revents = 0};
    COPPICE_CHECK(poll(&heard, 1, 10'000) == 1);
    const int accepted = accept(listener, nullptr, nullptr);
    COPPICE_CHECK(accepted >= 0);
    close(accepted);
    close(fd);
}

// The application's own server hears everybody, whenever it was opened: before, or meanwhile, be it as UCX's are (does not
// block) or not. Of 200 ports some stand in the worker's address by chance now and then.
TEST(UcxStrangers, OtherListenersOfTheProcessStayOpen) {
    in_child([] {
        const int before = listener_on_loopback();
        std::atomic<bool> stop = false;
        std::vector<int> meanwhile;
        std::thread application([&] {
            while (!stop && meanwhile.size() < 200) {
                meanwhile.push_back(listener_on_loopback());
                if (meanwhile.size() % 2 == 0) COPPICE_CHECK(fcntl(meanwhile.back(), F_SETFL, O_NONBLOCK) == 0);
            }
        });
        Group group(2, Admission{.hosts = {}});
        stop = true;
        application.join();
        meanwhile.push_back(before);
        for (const int listener : meanwhile) {
            expect_stranger_is_heard(listener);
            close(listener);
        }
    });
}

// A listener of the application's whose port stands in the worker's address by chance.
TEST(UcxStrangers, WhatOnlyLooksLikeTheWorkersIsDoubtful) {
    in_child([] {
        const transport::ucx::Listeners listeners;
        Bytes address;
        const auto listen_at = [&](const char* host, int flags) {
            const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
            sockaddr_in name{};
            name.sin_family = AF_INET;
            name.sin_addr.s_addr = inet_addr(host);
            socklen_t length = sizeof name;
            COPPICE_CHECK(bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 && listen(fd, 8) == 0);
            COPPICE_CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) == 0);
            const auto port = std::as_bytes(std::span(&name.sin_port, 1));
            address.insert(address.end(), port.begin(), port.end());
            return fd;
        };
        listen_at("127.0.0.1", SOCK_NONBLOCK);
        listen_at("127.0.0.2", SOCK_NONBLOCK);  // another address of the host: UCX's, too
        listen_at("127.0.0.1", 0);              // blocks, so it is not UCX's
        listen_at("0.0.0.0", SOCK_NONBLOCK);    // nor that for all of them
        const Admission nobody{.hosts = {}};
        COPPICE_CHECK(listeners.close_to_strangers(address, nobody).listeners == 2);
        const int another = listen_at("127.0.0.1", SOCK_NONBLOCK);
        const auto closed = listeners.close_to_strangers(address, nobody);
        COPPICE_CHECK(closed.doubtful && closed.listeners == 0);
        expect_stranger_is_heard(another);
        COPPICE_CHECK(listeners.close_to_strangers(address, nobody, true).listeners == 3);
    });
}

// Connections that were quicker than the filter: waiting to be accepted, or accepted already.
TEST(UcxStrangers, ConnectionsFromBeforeTheFilterAreEnded) {
    in_child([] {
        const transport::ucx::Listeners listeners;
        const int listener = listener_on_loopback();
        COPPICE_CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
        sockaddr_in to{};
        socklen_t length = sizeof to;
        COPPICE_CHECK(getsockname(listener, reinterpret_cast<sockaddr*>(&to), &length) == 0);
        std::array<int, 2> strangers{};
        for (int& stranger : strangers) {
            stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            COPPICE_CHECK(connect(stranger, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
            COPPICE_CHECK(send(stranger, "death", 5, MSG_NOSIGNAL) == 5);
        }
        const int accepted = accept(listener, nullptr, nullptr);
        const Bytes address(reinterpret_cast<const std::byte*>(&to.sin_port),
                            reinterpret_cast<const std::byte*>(&to.sin_port) + sizeof to.sin_port);
        const auto closed = listeners.close_to_strangers(address, {.hosts = {}});
        COPPICE_CHECK(closed.listeners == 1 && closed.open.empty());
        char byte = 0;
        COPPICE_CHECK(recv(accepted, &byte, 1, 0) == 0);  // what it had sent is gone
        COPPICE_CHECK(accept(listener, nullptr, nullptr) < 0 && errno == EAGAIN);
        for (const int stranger : strangers)
            COPPICE_CHECK(recv(stranger, &byte, 1, 0) <= 0);
    });
}

// From 127.0.0.`last`.
bool is_let_in(const sockaddr_in& listener, std::uint8_t last) {
    const int fd = socket_from(last);
    pollfd opened{.fd = fd, .events = POLLOUT, .revents = 0};
    const int called = connect(fd, reinterpret_cast<const sockaddr*>(&listener), sizeof listener);
    const bool is_open = called == 0 || (errno == EINPROGRESS && poll(&opened, 1, 500) == 1);
    close(fd);
    return is_open;
}

// A process that comes late may come from a host of which nobody has told before.
TEST(UcxStrangers, OneMoreHostIsLetIn) {
    in_child([] {
        const transport::ucx::Listeners listeners;
        const int listener = listener_on_loopback();
        COPPICE_CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
        sockaddr_in to{};
        socklen_t length = sizeof to;
        COPPICE_CHECK(getsockname(listener, reinterpret_cast<sockaddr*>(&to), &length) == 0);
        const Bytes address(reinterpret_cast<const std::byte*>(&to.sin_port),
                            reinterpret_cast<const std::byte*>(&to.sin_port) + sizeof to.sin_port);
        const auto closed = listeners.close_to_strangers(address, {.hosts = {loopback(1)}});
        COPPICE_CHECK(closed.sockets == std::vector<int>{listener});
        COPPICE_CHECK(is_let_in(to, 1) && !is_let_in(to, 66));
        auto open = transport::ucx::Listeners::admit(closed.sockets, {.hosts = {loopback(1), loopback(66)}});
        COPPICE_CHECK(open && open->empty());
        COPPICE_CHECK(is_let_in(to, 1) && is_let_in(to, 66) && !is_let_in(to, 67));
        open = transport::ucx::Listeners::admit(closed.sockets, {.everybody = true, .hosts = {}});
        COPPICE_CHECK(open && *open == "everybody is admitted" && is_let_in(to, 67));
    });
}

TEST(UcxStrangers, APeerThatIsAddedTellsFromWhereItComes) {
    in_child([] {
        transport::UcxOptions options = ucx_options(Seat(0), 3);
        options.admitted = Admission{.hosts = {loopback(1)}};
        const auto wire = make_ucx(options);
        const auto ports = listening_ports();
        COPPICE_CHECK(!ports.empty());
        const auto lets_in = [&](std::uint8_t last) {
            return std::ranges::any_of(ports, [&](std::uint16_t port) {
                return is_let_in({.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)},
                                  .sin_zero = {}},
                                 last);
            });
        };
        const auto add = [&](std::uint32_t rank, const char* host) {
            transport::UcxOptions late = ucx_options(Seat(rank), 3);
            late.host = transport::HostAddresses::parse(host);
            COPPICE_CHECK(wire->add_peer(Seat(rank), make_ucx(late)->address()).has_value());
        };
        add(1, "10.1.2.3,fd00::7");
        COPPICE_CHECK(wire->open_to_strangers().empty() && !lets_in(66));
        add(2, "*");
        COPPICE_CHECK(wire->open_to_strangers() == "everybody is admitted" && lets_in(66));
    });
}

TEST(UcxStrangers, ItIsSaidThatEverybodyMayCome) {
    in_child([] {
        transport::UcxOptions options = ucx_options(Seat(0), 2);
        options.admitted = Admission{.everybody = true, .hosts = {}};
        COPPICE_CHECK(make_ucx(options)->open_to_strangers() == "everybody is admitted");
    });
}

// More IPv6 addresses than a filter can tell apart are no reason to leave a listener open that is reached by IPv4.
TEST(UcxStrangers, AListenerOfIpv4IsClosedWhateverIpv6AddressesTheHostsHave) {
    in_child([] {
        Admission admitted{.hosts = {loopback(1)}};
        for (std::uint8_t i = 0; i < 50; ++i)
            admitted.hosts.push_back({.version = 6, .bytes = {0xfd, i}});
        Group group(2, admitted);
        COPPICE_CHECK(group.wires[0]->open_to_strangers().empty());
        exchange_messages(group);
    });
}

// As a container may be set up: this process can attach no filter to a socket.
void refuse_filters() {
    constexpr std::uint32_t kOption = offsetof(seccomp_data, args) + 2 * sizeof(std::uint64_t);
    std::array<sock_filter, 6> program{{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kOption),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_ATTACH_FILTER, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog filter{program.size(), program.data()};
    COPPICE_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    COPPICE_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

TEST(UcxStrangers, WhereTheListenerCannotBeClosedThatIsSaidAndItServes) {
    in_child([] {
        refuse_filters();
        Group group(2, Admission{.hosts = {loopback(1)}});
        COPPICE_CHECK(group.wires[0]->open_to_strangers().starts_with("a filter could not be attached"));
        COPPICE_CHECK(group.wires[0]->last_error().find("can reach its listener") != std::string_view::npos);
        exchange_messages(group);
    });
}

}  // namespace
}  // namespace coppice::testing
