#include "transport/tcp/attempt.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "transport/tcp/socket.hpp"

namespace coppice::transport::tcp {
namespace {

// Of a single try, and of a pause. This process may have been away for longer, while nobody tried.
constexpr std::uint64_t kMostOfATryNs = 3'000'000'000;
constexpr std::uint64_t kMostOfAPauseNs = 2 * Attempt::kLongestPauseNs;
// Where it is unlikely that somebody listens (tcpmux).
constexpr std::uint16_t kProbePort = 1;

}  // namespace

Attempt::Attempt(const Identity& identity, Seat peer, std::uint32_t incarnation, std::vector<Endpoint> endpoints)
    : identity_(identity),
      peer_(peer),
      incarnation_(incarnation),
      endpoints_(std::move(endpoints)),
      refuses_(endpoints_.size()) {}

// One address is waited for as long as there is hope; of several each gets its turn meanwhile.
std::uint64_t Attempt::patience_ns() const {
    return endpoints_.size() == 1 ? kPatienceNs : std::max(kPatienceNs / endpoints_.size(), kPatienceNs / 4);
}

Attempt::Outcome Attempt::start(std::uint64_t now_ns) {
    return try_next(now_ns);
}

Attempt::Outcome Attempt::try_next(std::uint64_t now_ns) {
    ++tries_;
    if (unheard_ns_ > 0) {
        unheard_ns_ += std::min(now_ns - ended_ns_, kMostOfAPauseNs);
        Endpoint silent = endpoint();
        silent.port = kProbePort;
        probe_ = start_connecting(silent, identity_.buffer);
        if (!probe_ && errno == ECONNREFUSED) unheard_ns_ = 0;
    }
    began_ns_ = now_ns;
    connected_ = false;
    got_ = 0;
    handshake_.reset();
    socket_ = start_connecting(endpoint(), identity_.buffer);
    if (!socket_) return miss(errno == ECONNREFUSED ? Miss::refused : Miss::unreachable, errno, now_ns);
    // Not so short that an answer has no time to come.
    const std::uint64_t left = kPatienceNs - std::min(unheard_ns_, kPatienceNs - kPatienceNs / 4);
    wake_ns_ = now_ns + std::min(patience_ns(), left);
    return Outcome::waits;
}

// What it answers at a port where nobody listens, is sure to be its kernel's word.
bool Attempt::host_answers() const {
    if (!probe_) return false;
    const int error = connect_error(probe_.get());
    return error == ECONNREFUSED || (error == 0 && is_connected(probe_.get()));
}

Attempt::Outcome Attempt::miss(Miss how, int error, std::uint64_t now_ns) {
    missed_ = how;
    error_ = error;
    refuses_[at_] = how == Miss::refused;
    if (how == Miss::turned_away) ++turned_away_;
    if (how == Miss::unreachable && !host_answers())
        unheard_ns_ += std::clamp(now_ns - began_ns_, std::uint64_t{1}, kMostOfATryNs);
    else if (how != Miss::refused)
        unheard_ns_ = 0;
    const bool lost = how == Miss::unreachable && unheard_ns_ >= kPatienceNs;
    const bool refused = std::ranges::all_of(refuses_, std::identity{});
    ended_ns_ = now_ns;
    socket_.close();
    probe_.close();
    if (lost || refused || turned_away_ > kMostRefusals) return Outcome::hopeless;
    at_ = (at_ + 1) % endpoints_.size();
    wake_ns_ = now_ns + pause_ns_;
    pause_ns_ = std::min(2 * pause_ns_, kLongestPauseNs);
    return Outcome::waits;
}

Attempt::Outcome Attempt::on_time(std::uint64_t now_ns) {
    if (now_ns < wake_ns_) return Outcome::waits;
    if (!socket_) return try_next(now_ns);
    // It may have connected, and more, while this process did not run.
    const bool was_connected = connected_;
    const std::uint32_t tries = tries_;
    if (const Outcome seen = on_ready(now_ns); seen != Outcome::waits || !socket_ || tries_ != tries) return seen;
    if (connected_ != was_connected) return Outcome::waits;
    if (!connected_) return miss(Miss::unreachable, ETIMEDOUT, now_ns);
    wake_ns_ = UINT64_MAX;
    // Perhaps somebody else has that address, and says nothing to us. After its proof the peer may hold this to stand.
    if (endpoints_.size() > 1 && !committed()) return miss(Miss::slow, 0, now_ns);
    return Outcome::waits;
}

Attempt::Outcome Attempt::on_ready(std::uint64_t now_ns) {
    if (!socket_) return Outcome::waits;
    if (connected_) return shake_hands(now_ns);
    if (const int error = connect_error(socket_.get()); error != 0)
        return miss(error == ECONNREFUSED ? Miss::refused : Miss::unreachable, error, now_ns);
    if (!is_connected(socket_.get())) return Outcome::waits;
    connected_ = true;
    unheard_ns_ = 0;
    wake_ns_ = endpoints_.size() > 1 ? now_ns + patience_ns() : UINT64_MAX;
    handshake_ = Handshake::initiate(identity_, peer_, incarnation_, draw_nonce());
    const auto opening = handshake_->opening();
    if (send_some(socket_.get(), opening) != static_cast<std::ptrdiff_t>(opening.size()))
        return miss(Miss::turned_away, errno, now_ns);
    return shake_hands(now_ns);
}

Attempt::Outcome Attempt::shake_hands(std::uint64_t now_ns) {
    while (true) {
        const std::size_t wanted = handshake_->wanted();
        const auto got = ::recv(socket_.get(), bytes_.data() + got_, wanted - got_, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Outcome::waits;
        if (got <= 0) {
            const bool silent = got < 0 && (errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH);
            // The kernel had tried for so long when it said so. No proof: a full queue of a listener looks the same.
            if (silent) began_ns_ = now_ns - kMostOfATryNs;
            return miss(silent ? Miss::unreachable : Miss::turned_away, got < 0 ? errno : 0, now_ns);
        }
        got_ += static_cast<std::size_t>(got);
        if (got_ < wanted) continue;
        got_ = 0;
        const auto answer = handshake_->take(std::span(bytes_).first(wanted));
        if (handshake_->state() == Handshake::State::busy) return miss(Miss::busy, EBUSY, now_ns);
        if (handshake_->state() == Handshake::State::refused) return miss(Miss::turned_away, EPROTO, now_ns);
        if (handshake_->state() == Handshake::State::done) return Outcome::open;
        if (send_some(socket_.get(), answer) != static_cast<std::ptrdiff_t>(answer.size()))
            return miss(Miss::turned_away, errno, now_ns);
    }
}

std::string Attempt::why() const {
    const std::string reason = error_ != 0 ? std::strerror(error_) : "it ended the connection";
    switch (missed_) {
        case Miss::refused:
            return fmt::format(
                "nobody listens at {} any more ({}); if that rank is alive, check that no firewall refuses connections",
                to_string(endpoints_), reason);
        case Miss::turned_away:
            return fmt::format("{} does not take this rank for one of its group ({}, {} times): is it another job's?",
                               to_string(endpoint()), reason, turned_away_);
        case Miss::unreachable:
        case Miss::slow:
        case Miss::busy:
            break;
    }
    return fmt::format("{} can't be reached ({}); check that no firewall stands between, and COPPICE_TCP_INTERFACE",
                       to_string(endpoints_), reason);
}

}  // namespace coppice::transport::tcp
