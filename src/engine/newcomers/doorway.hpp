// Where this process listens for others that come with a ticket, and how members tell each other.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "bootstrap/ticket.hpp"
#include "transport/ip_addresses.hpp"

namespace coppice::engine {

// Among the addresses of a rank's transports (wire/address_list.hpp).
inline constexpr std::string_view kDoorName = "door";

// Addresses of this host at which others may reach it.
inline std::vector<bootstrap::DoorAddress::Ip> door_ips() {
    std::vector<bootstrap::DoorAddress::Ip> ips;
    for (const transport::IpAddress& one : transport::HostAddresses::own().list)
        ips.push_back({.version = one.version, .bytes = one.bytes});
    return ips;
}

}  // namespace coppice::engine
