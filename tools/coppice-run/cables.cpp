#include "cables.hpp"

#include <poll.h>
#include <sched.h>
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
#include "network.hpp"

namespace coppice::run {
namespace {

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

// The process that has the rights serves; until the launcher closes its end. It ends a cut by itself, and ahead of all that
// share its core, where that is allowed: so a cut is as long as it was asked for on a machine that is overloaded, too.
[[noreturn]] void serve(int channel, pid_t launcher, const Hosts& hosts) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != launcher) ::_exit(1);
    const sched_param first{.sched_priority = 1};
    ::sched_setscheduler(0, SCHED_FIFO, &first);
    Network network(hosts);
    while (true) {
        if (!wait_for_request(channel, network.repair_due())) continue;
        Cables::Request request;
        if (::recv(channel, &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request)) break;
        const int reason = network.carry_out(request);
        if (::send(channel, &reason, sizeof reason, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof reason)) break;
    }
    ::_exit(0);
}

}  // namespace

Result<std::unique_ptr<Cables>> Cables::create(const Hosts& hosts) {
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
    return std::unique_ptr<Cables>(new Cables(hosts.count(), worker, ends[0]));
}

Cables::~Cables() {
    ::close(channel_);
    ::waitpid(worker_, nullptr, 0);
}

Result<void> Cables::ask(const Request& request) {
    int reason = EPIPE;
    if (::send(channel_, &request, sizeof request, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof request) ||
        ::recv(channel_, &reason, sizeof reason, 0) != static_cast<ssize_t>(sizeof reason)) {
        reason = EPIPE;
    }
    if (reason == 0) return {};
    const bool repairs = request.until_ns == kPlugged;
    if (request.kind == Request::Kind::parting) {
        return fail(COPPICE_ERR_NO_RESOURCES, "the hosts cannot be {}: {}", repairs ? "joined again" : "parted",
                    std::strerror(reason));
    }
    return fail(COPPICE_ERR_NO_RESOURCES, "the cable of host {} cannot be {}: {}", request.index,
                repairs ? "plugged in" : "pulled", std::strerror(reason));
}

Result<void> Cables::cut(std::uint32_t host, std::optional<std::uint64_t> until_ns) {
    const std::uint64_t until = std::max(mend_at_ns_[host], until_ns.value_or(kNever));
    if (auto ok = ask({.index = host, .until_ns = until}); !ok) return ok;
    mend_at_ns_[host] = until;
    return {};
}

Result<void> Cables::part(const HostSet& side, std::optional<std::uint64_t> until_ns) {
    const auto index = static_cast<std::uint32_t>(partings_.size());
    const Parting parting{side, until_ns.value_or(kNever)};
    if (auto ok = ask({Request::Kind::parting, index, side, parting.until_ns}); !ok) return ok;
    partings_.push_back(parting);
    return {};
}

Result<Cables::Mended> Cables::mend(std::uint64_t now) {
    Mended mended;
    for (std::uint32_t host = 0; host < mend_at_ns_.size(); ++host) {
        if (!is_cut(host) || mend_at_ns_[host] > now) continue;
        mend_at_ns_[host] = kPlugged;
        if (auto ok = ask({.index = host}); !ok) return tl::unexpected(ok.error());
        mended.hosts.push_back(host);
    }
    for (std::uint32_t index = 0; index < partings_.size(); ++index) {
        Parting& parting = partings_[index];
        if (parting.until_ns == kPlugged || parting.until_ns > now) continue;
        parting.until_ns = kPlugged;
        if (auto ok = ask({Request::Kind::parting, index, parting.side, kPlugged}); !ok)
            return tl::unexpected(ok.error());
        mended.sides.push_back(parting.side);
    }
    return mended;
}

std::uint64_t Cables::next_mend() const {
    std::uint64_t next = kNever;
    for (const std::uint64_t at : mend_at_ns_)
        if (at != kPlugged) next = std::min(next, at);
    for (const Parting& parting : partings_)
        if (parting.until_ns != kPlugged) next = std::min(next, parting.until_ns);
    return next;
}

bool Cables::are_parted(std::uint32_t host, std::uint32_t other, bool for_good) const {
    return std::ranges::any_of(partings_, [&](const Parting& one) {
        return one.side[host] != one.side[other] && (for_good ? one.until_ns == kNever : one.until_ns != kPlugged);
    });
}

}  // namespace coppice::run
