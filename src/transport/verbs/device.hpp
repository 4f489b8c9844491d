// Which RDMA device, port and address this rank uses, and why none does.
#pragma once

#include <infiniband/verbs.h>
#include <netinet/in.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/error.hpp"

namespace coppice::transport::verbs {

struct DeviceOptions {
    // "mlx5_0", "mlx5_0:2" with a port; "auto": the nearest to this process's cores that can be used; empty: the first.
    std::string device;
    int gid_index = -1;     // −1: the first RoCE v2 entry with an IPv4 address, else with an IPv6 address
    std::uint32_t mtu = 0;  // bytes, 256 … 4096; 0: the port's
};

struct Device {
    std::string name;
    std::uint8_t port = 1;
    int gid_index = 0;
    sockaddr_in6 address{};  // to bind to; AF_INET6, or AF_INET in the same place
    std::uint32_t mtu = 0;   // bytes, at most the port's
};

// The first device that fits the options, once the libraries are loaded. Else COPPICE_ERR_NO_TRANSPORT, which says of each device why it does not.
Result<Device> choose_device(const DeviceOptions& options);

// Which entry of the GID tables of a device's ports connections of `device.port` are made from: number `wanted`, or, if that
// is −1, the first of RoCE v2 with an IPv4 address, else with an IPv6 address. `is_local`: an interface of this host has
// the address. Returns "" and sets index and address, or the reason why there is none.
std::string pick_gid(std::span<const ibv_gid_entry> table, int wanted, bool (*is_local)(const sockaddr_in6&),
                     Device& device);

std::uint32_t mtu_bytes(ibv_mtu mtu);
ibv_mtu mtu_of(std::uint32_t bytes);  // the largest that is no larger

}  // namespace coppice::transport::verbs
