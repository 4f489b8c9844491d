#include "transport/socket_end.hpp"

#include <fmt/format.h>
#include <netinet/in.h>

#include <cstring>

namespace coppice::transport {
namespace {

using Name = int (*)(int, sockaddr*, socklen_t*);

std::optional<SocketEnd> end_of(int socket, Name name) {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    if (name(socket, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return std::nullopt;
    SocketEnd end;
    if (storage.ss_family == AF_INET) {
        const auto& from = reinterpret_cast<const sockaddr_in&>(storage);
        end.port = ntohs(from.sin_port);
        std::memcpy(end.ip.bytes.data(), &from.sin_addr, 4);
    } else if (storage.ss_family == AF_INET6) {
        const auto& from = reinterpret_cast<const sockaddr_in6&>(storage);
        end.ip.version = 6;
        end.port = ntohs(from.sin6_port);
        std::memcpy(end.ip.bytes.data(), &from.sin6_addr, 16);
    } else {
        return std::nullopt;
    }
    return end;
}

}  // namespace

std::optional<SocketEnd> own_end(int socket) {
    return end_of(socket, &getsockname);
}

std::optional<SocketEnd> peer_end(int socket) {
    return end_of(socket, &getpeername);
}

std::string to_string(const SocketEnd& end) {
    const std::string ip = to_string(end.ip);
    return end.ip.version == 4 ? fmt::format("{}:{}", ip, end.port) : fmt::format("[{}]:{}", ip, end.port);
}

}  // namespace coppice::transport
