#include "transport/tcp/socket.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/silence.hpp"
#include "transport/socket_end.hpp"
#include "transport/tcp/wire.hpp"

namespace coppice::transport::tcp {
namespace {

constexpr int kBacklog = 65535;  // the kernel takes less: net.core.somaxconn

bool set(int socket, int level, int option, int value) {
    return setsockopt(socket, level, option, &value, sizeof value) == 0;
}

// Before listen() and connect(): the buffer decides how large a window can be spoken of.
void prepare(int socket, std::uint32_t buffer) {
    set(socket, SOL_SOCKET, SO_RCVBUF, static_cast<int>(buffer));
    set(socket, SOL_SOCKET, SO_SNDBUF, static_cast<int>(buffer));
    set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    ask_when_idle(socket);
    set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
    repeat_every_second(socket);
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
    const auto own = own_end(made.get());
    if (!own)
        return fail(COPPICE_ERR_NO_TRANSPORT, "tcp: no port at {}: {}", to_string(endpoint), std::strerror(errno));
    endpoint.port = own->port;
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
    return peer_end(socket).has_value();
}

std::ptrdiff_t send_some(int socket, std::span<const std::byte> bytes) {
    return ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace coppice::transport::tcp
