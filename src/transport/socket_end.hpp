// The end of a TCP connection: an address and a port, as errors name them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "transport/ip_addresses.hpp"

namespace coppice::transport {

struct SocketEnd {
    IpAddress ip;
    std::uint16_t port = 0;
    bool operator==(const SocketEnd&) const = default;
};

// None: the kernel knows of none. Of a connection that has been reset it knows no peer.
std::optional<SocketEnd> own_end(int socket);
std::optional<SocketEnd> peer_end(int socket);

// "10.0.0.2:4000", "[fd00::2]:4000"
std::string to_string(const SocketEnd& end);

}  // namespace coppice::transport
