// What leaves: messages, at once or gathered in a batch, and words between the two transports.
#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include "transport/tcp/tcp_transport.hpp"

namespace coppice::transport {

using tcp::Connection;
using tcp::Kind;
using tcp::Link;

namespace {

// Larger messages leave at once, from where they are: a copy of them costs more than a system call saves.
constexpr std::size_t kMostToGather = 512;

}  // namespace

SendStatus TcpTransport::post(Seat to, Kind kind, std::span<const std::byte> header, std::span<const std::byte> payload,
                              std::uint64_t& counter) {
    Peer* const peer = find_added(to);
    if (peer == nullptr || header.size() > kMaxHeader || payload.size() > tcp::kMaxLarge) return SendStatus::failed;
    if (peer->link != Link::open) [[unlikely]] {
        if (peer->link == Link::none && !connect(*peer)) return SendStatus::failed;
        if (peer->link != Link::connecting) return SendStatus::failed;
    }
    if (peer->fenced || peer->departed || peer->broken || !peer->known) [[unlikely]]
        return SendStatus::failed;
    if (!looks_.talks()) [[unlikely]]
        begin_to_talk();
    if (payload.size() > kMaxPayload) [[unlikely]] {
        if (payload.size() > peer->connection->largest()) return SendStatus::again;
        if (peer->in_batch && !peer->watches_write) flush(*peer);  // it leaves at once, behind what was said before
    }
    const bool may_wait = is_batch_ && header.size() + payload.size() <= kMostToGather;
    switch (peer->connection->send(kind, header, payload, may_wait)) {
        case Connection::Sent::again:
            return SendStatus::again;
        case Connection::Sent::broken:
            find_broken(*peer);
            return SendStatus::failed;
        case Connection::Sent::sent:
            break;
    }
    ++counter;
    if (may_wait)
        gather(*peer);
    else if (peer->connection->has_waiting() && !peer->watches_write) [[unlikely]]
        flush(*peer);
    return SendStatus::sent;
}

SendStatus TcpTransport::send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                              std::uint32_t* /*in_flight*/) {
    return post(to, Kind::data, header, payload, counters_.sends);
}

SendStatus TcpTransport::write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                               std::uint32_t* /*in_flight*/) {
    return post(to, Kind::written, header, payload, counters_.writes);
}

std::size_t TcpTransport::largest(Seat to) const {
    const Peer* const peer = find(to);
    return peer != nullptr && peer->link == Link::open ? peer->connection->largest() : kMaxPayload;
}

void TcpTransport::gather(Peer& peer) {
    if (std::exchange(peer.in_batch, true)) return;
    batch_.push_back(&peer);
}

void TcpTransport::end_batch() {
    is_batch_ = false;
    for (Peer* const peer : batch_) {
        peer->in_batch = false;
        if (!peer->watches_write) flush(*peer);
    }
    batch_.clear();
}

// Sends what waits, and has the epoll set wait for room while there is something left.
void TcpTransport::flush(Peer& peer) {
    if (peer.link != Link::open) return;
    if (!peer.connection->flush()) return find_broken(peer);
    const bool waits = peer.connection->has_waiting();
    if (waits == peer.watches_write) return;
    peer.watches_write = waits;
    add_to_epoll(peer.connection->socket(), Tag::connection, peer.rank.value, waits ? EPOLLIN | EPOLLOUT : EPOLLIN,
                 true);
}

bool TcpTransport::notify(Peer& peer, Kind kind) {
    const Connection::Sent sent = peer.connection->send(kind, {}, {});
    if (!looks_.talks()) begin_to_talk();
    if (sent == Connection::Sent::broken) find_broken(peer);
    if (sent == Connection::Sent::sent && peer.connection->has_waiting() && !peer.watches_write) flush(peer);
    return sent != Connection::Sent::again;
}

}  // namespace coppice::transport
