#include "cables.hpp"

#include <net/if.h>
#include <poll.h>
#include <sched.h>
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

#include "base/clock.hpp"
#include "hosts.hpp"

namespace coppice::run {
namespace {

// The host's cable is to be out until that time, or plugged in.
struct Request {
    std::uint32_t host;
    std::uint64_t out_until_ns;
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

// Plugs in those whose time has come; returns when the next one's comes.
std::uint64_t plug_in_due(std::vector<std::uint64_t>& out_until_ns) {
    std::uint64_t next = Cables::kNever;
    for (std::uint32_t host = 0; host < out_until_ns.size(); ++host) {
        std::uint64_t& until = out_until_ns[host];
        if (until == Cables::kPlugged) continue;
        if (until <= now_ns()) {
            set_link(Hosts::port_name(host), true);
            until = Cables::kPlugged;
        } else {
            next = std::min(next, until);
        }
    }
    return next;
}

// False: nothing has come by then.
bool wait_for_request(int channel, std::uint64_t until_ns) {
    pollfd one{.fd = channel, .events = POLLIN, .revents = 0};
    if (until_ns == Cables::kNever) return ::poll(&one, 1, -1) == 1;
    const std::uint64_t now = now_ns();
    const std::uint64_t left = until_ns > now ? until_ns - now : 0;
    const timespec time{.tv_sec = static_cast<time_t>(left / 1'000'000'000),
                        .tv_nsec = static_cast<long>(left % 1'000'000'000)};
    return ::ppoll(&one, 1, &time, nullptr) == 1;
}

// The process that has the rights; until the launcher closes its end. It ends a cut by itself, and ahead of all that
// share its core, where that is allowed: so a cut is as long as it was asked for on a machine that is overloaded, too.
[[noreturn]] void serve(int channel, pid_t launcher, std::uint32_t hosts) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != launcher) ::_exit(1);
    const sched_param first{.sched_priority = 1};
    ::sched_setscheduler(0, SCHED_FIFO, &first);
    std::vector<std::uint64_t> out_until_ns(hosts, Cables::kPlugged);
    while (true) {
        if (!wait_for_request(channel, plug_in_due(out_until_ns))) continue;
        Request request{};
        if (::recv(channel, &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request)) break;
        out_until_ns[request.host] = request.out_until_ns;
        const int reason = set_link(Hosts::port_name(request.host), request.out_until_ns == Cables::kPlugged);
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
        serve(ends[1], launcher, hosts);
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

Result<void> Cables::set(std::uint32_t host, std::uint64_t out_until_ns) {
    const Request request{host, out_until_ns};
    int reason = EPIPE;
    if (::send(channel_, &request, sizeof request, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof request) ||
        ::recv(channel_, &reason, sizeof reason, 0) != static_cast<ssize_t>(sizeof reason)) {
        reason = EPIPE;
    }
    if (reason == 0) return {};
    return fail(COPPICE_ERR_NO_RESOURCES, "the cable of host {} cannot be {}: {}", host,
                out_until_ns == kPlugged ? "plugged in" : "pulled", std::strerror(reason));
}

Result<void> Cables::cut(std::uint32_t host, std::optional<std::uint64_t> until_ns) {
    const std::uint64_t until = std::max(mend_at_ns_[host], until_ns.value_or(kNever));
    if (auto ok = set(host, until); !ok) return ok;
    mend_at_ns_[host] = until;
    return {};
}

Result<std::vector<std::uint32_t>> Cables::mend(std::uint64_t now) {
    std::vector<std::uint32_t> mended;
    for (std::uint32_t host = 0; host < mend_at_ns_.size(); ++host) {
        if (!is_cut(host) || mend_at_ns_[host] > now) continue;
        mend_at_ns_[host] = kPlugged;
        if (auto ok = set(host, kPlugged); !ok) return tl::unexpected(ok.error());
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
