#include "transport/tcp/address.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>

#include "transport/address_check.hpp"
#include "transport/socket_end.hpp"
#include "transport/tcp/handshake.hpp"

namespace coppice::transport::tcp {
namespace {

constexpr std::array<char, 4> kMagic = {'C', 'P', 'T', 'A'};

// The fixed part of an address. What precedes the order mark are single bytes, which every order reads alike.
struct Envelope {
    std::array<char, 4> magic = kMagic;
    std::uint8_t version = kWireVersion;
    std::uint8_t word_size = sizeof(void*);
    std::uint8_t endpoints = 0;
    std::uint8_t reserved = 0;
    std::uint32_t byte_order = kByteOrderMark;
    std::uint32_t checksum = 0;
    std::uint32_t incarnation = 0;
};
static_assert(sizeof(Envelope) == 20);

bool is_named(std::string_view interfaces, std::string_view name) {
    while (true) {
        const std::size_t comma = interfaces.find(',');
        if (interfaces.substr(0, comma) == name) return true;
        if (comma == std::string_view::npos) return false;
        interfaces.remove_prefix(comma + 1);
    }
}

template <std::size_t Size>
std::uint8_t prefix_of(const unsigned char (&mask)[Size]) {
    unsigned bits = 0;
    for (const unsigned char byte : mask)
        bits += static_cast<unsigned>(std::popcount(byte));
    return static_cast<std::uint8_t>(bits);
}

// Nothing: an address that other hosts can't use, such as a link-local one of IPv6.
std::vector<Endpoint> endpoint_of(const ifaddrs& interface) {
    Endpoint endpoint;
    if (interface.ifa_addr == nullptr || interface.ifa_netmask == nullptr) return {};
    unsigned char mask[16] = {};
    if (interface.ifa_addr->sa_family == AF_INET) {
        std::memcpy(endpoint.ip.data(), &reinterpret_cast<const sockaddr_in*>(interface.ifa_addr)->sin_addr, 4);
        std::memcpy(mask, &reinterpret_cast<const sockaddr_in*>(interface.ifa_netmask)->sin_addr, 4);
        endpoint.family = 4;
    } else if (interface.ifa_addr->sa_family == AF_INET6) {
        const auto& address = reinterpret_cast<const sockaddr_in6*>(interface.ifa_addr)->sin6_addr;
        if (IN6_IS_ADDR_LINKLOCAL(&address)) return {};
        std::memcpy(endpoint.ip.data(), &address, 16);
        std::memcpy(mask, &reinterpret_cast<const sockaddr_in6*>(interface.ifa_netmask)->sin6_addr, 16);
        endpoint.family = 6;
    } else {
        return {};
    }
    endpoint.prefix = prefix_of(mask);
    return {endpoint};
}

bool same_network(const Endpoint& a, const Endpoint& b) {
    if (a.family != b.family) return false;
    const unsigned bits = std::max(a.prefix, b.prefix);
    for (unsigned bit = 0; bit < bits; ++bit) {
        const auto difference = static_cast<unsigned>(a.ip[bit / 8] ^ b.ip[bit / 8]);
        if (((difference >> (7 - bit % 8)) & 1U) != 0) return false;
    }
    return true;
}

}  // namespace

std::string to_string(const Endpoint& endpoint, bool with_port) {
    const IpAddress ip{.version = endpoint.family, .bytes = endpoint.ip};
    return with_port ? transport::to_string(SocketEnd{ip, endpoint.port}) : transport::to_string(ip);
}

std::string to_string(std::span<const Endpoint> endpoints) {
    std::string text;
    for (const Endpoint& endpoint : endpoints)
        text += (text.empty() ? "" : ", ") + to_string(endpoint);
    return text;
}

SocketAddress to_socket(const Endpoint& endpoint) {
    SocketAddress address;
    if (endpoint.family == 4) {
        auto& to = reinterpret_cast<sockaddr_in&>(address.storage);
        to.sin_family = AF_INET;
        to.sin_port = htons(endpoint.port);
        std::memcpy(&to.sin_addr, endpoint.ip.data(), 4);
        address.length = sizeof to;
    } else {
        auto& to = reinterpret_cast<sockaddr_in6&>(address.storage);
        to.sin6_family = AF_INET6;
        to.sin6_port = htons(endpoint.port);
        std::memcpy(&to.sin6_addr, endpoint.ip.data(), 16);
        address.length = sizeof to;
    }
    return address;
}

Result<std::vector<Endpoint>> own_endpoints(std::string_view interfaces, bool loopback_only) {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0)
        return fail(COPPICE_ERR_NO_TRANSPORT, "tcp: the network interfaces can't be listed: {}", std::strerror(errno));
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
    std::vector<Endpoint> found;
    std::vector<Endpoint> loopbacks;
    std::string names;
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
        const std::string_view name(one->ifa_name);
        if (one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_PACKET)
            names += names.empty() ? std::string(name) : ", " + std::string(name);
        if ((one->ifa_flags & IFF_UP) == 0) continue;
        const bool loopback = interfaces.empty() && (one->ifa_flags & IFF_LOOPBACK) != 0;
        if (!interfaces.empty() && !is_named(interfaces, name)) continue;
        for (const Endpoint& endpoint : endpoint_of(*one))
            (loopback ? loopbacks : found).push_back(endpoint);
    }
    // Without a network there may still be simulated hosts.
    if (interfaces.empty() && (loopback_only || found.empty())) {
        found = std::move(loopbacks);
        if (found.size() > 1) found.resize(1);
    }
    std::ranges::stable_sort(found, {}, &Endpoint::family);
    if (found.size() > kMaxEndpoints) found.resize(kMaxEndpoints);
    if (!found.empty()) return found;
    return fail(COPPICE_ERR_NO_TRANSPORT,
                "tcp: no interface that is up has an address for it ({}; there are: {}); set one up, or name those to "
                "be used in COPPICE_TCP_INTERFACE",
                interfaces.empty() ? "any" : interfaces, names);
}

void sort_by_reach(std::vector<Endpoint>& theirs, std::span<const Endpoint> own) {
    std::ranges::stable_sort(theirs, {}, [&](const Endpoint& endpoint) {
        return std::ranges::none_of(own, [&](const Endpoint& mine) { return same_network(endpoint, mine); });
    });
}

std::vector<std::byte> pack_address(std::span<const Endpoint> endpoints, std::uint32_t incarnation) {
    Envelope envelope;
    envelope.incarnation = incarnation;
    envelope.endpoints = static_cast<std::uint8_t>(endpoints.size());
    const auto body = std::as_bytes(endpoints);
    envelope.checksum = checksum_of(body) ^ incarnation;
    std::vector<std::byte> address(sizeof envelope + body.size());
    std::memcpy(address.data(), &envelope, sizeof envelope);
    std::ranges::copy(body, address.begin() + sizeof envelope);
    return address;
}

Result<Address> unpack_address(Seat rank, std::span<const std::byte> address) {
    Envelope envelope;
    const bool readable = address.size() >= sizeof envelope;
    if (readable) std::memcpy(&envelope, address.data(), sizeof envelope);
    const AddressHead head{.ours = readable && envelope.magic == kMagic,
                           .version = envelope.version,
                           .word_size = envelope.word_size,
                           .byte_order = envelope.byte_order};
    if (auto known = check_address("tcp", rank, head, kWireVersion, address.size()); !known)
        return tl::unexpected(std::move(known.error()));
    const auto body = address.subspan(sizeof envelope);
    std::vector<Endpoint> endpoints(envelope.endpoints);
    const bool whole = !endpoints.empty() && endpoints.size() <= kMaxEndpoints &&
                       body.size() == endpoints.size() * sizeof(Endpoint) &&
                       (checksum_of(body) ^ envelope.incarnation) == envelope.checksum;
    if (whole) std::memcpy(endpoints.data(), body.data(), body.size());
    const bool sound =
        whole && std::ranges::all_of(endpoints, [](const Endpoint& one) {
            return one.port != 0 && ((one.family == 4 && one.prefix <= 32) || (one.family == 6 && one.prefix <= 128));
        });
    if (!sound) return damaged_address("tcp", rank);
    return Address{envelope.incarnation, std::move(endpoints)};
}

}  // namespace coppice::transport::tcp
