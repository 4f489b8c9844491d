#include "transport/ucx/listeners.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "transport/source_filter.hpp"

namespace coppice::transport::ucx {
namespace {

struct Socket {
    int descriptor = -1;
    ino_t inode = 0;
};

// This process's sockets; none when /proc is not there.
std::optional<std::vector<Socket>> sockets() {
    DIR* const directory = opendir("/proc/self/fd");
    if (directory == nullptr) return std::nullopt;
    std::vector<Socket> found;
    while (const dirent* entry = readdir(directory)) {
        char* end = nullptr;
        const long number = std::strtol(entry->d_name, &end, 10);
        struct stat status {};
        if (*end != '\0' || fstat(static_cast<int>(number), &status) != 0 || !S_ISSOCK(status.st_mode)) continue;
        found.push_back({static_cast<int>(number), status.st_ino});
    }
    closedir(directory);
    return found;
}

int option(int socket, int name) {
    int value = 0;
    socklen_t length = sizeof value;
    return getsockopt(socket, SOL_SOCKET, name, &value, &length) == 0 ? value : 0;
}

// None when this is no TCP socket.
std::optional<sockaddr_storage> local_name(int socket) {
    const int domain = option(socket, SO_DOMAIN);
    if (option(socket, SO_TYPE) != SOCK_STREAM || (domain != AF_INET && domain != AF_INET6)) return std::nullopt;
    sockaddr_storage name{};
    socklen_t length = sizeof name;
    if (getsockname(socket, reinterpret_cast<sockaddr*>(&name), &length) != 0) return std::nullopt;
    return name;
}

// As on the wire.
in_port_t port_of(const sockaddr_storage& name) {
    return reinterpret_cast<const sockaddr_in&>(name).sin_port;  // in the same place for both families
}

std::optional<in_port_t> local_port(int socket) {
    const auto name = local_name(socket);
    return name ? std::optional(port_of(*name)) : std::nullopt;
}

// Of a listener: the bytes of its address, empty for that of any.
std::string host_of(const sockaddr_storage& name) {
    std::span<const std::byte> address =
        std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in&>(name).sin_addr, 1));
    if (name.ss_family == AF_INET6)
        address = std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in6&>(name).sin6_addr, 1));
    if (std::ranges::all_of(address, [](std::byte one) { return one == std::byte{}; })) return {};
    return {reinterpret_cast<const char*>(address.data()), address.size()};
}

bool contains(std::span<const std::byte> address, in_port_t port) {
    const auto bytes = std::as_bytes(std::span(&port, 1));
    return std::search(address.begin(), address.end(), bytes.begin(), bytes.end()) != address.end();
}

bool have_an_address_twice(std::span<const int> listeners) {
    std::vector<std::string> hosts;
    for (const int socket : listeners)
        if (const auto name = local_name(socket)) hosts.push_back(host_of(*name));
    std::ranges::sort(hosts);
    return std::ranges::adjacent_find(hosts) != hosts.end();
}

// Of sockets of either family.
class Filters {
  public:
    explicit Filters(const Admission& admitted) : both_(source_filter(admitted)) {
        Admission by_ipv4 = admitted;  // a peer that is called by IPv4 calls by IPv4
        std::erase_if(by_ipv4.hosts, [](const IpAddress& one) { return one.version != 4; });
        ipv4_ = source_filter(by_ipv4);
        why_none_ = admitted.everybody ? "everybody is admitted" : "the job has too many IPv6 addresses to tell apart";
    }
    const std::optional<std::vector<sock_filter>>& of(int socket) const {
        return option(socket, SO_DOMAIN) == AF_INET ? ipv4_ : both_;
    }
    const char* why_none() const { return why_none_; }

  private:
    std::optional<std::vector<sock_filter>> ipv4_;
    std::optional<std::vector<sock_filter>> both_;
    const char* why_none_ = "";
};

bool attach(int socket, std::span<const sock_filter> program) {
    sock_fprog filter{};
    filter.len = static_cast<unsigned short>(program.size());
    filter.filter = const_cast<sock_filter*>(program.data());
    return setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
}

// Connections that wait to be accepted: they were made before the filter.
void turn_away(int listener) {
    for (int stranger = 0; (stranger = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;)
        close(stranger);
}

// UCX accepts on a thread of its own, so it may hold such a connection already; it reads from it when it is polled, that is
// not before this is over. What has arrived is taken away, and what still comes is refused by the kernel: UCX finds the end.
void end(int connection) {
    shutdown(connection, SHUT_RDWR);
    std::array<std::byte, 4096> rest{};
    while (recv(connection, rest.data(), rest.size(), MSG_DONTWAIT) > 0) {
    }
}

}  // namespace

Listeners::Listeners() {
    const auto all = sockets();
    known_ = all.has_value();
    if (!all) return;
    for (const Socket& one : *all)
        before_.insert(one.inode);
}

std::vector<int> Listeners::new_sockets() const {
    std::vector<int> result;
    for (const Socket& one : sockets().value_or(std::vector<Socket>{}))
        if (!before_.contains(one.inode)) result.push_back(one.descriptor);
    return result;
}

// None of those that listen at all addresses.
std::vector<int> Listeners::listening(std::span<const std::byte> worker_address) const {
    std::vector<int> result;
    for (const int socket : new_sockets()) {
        if (option(socket, SO_ACCEPTCONN) == 0 || (fcntl(socket, F_GETFL) & O_NONBLOCK) == 0) continue;
        const auto name = local_name(socket);
        if (name && !host_of(*name).empty() && contains(worker_address, port_of(*name))) result.push_back(socket);
    }
    return result;
}

Listeners::Closed Listeners::close_to_strangers(std::span<const std::byte> worker_address, const Admission& admitted,
                                                bool even_in_doubt) const {
    Closed result;
    if (!known_) return {.open = "its sockets cannot be found without /proc"};
    const std::vector<int> found = listening(worker_address);
    if (!even_in_doubt && have_an_address_twice(found)) return {.doubtful = true};
    std::vector<in_port_t> ports;
    const Filters filters(admitted);
    for (const int socket : found) {
        ++result.listeners;
        const auto& program = filters.of(socket);
        if (!program) {
            result.open = filters.why_none();
        } else if (!attach(socket, *program)) {
            result.open = fmt::format("a filter could not be attached to its socket: {}", std::strerror(errno));
        } else {
            turn_away(socket);
            result.sockets.push_back(socket);
            if (const auto port = local_port(socket)) ports.push_back(*port);
        }
    }
    for (const int socket : new_sockets()) {
        const auto port = local_port(socket);
        if (port && option(socket, SO_ACCEPTCONN) == 0 && std::ranges::count(ports, *port) > 0) end(socket);
    }
    return result;
}

// The kernel puts one filter in the place of the other; connections keep theirs.
Result<std::string> Listeners::admit(std::span<const int> sockets, const Admission& admitted) {
    const Filters filters(admitted);
    std::string open;
    for (const int socket : sockets) {
        const int nothing = 0;
        const auto& program = filters.of(socket);
        if (!program) open = filters.why_none();
        if (program ? !attach(socket, *program)
                    : setsockopt(socket, SOL_SOCKET, SO_DETACH_FILTER, &nothing, sizeof nothing) != 0)
            return fail(COPPICE_ERR_NO_RESOURCES, "ucx: its listener can't be opened to another host: {}",
                        std::strerror(errno));
    }
    return open;
}

}  // namespace coppice::transport::ucx
