#include "transport/ip_addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace coppice::transport {
namespace {

std::optional<IpAddress> address_of(const sockaddr* address) {
    IpAddress found;
    if (address == nullptr) return std::nullopt;
    if (address->sa_family == AF_INET) {
        std::memcpy(found.bytes.data(), &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
        return found;
    }
    if (address->sa_family != AF_INET6) return std::nullopt;
    found.version = 6;
    std::memcpy(found.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
    return found;
}

bool is_of_one_link(const IpAddress& address) {
    return address.version == 6 && address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0U) == 0x80;
}

std::optional<IpAddress> parse_address(std::string_view text) {
    std::array<char, INET6_ADDRSTRLEN> copy{};
    if (text.empty() || text.size() >= copy.size()) return std::nullopt;
    text.copy(copy.data(), text.size());
    IpAddress found;
    if (::inet_pton(AF_INET, copy.data(), found.bytes.data()) == 1) return found;
    found = {.version = 6};
    if (::inet_pton(AF_INET6, copy.data(), found.bytes.data()) == 1) return found;
    return std::nullopt;
}

void sort_out(std::vector<IpAddress>& addresses) {
    std::ranges::sort(addresses);
    addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
}

}  // namespace

std::string to_string(const IpAddress& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(address.version == 4 ? AF_INET : AF_INET6, address.bytes.data(), text.data(), text.size());
    return text.data();
}

bool IpAddress::is_loopback() const {
    if (version == 4) return bytes[0] == 127;
    return std::all_of(bytes.begin(), bytes.end() - 1, [](auto byte) { return byte == 0; }) && bytes[15] == 1;
}

HostAddresses HostAddresses::own() {
    HostAddresses result;
    ifaddrs* interfaces = nullptr;
    if (::getifaddrs(&interfaces) != 0) return {.everybody = true, .list = {}};
    for (const ifaddrs* one = interfaces; one != nullptr; one = one->ifa_next) {
        const auto address = address_of(one->ifa_addr);
        if (address && !address->is_loopback() && !is_of_one_link(*address)) result.list.push_back(*address);
    }
    ::freeifaddrs(interfaces);
    sort_out(result.list);
    if (result.list.size() > kMostAddresses) return {.everybody = true, .list = {}};
    return result;
}

std::string HostAddresses::text() const {
    if (everybody) return "*";
    std::string result;
    for (const IpAddress& address : list) {
        if (!result.empty()) result += ',';
        result += to_string(address);
    }
    return result;
}

std::optional<HostAddresses> HostAddresses::parse(std::string_view text) {
    HostAddresses result;
    if (text == "*") return HostAddresses{.everybody = true, .list = {}};
    while (!text.empty()) {
        const std::string_view word = text.substr(0, text.find(','));
        const auto address = parse_address(word);
        if (!address || address->is_loopback() || result.list.size() == kMostAddresses) return std::nullopt;
        result.list.push_back(*address);
        if (word.size() == text.size()) break;
        text.remove_prefix(word.size() + 1);
        if (text.empty()) return std::nullopt;  // ends in a comma
    }
    sort_out(result.list);
    return result;
}

Admission Admission::of(const HostAddresses& own, std::span<const HostAddresses> others) {
    Admission result{.everybody = own.everybody, .hosts = {}};
    for (const HostAddresses& other : others) {
        result.everybody |= other.everybody;
        result.hosts.insert(result.hosts.end(), other.list.begin(), other.list.end());
        std::vector<IpAddress> common;
        std::ranges::set_intersection(own.list, other.list, std::back_inserter(common));
        result.loopback |= !common.empty() || (own.list.empty() && other.list.empty());
    }
    sort_out(result.hosts);
    return result;
}

bool Admission::add(const HostAddresses& host) {
    if (everybody || (!host.everybody && std::ranges::includes(hosts, host.list))) return false;
    everybody = host.everybody;
    hosts.insert(hosts.end(), host.list.begin(), host.list.end());
    sort_out(hosts);
    return true;
}

}  // namespace coppice::transport
