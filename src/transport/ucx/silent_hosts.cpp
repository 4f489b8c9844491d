#include "transport/ucx/silent_hosts.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>

#include "base/process.hpp"

namespace coppice::transport::ucx {
namespace {

bool is_asked_when_idle(int socket) {
    int value = 0;
    socklen_t length = sizeof value;
    return getsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &value, &length) == 0 && value != 0;
}

std::uint64_t cookie_of(int socket) {
    std::uint64_t cookie = 0;
    socklen_t length = sizeof cookie;
    return getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

std::string peer_of(int socket) {
    sockaddr_storage storage{};
    auto* const name = reinterpret_cast<sockaddr*>(&storage);
    socklen_t length = sizeof storage;
    char text[NI_MAXHOST] = "its host";
    if (getpeername(socket, name, &length) == 0)
        getnameinfo(name, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
    return text;
}

}  // namespace

SilentHosts::SilentHosts(int sleeps_on) : sleeps_on_(sleeps_on) {
    if (sleeps_on_ < 0) return;
    timer_ = process::open_own([] { return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC); });
    epoll_event event{};
    event.events = EPOLLIN;
    if (timer_ >= 0) epoll_ctl(sleeps_on_, EPOLL_CTL_ADD, timer_, &event);
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
    process::for_each_member(sleeps_on_, [&](int set) {
        process::for_each_member(set, [&](int socket) { look_at(socket, now_ns, found); });
    });
    std::erase_if(connections_, [](const Connection& one) { return !one.is_seen; });
    return found;
}

SilentHosts::Connection& SilentHosts::obtain(int socket) {
    const std::uint64_t cookie = cookie_of(socket);
    const auto known = std::ranges::find(connections_, socket, &Connection::socket);
    if (known != connections_.end() && known->cookie == cookie) return *known;
    // UCX 1.13 has that for connections of its own making alone.
    if (!is_asked_when_idle(socket)) ask_when_idle(socket);
    const Connection anew{.socket = socket, .cookie = cookie};
    return known != connections_.end() ? *known = anew : connections_.emplace_back(anew);
}

void SilentHosts::look_at(int socket, std::uint64_t now_ns, Found& found) {
    const Health health = health_of(socket);
    if (!health.stands) return;
    Connection& connection = obtain(socket);
    connection.is_seen = true;
    found.is_busy = found.is_busy || health.outstanding;
    found.leaves_us_open = found.leaves_us_open || (!health.outstanding && health.silence_ms >= Silence::kIdleMs);
    if (!connection.silence.lasts(health, now_ns)) return;
    found.ended += fmt::format("{}nothing was heard of {} for {} ms", found.ended.empty() ? "" : ", ", peer_of(socket),
                               health.silence_ms);
    reset_at_close(socket);
    shutdown(socket, SHUT_RD);
}

}  // namespace coppice::transport::ucx
