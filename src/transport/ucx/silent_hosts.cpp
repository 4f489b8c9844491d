#include "transport/ucx/silent_hosts.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <utility>

#include "base/process.hpp"
#include "transport/socket_end.hpp"
#include "transport/ucx/wire.hpp"

namespace coppice::transport::ucx {
namespace {

// 0: it is no open socket.
std::uint64_t cookie_of(int socket) {
    std::uint64_t cookie = 0;
    socklen_t length = sizeof cookie;
    return getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

// 10.0.0.2 is no part of 10.0.0.21 or of 110.0.0.2. A port may follow.
bool names(const std::string& text, const IpAddress& host) {
    const auto continues = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
    const std::string name = to_string(host);
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
        const char before = at == 0 ? ' ' : text[at - 1];
        const std::size_t end = at + name.size();
        const bool begins = !continues(before) && before != '.' && (before != ':' || host.version == 4);
        if (begins && (end == text.size() || !continues(text[end]))) return true;
    }
    return false;
}

}  // namespace

std::string said_of(std::span<const std::byte> worker_address, std::vector<SilentHosts::Lost>& lost,
                    const std::string& complaint) {
    const std::string said = complaint.empty() ? "" : "; UCX says: " + complaint;
    std::string text;
    bool is_of_another = false;
    for (auto& [host, what] : lost) {
        if (listens_at(worker_address, host)) {
            text += "; " + what;
        } else if (!is_of_another && names(complaint, host)) {
            what += said;
            is_of_another = true;
        }
    }
    return is_of_another ? text : text + said;
}

SilentHosts::SilentHosts(int sleeps_on) : sleeps_on_(sleeps_on) {
    if (sleeps_on_ < 0) return;
    timer_ = process::open_own([] { return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC); });
    epoll_event event{};
    event.events = EPOLLIN;
    if (timer_ >= 0 && epoll_ctl(sleeps_on_, EPOLL_CTL_ADD, timer_, &event) == 0) return;
    wake_error_ = errno;
    process::close_own(std::exchange(timer_, -1));
}

SilentHosts::~SilentHosts() {
    process::close_own(timer_);
}

void SilentHosts::wake_at(std::uint64_t at_ns) {
    if (at_ns >= timer_ns_ || timer_ < 0) return;
    timer_ns_ = at_ns;
    itimerspec time{};
    time.it_value.tv_sec = static_cast<time_t>(at_ns / 1'000'000'000);
    time.it_value.tv_nsec = static_cast<long>(at_ns % 1'000'000'000) + (at_ns == 0);  // 0 would stop it
    timerfd_settime(timer_, TFD_TIMER_ABSTIME, &time, nullptr);
}

SilentHosts::Found SilentHosts::look(std::uint64_t now_ns) {
    if (timer_ns_ != UINT64_MAX) {
        timer_ns_ = UINT64_MAX;
        const itimerspec never{};
        timerfd_settime(timer_, 0, &never, nullptr);  // and it is not readable any more
    }
    Found found;
    if (sleeps_on_ < 0) return found;
    for (Connection& one : connections_)
        one.is_seen = false;
    found.is_blind = !look_at_all(now_ns, found);
    if (found.is_blind) look_at_known(now_ns, found);
    std::erase_if(connections_, [](const Connection& one) { return !one.is_seen; });
    return found;
}

// False: not all of them could be read.
bool SilentHosts::look_at_all(std::uint64_t now_ns, Found& found) {
    bool all = true;
    const bool sets = process::for_each_member(sleeps_on_, [&](int set) {
        if (!process::for_each_member(set, [&](int socket) { look_at(socket, now_ns, found); })) all = false;
    });
    return sets && all;
}

void SilentHosts::look_at_known(std::uint64_t now_ns, Found& found) {
    for (std::size_t at = 0; at < connections_.size(); ++at) {
        const Connection& one = connections_[at];
        if (!one.is_seen && one.cookie != 0 && cookie_of(one.socket) == one.cookie) look_at(one.socket, now_ns, found);
    }
}

SilentHosts::Connection& SilentHosts::obtain(int socket) {
    const std::uint64_t cookie = cookie_of(socket);
    const auto known = std::ranges::find(connections_, socket, &Connection::socket);
    if (known != connections_.end() && known->cookie == cookie) return *known;
    const Connection anew{.socket = socket, .cookie = cookie};
    return known != connections_.end() ? *known = anew : connections_.emplace_back(anew);
}

void SilentHosts::look_at(int socket, std::uint64_t now_ns, Found& found) {
    const Health health = health_of(socket);
    if (!health.stands) return;
    // UCX 1.13 has the kernel ask on connections of its own making alone, and as seldom as its user likes. It may say so to the kernel
    // after the connection stands.
    ask_often_enough(socket);
    Connection& connection = obtain(socket);
    connection.is_seen = true;
    found.is_busy = found.is_busy || health.outstanding;
    found.leaves_us_open = found.leaves_us_open || (!health.outstanding && health.silence_ms >= Silence::kIdleMs);
    if (!connection.silence.lasts(health, now_ns)) return;
    if (const auto peer = peer_end(socket))
        found.lost.push_back(
            {peer->ip, fmt::format("nothing was heard of {} for {} ms", to_string(*peer), health.silence_ms)});
    reset_at_close(socket);
    shutdown(socket, SHUT_RD);
}

}  // namespace coppice::transport::ucx
