#include "transport/tcp/socket.hpp"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/tcp/wire.hpp"

namespace coppice::transport::tcp {
namespace {

constexpr int kBacklog = 65535;  // the kernel takes less: net.core.somaxconn
constexpr int kRtoMaxMs = 44;    // TCP_RTO_MAX_MS

bool set(int socket, int level, int option, int value) {
    return setsockopt(socket, level, option, &value, sizeof value) == 0;
}

// Before listen() and connect(): the buffer decides how large a window can be spoken of.
void prepare(int socket, std::uint32_t buffer) {
    set(socket, SOL_SOCKET, SO_RCVBUF, static_cast<int>(buffer));
    set(socket, SOL_SOCKET, SO_SNDBUF, static_cast<int>(buffer));
    set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    // An idle connection is asked after from a second of silence on, by the kernel.
    set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
    // Where the kernel knows of it (Linux 6.15): what was lost is sent again once in a second at least, so that an interruption
    // may last a second longer before it looks like a loss.
    set(socket, IPPROTO_TCP, kRtoMaxMs, 1000);
}

Descriptor open_socket(const Endpoint& endpoint, std::uint32_t buffer) {
    const int family = endpoint.family == 4 ? AF_INET : AF_INET6;
    Descriptor made =
        Descriptor::from([family] { return ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
    if (made) prepare(made.get(), buffer);
    return made;
}

}  // namespace

Result<Descriptor> listen_at(Endpoint& endpoint, std::uint32_t buffer) {
    Descriptor made = open_socket(endpoint, buffer);
    if (!made) return fail(COPPICE_ERR_NO_RESOURCES, "tcp: no socket: {} (see 'ulimit -n')", std::strerror(errno));
    if (endpoint.family == 6) set(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (endpoint.port != 0) set(made.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    SocketAddress address = to_socket(endpoint);
    if (::bind(made.get(), address.get(), address.length) != 0 || ::listen(made.get(), kBacklog) != 0)
        return fail(COPPICE_ERR_NO_TRANSPORT,
                    "tcp: cannot listen at {}: {}; choose interfaces with COPPICE_TCP_INTERFACE, ports with "
                    "COPPICE_TCP_PORT",
                    to_string(endpoint), std::strerror(errno));
    endpoint.port = own_end(made.get()).port;
    return made;
}

Descriptor start_connecting(const Endpoint& endpoint, std::uint32_t buffer) {
    Descriptor made = open_socket(endpoint, buffer);
    if (!made) return made;
    SocketAddress address = to_socket(endpoint);
    if (::connect(made.get(), address.get(), address.length) == 0 || errno == EINPROGRESS) return made;
    const int error = errno;
    made.close();
    errno = error;
    return made;
}

Descriptor accept_from(int listener) {
    return Descriptor::from([listener] { return ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
}

void end_kernel_bound(int socket) {
    set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
}

std::uint32_t room_of(int socket) {
    int bytes = 0;
    socklen_t length = sizeof bytes;
    if (getsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, &length) != 0) bytes = 0;
    // The kernel announces half of its buffer at most; the rest is for what it needs itself.
    return std::min(static_cast<std::uint32_t>(bytes) / 4 * 3, kMostRoom);
}

int connect_error(int socket) {
    int error = 0;
    socklen_t length = sizeof error;
    return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

bool is_connected(int socket) {
    SocketAddress address;
    address.length = sizeof address.storage;
    return getpeername(socket, address.get(), &address.length) == 0;
}

Health health_of(int socket) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
    int queued = 0;
    if (ioctl(socket, SIOCOUTQ, &queued) != 0) queued = 0;
    return {.silence_ms = info.tcpi_last_ack_recv,
            .outstanding = queued > 0,
            .repetitions = std::uint32_t{info.tcpi_retransmits} + info.tcpi_probes};
}

bool Silence::lasts(const Health& health, std::uint64_t now_ns) {
    const std::uint64_t passed = looked_ns_ == 0 ? 0 : now_ns - looked_ns_;
    looked_ns_ = now_ns;
    const bool heard = std::uint64_t{health.silence_ms} * 1'000'000 < passed + kTickNs;
    doubted_ns_ = heard || !health.outstanding ? 0 : doubted_ns_ + std::min(passed, 2 * kLookNs);
    return std::uint64_t{health.silence_ms} * 1'000'000 >= kMostSilenceNs && doubted_ns_ >= kLeastDoubtNs &&
           health.repetitions >= kLeastRepetitions;
}

void reset_at_close(int socket) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

std::ptrdiff_t send_some(int socket, std::span<const std::byte> bytes) {
    return ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace coppice::transport::tcp
