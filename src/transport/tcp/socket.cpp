#include "transport/tcp/socket.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/tcp/wire.hpp"

namespace coppice::transport::tcp {
namespace {

// As much as is granted (net.core.rmem_max, wmem_max).
constexpr int kBuffer = 2 * 1024 * 1024;
constexpr int kBacklog = 4096;

bool set(int socket, int level, int option, int value) {
    return setsockopt(socket, level, option, &value, sizeof value) == 0;
}

// Before listen() and connect(): the buffer decides how large a window can be spoken of.
void prepare(int socket) {
    set(socket, SOL_SOCKET, SO_RCVBUF, kBuffer);
    set(socket, SOL_SOCKET, SO_SNDBUF, kBuffer);
    set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    // An idle connection: asked after from a second of silence on. A busy one: TCP_USER_TIMEOUT, which bounds both.
    set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

Descriptor open_socket(const Endpoint& endpoint) {
    Descriptor made(::socket(endpoint.family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (made) prepare(made.get());
    return made;
}

}  // namespace

Result<Descriptor> listen_at(Endpoint& endpoint) {
    Descriptor made = open_socket(endpoint);
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

Descriptor start_connecting(const Endpoint& endpoint) {
    Descriptor made = open_socket(endpoint);
    if (!made) return made;
    SocketAddress address = to_socket(endpoint);
    if (::connect(made.get(), address.get(), address.length) == 0 || errno == EINPROGRESS) return made;
    const int error = errno;
    made.close();
    errno = error;
    return made;
}

Descriptor accept_from(int listener) {
    return Descriptor(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
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

std::ptrdiff_t send_some(int socket, std::span<const std::byte> bytes) {
    return ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace coppice::transport::tcp
