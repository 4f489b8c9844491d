// Where a rank listens: addresses of this host that others may reach, and how they travel through the exchange.
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/words.hpp"

namespace coppice::transport::tcp {

inline constexpr std::size_t kMaxEndpoints = 16;

struct Endpoint {
    std::array<std::uint8_t, 16> ip{};  // of IPv4 the first four
    std::uint16_t port = 0;
    std::uint8_t family = 4;   // or 6
    std::uint8_t prefix = 32;  // bits of the address that its network has in common

    bool operator==(const Endpoint&) const = default;
};
static_assert(sizeof(Endpoint) == 20);

std::string to_string(const Endpoint& endpoint, bool with_port = true);
// All of them, for people.
std::string to_string(std::span<const Endpoint> endpoints);

// For system calls: the address and how much of it counts.
struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t length = 0;
    sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};
SocketAddress to_socket(const Endpoint& endpoint);

// Addresses of interfaces that are up: of those in `interfaces` (names, separated by commas), or of all but loopback where
// that is empty; IPv4 first. `loopback_only`: the one of the loopback interface, unless interfaces are named.
Result<std::vector<Endpoint>> own_endpoints(std::string_view interfaces, bool loopback_only);

// In the order in which they are to be tried: those first that share a network with one of `own`.
void sort_by_reach(std::vector<Endpoint>& theirs, std::span<const Endpoint> own);

// What a peer has to know of a rank.
struct Address {
    std::uint32_t incarnation = 0;
    std::vector<Endpoint> endpoints;
};
std::vector<std::byte> pack_address(std::span<const Endpoint> endpoints, std::uint32_t incarnation);
// `rank` is named in errors. Refuses other versions, word sizes and byte orders, and damaged bytes.
Result<Address> unpack_address(Seat rank, std::span<const std::byte> address);

}  // namespace coppice::transport::tcp
