#include "transport/silence.hpp"

#include <linux/sockios.h>
#include <linux/tcp.h>  // netinet's tcp_info has no tcpi_segs_in
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>

namespace coppice::transport {
namespace {

constexpr int kRtoMaxMs = 44;  // TCP_RTO_MAX_MS
constexpr std::uint8_t kEstablished = 1;
constexpr int kMostBetweenQuestionsS = 2;

int get(int socket, int level, int option) {
    int value = 0;
    socklen_t length = sizeof value;
    return getsockopt(socket, level, option, &value, &length) == 0 ? value : 0;
}

void set(int socket, int level, int option, int value) {
    setsockopt(socket, level, option, &value, sizeof value);
}

}  // namespace

Health health_of(int socket) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
    int queued = 0;
    if (ioctl(socket, SIOCOUTQ, &queued) != 0) queued = 0;
    return {.stands = info.tcpi_state == kEstablished,
            .silence_ms = info.tcpi_last_ack_recv,
            .outstanding = queued > 0,
            .repetitions = std::uint32_t{info.tcpi_retransmits} + info.tcpi_probes,
            .packets = info.tcpi_segs_in};
}

void ask_when_idle(int socket) {
    set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

void ask_often_enough(int socket) {
    if (get(socket, SOL_SOCKET, SO_KEEPALIVE) == 0) return ask_when_idle(socket);
    for (const int option : {TCP_KEEPIDLE, TCP_KEEPINTVL})
        if (get(socket, IPPROTO_TCP, option) > kMostBetweenQuestionsS)
            set(socket, IPPROTO_TCP, option, kMostBetweenQuestionsS);
}

void repeat_every_second(int socket) {
    set(socket, IPPROTO_TCP, kRtoMaxMs, 1000);
}

void reset_at_close(int socket) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

bool Silence::lasts(const Health& health, std::uint64_t now_ns) {
    const std::uint64_t passed = looked_ns_ == 0 ? 0 : now_ns - looked_ns_;
    looked_ns_ = now_ns;
    const bool heard = std::uint64_t{health.silence_ms} * 1'000'000 < passed + kTickNs;
    doubted_ns_ = heard || !health.outstanding ? 0 : doubted_ns_ + std::min(passed, 2 * kLookNs);
    // The kernel counts packets while this process does not run, too.
    unheard_ns_ = health.packets != packets_ ? 0 : unheard_ns_ + std::min(passed, kIdleLookNs);
    packets_ = health.packets;
    if (load_ == Load::any && unheard_ns_ < kLeastUnheardNs) return false;
    return std::uint64_t{health.silence_ms} * 1'000'000 >= kMostNs && doubted_ns_ >= kLeastDoubtNs &&
           health.repetitions >= kLeastRepetitions;
}

}  // namespace coppice::transport
