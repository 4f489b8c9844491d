#include "transport/verbs/device.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <vector>

#include "transport/verbs/library.hpp"
#include "transport/verbs/nearest.hpp"

namespace coppice::transport::verbs {
namespace {

struct ContextCloser {
    void operator()(ibv_context* context) const { library.ibv_close_device(context); }
};
using ContextHandle = std::unique_ptr<ibv_context, ContextCloser>;

constexpr int kMostGids = 256;

struct Wanted {
    std::string name;
    int port = 0;  // 0: any

    bool is_nearest() const { return name == "auto"; }
    bool is_any() const { return name.empty() || is_nearest(); }
};

// The devices in the order in which they are tried.
std::vector<ibv_device*> in_order(std::span<ibv_device* const> devices, const Wanted& wanted) {
    std::vector<ibv_device*> order(devices.begin(), devices.end());
    if (!wanted.is_nearest()) return order;
    std::vector<std::string> names;
    for (ibv_device* const one : devices)
        names.emplace_back(library.ibv_get_device_name(one));
    names = by_nearness_here(std::move(names));
    std::ranges::sort(order, {},
                      [&names](ibv_device* one) { return std::ranges::find(names, library.ibv_get_device_name(one)); });
    return order;
}

Result<Wanted> parse_device(const std::string& text) {
    Wanted wanted;
    const std::size_t colon = text.find(':');
    wanted.name = text.substr(0, colon);
    if (colon == std::string::npos) return wanted;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, wanted.port);
    if (error != std::errc{} || stop != end || wanted.port < 1 || wanted.port > 255)
        return fail(COPPICE_ERR_CONFIG, "verbs: \"{}\" is no device: expected NAME or NAME:PORT", text);
    return wanted;
}

bool is_v4(const ibv_gid& gid) {
    static constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0;
}

// A RoCE GID is the interface's IP address.
sockaddr_in6 address_of(const ibv_gid_entry& entry) {
    sockaddr_in6 address{};
    if (is_v4(entry.gid)) {
        auto& v4 = reinterpret_cast<sockaddr_in&>(address);
        v4.sin_family = AF_INET;
        std::memcpy(&v4.sin_addr, entry.gid.raw + 12, 4);
    } else {
        address.sin6_family = AF_INET6;
        std::memcpy(&address.sin6_addr, entry.gid.raw, 16);
        if (IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr)) address.sin6_scope_id = entry.ndev_ifindex;
    }
    return address;
}

const char* type_name(std::uint32_t type) {
    if (type == IBV_GID_TYPE_ROCE_V2) return "RoCE v2";
    return type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1" : "InfiniBand";
}

// Why something is not used; "" if it is.
using Reason = std::string;

// An entry that no interface has as its address (the first is often made of the hardware's) leads nowhere.
bool is_local(const sockaddr_in6& address) {
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) return false;
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
    bool found = false;
    for (const ifaddrs* at = all; at != nullptr && !found; at = at->ifa_next) {
        if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != address.sin6_family) continue;
        found = address.sin6_family == AF_INET
                    ? reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr.s_addr == v4->sin_addr.s_addr
                    : std::memcmp(&reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr, &address.sin6_addr,
                                  sizeof address.sin6_addr) == 0;
    }
    freeifaddrs(all);
    return found;
}

Reason choose_gid(ibv_context* context, const DeviceOptions& options, Device& device) {
    std::vector<ibv_gid_entry> table;
    const auto look_at = [&](int index) {
        ibv_gid_entry entry{};
        if (query_gid_ex(context, device.port, static_cast<std::uint32_t>(index), &entry) == 0) table.push_back(entry);
    };
    if (options.gid_index >= 0) look_at(options.gid_index);
    for (int index = 0; options.gid_index < 0 && index < kMostGids; ++index)
        look_at(index);
    return pick_gid(table, options.gid_index, is_local, device);
}

// Native InfiniBand: connections are set up by the address of the interface (IPoIB) on the device.
Reason choose_interface(const std::string& name, Device& device) {
    const std::string path = "/sys/class/infiniband/" + name + "/device/net";
    std::vector<std::string> interfaces;
    if (DIR* directory = opendir(path.c_str())) {
        while (const dirent* entry = readdir(directory))
            if (entry->d_name[0] != '.') interfaces.emplace_back(entry->d_name);
        closedir(directory);
    }
    ifaddrs* all = nullptr;
    bool found = false;
    if (getifaddrs(&all) == 0) {
        for (const int family : {AF_INET, AF_INET6}) {
            for (const ifaddrs* at = all; at != nullptr && !found; at = at->ifa_next) {
                if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != family) continue;
                if (std::ranges::find(interfaces, at->ifa_name) == interfaces.end()) continue;
                std::memcpy(&device.address, at->ifa_addr,
                            family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
                found = true;
            }
        }
        freeifaddrs(all);
    }
    return found ? "" : "no interface (IPoIB) with an IP address, which connections are set up with";
}

Reason try_port(ibv_context* context, const std::string& name, std::uint8_t port, const DeviceOptions& options,
                Device& device) {
    ibv_port_attr attributes{};
    if (query_port(context, port, &attributes) != 0) return fmt::format("port {} can't be queried", port);
    if (attributes.state != IBV_PORT_ACTIVE)
        return fmt::format("port {} is {}, not active; is its network interface up ('ip link set … up')?", port,
                           library.ibv_port_state_str(attributes.state));
    const std::uint32_t active = mtu_bytes(attributes.active_mtu);
    if (options.mtu > active)
        return fmt::format("port {} has a path MTU of {} bytes, {} were asked for; raise the MTU of its network", port,
                           active, options.mtu);
    device = {.name = name, .port = port, .mtu = options.mtu != 0 ? options.mtu : active};
    if (attributes.link_layer == IBV_LINK_LAYER_ETHERNET) return choose_gid(context, options, device);
    if (options.gid_index > 0) device.gid_index = options.gid_index;
    return choose_interface(name, device);
}

Reason try_device(ibv_device* raw, const Wanted& wanted, const DeviceOptions& options, Device& device) {
    const std::string name = library.ibv_get_device_name(raw);
    const ContextHandle context(library.ibv_open_device(raw));
    if (!context) return fmt::format("can't be opened: {}", std::strerror(errno));
    ibv_device_attr attributes{};
    if (library.ibv_query_device(context.get(), &attributes) != 0) return "can't be queried";
    if (attributes.max_srq < 1) return "has no shared receive queues";
    if (wanted.port > attributes.phys_port_cnt)
        return fmt::format("has {} ports, port {} was asked for", attributes.phys_port_cnt, wanted.port);
    Reason reasons;
    for (std::uint8_t port = 1; port <= attributes.phys_port_cnt; ++port) {
        if (wanted.port != 0 && wanted.port != port) continue;
        const Reason reason = try_port(context.get(), name, port, options, device);
        if (reason.empty()) return {};
        reasons += fmt::format("{}{}", reasons.empty() ? "" : ", ", reason);
    }
    return reasons;
}

}  // namespace

std::string pick_gid(std::span<const ibv_gid_entry> table, int wanted, bool (*is_local)(const sockaddr_in6&),
                     Device& device) {
    const auto take = [&](const ibv_gid_entry& entry) {
        device.gid_index = static_cast<int>(entry.gid_index);
        device.address = address_of(entry);
    };
    if (wanted >= 0) {
        const auto entry = std::ranges::find_if(table, [&](const ibv_gid_entry& at) {
            return at.port_num == device.port && static_cast<int>(at.gid_index) == wanted;
        });
        if (entry == table.end()) return fmt::format("port {} has nothing at GID index {}", device.port, wanted);
        if (entry->gid_type != IBV_GID_TYPE_ROCE_V2)
            return fmt::format("GID index {} of port {} is {}, connections are made over RoCE v2", wanted, device.port,
                               type_name(entry->gid_type));
        if (!is_local(address_of(*entry)))
            return fmt::format("GID index {} of port {} is an address that no interface has ('ip addr' shows them)",
                               wanted, device.port);
        take(*entry);
        return {};
    }
    for (const bool v4 : {true, false}) {
        for (const ibv_gid_entry& entry : table) {
            if (entry.port_num != device.port || entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
            if (is_v4(entry.gid) != v4 || !is_local(address_of(entry))) continue;
            take(entry);
            return {};
        }
    }
    return fmt::format(
        "port {} has no RoCE v2 GID with an IP address; give its network interface one ('ip addr add …')", device.port);
}

std::uint32_t mtu_bytes(ibv_mtu mtu) {
    return 128U << static_cast<unsigned>(mtu);
}

ibv_mtu mtu_of(std::uint32_t bytes) {
    ibv_mtu mtu = IBV_MTU_256;
    while (mtu < IBV_MTU_4096 && mtu_bytes(mtu) < bytes)
        mtu = static_cast<ibv_mtu>(mtu + 1);
    return mtu_bytes(mtu) > bytes && mtu > IBV_MTU_256 ? static_cast<ibv_mtu>(mtu - 1) : mtu;
}

Result<Device> choose_device(const DeviceOptions& options) {
    const auto wanted = parse_device(options.device);
    if (!wanted) return tl::unexpected(wanted.error());
    int count = 0;
    ibv_device** const list = library.ibv_get_device_list(&count);
    if (list == nullptr || count == 0) {
        if (list != nullptr) library.ibv_free_device_list(list);
        return fail(COPPICE_ERR_NO_TRANSPORT,
                    "verbs: no RDMA device on this host ('ibv_devices' lists them); soft-RoCE makes one of any network "
                    "interface: 'modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0'");
    }
    Device device;
    std::string reasons;
    bool found = false;
    for (ibv_device* const one : in_order({list, static_cast<std::size_t>(count)}, *wanted)) {
        const std::string name = library.ibv_get_device_name(one);
        const Reason reason = wanted->is_any() || wanted->name == name ? try_device(one, *wanted, options, device)
                                                                       : Reason("is not the one asked for");
        found = reason.empty();
        if (found) break;
        reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", name, reason);
    }
    library.ibv_free_device_list(list);
    if (found) return device;
    return fail(COPPICE_ERR_NO_TRANSPORT, "verbs: no device can be used{}: {} (COPPICE_VERBS_* choose among them)",
                wanted->is_any() ? "" : fmt::format(" as \"{}\"", options.device), reasons);
}

}  // namespace coppice::transport::verbs
