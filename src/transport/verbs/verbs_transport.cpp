// Messages: posting, receiving, and what is left to do after that. Connections are in verbs_connect.cpp.
#include "transport/verbs/verbs_transport.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "transport/verbs/library.hpp"

namespace coppice::transport {

using verbs::Kind;
using verbs::Link;
using verbs::Posted;
using verbs::Prefix;

namespace {

constexpr int kBatch = 32;                       // completions taken at a time
constexpr std::uint32_t kMessagesPerVisit = 64;  // of one peer's slots
constexpr std::uint32_t kPollsPerLook = 128;     // between looks at connections and clock
constexpr std::uint32_t kPollsWhileSettingUp = 4;

}  // namespace

inline SendStatus VerbsTransport::outcome(Peer& peer, Posted posted) {
    switch (posted) {
        case Posted::yes:
            return SendStatus::sent;
        case Posted::full:
            return SendStatus::again;
        case Posted::broken:
            break;
    }
    break_link(peer, "the device takes no more work for it");
    return SendStatus::failed;
}

SendStatus VerbsTransport::post(Seat to, bool one_sided, std::span<const std::byte> header,
                                std::span<const std::byte> payload, std::uint32_t* in_flight) {
    assert(header.size() <= kMaxHeader && payload.size() <= kMaxPayload);
    assert(in_flight != nullptr || payload.empty());
    Peer* const peer = find(to);
    if (peer == nullptr || peer->fenced || peer->failed) return SendStatus::failed;
    if (peer->link != Link::open) [[unlikely]] {
        if (peer->link == Link::none) connect(*peer);
        if (peer->link == Link::none || peer->link == Link::broken || peer->link == Link::closed)
            return SendStatus::failed;
        return peer->defer(one_sided, header, payload, in_flight) ? SendStatus::sent : SendStatus::again;
    }
    if (peer->has_deferred()) [[unlikely]] {
        if (peer->post_deferred() != Posted::yes) return SendStatus::again;  // poll() finds out what is broken
    }
    return outcome(*peer, peer->post(one_sided, Kind::data, header, payload, in_flight));
}

SendStatus VerbsTransport::send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                                std::uint32_t* in_flight) {
    const SendStatus status = post(to, false, header, payload, in_flight);
    if (status == SendStatus::sent) ++hub_->counters.sends;
    return status;
}

SendStatus VerbsTransport::write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                                 std::uint32_t* in_flight) {
    const SendStatus status = post(to, true, header, payload, in_flight);
    if (status == SendStatus::sent) ++hub_->counters.writes;
    return status;
}

// ---------------------------------------------------------------------------------------------------- receiving ---

std::size_t VerbsTransport::poll(Receiver& receiver) {
    receiver_ = &receiver;
    delivered_ = 0;
    found_ = false;
    drain_received();
    drain_sent();
    for (std::size_t at = 0; at < open_.size(); ++at)
        if (open_[at]->landing.changed()) drain_landing(*open_[at]);
    if (!attention_.empty()) [[unlikely]]
        attention_.attend([this](Peer& peer) { attend_to(peer); });
    if (look_soon_ || ++polls_ % (setting_up_ > 0 ? kPollsWhileSettingUp : kPollsPerLook) == 0) [[unlikely]] {
        look_soon_ = false;
        look_up();
    }
    hub_->refill();
    if (found_) ++hub_->counters.busy_polls;
    receiver_ = nullptr;
    return delivered_;
}

void VerbsTransport::drain_received() {
    std::array<ibv_wc, kBatch> completions;
    int count = 0;
    do {
        count = ibv_poll_cq(hub_->received, kBatch, completions.data());
        for (int at = 0; at < count; ++at)
            receive(completions[static_cast<std::size_t>(at)]);
        hub_->refill();  // before the senders learn that there is room again and have made use of it
    } while (count == kBatch);
}

void VerbsTransport::receive(const ibv_wc& completion) {
    found_ = true;
    hub_->taken();
    const auto buffer = static_cast<std::uint32_t>(completion.wr_id);
    const auto entry = by_queue_.find(completion.qp_num);
    Peer* const peer = entry == by_queue_.end() ? nullptr : entry->second;
    const bool whole = completion.status == IBV_WC_SUCCESS;
    bool kept = false;
    if (peer == nullptr || peer->fenced || peer->reported) {
        if (whole) ++hub_->counters.refused;
    } else if (whole) {
        peer->heard = true;
        const std::span<const std::byte> message(hub_->pool.at(buffer), completion.byte_len);
        const auto prefix = verbs::parse_message(message);
        if (!prefix) {
            ++hub_->counters.garbage;
        } else {
            peer->learn_consumed(*prefix);
            kept = deliver(*peer, *prefix, message, hub_->may_keep() ? buffer + Buffer{1} : 0);
            if (prefix->kind == Kind::goodbye) {
                peer->departed = true;
                queue(*peer);
            }
        }
    } else if (completion.status != IBV_WC_WR_FLUSH_ERR) {
        break_link(*peer, verbs::library.ibv_wc_status_str(completion.status));
    }
    hub_->pool.set_kept(buffer, kept);
    if (!kept) hub_->pool.give(buffer);
    if (whole && peer != nullptr && peer->link != Link::broken) peer->consumed_send();
}

// True when the receiver keeps the payload.
bool VerbsTransport::deliver(const Peer& peer, const Prefix& prefix, std::span<const std::byte> message,
                             Buffer buffer) {
    if (prefix.kind != Kind::data) return false;
    // The header is interpreted, and the device may still write to where it lies if the peer is up to no good.
    std::array<std::byte, kMaxHeader> header;
    std::memcpy(header.data(), message.data() + sizeof prefix, prefix.header_size);
    const auto payload = message.subspan(sizeof prefix + prefix.header_size, prefix.payload_size);
    ++hub_->counters.received;
    ++delivered_;
    if (payload.empty()) buffer = 0;
    return receiver_->message(peer.rank, {header.data(), prefix.header_size}, payload, buffer) && buffer != 0;
}

void VerbsTransport::drain_landing(Peer& peer) {
    for (std::uint32_t count = 0; count < kMessagesPerVisit; ++count) {
        Landing::View view;
        const Landing::Found what = peer.landing.peek(view);
        if (what == Landing::Found::nothing) return;
        found_ = true;
        if (what == Landing::Found::garbage) {
            ++hub_->counters.garbage;
            return;
        }
        peer.heard = true;
        if (peer.fenced || peer.reported) {
            ++hub_->counters.refused;
        } else {
            peer.learn_consumed(view.prefix);
            ++hub_->counters.received;
            ++delivered_;
            receiver_->message(peer.rank, {view.header, view.prefix.header_size}, view.payload, 0);
        }
        peer.consumed_write();
    }
}

void VerbsTransport::drain_sent() {
    std::array<ibv_wc, kBatch> completions;
    int count = 0;
    do {
        count = ibv_poll_cq(hub_->sent, kBatch, completions.data());
        for (int at = 0; at < count; ++at) {
            const ibv_wc& completion = completions[static_cast<std::size_t>(at)];
            Peer* const peer = find(Seat(static_cast<std::uint32_t>(completion.wr_id >> 32)));
            const bool granting = peer != nullptr && (peer->link == Link::granting || peer->link == Link::admitting);
            if (peer == nullptr || (peer->link != Link::open && !granting)) continue;  // it was cut meanwhile
            if (completion.qp_num != peer->queue_pair_number()) continue;              // of an earlier incarnation
            found_ = true;
            if (completion.status == IBV_WC_SUCCESS) {
                peer->heard = true;
                delivered_ += peer->completed(static_cast<std::uint32_t>(completion.wr_id));
                if (granting) happened(*peer, {verbs::LinkEvent::granted});
                if (std::exchange(peer->probed, false)) receiver_->alive(peer->rank);
                if (peer->has_deferred()) queue(*peer);
            } else if (granting) {
                no_window(*peer);
            } else {
                break_link(*peer, verbs::library.ibv_wc_status_str(completion.status));
            }
        }
    } while (count == kBatch);
}

void VerbsTransport::release(Buffer buffer) {
    const auto index = static_cast<std::uint32_t>(buffer - 1);
    if (buffer == 0 || buffer > hub_->pool.size() || !hub_->pool.kept(index)) return;
    hub_->pool.set_kept(index, false);
    hub_->pool.give(index);
}

int VerbsTransport::arm() {
    look_soon_ = true;  // a sleeper polls seldom: connections and clock are looked at each time
    return hub_->arm();
}

Result<void> VerbsTransport::register_memory(std::span<const std::byte> memory) {
    return hub_->register_memory(memory.data(), memory.size());
}

void VerbsTransport::deregister_memory(const std::byte* begin) {
    hub_->deregister_memory(begin);
}

Result<Exposure> VerbsTransport::expose(std::span<std::byte> memory) {
    auto exposed = hub_->expose(memory);
    if (!exposed) last_error_ = fmt::format("{}; large payloads go in messages", exposed.error().message);
    return exposed;
}

SendStatus VerbsTransport::read(Seat from, const RemoteMemory& what, std::span<std::byte> into, const Exposure& own,
                                Reads* reads) {
    Peer* const peer = find(from);
    if (peer == nullptr || peer->fenced || peer->failed) return SendStatus::failed;
    if (peer->link == Link::none) connect(*peer);
    if (peer->link == Link::none || peer->link == Link::broken || peer->link == Link::closed) return SendStatus::failed;
    if (peer->link != Link::open || peer->has_deferred()) return SendStatus::again;
    return outcome(*peer, peer->read(what, into, own.own_key, reads));
}

// A connection that is broken, but not cut yet, may still be read through.
bool VerbsTransport::may_be_read_by(Seat rank) const {
    const Peer* const peer = find(rank);
    return peer != nullptr && peer->prepared();
}

// ------------------------------------------------------------------------------------------- what is left to do ---

void VerbsTransport::attend_to(Peer& peer) {
    if (peer.link == Link::broken) {
        // What has arrived is delivered first. Nothing can arrive any more once the queue pair is gone.
        peer.cut();
        drain_received();
        if (std::ranges::find(open_, &peer) != open_.end()) drain_landing(peer);
        happened(peer, {verbs::LinkEvent::settled});
    } else if (peer.departed && !peer.reported && !peer.fenced) {
        // Not of one whose goodbye, end and alleged death came all at once: it was fenced while it was being closed, above, and
        // its slots are gone.
        drain_landing(peer);
    }
    if (!peer.reported && !peer.fenced && (peer.departed || peer.failed)) {
        peer.reported = true;
        ++delivered_;
        if (peer.departed)
            receiver_->peer_left(peer.rank);
        else
            receiver_->peer_failed(peer.rank, FailureCause::transport_error);
    }
    if (peer.link == Link::open && peer.has_deferred()) {
        if (peer.post_deferred() == Posted::broken) break_link(peer, "the device takes no more work for it");
    }
    if (peer.link == Link::open && leave_until_ns_ != 0) say_goodbye(peer);
}

void VerbsTransport::say_goodbye(Peer& peer) {
    if (peer.said_goodbye || peer.has_deferred()) return;
    const Posted posted = peer.post(false, Kind::goodbye, {}, {}, nullptr);
    peer.said_goodbye = posted == Posted::yes;
    if (posted == Posted::broken) break_link(peer, "the device takes no more work for it");
    if (posted == Posted::full) queue(peer);
}

bool VerbsTransport::leave() {
    if (leave_until_ns_ == 0) leave_until_ns_ = now_ns() + kLeavePatience.value;
    bool settled = attention_.empty();
    for (Peer* const peer : links_) {
        if (peer->link == Link::open) say_goodbye(*peer);
        settled = settled && peer->link == Link::open && peer->said_goodbye && peer->all_left();
    }
    return settled || now_ns() >= leave_until_ns_;
}

void VerbsTransport::probe(Seat rank) {
    if (Peer* const peer = find(rank); peer != nullptr && peer->link == Link::open && !peer->fenced) peer->probe();
}

void VerbsTransport::fence(Seat rank) {
    if (rank.value >= options_.group_size || rank == options_.self) return;
    Peer& peer = obtain(rank);
    if (peer.fenced) return;
    peer.fenced = true;
    // The memory itself stays until poll(): the receiver may be looking at it just now.
    happened(peer, {verbs::LinkEvent::fenced});
}

void VerbsTransport::forget(Seat rank) {
    if (rank.value >= options_.group_size || rank == options_.self) return;
    incarnations_.forget(rank);
    fence(rank);
    Peer& peer = *find(rank);
    if (peer.link == Link::broken) {
        peer.cut();
        happened(peer, {verbs::LinkEvent::settled});
    }
    attention_.remove(peer);
    std::erase(links_, &peer);
    peers_[rank.value].reset();
}

}  // namespace coppice::transport
