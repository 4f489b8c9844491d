// How connections of the TCP transport come to be: attempts of this side, strangers that prove to be ranks, and which of the
// two stands when both sides began.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.hpp"
#include "base/shortage.hpp"
#include "transport/tcp/socket.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace coppice::transport {

using tcp::Attempt;
using tcp::Link;

namespace {
constexpr int kAcceptsAtAVisit = 16;

// Of a connection on which the other side has nothing to say.
bool has_ended(int socket) {
    std::byte word;
    return ::recv(socket, &word, 1, MSG_DONTWAIT | MSG_PEEK) >= 0 || errno != EAGAIN;
}
}  // namespace

// ------------------------------------------------------------------------------------------------- this side's own ---

// Begins to connect. False: there is no way to that peer.
bool TcpTransport::connect(Peer& peer) {
    if (!peer.known || peer.fenced || leave_until_ns_ != 0) return false;
    ++counters_.connections;
    peer.connection = std::make_unique<tcp::Connection>();
    peer.link = Link::connecting;
    peer.attempt.emplace(identity_, peer.rank, incarnations_.least(peer.rank), book_.endpoints_of(peer.rank));
    connecting_.push_back(&peer);
    settle(peer, peer.attempt->start(now_ns()));
    return peer.link != Link::closed;
}

void TcpTransport::settle(Peer& peer, Attempt::Outcome outcome) {
    switch (outcome) {
        case Attempt::Outcome::waits:
            watch_attempt(peer);
            return set_timer(peer.attempt->wake_ns());
        case Attempt::Outcome::open: {
            Descriptor socket = peer.attempt->take_socket();
            const std::uint32_t room = peer.attempt->room();
            give_up_attempt(peer);
            peer.held.reset();
            return open(peer, std::move(socket), room);
        }
        case Attempt::Outcome::hopeless:
            break;
    }
    last_error_ = fmt::format("tcp: no connection to rank {}: {}", peer.rank.value, peer.attempt->why());
    give_up_attempt(peer);
    if (peer.held) {  // it reaches us, if not the other way round
        tcp::Strangers::Proven proven = std::move(*peer.held);
        peer.held.reset();
        return welcome(peer, std::move(proven));
    }
    peer.link = Link::closed;
    peer.failed = true;
    queue(peer);
}

// A peer that has left said so before it refused to be connected to, or ended a connection that it had not seen stand.
void TcpTransport::hear_farewells() {
    for (std::size_t listener = 0; listener < listeners_.size(); ++listener)
        accept(listener);
    for (std::size_t place = 0; place < tcp::Strangers::kMost; ++place)
        meet(place);
}

void TcpTransport::watch_attempt(Peer& peer) {
    const Attempt& attempt = *peer.attempt;
    if (attempt.socket() < 0) return;
    const bool is_new = peer.seen_tries != attempt.tries();
    if (!is_new && peer.seen_writing == attempt.wants_write()) return;
    peer.seen_tries = attempt.tries();
    peer.seen_writing = attempt.wants_write();
    add_to_epoll(attempt.socket(), Tag::attempt, peer.rank.value, attempt.wants_write() ? EPOLLOUT : EPOLLIN, !is_new);
}

void TcpTransport::give_up_attempt(Peer& peer) {
    peer.attempt.reset();
    peer.seen_tries = 0;
    std::erase(connecting_, &peer);
}

// ---------------------------------------------------------------------------------------------------- the others' ---

void TcpTransport::accept(std::size_t listener) {
    const std::uint64_t now = now_ns();
    for (int count = 0; count < kAcceptsAtAVisit; ++count) {
        Descriptor socket = tcp::accept_from(listeners_[listener].get());
        if (!socket) {
            if (errno == ECONNABORTED || errno == EINTR) continue;
            if (is_shortage(errno)) look_at_listeners(false);
            break;
        }
        const std::size_t place = strangers_.next_place();
        meet(place);  // the peer that has to make room is heard first
        strangers_.add(place, std::move(socket), now);
        add_to_epoll(strangers_.socket(place), Tag::stranger, place, EPOLLIN);
        meet(place);
    }
    set_timer(strangers_.next_look_ns());
}

// All of them, because it is the process that has nothing left. hear_farewells() tries all the same.
void TcpTransport::look_at_listeners(bool looks) {
    if (looks == (listen_again_ns_ == UINT64_MAX)) return;
    listen_again_ns_ = looks ? UINT64_MAX : now_ns() + kShortageNs;
    for (std::size_t listener = 0; listener < listeners_.size(); ++listener)
        add_to_epoll(listeners_[listener].get(), Tag::listener, listener, looks ? EPOLLIN : 0U, true);
    set_timer(listen_again_ns_);
}

// In time, or what waits in its socket is heard at least.
void TcpTransport::look_at_strangers(std::uint64_t now_ns) {
    if (now_ns < strangers_.next_look_ns()) return;
    strangers_.look(now_ns);
    for (std::size_t place = 0; place < tcp::Strangers::kMost; ++place) {
        if (!strangers_.overdue(place)) continue;
        meet(place);
        strangers_.drop_overdue(place);
    }
}

void TcpTransport::meet(std::size_t place) {
    switch (strangers_.move(place)) {
        case tcp::Strangers::Outcome::proven:
            return admit(strangers_.take(place));
        case tcp::Strangers::Outcome::departed:
            return learn_departure(strangers_.take(place).handshake);
        case tcp::Strangers::Outcome::waits:
        case tcp::Strangers::Outcome::gone:
            return;
    }
}

// Where a connection stands, its end comes after all that was said on it, and is then no failure.
void TcpTransport::learn_departure(const tcp::Handshake& word) {
    if (incarnations_.judge(word.peer(), word.incarnation()) != Incarnations::Is::right) return;
    incarnations_.set(word.peer(), word.incarnation());
    Peer& peer = obtain(word.peer());
    peer.departed = true;
    if (peer.link == Link::open) return;
    if (peer.attempt) give_up_attempt(peer);
    peer.link = Link::closed;
    queue(peer);
}

// A rank of the group has connected. Where both began, the lower rank's attempt is the one that stands, so ours goes on if
// that is what it is.
void TcpTransport::admit(tcp::Strangers::Proven proven) {
    if (has_ended(proven.socket.get())) return;  // it tries again, or we do
    const Seat rank = proven.handshake.peer();
    if (incarnations_.judge(rank, proven.handshake.incarnation()) != Incarnations::Is::right)
        return turn_away(std::move(proven));
    incarnations_.set(rank, proven.handshake.incarnation());
    Peer& peer = obtain(rank);
    if (peer.link == Link::open || (peer.link == Link::closed && !peer.fenced)) return;
    if (peer.attempt && identity_.self < peer.rank) {
        add_to_epoll(proven.socket.get(), Tag::held, peer.rank.value, EPOLLIN, true);
        peer.held.emplace(std::move(proven));
        return;
    }
    if (peer.attempt) give_up_attempt(peer);
    welcome(peer, std::move(proven));
}

// One whose number was given to another process is told that it is fenced. One that has got a number which another process still
// has here tries again.
void TcpTransport::turn_away(tcp::Strangers::Proven proven) {
    ++counters_.refused;
    const int socket = proven.socket.get();
    if (incarnations_.judge(proven.handshake.peer(), proven.handshake.incarnation()) == Incarnations::Is::later) {
        (void)tcp::send_some(socket, proven.handshake.busy());
        return;
    }
    const tcp::FrameHead fenced{.kind = tcp::Kind::fenced};
    (void)tcp::send_some(socket, proven.handshake.welcome());
    (void)tcp::send_some(socket, std::as_bytes(std::span(&fenced, 1)));
}

void TcpTransport::welcome(Peer& peer, tcp::Strangers::Proven proven) {
    const auto word = proven.handshake.welcome();
    const bool said = tcp::send_some(proven.socket.get(), word) == static_cast<std::ptrdiff_t>(word.size());
    open(peer, std::move(proven.socket), proven.handshake.room());
    peer.owes_fenced = peer.fenced;
    if (said) return;
    peer.broken = true;
    queue(peer);
}

// It has nothing to say until it is welcome, but may end: the other rank has taken another connection.
void TcpTransport::look_at_held(Peer& peer) {
    if (peer.held && has_ended(peer.held->socket.get())) peer.held.reset();
}

// ---------------------------------------------------------------------------------------------------------- both ---

// The socket is in the epoll set, under another name.
void TcpTransport::open(Peer& peer, Descriptor socket, std::uint32_t room) {
    // What was counted on an earlier one is nothing to this one.
    if (!peer.connection || peer.link == Link::closed) peer.connection = std::make_unique<tcp::Connection>();
    peer.remote = peer_end(socket.get());
    tcp::end_kernel_bound(socket.get());
    add_to_epoll(socket.get(), Tag::connection, peer.rank.value, EPOLLIN, true);
    peer.connection->open(std::move(socket), room, identity_.room);
    peer.link = Link::open;
    open_.push_back(&peer);
    looks_.hasten(now_ns() + Silence::kLookNs);
    set_timer(looks_.next_ns());
    peer.watches_write = false;
    peer.owes_goodbye = leave_until_ns_ != 0 && !peer.fenced;
    queue(peer);
    flush(peer);
}

void TcpTransport::look_at_clock() {
    std::uint64_t expirations = 0;
    if (::read(timer_.get(), &expirations, sizeof expirations) < 0) return;
    timer_ns_ = UINT64_MAX;
    const std::uint64_t now = now_ns();
    if (now >= listen_again_ns_) look_at_listeners(true);
    look_at_strangers(now);
    for (std::size_t i = 0; i < connecting_.size();) {
        Peer& peer = *connecting_[i];
        settle(peer, peer.attempt->on_time(now));
        if (i < connecting_.size() && connecting_[i] == &peer) ++i;
    }
    if (looks_.is_due(now)) look_for_silence(now);
    set_timer(looks_.next_ns());
    set_timer(listen_again_ns_);
    set_timer(strangers_.next_look_ns());
    for (const Peer* const peer : connecting_)
        set_timer(peer->attempt->wake_ns());
}

void TcpTransport::begin_to_talk() {
    looks_.talk(now_ns());
    set_timer(looks_.next_ns());
}

void TcpTransport::look_for_silence(std::uint64_t now_ns) {
    looks_.begin();
    bool is_busy = false;
    for (std::size_t i = 0; i < open_.size();) {
        Peer& peer = *open_[i];
        const Health health = health_of(peer.connection->socket());
        if (!peer.silence.lasts(health, now_ns)) {
            if (!health.outstanding && health.silence_ms >= Silence::kIdleMs) notify(peer, tcp::Kind::credit);
            is_busy = is_busy || health.outstanding;
            ++i;
            continue;
        }
        reset_at_close(peer.connection->socket());
        break_link(peer, fmt::format("nothing was heard of its host for {} ms", health.silence_ms));
    }
    looks_.end(now_ns, !open_.empty(), is_busy);
    set_timer(looks_.next_ns());
}

void TcpTransport::set_timer(std::uint64_t at_ns) {
    if (at_ns >= timer_ns_) return;
    timer_ns_ = at_ns;
    itimerspec time{};
    time.it_value.tv_sec = static_cast<time_t>(at_ns / 1'000'000'000);
    time.it_value.tv_nsec = static_cast<long>(at_ns % 1'000'000'000);
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &time, nullptr);
}

}  // namespace coppice::transport
