#include "transport/tcp/tcp_transport.hpp"

#include <sodium.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/clock.hpp"
#include "base/words.hpp"
#include "transport/tcp/socket.hpp"

namespace coppice::transport {

using tcp::Connection;
using tcp::Frame;
using tcp::Kind;
using tcp::Link;
using tcp::Parsed;

namespace {

constexpr int kEvents = 32;
constexpr std::uint32_t kBuffer = 2 * 1024 * 1024;
// Messages of one peer in a row before the others are looked at.
constexpr std::uint32_t kHotInARow = 8;
// Polls that find nothing at the peer that spoke last, before it is no longer asked first.
constexpr std::uint32_t kFruitless = 1000;
constexpr int kReadsAtAVisit = 4;

constexpr std::string_view kReach = "check that its host can be reached and that no firewall stands between";
constexpr std::string_view kSameVersion = "check that all ranks run the same Coppice";

std::string_view why_it_ended(const tcp::Peer& peer) {
    return peer.error == 0 || peer.error == EPIPE ? "its process is gone" : std::strerror(peer.error);
}

std::uint64_t open_descriptors() {
    std::error_code error;
    const std::filesystem::directory_iterator all("/proc/self/fd", error);
    return error ? 0 : static_cast<std::uint64_t>(std::distance(begin(all), end(all)));
}

// How many connections a rank of a group may come to have: its own and its peers' to it, O(log P) each.
Result<void> check_descriptors(std::uint32_t group_size) {
    const auto width = static_cast<std::uint64_t>(std::bit_width(group_size));
    const std::uint64_t connections = std::min<std::uint64_t>(group_size - 1, 4 * width + 8);
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
    const std::uint64_t needed = open_descriptors() + connections + 8;
    if (limit.rlim_cur >= needed) return {};
    return fail(COPPICE_ERR_NO_RESOURCES,
                "tcp: too few file descriptors: this process may have {} and needs about {}; raise the limit with "
                "'ulimit -n {}' (the hard limit is {})",
                limit.rlim_cur, needed, needed * 2, limit.rlim_max);
}

}  // namespace

Result<std::unique_ptr<TcpTransport>> TcpTransport::create(const TcpOptions& options) {
    if (options.group_size == 0 || options.group_size > kMaxProcesses || options.self.value >= options.group_size)
        return fail(COPPICE_ERR_OUT_OF_RANGE, "tcp: rank {} is no rank of a group of {}", options.self.value,
                    options.group_size);
    if (sodium_init() < 0) return fail(COPPICE_ERR_NO_RESOURCES, "tcp: libsodium finds no source of random numbers");
    if (auto enough = check_descriptors(options.group_size); !enough) return tl::unexpected(enough.error());
    std::unique_ptr<TcpTransport> made(new TcpTransport(options));
    if (auto listening = made->listen(options); !listening) return tl::unexpected(listening.error());
    return made;
}

TcpTransport::TcpTransport(const TcpOptions& options)
    : identity_{.token = options.group_token,
                .self = options.self,
                .incarnation = options.incarnation,
                .group_size = options.group_size,
                .buffer = options.buffer != 0 ? options.buffer : kBuffer,
                .secret = options.secret},
      forks_(tcp::forks_so_far()),
      epoll_(tcp::Descriptor::from([] { return epoll_create1(EPOLL_CLOEXEC); })),
      timer_(tcp::Descriptor::from([] { return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC); })),
      strangers_(identity_),
      book_(options.group_size),
      peers_(options.group_size) {}

Result<void> TcpTransport::listen(const TcpOptions& options) {
    if (!epoll_ || !timer_)
        return fail(COPPICE_ERR_NO_RESOURCES, "tcp: no descriptor: {} (see 'ulimit -n')", std::strerror(errno));
    add_to_epoll(timer_.get(), Tag::timer, 0, EPOLLIN);
    auto found = tcp::own_endpoints(options.interfaces, options.loopback_only);
    if (!found) return tl::unexpected(found.error());
    for (tcp::Endpoint& endpoint : *found) {
        const std::uint32_t port = options.port == 0 ? 0 : options.port + options.self.value;
        if (port > UINT16_MAX)
            return fail(COPPICE_ERR_CONFIG, "COPPICE_TCP_PORT = {} leaves no port for rank {}", options.port,
                        options.self.value);
        endpoint.port = static_cast<std::uint16_t>(port);
        auto listener = tcp::listen_at(endpoint, identity_.buffer);
        if (!listener) return tl::unexpected(listener.error());
        identity_.room = tcp::room_of(listener->get());
        add_to_epoll(listener->get(), Tag::listener, listeners_.size(), EPOLLIN);
        listeners_.push_back(std::move(*listener));
    }
    endpoints_ = std::move(*found);
    if (identity_.room >= tcp::kLeastRoom) return {};
    return fail(COPPICE_ERR_NO_RESOURCES,
                "tcp: the kernel grants too little memory for what arrives: {} bytes are for messages, {} are needed; "
                "raise it with 'sysctl net.core.rmem_max=212992'",
                identity_.room, tcp::kLeastRoom);
}

TcpTransport::~TcpTransport() {
    if (forks_ != tcp::forks_so_far()) return;  // a child's copy: the connections are the parent's
    for (auto& peer : peers_)
        if (peer && peer->connection) peer->connection->close();
}

Counters TcpTransport::counters() const {
    Counters all = counters_;
    all.garbage += strangers_.garbage();
    return all;
}

// ------------------------------------------------------------------------------------------------------- peers ---

TcpTransport::Peer& TcpTransport::obtain(Seat rank) {
    auto& peer = peers_[rank.value];
    if (peer) return *peer;
    peer = std::make_unique<Peer>(rank);
    peer->known = book_.has(rank);
    if (batch_.capacity() < ++made_) batch_.reserve(2 * made_);
    return *peer;
}

Result<void> TcpTransport::add_peer(Seat rank, std::span<const std::byte> address) {
    if (rank.value >= identity_.group_size)
        return fail(COPPICE_ERR_OUT_OF_RANGE, "tcp: rank {} is no rank of a group of {}", rank.value,
                    identity_.group_size);
    auto known = tcp::unpack_address(rank, address);
    if (!known) return tl::unexpected(known.error());
    if (rank == identity_.self) return {};  // nothing is ever sent to oneself
    switch (incarnations_.judge(rank, known->incarnation)) {
        case Incarnations::Is::right:
            break;
        case Incarnations::Is::earlier:
            return fail(COPPICE_ERR_PEER_FAILED, "tcp: incarnation {} of rank {} at {} is over", known->incarnation,
                        rank.value, tcp::to_string(known->endpoints));
        case Incarnations::Is::later:
            if (book_.has(rank))
                return fail(COPPICE_ERR_INVALID_ARGUMENT, "tcp: rank {} at {} was added twice", rank.value,
                            tcp::to_string(known->endpoints));
            forget(rank);  // an earlier one has connected, and was never added
    }
    incarnations_.set(rank, known->incarnation);
    tcp::sort_by_reach(known->endpoints, endpoints_);
    book_.add(rank, known->endpoints);
    if (Peer* const peer = find(rank); peer != nullptr) peer->known = true;
    return {};
}

bool TcpTransport::connected(Seat peer) const {
    const Peer* const known = find(peer);
    return known != nullptr && known->link == Link::open;
}

void TcpTransport::watch(Seat rank) {
    if (Peer* const peer = find_added(rank); peer != nullptr && peer->link == Link::none) connect(*peer);
}

void TcpTransport::fence(Seat rank) {
    if (rank.value >= identity_.group_size || rank == identity_.self) return;
    Peer& peer = obtain(rank);
    peer.owes_fenced = peer.owes_fenced || (!peer.fenced && peer.link == Link::open);
    peer.fenced = true;
    peer.held.reset();
    // Where the peer may hold the connection to stand, its end would look like a death of ours: it is told instead.
    if (peer.attempt && peer.attempt->committed()) peer.owes_fenced = true;
    if (peer.link == Link::connecting && !peer.owes_fenced) {
        give_up_attempt(peer);
        peer.link = Link::closed;
    }
    queue(peer);
}

void TcpTransport::forget(Seat rank) {
    if (rank.value >= identity_.group_size || rank == identity_.self) return;
    incarnations_.forget(rank);
    book_.remove(rank);
    Peer* const peer = find(rank);
    if (peer == nullptr) return;
    if (peer->link == Link::open) say_what_is_owed(*peer);
    if (peer->link == Link::open) close(*peer);
    if (peer->attempt) give_up_attempt(*peer);
    attention_.remove(*peer);
    std::erase(batch_, peer);
    peers_[rank.value].reset();
    --made_;
}

// ---------------------------------------------------------------------------------------------------- receiving ---

// The peer that spoke last is asked directly: that is one system call less for its answer. Every second poll that finds
// nothing asks the epoll set instead, for all others: one system call a poll either way, as others may need the core.
std::size_t TcpTransport::poll(Receiver& receiver) {
    receiver_ = &receiver;
    delivered_ = 0;
    if (!batch_.empty()) end_batch();
    asks_hot_ = !asks_hot_;
    if (Peer* const hot = asks_hot_ ? hot_ : nullptr; hot != nullptr) {
        read(*hot);
        if (delivered_ > 0) {
            fruitless_ = 0;
            asks_hot_ = ++in_a_row_ % kHotInARow == 0;  // so that the next poll asks it, too, but not for ever
        } else if (++fruitless_ > kFruitless) {
            hot_ = nullptr;
        }
    } else {
        look();
    }
    if (!attention_.empty()) [[unlikely]]
        attention_.attend([this](Peer& peer) { attend_to(peer); });
    receiver_ = nullptr;
    return delivered_;
}

void TcpTransport::look() {
    std::array<epoll_event, kEvents> events;
    const int count = epoll_wait(epoll_.get(), events.data(), kEvents, 0);
    for (int i = 0; i < count; ++i)
        dispatch(events[static_cast<std::size_t>(i)].data.u64, events[static_cast<std::size_t>(i)].events);
}

// What the event was for may be gone since: then nothing is found there.
void TcpTransport::dispatch(std::uint64_t what, std::uint32_t events) {
    const auto index = static_cast<std::uint32_t>(what);
    switch (static_cast<Tag>(what >> 32)) {
        case Tag::listener:
            return accept(index);
        case Tag::timer:
            return look_at_clock();
        case Tag::stranger:
            return meet(index);
        case Tag::attempt:
            if (Peer* const peer = find(Seat(index)); peer != nullptr && peer->attempt)
                settle(*peer, peer->attempt->on_ready(now_ns()));
            return;
        case Tag::held:
            if (Peer* const peer = find(Seat(index)); peer != nullptr) look_at_held(*peer);
            return;
        case Tag::connection:
            if (Peer* const peer = find(Seat(index)); peer != nullptr && peer->link == Link::open) {
                if ((events & EPOLLOUT) != 0) flush(*peer);
                if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) read(*peer);
            }
            return;
    }
}

void TcpTransport::read(Peer& peer) {
    for (int reads = 0; reads < kReadsAtAVisit && peer.link == Link::open; ++reads) {
        if (peer.connection->has_large()) place_large(peer);
        const Connection::Read got = peer.connection->read();
        if (got == Connection::Read::nothing) return;
        if (got == Connection::Read::ended) return break_link(peer, why_it_ended(peer));
        if (got == Connection::Read::broken) return break_link(peer, std::strerror(errno));
        take_frames(peer);
        if (got != Connection::Read::full) return;
    }
}

void TcpTransport::place_large(Peer& peer) {
    Connection& connection = *peer.connection;
    const bool is_wanted = !peer.fenced && !peer.reported;
    connection.place_large(is_wanted ? receiver_->place(peer.rank, connection.large_header(), connection.large_size(),
                                                        connection.large_here())
                                     : nullptr);
}

void TcpTransport::take_frames(Peer& peer) {
    Frame frame;
    while (true) {
        const Parsed parsed = peer.connection->next(frame);
        if (parsed == Parsed::partial) break;
        if (parsed == Parsed::garbage) {
            ++counters_.garbage;
            return break_link(peer, "it sent what no rank of this version sends", kSameVersion);
        }
        take(peer, frame);
    }
    if (peer.connection->owes_credit()) notify(peer, Kind::credit);
}

void TcpTransport::take(Peer& peer, const Frame& frame) {
    switch (frame.head.kind) {
        case Kind::data:
        case Kind::written:
            if (peer.fenced || peer.reported) {
                ++counters_.refused;
                return;
            }
            if (hot_ != &peer) {
                hot_ = &peer;
                fruitless_ = 0;
            }
            ++counters_.received;
            ++delivered_;
            receiver_->message(peer.rank, frame.header, frame.payload, 0);
            return;
        case Kind::credit:
            return;
        case Kind::goodbye:
            peer.departed = true;
            peer.owes_ack = true;
            return queue(peer);
        case Kind::goodbye_ack:
            peer.goodbye_acked = true;
            return;
        case Kind::fenced:
            ++delivered_;
            receiver_->fenced(peer.rank);
            return;
    }
}

// -------------------------------------------------------------------------------------------- ends, and what is owed ---

void TcpTransport::attend_to(Peer& peer) {
    // What it sent before the end may be here; a goodbye, for one.
    if (peer.broken && peer.link == Link::open) {
        read(peer);
        if (peer.link == Link::open) break_link(peer, "it takes nothing any more");
    }
    if (peer.link == Link::open) say_what_is_owed(peer);
    if (peer.reported || peer.fenced) return;
    if (peer.failed && !peer.departed) hear_farewells();
    if (peer.departed || peer.failed) {
        peer.reported = true;
        ++delivered_;
        if (peer.departed)
            receiver_->peer_left(peer.rank);
        else
            receiver_->peer_failed(peer.rank, FailureCause::transport_error);
    }
}

void TcpTransport::say_what_is_owed(Peer& peer) {
    if (peer.owes_fenced && notify(peer, Kind::fenced)) peer.owes_fenced = false;
    if (peer.owes_goodbye && notify(peer, Kind::goodbye)) peer.owes_goodbye = false;
    if (peer.owes_ack && notify(peer, Kind::goodbye_ack)) peer.owes_ack = false;
    if (peer.owes_fenced || peer.owes_goodbye || peer.owes_ack) queue(peer);
}

// By a send that failed; errno says why. Only once does the kernel, so that the next read() finds no more than the end.
void TcpTransport::find_broken(Peer& peer) {
    if (!peer.broken) peer.error = errno;
    peer.broken = true;
    queue(peer);
}

// Of a connection that was reset as soon as it stood the kernel knows no peer: then these are where that one listens.
std::string TcpTransport::whereabouts(const Peer& peer) const {
    if (peer.remote) return to_string(*peer.remote);
    return book_.has(peer.rank) ? tcp::to_string(book_.endpoints_of(peer.rank)) : "an address that it did not tell";
}

void TcpTransport::break_link(Peer& peer, std::string_view why, std::string_view remedy) {
    if (!peer.departed && !peer.fenced)
        last_error_ = fmt::format("tcp: the connection to rank {} at {} failed: {}; if that rank is alive, {}",
                                  peer.rank.value, whereabouts(peer), why, remedy.empty() ? kReach : remedy);
    peer.failed = true;
    close(peer);
    queue(peer);
}

void TcpTransport::close(Peer& peer) {
    if (hot_ == &peer) hot_ = nullptr;
    std::erase(open_, &peer);
    remove_from_epoll(peer.connection->socket());
    peer.connection->close();
    peer.link = Link::closed;
}

void TcpTransport::say_farewell(Seat rank) {
    if (!book_.has(rank)) return;
    const Peer* const peer = find(rank);
    if (peer != nullptr && (peer->fenced || peer->reported || peer->link == Link::open)) return;
    farewells_.emplace_back(identity_, rank, book_.endpoints_of(rank));
}

bool TcpTransport::leave() {
    if (!batch_.empty()) end_batch();
    if (leave_until_ns_ == 0) {
        leave_until_ns_ = now_ns() + kLeavePatienceNs;
        for (const auto& peer : peers_) {
            if (!peer) continue;
            if (peer->link == Link::open) {
                peer->owes_goodbye = !peer->fenced;
                say_what_is_owed(*peer);
            }
            // One that has shown its proof may be held to stand by the peer.
            if (peer->attempt && !peer->attempt->committed() && !peer->connection->has_waiting()) {
                give_up_attempt(*peer);
                peer->link = Link::closed;
            }
        }
    }
    std::erase_if(farewells_, [](tcp::Farewell& farewell) { return farewell.say(); });
    const bool settled = std::ranges::all_of(peers_, [](const auto& peer) {
        if (!peer || peer->link == Link::none || peer->link == Link::closed || peer->fenced) return true;
        if (peer->link == Link::connecting) return false;
        const bool heard_out = peer->departed || peer->goodbye_acked;
        return heard_out && !peer->owes_goodbye && !peer->owes_ack && !peer->connection->has_waiting();
    });
    return (settled && farewells_.empty() && attention_.empty()) || now_ns() >= leave_until_ns_;
}

void TcpTransport::add_to_epoll(int socket, Tag tag, std::size_t index, std::uint32_t events, bool known) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = (static_cast<std::uint64_t>(tag) << 32) | index;
    epoll_ctl(epoll_.get(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event);
}

void TcpTransport::remove_from_epoll(int socket) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
}

}  // namespace coppice::transport
