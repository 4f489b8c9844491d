// Messages: sending, receiving, and what progress left to do. Connections are in ucx_connect.cpp.
#include "transport/ucx/ucx_transport.hpp"

#include <cassert>
#include <utility>

#include "transport/ucx/library.hpp"
#include "transport/ucx/log.hpp"

namespace coppice::transport {

using ucx::Kind;
using ucx::Link;
using ucx::Prefix;

namespace {

constexpr std::uint32_t kMessagesPerVisit = 64;  // of one peer's slots
// That bring something. One that brings nothing has the time to look at the clock.
constexpr std::uint32_t kPollsPerClock = 64;

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
    return std::as_bytes(std::span(&value, 1));
}

}  // namespace

// ------------------------------------------------------------------------------------------------------ sending ---

SendStatus UcxTransport::post(Seat to, bool one_sided, std::span<const std::byte> header,
                              std::span<const std::byte> payload, std::uint32_t* in_flight) {
    assert(header.size() <= kMaxHeader && payload.size() <= kMaxPayload);
    assert(in_flight != nullptr || payload.empty());
    Peer* peer = find(to);
    if (peer == nullptr || peer->fenced) return SendStatus::failed;
    if (progressing_) [[unlikely]]
        return peer->link == Link::closed || peer->link == Link::broken ? SendStatus::failed : SendStatus::again;
    if (peer->link != Link::open) [[unlikely]] {
        if (peer->link == Link::none && connect(*peer)) ++counters_.connections;
        if (peer->link != Link::opening && peer->link != Link::open) return SendStatus::failed;
    }
    if (!looks_.talks()) [[unlikely]]
        begin_to_talk();
    if (peer->pending >= ucx::kMaxPending) return SendStatus::again;
    const bool put = one_sided && peer->theirs && peer->link == Link::open;
    const Prefix prefix{.token = own_token_,
                        .from = self_.value,
                        .kind = one_sided ? Kind::written : Kind::data,
                        .header_size = static_cast<std::uint16_t>(header.size())};
    const ucs_status_t status =
        put ? peer->put(header, payload, in_flight) : peer->post(prefix, header, payload, in_flight);
    if (status == UCS_OK || status == UCS_INPROGRESS) {
        if (put)
            ++puts_;
        else if (one_sided)
            ++peer->written;
        return SendStatus::sent;
    }
    if (status == UCS_ERR_NO_RESOURCE || status == UCS_ERR_NO_MEMORY) return SendStatus::again;
    break_link(*peer, status);
    return SendStatus::failed;
}

SendStatus UcxTransport::send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                              std::uint32_t* in_flight) {
    const SendStatus status = post(to, false, header, payload, in_flight);
    if (status == SendStatus::sent) ++counters_.sends;
    return status;
}

SendStatus UcxTransport::write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                               std::uint32_t* in_flight) {
    const SendStatus status = post(to, true, header, payload, in_flight);
    if (status == SendStatus::sent) ++counters_.writes;
    return status;
}

// -------------------------------------------------------------------------------------------------------- reads ---

Result<Exposure> UcxTransport::expose(std::span<std::byte> memory) {
    if (!put_) return Transport::expose(memory);
    const ucx::Hush hush;
    auto exposed = open_memory_.expose(memory);
    if (!exposed) tell(fmt::format("{}; large payloads go in messages", exposed.error().message));
    return exposed;
}

void UcxTransport::withdraw(const Exposure& memory) {
    open_memory_.withdraw(memory.key);
}

SendStatus UcxTransport::read(Seat from, const RemoteMemory& what, std::span<std::byte> into, const Exposure&,
                              Reads* reads) {
    Peer* const peer = find(from);
    if (!put_ || peer == nullptr || peer->fenced || peer->failed) return SendStatus::failed;
    if (progressing_) return SendStatus::again;
    if (peer->link == Link::none && connect(*peer)) ++counters_.connections;
    if (peer->link == Link::opening) return SendStatus::again;
    if (peer->link != Link::open) return SendStatus::failed;
    ucx::PeerKey* const key = peer->keys.obtain(what.key);
    if (key == nullptr) return SendStatus::again;
    if (key->state != ucx::PeerKey::State::good && !find_key(*peer, *key))
        return peer->link == Link::open ? SendStatus::again : SendStatus::failed;
    const ucs_status_t status = peer->get(*key, what.address, into, reads);
    if (status == UCS_ERR_NO_RESOURCE || status == UCS_ERR_NO_MEMORY) return SendStatus::again;
    if (status != UCS_OK) {
        break_link(*peer, status);
        return SendStatus::failed;
    }
    ++counters_.reads;
    queue(*peer);  // it may have arrived already
    return SendStatus::sent;
}

// False: it is not here yet, or never will be, which ends the connection as the device would.
bool UcxTransport::find_key(Peer& peer, ucx::PeerKey& key) {
    using State = ucx::PeerKey::State;
    if (key.state == State::wanted && notify(peer, Kind::key_wanted, bytes_of(key.number))) key.state = State::asked;
    if (key.state == State::noted) peer.attach_key(key);
    if (key.state == State::refused) {
        break_link(peer, UCS_ERR_INVALID_PARAM);
        tell(
            fmt::format("ucx: rank {} has no memory open under the number {} that it named, or no longer: the "
                        "connection to it ends, as it does over verbs",
                        peer.rank.value, key.number));
    }
    return key.state == State::good;
}

bool UcxTransport::may_be_read_by(Seat rank) const {
    if (!put_ || rank.value >= peers_.size() || !peers_[rank.value]) return false;
    const Peer& peer = *peers_[rank.value];
    return !peer.fenced && !peer.failed && (peer.link == Link::open || peer.link == Link::opening);
}

// ---------------------------------------------------------------------------------------------------- receiving ---

ucs_status_t UcxTransport::on_stranger(void* argument, const void*, size_t, void*, size_t, const ucp_am_recv_param_t*) {
    ++static_cast<UcxTransport*>(argument)->counters_.garbage;
    return UCS_OK;
}

ucs_status_t UcxTransport::on_message(void* argument, const void* header, size_t header_size, void* data, size_t size,
                                      const ucp_am_recv_param_t* param) {
    auto& self = *static_cast<UcxTransport*>(argument);
    if (self.receiver_ == nullptr) return UCS_OK;  // we are being destroyed
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(header), header_size);
    // A rendezvous only announces its data; ours never do that, so it is a stranger's.
    const bool announced = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    const auto prefix = ucx::parse_prefix(bytes, size, self.token_, self.group_size_);
    if (announced || !prefix || prefix->from == self.self_.value) {
        ++self.counters_.garbage;
        return UCS_OK;
    }
    const auto incarnation = static_cast<std::uint32_t>(ucx::incarnation_in(*prefix, self.token_));
    Peer* known = self.find(Seat(prefix->from));
    if (known == nullptr || known->incarnation != incarnation) [[unlikely]]
        known = self.meet(Seat(prefix->from), incarnation);
    if (known == nullptr) return UCS_OK;
    if (known->fenced || known->reported) {
        ++self.counters_.refused;
        return UCS_OK;
    }
    Peer& peer = *known;
    const bool ours = prefix->kind != Kind::data && prefix->kind != Kind::written;
    if (!peer.heard || ours) [[unlikely]]
        self.note(peer, prefix->kind, bytes.subspan(sizeof(Prefix)), {static_cast<const std::byte*>(data), size});
    if (ours) return UCS_OK;
    if (prefix->kind == Kind::written) ++peer.its_written;
    return self.deliver(peer, bytes.subspan(sizeof(Prefix)), data, size,
                        (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0);
}

void UcxTransport::note(Peer& peer, Kind kind, std::span<const std::byte> what, std::span<const std::byte> key) {
    if (!peer.heard) {
        peer.heard = true;
        connections_changed_ = true;
        queue(peer);
    }
    const auto count = ucx::parse_count(what);
    if (kind == Kind::goodbye) {
        peer.departed = true;
        peer.its_writes = count.value_or(0);
        peer.owes_ack = true;
        queue(peer);
    }
    if (kind == Kind::goodbye_ack) peer.goodbye_acked = true;
    if (kind == Kind::fenced) {
        peer.fences_us = true;
        queue(peer);
    }
    if (kind == Kind::credit && count) peer.theirs.credit.learn(static_cast<std::uint16_t>(*count));
    if (kind == Kind::key_wanted) {
        if (put_ && count && peer.wanted_keys.size() < ucx::PeerKeys::kMost) {
            peer.wanted_keys.push_back(*count);
            queue(peer);
        } else {
            ++counters_.garbage;
        }
    }
    if (kind == Kind::key && !(count && peer.keys.note(*count, key))) ++counters_.garbage;
    if (kind == Kind::slots && put_) {
        if (const auto offer = ucx::parse_offer(what, key.size())) {
            peer.theirs.note(*offer, key);
            queue(peer);
        } else {
            ++counters_.garbage;
        }
    }
}

ucs_status_t UcxTransport::deliver(const Peer& peer, std::span<const std::byte> header, void* data, std::size_t size,
                                   bool can_be_kept) {
    // The place is taken before the receiver is asked, as it may give back other buffers meanwhile.
    Buffer buffer = 0;
    if (can_be_kept && size > 0 && kept_free_count_ > 0) buffer = kept_free_[--kept_free_count_] + Buffer{1};
    ++counters_.received;
    ++delivered_;
    const std::span<const std::byte> payload(static_cast<const std::byte*>(data), size);
    const bool kept = receiver_->message(peer.rank, header, payload, buffer);
    if (buffer == 0) return UCS_OK;
    const auto place = static_cast<std::uint16_t>(buffer - 1);
    if (kept) {
        kept_[place] = data;
        return UCS_INPROGRESS;
    }
    kept_free_[kept_free_count_++] = place;
    return UCS_OK;
}

void UcxTransport::release(Buffer buffer) {
    if (buffer == 0 || buffer > kMaxKept || kept_[buffer - 1] == nullptr) return;
    ucx::library.ucp_am_data_release(worker_.handle(), kept_[buffer - 1]);
    kept_[buffer - 1] = nullptr;
    kept_free_[kept_free_count_++] = static_cast<std::uint16_t>(buffer - 1);
}

std::size_t UcxTransport::poll(Receiver& receiver) {
    const ucx::Hush hush;
    receiver_ = &receiver;
    delivered_ = 0;
    progressing_ = true;
    const bool is_idle = worker_.progress() == 0;
    progressing_ = false;
    if (!writers_.empty()) drain_slots();
    if (!attention_.empty() || !closing_.empty() || !forgotten_.empty()) [[unlikely]]
        attend(receiver);
    if (worker_.over_rdma()) {
        look_after_connections();
    } else if (is_idle || ++polls_ % kPollsPerClock == 0) {
        look_at_sockets();
    }
    receiver_ = nullptr;
    return delivered_;
}

int UcxTransport::arm() {
    if (!attention_.empty() || !closing_.empty() || !forgotten_.empty()) return -1;
    if (!worker_.over_rdma()) silent_hosts_.wake_at(looks_.next_ns());
    const ucx::Hush hush;
    return worker_.arm();
}

void UcxTransport::drain_slots() {
    for (std::size_t at = 0; at < writers_.size(); ++at) {
        Peer& peer = *writers_[at];
        if (peer.ours.landing.changed()) drain_slots(peer);
        if (!peer.ours.owes_credit() || peer.link != Link::open) continue;
        const std::uint32_t consumed = peer.ours.landing.consumed();
        if (notify(peer, Kind::credit, bytes_of(consumed))) peer.ours.told(consumed);
    }
}

void UcxTransport::drain_slots(Peer& peer) {
    for (std::uint32_t count = 0; count < kMessagesPerVisit; ++count) {
        Landing::View view;
        const Landing::Found what = peer.ours.landing.peek(view);
        if (what == Landing::Found::nothing) return;
        if (what == Landing::Found::garbage) {
            ++counters_.garbage;
            return;
        }
        // Writes come in their order, and the first of them may have been sent.
        if (view.prefix.sends != peer.its_written) return;
        if (peer.fenced || peer.reported) {
            ++counters_.refused;
        } else {
            peer.theirs.credit.learn(view.prefix.writes_consumed);
            ++counters_.received;
            ++delivered_;
            receiver_->message(peer.rank, {view.header, view.prefix.header_size}, view.payload, 0);
        }
        peer.ours.landing.advance();
    }
}

// -------------------------------------------------------------------------------------- what progress left to do ---

void UcxTransport::attend(Receiver& receiver) {
    if (std::exchange(connections_changed_, false)) {
        worker_.close_connections_on_exec();
        looks_.hasten(0);
    }
    attention_.attend([&](Peer& peer) { attend_to(peer, receiver); });
    reap_closed();
}

void UcxTransport::attend_to(Peer& peer, Receiver& receiver) {
    delivered_ += peer.settle_reads();
    if (peer.owes_fence) {
        // On the connection that is to end, so that it comes before that end.
        peer.owes_fence = false;
        if (peer.link == Link::open) notify(peer, Kind::fenced);
        if (peer.link == Link::open) peer.link = Link::broken;
    }
    if (peer.fences_us) {
        peer.fences_us = false;
        ++delivered_;
        receiver.fenced(peer.rank);
    }
    if (peer.link == Link::broken) close(peer);
    if (peer.failed && !peer.reported && !peer.fenced && !peer.departed) {
        peer.reported = true;
        ++delivered_;
        receiver.peer_failed(peer.rank, FailureCause::transport_error);
        return;
    }
    // What it wrote may pass its goodbye. (It waits for the answer before it ends.)
    if (peer.departed && peer.link == Link::open && !peer.ours.has_seen(peer.its_writes)) return queue(peer);
    if (peer.departed && !peer.reported && !peer.fenced) {
        peer.reported = true;
        ++delivered_;
        receiver.peer_left(peer.rank);
    }
    if (peer.link == Link::none && peer.owes_handshake) {  // watched from within a message
        if (connect(peer)) ++counters_.connections;
    } else if (peer.link == Link::none && peer.heard) {
        connect(peer);  // the way back
    }
    if (peer.link == Link::open) greet(peer);
}

}  // namespace coppice::transport
