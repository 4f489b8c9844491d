// The listeners of this process, and the bytes that end a rank through UCX 1.13's.
#pragma once

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace coppice::testing {

// The ports on which this process listens, from the kernel's table and this process's descriptors.
inline std::set<std::uint16_t> listening_ports() {
    std::set<std::string> inodes;
    if (DIR* directory = opendir("/proc/self/fd")) {
        while (const dirent* entry = readdir(directory)) {
            char target[64] = {};
            const std::string path = std::string("/proc/self/fd/") + entry->d_name;
            if (readlink(path.c_str(), target, sizeof target - 1) <= 0) continue;
            const std::string text = target;
            if (text.starts_with("socket:[")) inodes.insert(text.substr(8, text.size() - 9));
        }
        closedir(directory);
    }
    std::set<std::uint16_t> ports;
    std::ifstream table("/proc/net/tcp");
    std::string line;
    std::getline(table, line);
    while (std::getline(table, line)) {
        std::istringstream fields(line);
        std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
        fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
        if (state != "0A" || !inodes.contains(inode)) continue;
        ports.insert(static_cast<std::uint16_t>(std::stoul(local.substr(local.find(':') + 1), nullptr, 16)));
    }
    return ports;
}

// UCX's public magic, and the header of a message of 4 GiB: an assertion of UCX 1.13 ends the process that reads them.
inline std::array<unsigned char, 13> death_of_ucx() {
    std::array<unsigned char, 13> bytes{};
    const std::uint64_t magic = 0xCAFEBABE12345678U;
    const std::uint32_t length = 0xFFFFFFF0U;
    std::memcpy(bytes.data(), &magic, sizeof magic);
    bytes[8] = 1;
    std::memcpy(bytes.data() + 9, &length, sizeof length);
    return bytes;
}

// Connects the non-blocking socket and sends those bytes: true where there was a connection. False where there was
// none: it was refused, or the kernel has had to repeat its call, so that the first one was dropped.
inline bool strike_listener(int socket, const sockaddr_in& to) {
    if (connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS) return false;
    for (;;) {
        pollfd entry{socket, POLLOUT, 0};
        if (poll(&entry, 1, 10) > 0) break;
        tcp_info info{};
        socklen_t length = sizeof info;
        if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_total_retrans > 0) return false;
    }
    const auto bytes = death_of_ucx();
    return send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

}  // namespace coppice::testing
