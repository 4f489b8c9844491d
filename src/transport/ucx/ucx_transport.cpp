#include "transport/ucx/ucx_transport.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

#include "base/clock.hpp"
#include "transport/ucx/log.hpp"

namespace coppice::transport {

using ucx::Kind;
using ucx::Link;
using ucx::Prefix;

namespace {

// How many connections a rank of a group may come to have: its own and its peers' to it, O(log P) each.
std::uint32_t expected_connections(std::uint32_t group_size) {
    const auto width = static_cast<std::uint32_t>(std::bit_width(group_size));
    return std::min(group_size - 1, 4 * width + 8);
}

// The most rounds of progress that the destructor grants to UCX to take endpoints apart. It needs a handful.
constexpr int kClosingRounds = 100'000;

constexpr std::uint16_t kSlots = 16;             // for the writes of one peer: 130 KiB
constexpr std::uint32_t kMessagesPerVisit = 64;  // of one peer's slots

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
    return std::as_bytes(std::span(&value, 1));
}

}  // namespace

Result<std::unique_ptr<UcxTransport>> UcxTransport::create(const UcxOptions& options) {
    if (options.group_size == 0 || options.group_size > kMaxProcesses || options.self.value >= options.group_size)
        return fail(COPPICE_ERR_OUT_OF_RANGE, "ucx: rank {} is no rank of a group of {}", options.self.value,
                    options.group_size);
    auto worker = ucx::Worker::create({.net_devices = options.net_devices,
                                       .tls = options.tls,
                                       .loopback_only = options.loopback_only,
                                       .put = options.put,
                                       .admitted = options.admitted,
                                       .expected_connections = expected_connections(options.group_size)});
    if (!worker) return tl::unexpected(worker.error());
    std::unique_ptr<UcxTransport> made(new UcxTransport(options, std::move(*worker)));
    if (auto listening = made->listen(); !listening) return tl::unexpected(listening.error());
    return made;
}

UcxTransport::UcxTransport(const UcxOptions& options, ucx::Worker worker)
    : self_(options.self),
      group_size_(options.group_size),
      token_(options.group_token),
      put_(options.put),
      connect_patience_(options.connect_patience),
      capabilities_{.name = "ucx",
                    .native_write = options.put,
                    .inline_size = 0,
                    .eager_size = kMaxPayload,
                    .arm_is_complete = !options.put && !worker.over_rdma()},
      worker_(std::move(worker)) {
    if (options.admitted && !options.admitted->everybody && !open_to_strangers().empty())
        last_error_ = fmt::format("ucx: hosts that are not of the job can reach its listener: {}", open_to_strangers());
    for (std::uint16_t i = 0; i < kMaxKept; ++i)
        kept_free_[i] = i;
}

Result<void> UcxTransport::listen() {
    for (unsigned id = 0; id < ucx::kMessageIds; ++id) {
        ucp_am_handler_param_t handler{};
        handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                             UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
        handler.id = id;
        handler.flags = UCP_AM_FLAG_WHOLE_MSG;
        handler.cb = id == ucx::kMessageId ? &UcxTransport::on_message : &UcxTransport::on_stranger;
        handler.arg = this;
        if (const ucs_status_t status = ucp_worker_set_am_recv_handler(worker_.handle(), &handler); status != UCS_OK)
            return fail(COPPICE_ERR_NO_MEMORY, "ucx: no handler for messages could be set: {}",
                        ucs_status_string(status));
    }
    auto worker_address = worker_.address();
    if (!worker_address) return tl::unexpected(worker_address.error());
    auto packed = ucx::pack_address(*worker_address, put_);
    if (!packed) return tl::unexpected(packed.error());
    address_ = std::move(*packed);
    return {};
}

UcxTransport::~UcxTransport() {
    const ucx::Hush hush;
    for (auto& peer : peers_) {
        if (!peer) continue;
        peer->disown();
        if (peer->link != Link::none && peer->link != Link::closed) close(*peer);
    }
    for (void* data : kept_)
        if (data != nullptr) ucp_am_data_release(worker_.handle(), data);
    for (int round = 0; round < kClosingRounds && !closing_.empty(); ++round) {
        worker_.progress();
        reap_closed();
    }
}

// ------------------------------------------------------------------------------------------------------- peers ---

UcxTransport::Peer& UcxTransport::obtain(Rank rank) {
    if (rank.value >= peers_.size()) peers_.resize(rank.value + std::size_t{1});
    auto& peer = peers_[rank.value];
    if (!peer) peer = std::make_unique<Peer>(*this, rank);
    return *peer;
}

Result<void> UcxTransport::add_peer(Rank rank, std::span<const std::byte> address) {
    if (rank.value >= group_size_)
        return fail(COPPICE_ERR_OUT_OF_RANGE, "ucx: rank {} is no rank of a group of {}", rank.value, group_size_);
    auto worker_address = ucx::unpack_address(rank, address, put_);
    if (!worker_address) return tl::unexpected(worker_address.error());
    if (rank == self_) return {};  // nothing is ever sent to oneself
    Peer& peer = obtain(rank);
    peer.address = std::move(*worker_address);
    if (peer.heard) queue(peer);
    return {};
}

// Opens the endpoint if that has not been tried yet. False: there is none, and the failure will be reported.
bool UcxTransport::connect(Peer& peer) {
    if (peer.link != Link::none) return peer.link == Link::opening || peer.link == Link::open;
    if (peer.fenced || peer.failed || peer.address.empty()) return false;
    const ucx::Hush hush;
    const ucs_status_t status = peer.open(worker_.handle(), &UcxTransport::on_error, &UcxTransport::on_opened);
    if (status != UCS_OK) {
        if (peer.link == Link::none) peer.link = Link::closed;
        break_link(peer, status);
        return false;
    }
    peer.owes_slots = put_;
    connections_changed_ = true;
    connects_ = true;
    queue(peer);  // to greet it
    return true;
}

void UcxTransport::on_opened(Peer& peer) {
    peer.owner.connections_changed_ = true;
    peer.owner.queue(peer);
}

// What has to be said as soon as something can be said.
void UcxTransport::greet(Peer& peer) {
    if (const ucs_status_t status = peer.post_waiting(); status != UCS_OK) {
        if (status == UCS_ERR_NO_RESOURCE || status == UCS_ERR_NO_MEMORY) return queue(peer);
        return break_link(peer, status);
    }
    if (peer.owes_handshake && notify(peer, Kind::handshake)) peer.owes_handshake = false;
    if (peer.owes_slots && give_slots(peer)) peer.owes_slots = false;
    if (peer.theirs.noted()) peer.attach_slots(slot_seed(token_, self_.value, peer.rank.value));
    if (peer.owes_ack && notify(peer, Kind::goodbye_ack)) peer.owes_ack = false;
    if (leave_until_ns_ != 0 && !peer.said_goodbye)
        peer.said_goodbye = notify(peer, Kind::goodbye, bytes_of(peer.writes));
}

// Where there is no memory for slots the peer sends instead.
bool UcxTransport::give_slots(Peer& peer) {
    if (!peer.ours) {
        auto made = ucx::OwnSlots::make(worker_.context(), kSlots, slot_seed(token_, peer.rank.value, self_.value));
        if (!made) {
            last_error_ = made.error().message;
            return true;
        }
        peer.ours = std::move(*made);
        writers_.push_back(&peer);
    }
    const ucx::Offer offer = peer.ours.offer();
    return notify(peer, Kind::slots, bytes_of(offer), peer.ours.key());
}

bool UcxTransport::connected(Rank peer) const {
    return peer.value < peers_.size() && peers_[peer.value] && peers_[peer.value]->link == Link::open;
}

bool UcxTransport::notify(Peer& peer, Kind kind, std::span<const std::byte> what, std::span<const std::byte> key) {
    const Prefix prefix{
        .token = token_, .from = self_.value, .kind = kind, .header_size = static_cast<std::uint16_t>(what.size())};
    const ucs_status_t status = peer.post(prefix, what, key, nullptr);
    if (status == UCS_OK || status == UCS_INPROGRESS) return true;
    if (status != UCS_ERR_NO_RESOURCE && status != UCS_ERR_NO_MEMORY) break_link(peer, status);
    return false;
}

// Takes a note only: this is called from within UCX.
void UcxTransport::break_link(Peer& peer, ucs_status_t status) {
    if (peer.link == Link::opening || peer.link == Link::open) peer.link = Link::broken;
    if (!peer.failed && !peer.fenced && !peer.departed) {
        const std::string complaint = ucx::Hush::take();
        last_error_ = fmt::format(
            "ucx: the connection to rank {} failed: {}{}{}; if that rank is alive, check that its host can be reached "
            "over the devices in UCX_NET_DEVICES and that no firewall stands between",
            peer.rank.value, ucs_status_string(status), complaint.empty() ? "" : "; UCX says: ", complaint);
    }
    peer.failed = true;
    queue(peer);
}

void UcxTransport::on_error(void* argument, ucp_ep_h, ucs_status_t status) {
    auto& peer = *static_cast<Peer*>(argument);
    peer.owner.break_link(peer, status);
}

void UcxTransport::watch(Rank rank) {
    Peer* peer = find(rank);
    if (peer == nullptr || peer->link != Link::none) return;
    peer->owes_handshake = true;
    if (progressing_) {
        queue(*peer);
    } else if (connect(*peer)) {
        ++counters_.connections;
    }
}

void UcxTransport::fence(Rank rank) {
    if (rank.value >= group_size_ || rank == self_) return;
    Peer& peer = obtain(rank);
    peer.owes_fence = !peer.fenced && peer.link == Link::open;
    peer.fenced = true;
    peer.ours.revoke();
    if (peer.link == Link::opening) peer.link = Link::broken;
    queue(peer);
}

// ------------------------------------------------------------------------------------------------------ sending ---

SendStatus UcxTransport::post(Rank to, bool one_sided, std::span<const std::byte> header,
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
    if (peer->pending >= ucx::kMaxPending) return SendStatus::again;
    const bool put = one_sided && peer->theirs && peer->link == Link::open;
    const Prefix prefix{.token = token_,
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

SendStatus UcxTransport::send(Rank to, std::span<const std::byte> header, std::span<const std::byte> payload,
                              std::uint32_t* in_flight) {
    const SendStatus status = post(to, false, header, payload, in_flight);
    if (status == SendStatus::sent) ++counters_.sends;
    return status;
}

SendStatus UcxTransport::write(Rank to, std::span<const std::byte> header, std::span<const std::byte> payload,
                               std::uint32_t* in_flight) {
    const SendStatus status = post(to, true, header, payload, in_flight);
    if (status == SendStatus::sent) ++counters_.writes;
    return status;
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
    Peer* known = self.find(Rank(prefix->from));
    Peer& peer = known != nullptr ? *known : self.obtain(Rank(prefix->from));
    if (peer.fenced || peer.reported) {
        ++self.counters_.refused;
        return UCS_OK;
    }
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
    ucp_am_data_release(worker_.handle(), kept_[buffer - 1]);
    kept_[buffer - 1] = nullptr;
    kept_free_[kept_free_count_++] = static_cast<std::uint16_t>(buffer - 1);
}

std::size_t UcxTransport::poll(Receiver& receiver) {
    const ucx::Hush hush;
    receiver_ = &receiver;
    delivered_ = 0;
    progressing_ = true;
    worker_.progress();
    progressing_ = false;
    if (!writers_.empty()) drain_slots();
    if (!attention_.empty() || !closing_.empty()) [[unlikely]]
        attend(receiver);
    if (worker_.over_rdma()) {
        look_after_connections();
    } else if (connects_) [[unlikely]] {
        bound_set_up();
    }
    receiver_ = nullptr;
    return delivered_;
}

int UcxTransport::arm() {
    if (!attention_.empty() || !closing_.empty()) return -1;
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

void UcxTransport::queue(Peer& peer) {
    if (peer.queued) return;
    peer.queued = true;
    attention_.push_back(&peer);
}

void UcxTransport::attend(Receiver& receiver) {
    if (std::exchange(connections_changed_, false)) worker_.close_connections_on_exec();
    attending_.swap(attention_);
    for (Peer* peer : attending_) {
        peer->queued = false;
        attend_to(*peer, receiver);  // may queue peers again: for the next poll
    }
    attending_.clear();
    reap_closed();
}

void UcxTransport::attend_to(Peer& peer, Receiver& receiver) {
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

void UcxTransport::close(Peer& peer) {
    std::erase(writers_, &peer);
    if (const ucs_status_ptr_t request = peer.close(); request != nullptr) closing_.push_back(request);
}

// While anything is under way to a peer, that itself will tell.
void UcxTransport::look_after_connections() {
    const std::uint64_t now = now_ns();
    if (now < next_look_ns_) return;
    next_look_ns_ = now + kPingInterval.value;
    for (auto& peer : peers_) {
        if (!peer) continue;
        if (peer->link == Link::open && peer->pending == 0) notify(*peer, Kind::ping);
        if (peer->link != Link::opening) continue;
        if (peer->opening_since_ns == 0) peer->opening_since_ns = now;
        if (now - peer->opening_since_ns > connect_patience_.value) break_link(*peer, UCS_ERR_ENDPOINT_TIMEOUT);
    }
}

// UCX tries again with another socket, without telling.
void UcxTransport::bound_set_up() {
    const std::uint64_t now = now_ns();
    if (now < next_look_ns_) return;
    next_look_ns_ = now + kSetUpLook.value;
    worker_.bound_set_up();
    connects_ = std::ranges::any_of(peers_, [](const auto& peer) { return peer && peer->link == Link::opening; });
}

void UcxTransport::reap_closed() {
    std::erase_if(closing_, [](ucs_status_ptr_t request) {
        if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
        ucp_request_free(request);
        return true;
    });
}

bool UcxTransport::leave() {
    if (leave_until_ns_ == 0) {
        leave_until_ns_ = now_ns() + kLeavePatience.value;
        for (auto& peer : peers_)
            if (peer && peer->link == Link::open) greet(*peer);
    }
    const bool settled = std::ranges::all_of(peers_, [](const auto& peer) {
        if (!peer || peer->link == Link::none || peer->link == Link::closed) return true;
        const bool heard_out = peer->departed || peer->goodbye_acked;
        return peer->link == Link::open && heard_out && !peer->owes_ack && peer->pending == 0;
    });
    return (settled && closing_.empty() && attention_.empty()) || now_ns() >= leave_until_ns_;
}

}  // namespace coppice::transport
