#include "bootstrap/launcher_connection.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/process.hpp"

namespace coppice::bootstrap {
namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::size_t kReadChunk = 64UL * 1024;

// Rounded up, so that a wait never ends before its deadline.
int milliseconds_until(std::uint64_t deadline_ns) {
    const std::uint64_t now = now_ns();
    if (now >= deadline_ns) return 0;
    return static_cast<int>(std::min<std::uint64_t>((deadline_ns - now + kMillisecond - 1) / kMillisecond, 60'000));
}

// True when ready, false at the deadline.
bool wait_ready(int descriptor, short events, std::uint64_t deadline_ns) {
    for (;;) {
        pollfd entry{descriptor, events, 0};
        if (::poll(&entry, 1, milliseconds_until(deadline_ns)) > 0) return true;
        if (now_ns() >= deadline_ns) return false;
    }
}

// The process that answers at the path must run as this process's own user. Another user's could read and change what
// the ranks tell each other.
bool is_of_this_user(int descriptor) {
    ucred server{};
    socklen_t length = sizeof server;
    return ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &server, &length) == 0 && server.uid == ::geteuid();
}

Result<int> connect_to(const std::string& path, std::uint64_t deadline_ns) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        return fail(COPPICE_ERR_CONFIG, "COPPICE_LAUNCHER='{}' is too long for a socket's path ({} bytes at most)",
                    path, sizeof address.sun_path - 1);
    }
    path.copy(address.sun_path, path.size());
    const int descriptor =
        process::open_own([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
    if (descriptor < 0) {
        return fail(COPPICE_ERR_NO_RESOURCES, "cannot make a socket to the launcher: {} (see `ulimit -n`)",
                    std::strerror(errno));
    }
    for (;;) {
        if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
            if (is_of_this_user(descriptor)) return descriptor;
            process::close_own(descriptor);
            return fail(
                COPPICE_ERR_BOOTSTRAP,
                "another user's process listens at COPPICE_LAUNCHER={}: run coppice-run and the ranks as one user",
                path);
        }
        const int reason = errno;
        // EAGAIN: the launcher's backlog is full, it has yet to accept the others.
        if (reason == EAGAIN && now_ns() < deadline_ns) {
            ::poll(nullptr, 0, 1);
            continue;
        }
        if (reason == EINTR) continue;
        process::close_own(descriptor);
        if (reason == ENOENT || reason == ECONNREFUSED) {
            return fail(
                COPPICE_ERR_BOOTSTRAP,
                "the launcher is gone: nobody listens at COPPICE_LAUNCHER={} ({}); start the program again with "
                "coppice-run",
                path, std::strerror(reason));
        }
        return fail(COPPICE_ERR_BOOTSTRAP, "cannot reach the launcher at COPPICE_LAUNCHER={}: {}", path,
                    std::strerror(reason));
    }
}

}  // namespace

Result<std::unique_ptr<LauncherConnection>> LauncherConnection::open(const std::string& path, Rank rank,
                                                                     std::uint64_t most_bytes,
                                                                     std::uint64_t deadline_ns) {
    auto descriptor = connect_to(path, deadline_ns);
    if (!descriptor) return tl::unexpected(descriptor.error());
    return std::unique_ptr<LauncherConnection>(new LauncherConnection(path, rank, most_bytes, *descriptor));
}

LauncherConnection::~LauncherConnection() {
    process::close_own(descriptor_);
    process::close_own(poll_);
}

int LauncherConnection::poll_descriptor() {
    if (poll_ < 0) {
        poll_ = process::open_own([] { return ::epoll_create1(EPOLL_CLOEXEC); });
        if (poll_ >= 0) watch(EPOLL_CTL_ADD);
    }
    return poll_ < 0 ? descriptor_ : poll_;
}

void LauncherConnection::watch(int operation) {
    room_wanted_ = !unsent_.empty();
    epoll_event event{};
    event.events = EPOLLIN | (room_wanted_ ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
    ::epoll_ctl(poll_, operation, descriptor_, &event);
}

Error LauncherConnection::launcher_died() const {
    return Error{COPPICE_ERR_BOOTSTRAP,
                 fmt::format("the launcher (coppice-run, at {}) died during the exchange of rank {}; start the program "
                             "again",
                             path_, rank_.value)};
}

Result<void> LauncherConnection::send_all(std::span<const std::byte> bytes, std::uint64_t deadline_ns) {
    while (!bytes.empty()) {
        const auto sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            bytes = bytes.subspan(static_cast<std::size_t>(sent));
        } else if (errno == EAGAIN) {
            if (!wait_ready(descriptor_, POLLOUT, deadline_ns)) {
                return fail(COPPICE_ERR_BOOTSTRAP,
                            "the launcher takes no data from rank {} before the deadline: is it stopped?", rank_.value);
            }
        } else if (errno == EPIPE || errno == ECONNRESET) {
            // A refusal may wait to be read; receive_frame() finds that, or the end.
            return {};
        } else if (errno != EINTR) {
            return fail(COPPICE_ERR_BOOTSTRAP, "rank {} cannot send to the launcher: {}", rank_.value,
                        std::strerror(errno));
        }
    }
    return {};
}

Result<std::optional<LauncherFrame>> LauncherConnection::parse_frame() {
    std::span<const std::byte> rest(input_);
    FrameHeader header;
    if (!take(rest, header)) return std::optional<LauncherFrame>{};
    const bool refused =
        header.magic == kFrameMagic && header.kind == FrameKind::refused && header.length <= kMaxRefusal;
    if (header.magic != kFrameMagic || header.length > most_bytes_ ||
        (header.version != kProtocolVersion && !refused)) {
        return fail(COPPICE_ERR_BOOTSTRAP, "the launcher at {} sent what is not Coppice's protocol (version {})", path_,
                    kProtocolVersion);
    }
    if (rest.size() < header.length) return std::optional<LauncherFrame>{};
    if (refused) {
        const std::string reason(reinterpret_cast<const char*>(rest.data()), header.length);
        const bool mismatch = header.version != kProtocolVersion || reason.find("version") != std::string::npos;
        return fail(mismatch ? COPPICE_ERR_MISMATCH : COPPICE_ERR_BOOTSTRAP, "the launcher refuses rank {}: {}",
                    rank_.value, reason);
    }
    LauncherFrame frame{header.kind, {rest.begin(), rest.begin() + header.length}};
    input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(sizeof header + header.length));
    return std::optional<LauncherFrame>(std::move(frame));
}

Result<std::optional<LauncherFrame>> LauncherConnection::next_frame() {
    return receive_frame(0);
}

Result<std::optional<LauncherFrame>> LauncherConnection::receive_frame(std::uint64_t deadline_ns) {
    for (;;) {
        auto frame = parse_frame();
        if (!frame || *frame) return frame;
        const std::size_t before = input_.size();
        input_.resize(before + kReadChunk);
        const auto got = ::recv(descriptor_, input_.data() + before, kReadChunk, MSG_DONTWAIT);
        const int reason = got < 0 ? errno : 0;
        input_.resize(before + (got > 0 ? static_cast<std::size_t>(got) : 0));
        if (got == 0 || reason == ECONNRESET || reason == EPIPE) return tl::unexpected(launcher_died());
        if (reason == EAGAIN && (deadline_ns == 0 || !wait_ready(descriptor_, POLLIN, deadline_ns)))
            return std::optional<LauncherFrame>{};
        if (reason != 0 && reason != EAGAIN && reason != EINTR) {
            return fail(COPPICE_ERR_BOOTSTRAP, "rank {} cannot hear the launcher: {}", rank_.value,
                        std::strerror(reason));
        }
    }
}

void LauncherConnection::post(std::span<const std::byte> frame) {
    append_bytes(unsent_, frame);
    flush();
}

void LauncherConnection::flush() {
    while (!unsent_.empty()) {
        const auto sent = ::send(descriptor_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) {
            if (errno != EAGAIN) unsent_.clear();  // reading finds the end
            break;
        }
        unsent_.erase(unsent_.begin(), unsent_.begin() + sent);
    }
    if (poll_ >= 0 && room_wanted_ == unsent_.empty()) watch(EPOLL_CTL_MOD);
}

}  // namespace coppice::bootstrap
