#include "cables.hpp"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "hosts.hpp"

namespace coppice::run {
namespace {

struct Request {
    std::uint32_t host;
    std::uint32_t plugged;
};

// 0 or an errno.
int set_link(const std::string& name, bool up) {
    const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return errno;
    ifreq request{};
    name.copy(request.ifr_name, IFNAMSIZ - 1);
    int reason = ::ioctl(socket, SIOCGIFFLAGS, &request) == 0 ? 0 : errno;
    if (reason == 0) {
        request.ifr_flags = static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
        reason = ::ioctl(socket, SIOCSIFFLAGS, &request) == 0 ? 0 : errno;
    }
    ::close(socket);
    return reason;
}

// The process that has the rights; until the launcher closes its end.
[[noreturn]] void serve(int channel, pid_t launcher) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != launcher) ::_exit(1);
    Request request{};
    while (::recv(channel, &request, sizeof request, 0) == static_cast<ssize_t>(sizeof request)) {
        const int reason = set_link(Hosts::port_name(request.host), request.plugged != 0);
        if (::send(channel, &reason, sizeof reason, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof reason)) break;
    }
    ::_exit(0);
}

}  // namespace

Result<std::unique_ptr<Cables>> Cables::create(std::uint32_t hosts) {
    std::array<int, 2> ends{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return fail(COPPICE_ERR_NO_RESOURCES, "socketpair: {} (see `ulimit -n`)", std::strerror(errno));
    }
    const pid_t launcher = ::getpid();
    const pid_t worker = ::fork();
    if (worker == 0) {
        ::close(ends[0]);
        serve(ends[1], launcher);
    }
    ::close(ends[1]);
    if (worker < 0) {
        ::close(ends[0]);
        return fail(COPPICE_ERR_NO_RESOURCES, "fork: {} (see `ulimit -u`)", std::strerror(errno));
    }
    return std::unique_ptr<Cables>(new Cables(hosts, worker, ends[0]));
}

Cables::~Cables() {
    ::close(channel_);
    ::waitpid(worker_, nullptr, 0);
}

Result<void> Cables::set(std::uint32_t host, bool plugged) {
    const Request request{host, plugged ? 1U : 0U};
    int reason = EPIPE;
    if (::send(channel_, &request, sizeof request, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof request) ||
        ::recv(channel_, &reason, sizeof reason, 0) != static_cast<ssize_t>(sizeof reason)) {
        reason = EPIPE;
    }
    if (reason == 0) return {};
    return fail(COPPICE_ERR_NO_RESOURCES, "the cable of host {} cannot be {}: {}", host,
                plugged ? "plugged in" : "pulled", std::strerror(reason));
}

Result<void> Cables::cut(std::uint32_t host, std::optional<std::uint64_t> until_ns) {
    std::uint64_t& mend_at = mend_at_ns_[host];
    if (mend_at == kPlugged) {
        if (auto ok = set(host, false); !ok) return ok;
    }
    mend_at = std::max(mend_at, until_ns.value_or(kNever));
    return {};
}

Result<std::vector<std::uint32_t>> Cables::mend(std::uint64_t now) {
    std::vector<std::uint32_t> mended;
    for (std::uint32_t host = 0; host < mend_at_ns_.size(); ++host) {
        if (!is_cut(host) || mend_at_ns_[host] > now) continue;
        mend_at_ns_[host] = kPlugged;
        if (auto ok = set(host, true); !ok) return tl::unexpected(ok.error());
        mended.push_back(host);
    }
    return mended;
}

std::uint64_t Cables::next_mend() const {
    std::uint64_t next = kNever;
    for (const std::uint64_t at : mend_at_ns_)
        if (at != kPlugged) next = std::min(next, at);
    return next;
}

}  // namespace coppice::run
