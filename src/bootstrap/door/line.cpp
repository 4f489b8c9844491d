#include "bootstrap/door/line.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/process.hpp"

namespace coppice::bootstrap {
namespace {

// A host that has vanished says nothing: the kernel asks, and gives up after some half a minute.
void bound_silence(int socket) {
    constexpr std::array<std::pair<int, int>, 4> kBounds{
        {{TCP_KEEPIDLE, 10}, {TCP_KEEPINTVL, 5}, {TCP_KEEPCNT, 4}, {TCP_USER_TIMEOUT, 30'000}}};
    const int on = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (const auto& [option, value] : kBounds)
        ::setsockopt(socket, IPPROTO_TCP, option, &value, sizeof value);
}

}  // namespace

Handle::~Handle() {
    process::close_own(number_);
}

Handle start_to_connect(const DoorAddress::Ip& ip, std::uint16_t port) {
    sockaddr_storage storage{};
    socklen_t length = 0;
    if (ip.version == 4) {
        auto& to = reinterpret_cast<sockaddr_in&>(storage);
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        std::memcpy(&to.sin_addr, ip.bytes.data(), 4);
        length = sizeof to;
    } else {
        auto& to = reinterpret_cast<sockaddr_in6&>(storage);
        to.sin6_family = AF_INET6;
        to.sin6_port = htons(port);
        std::memcpy(&to.sin6_addr, ip.bytes.data(), 16);
        length = sizeof to;
    }
    Handle socket(
        process::open_own([&] { return ::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }));
    if (socket.get() < 0) return {};
    bound_silence(socket.get());
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&storage), length) != 0 && errno != EINPROGRESS)
        return {};
    return socket;
}

void Line::move() {
    std::array<std::byte, 16384> chunk{};
    flush();
    // One that talks without an end does not keep this process from the others.
    for (int reads = 0; reads < 16 && !is_over(); ++reads) {
        const auto got = ::recv(socket(), chunk.data(), chunk.size(), MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == ENOTCONN)) break;
        if (got <= 0) {
            is_over_ = true;
            break;
        }
        passage_.receive(std::span(chunk).first(static_cast<std::size_t>(got)));
        if (passage_.waiting() > passage_.most_frame()) break;  // there is a frame to take first
    }
    flush();
}

void Line::flush() {
    std::vector<std::byte>& output = passage_.output();
    std::size_t sent = 0;
    while (sent < output.size()) {
        const auto count = ::send(socket(), output.data() + sent, output.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) {
            is_over_ = is_over_ || (errno != EAGAIN && errno != ENOTCONN);
            break;
        }
        sent += static_cast<std::size_t>(count);
    }
    output.erase(output.begin(), output.begin() + static_cast<std::ptrdiff_t>(sent));
}

std::optional<LauncherFrame> Line::next() {
    auto frame = passage_.next();
    if (!frame) return std::nullopt;
    std::span<const std::byte> rest(*frame);
    FrameHeader header;
    if (!take(rest, header) || header.magic != kFrameMagic || header.version != kProtocolVersion ||
        header.length != rest.size()) {
        is_over_ = true;
        return std::nullopt;
    }
    return LauncherFrame{header.kind, {rest.begin(), rest.end()}};
}

void Line::post(std::span<const std::byte> frame) {
    if (passage_.output().size() > kMostUnsent + longest_) is_over_ = true;
    if (is_over()) return;
    passage_.send(frame);
    flush();
}

}  // namespace coppice::bootstrap
