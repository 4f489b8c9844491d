// The IP addresses of hosts, as ranks tell them to each other, and which hosts may connect to a rank by them.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coppice::transport {

struct IpAddress {
    std::uint8_t version = 4;              // 4 or 6
    std::array<std::uint8_t, 16> bytes{};  // as on the wire; the first four of version 4
    auto operator<=>(const IpAddress&) const = default;
    bool is_loopback() const;
};
std::string to_string(const IpAddress& address);

// A host that has more of them is one from which anybody may come (see HostAddresses::everybody).
inline constexpr std::size_t kMostAddresses = 256;

// Addresses from which a host's packets may come: of all its interfaces, but without loopback, and without those of IPv6 that
// are good on one link only, as every interface has one and nobody is reached by them.
struct HostAddresses {
    bool everybody = false;       // it could not be found out, or there are too many: written as "*"
    std::vector<IpAddress> list;  // sorted

    // Of this process's network namespace.
    static HostAddresses own();
    // "10.0.0.1,fd00::1", empty without any.
    std::string text() const;
    // None for everything that text() would not have written, but for the order.
    static std::optional<HostAddresses> parse(std::string_view text);
    bool operator==(const HostAddresses&) const = default;
};

// Whose connections are let in.
struct Admission {
    bool everybody = false;
    bool loopback = false;
    std::vector<IpAddress> hosts;  // sorted, each once

    // All hosts if one of them says so, else those of the other ranks. A rank with an address of `own` is in this
    // network namespace and may come over loopback; without such a rank this host is not admitted.
    static Admission of(const HostAddresses& own, std::span<const HostAddresses> others);
    // One more host. False: it is let in already.
    bool add(const HostAddresses& host);
};

}  // namespace coppice::transport
