// The socket that ranks connect to.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/shortage.hpp"
#include "bootstrap/server.hpp"

namespace coppice::bootstrap {
namespace {

// Open connections of one rank and its descendants. Further ones are refused, so that no rank uses up the descriptors.
constexpr std::uint32_t kMostConnections = 256;
// What one takes: its socket, its process, and for a moment a file that says what that descends from.
constexpr std::size_t kDescriptorsOfOne = 3;

}  // namespace

// Binds in a directory of its own and takes file and directory away again at once; the socket stays reachable
// through the O_PATH descriptor.
Result<void> Server::listen_somewhere() {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener_ < 0) return fail(COPPICE_ERR_NO_RESOURCES, "cannot make a socket: {}", std::strerror(errno));
    std::string tried;
    const char* temporary = std::getenv("TMPDIR");
    for (const char* base : {"/tmp", temporary, "/dev/shm", "/var/tmp"}) {
        if (base == nullptr || *base == '\0') continue;
        std::string directory = std::string(base) + "/coppice-XXXXXX";
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        if (directory.size() + 3 > sizeof address.sun_path) continue;
        if (::mkdtemp(directory.data()) == nullptr) {
            tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", base, std::strerror(errno));
            continue;
        }
        const std::string file = directory + "/s";
        file.copy(address.sun_path, file.size());
        const bool bound = ::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
        const int reason = errno;
        if (bound) {
            ::chmod(file.c_str(), 0600);
            handle_ = ::open(file.c_str(), O_PATH | O_CLOEXEC);
            ::unlink(file.c_str());
        }
        ::rmdir(directory.c_str());
        if (bound && handle_ >= 0 && ::listen(listener_, 4096) == 0) {
            path_ = fmt::format("/proc/{}/fd/{}", ::getpid(), handle_);
            return {};
        }
        if (bound) break;
        tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", base, std::strerror(reason));
    }
    return fail(COPPICE_ERR_NO_RESOURCES, "cannot make a socket for the ranks in any temporary directory ({})", tried);
}

void Server::accept_all() {
    for (;;) {
        if (!has_room_for_one()) return pause_listening();
        const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (socket < 0) {
            if (is_shortage(errno)) pause_listening();  // of the machine
            return;
        }
        ucred caller{};
        socklen_t length = sizeof caller;
        const bool known = ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &caller, &length) == 0;
        if (!known || caller.uid != ::geteuid()) {
            ++counters_.strangers;
            ::close(socket);
            continue;
        }
        const std::uint64_t id = next_id_++;
        const auto origin = origin_of(caller.pid);
        Connection& connection = connections_[id];
        connection.socket = socket;
        connection.pid = caller.pid;
        connection.origin = origin.value_or(capacity_);
        connection.process = static_cast<int>(::syscall(SYS_pidfd_open, caller.pid, 0));
        if (connection.process < 0 && errno != ESRCH) connection.unwatched = errno;
        ++open_sockets_[connection.origin];
        if (!origin || open_sockets_[connection.origin] > kMostConnections) {
            ++counters_.strangers;
            refuse(id, connection,
                   origin ? "it has too many connections open"
                          : fmt::format("process {} was not started by this launcher", caller.pid));
            continue;
        }
        watch(socket, socket_tag(id), EPOLLIN);
    }
}

// A rank that is half taken in would have to be refused, for good.
bool Server::has_room_for_one() const {
    std::array<int, kDescriptorsOfOne> tried{};
    for (int& one : tried)
        one = ::fcntl(poll_, F_DUPFD_CLOEXEC, 0);
    const bool has_room = tried.back() >= 0;
    for (const int one : tried)
        if (one >= 0) ::close(one);
    return has_room;
}

// For a while. Those that wait stay in the listener's queue.
void Server::pause_listening() {
    watch(listener_, kListenerTag, 0);
    itimerspec at{};
    at.it_value.tv_nsec = kShortageNs;
    ::timerfd_settime(timer_, 0, &at, nullptr);
}

void Server::listen_again() {
    std::uint64_t times = 0;
    [[maybe_unused]] const auto got = ::read(timer_, &times, sizeof times);
    watch(listener_, kListenerTag, EPOLLIN);
}

}  // namespace coppice::bootstrap
