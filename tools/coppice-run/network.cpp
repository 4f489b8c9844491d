#include "network.hpp"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/clock.hpp"

namespace coppice::run {
namespace {

// 0 or an errno.
template <class Change>
int with_socket(Change change) {
    const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return errno;
    const int reason = change(socket) ? 0 : errno;
    ::close(socket);
    return reason;
}

int set_link(const std::string& name, bool up) {
    return with_socket([&](int socket) {
        ifreq request{};
        name.copy(request.ifr_name, IFNAMSIZ - 1);
        if (::ioctl(socket, SIOCGIFFLAGS, &request) != 0) return false;
        request.ifr_flags = static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
        return ::ioctl(socket, SIOCSIFFLAGS, &request) == 0;
    });
}

// The kernel lets an interface send, and a bridge forward to it, only when a thread of its own has seen that the carrier is back;
// on a machine that makes and ends many interfaces that takes seconds. A question about the carrier makes it look at once.
void settle_carrier(int socket, const std::string& name) {
    ethtool_value carrier{.cmd = ETHTOOL_GLINK, .data = 0};
    ifreq request{};
    name.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&carrier);
    (void)::ioctl(socket, SIOCETHTOOL, &request);
}

std::string bridge_name(std::uint32_t bridge) {
    return bridge == 0 ? Hosts::kBridge : fmt::format("{}{}", Hosts::kBridge, bridge);
}

int add_bridge(std::uint32_t bridge) {
    const std::string name = bridge_name(bridge);
    const int reason = with_socket([&](int socket) { return ::ioctl(socket, SIOCBRADDBR, name.c_str()) == 0; });
    return reason != 0 ? reason : set_link(name, true);
}

// `change` is SIOCBRADDIF or SIOCBRDELIF.
int change_bridge(std::uint32_t bridge, std::uint32_t host, unsigned long change) {
    return with_socket([&](int socket) {
        ifreq request{};
        bridge_name(bridge).copy(request.ifr_name, IFNAMSIZ - 1);
        request.ifr_ifindex = static_cast<int>(::if_nametoindex(Hosts::port_name(host).c_str()));
        return request.ifr_ifindex != 0 && ::ioctl(socket, change, &request) == 0;
    });
}

}  // namespace

Network::Network(const Hosts& hosts)
    : hosts_(hosts),
      sockets_(hosts.open_sockets()),
      out_until_ns_(hosts.count(), Cables::kPlugged),
      bridge_of_(hosts.count(), 0) {}

int Network::plug(std::uint32_t host, bool in) {
    const std::string port = Hosts::port_name(host);
    const int reason = set_link(port, in);
    if (!in || reason != 0) return reason;
    with_socket([&port](int socket) {
        settle_carrier(socket, port);
        return true;
    });
    settle_carrier(sockets_[host], hosts_.interface_name(host));
    return 0;
}

// One change parts all of a side from all of the other at once.
int Network::set_trunk(bool up) {
    const int reason = set_link(Hosts::kTrunkEnds[0], up);
    if (!up || reason != 0) return reason;
    return with_socket([](int socket) {
        for (const char* const end : Hosts::kTrunkEnds)
            settle_carrier(socket, end);
        return true;
    });
}

// Hosts that no parting tells apart share a bridge. Host by host: on a machine that makes and ends many namespaces each change waits for
// seconds, and meanwhile some hosts are parted that should not be, and some are not that should. First everything that moves is taken off its bridge, so that sides which
// are parted never meet on the way.
int Network::rearrange() {
    const auto parts = [](const Cables::Parting& one) { return one.until_ns != Cables::kPlugged; };
    if (hosts_.has_trunk()) return set_trunk(std::ranges::none_of(partings_, parts));
    std::vector<std::uint32_t> wanted;
    std::uint32_t bridges = 0;
    for (std::uint32_t host = 0; host < bridge_of_.size(); ++host) {
        std::uint32_t other = 0;
        const auto is_parted = [&](const Cables::Parting& one) {
            return one.until_ns != Cables::kPlugged && one.side[host] != one.side[other];
        };
        while (other < host && std::ranges::any_of(partings_, is_parted))
            ++other;
        wanted.push_back(other < host ? wanted[other] : bridges++);
    }
    for (; bridges_ < bridges; ++bridges_)
        if (const int reason = add_bridge(bridges_); reason != 0) return reason;
    int first = 0;
    const auto note = [&](int reason) { first = first != 0 ? first : reason; };
    for (std::uint32_t host = 0; host < wanted.size(); ++host)
        if (wanted[host] != bridge_of_[host]) note(change_bridge(bridge_of_[host], host, SIOCBRDELIF));
    for (std::uint32_t host = 0; host < wanted.size(); ++host)
        if (wanted[host] != bridge_of_[host]) note(change_bridge(wanted[host], host, SIOCBRADDIF));
    bridge_of_ = wanted;
    return first;
}

int Network::carry_out(const Cables::Request& request) {
    if (request.kind == Cables::Request::Kind::cable) {
        out_until_ns_[request.index] = request.until_ns;
        return plug(request.index, request.until_ns == Cables::kPlugged);
    }
    if (partings_.size() <= request.index) partings_.resize(request.index + 1);
    partings_[request.index] = {request.side, request.until_ns};
    return rearrange();
}

std::uint64_t Network::repair_due() {
    std::uint64_t next = Cables::kNever;
    const auto is_due = [&](std::uint64_t& until) {
        if (until == Cables::kPlugged) return false;
        const bool due = until <= now_ns();
        if (due) until = Cables::kPlugged;
        if (!due) next = std::min(next, until);
        return due;
    };
    for (std::uint32_t host = 0; host < out_until_ns_.size(); ++host)
        if (is_due(out_until_ns_[host])) plug(host, true);
    bool joins = false;
    for (Cables::Parting& parting : partings_)
        joins = is_due(parting.until_ns) || joins;
    if (joins) rearrange();
    return next;
}

}  // namespace coppice::run
