// How the transport begins and ends, and its connections: how they are opened, what is said on them first and last, and how they
// break. Messages are in ucx_transport.cpp.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "transport/ucx/library.hpp"
#include "transport/ucx/log.hpp"
#include "transport/ucx/ucx_transport.hpp"

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

constexpr std::uint16_t kSlots = 16;  // for the writes of one peer: 130 KiB

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
    if (auto listening = made->listen(options.host); !listening) return tl::unexpected(listening.error());
    return made;
}

UcxTransport::UcxTransport(const UcxOptions& options, ucx::Worker worker)
    : self_(options.self),
      group_size_(options.group_size),
      token_(options.group_token),
      own_token_(options.group_token ^ options.incarnation),
      put_(options.put),
      connect_patience_(options.connect_patience),
      capabilities_{.name = "ucx",
                    .native_write = options.put,
                    .native_read = options.put,
                    .inline_size = 0,
                    .eager_size = kMaxPayload,
                    .arm_is_complete = !options.put && !worker.over_rdma(),
                    .hears_unknown = true},
      worker_(std::move(worker)),
      silent_hosts_(worker_.over_rdma() ? -1 : worker_.sleeps_on()),
      open_memory_(worker_.context()) {
    say_what_it_lacks(options.admitted && !options.admitted->everybody);
    for (std::uint16_t i = 0; i < kMaxKept; ++i)
        kept_free_[i] = i;
}

// Of what it does without. `is_closed`: its listener is to be closed to strangers.
void UcxTransport::say_what_it_lacks(bool is_closed) {
    const auto say = [this](const std::string& what) {
        lacks_ += (lacks_.empty() ? "" : "; ") + what;
        last_error_ = "ucx: " + lacks_;
    };
    if (is_closed && !open_to_strangers().empty())
        say(fmt::format("hosts that are not of the job can reach its listener: {}", open_to_strangers()));
    if (worker_.over_rdma()) return;
    if (worker_.sleeps_on() < 0)
        say("UCX does not show its connections: a lost host is noticed when the kernel gives up, after minutes");
    if (const int error = silent_hosts_.wake_error(); error != 0) {
        capabilities_.arm_is_complete = false;
        say(fmt::format(
            "there is no timer that wakes a sleeping rank to look for lost hosts ({}; see 'ulimit -n'): it sleeps for "
            "milliseconds at a time",
            std::strerror(error)));
    }
}

Result<void> UcxTransport::listen(const std::optional<HostAddresses>& host) {
    for (unsigned id = 0; id < ucx::kMessageIds; ++id) {
        ucp_am_handler_param_t handler{};
        handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                             UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
        handler.id = id;
        handler.flags = UCP_AM_FLAG_WHOLE_MSG;
        handler.cb = id == ucx::kMessageId ? &UcxTransport::on_message : &UcxTransport::on_stranger;
        handler.arg = this;
        if (const ucs_status_t status = ucx::library.ucp_worker_set_am_recv_handler(worker_.handle(), &handler);
            status != UCS_OK)
            return fail(COPPICE_ERR_NO_MEMORY, "ucx: no handler for messages could be set: {}",
                        ucx::library.ucs_status_string(status));
    }
    auto worker_address = worker_.address();
    if (!worker_address) return tl::unexpected(worker_address.error());
    auto packed = ucx::pack_address(*worker_address, put_, static_cast<std::uint32_t>(own_token_ ^ token_), host);
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
    for (auto& peer : forgotten_)
        peer->disown();
    for (void* data : kept_)
        if (data != nullptr) ucx::library.ucp_am_data_release(worker_.handle(), data);
    for (int round = 0; round < kClosingRounds && !closing_.empty(); ++round) {
        worker_.progress();
        reap_closed();
    }
    for (auto& peer : peers_)
        if (peer) peer->keys.forget();
    for (auto& peer : forgotten_)
        peer->keys.forget();
}

// ------------------------------------------------------------------------------------------------------- peers ---

UcxTransport::Peer& UcxTransport::obtain(Seat rank) {
    if (rank.value >= peers_.size()) peers_.resize(rank.value + std::size_t{1});
    auto& peer = peers_[rank.value];
    if (!peer) peer = std::make_unique<Peer>(*this, rank);
    return *peer;
}

Result<void> UcxTransport::add_peer(Seat rank, std::span<const std::byte> address) {
    if (rank.value >= group_size_)
        return fail(COPPICE_ERR_OUT_OF_RANGE, "ucx: rank {} is no rank of a group of {}", rank.value, group_size_);
    auto known = ucx::unpack_address(rank, address, put_);
    if (!known) return tl::unexpected(known.error());
    if (rank == self_) return {};  // nothing is ever sent to oneself
    switch (incarnations_.judge(rank, known->incarnation)) {
        case Incarnations::Is::right:
            break;
        case Incarnations::Is::earlier:
            return fail(COPPICE_ERR_PEER_FAILED, "ucx: incarnation {} of rank {} is over", known->incarnation,
                        rank.value);
        case Incarnations::Is::later:
            if (Peer* const other = find(rank); other != nullptr && !other->address.empty())
                return fail(COPPICE_ERR_INVALID_ARGUMENT, "ucx: rank {} was added twice", rank.value);
            forget(rank);  // an earlier one was heard, and never added
    }
    if (known->host) {
        if (auto admitted = worker_.admit(*known->host); !admitted) return tl::unexpected(std::move(admitted.error()));
    }
    incarnations_.set(rank, known->incarnation);
    Peer& peer = obtain(rank);
    peer.incarnation = known->incarnation;
    peer.address = std::move(known->worker);
    if (peer.heard) queue(peer);
    return {};
}

// A rank that is heard before it was added. Null: it is another incarnation than the one that counts here, or a stranger.
UcxTransport::Peer* UcxTransport::meet(Seat rank, std::uint32_t incarnation) {
    if (find(rank) != nullptr || incarnation != incarnations_.least(rank)) {
        ++(incarnation < incarnations_.least(rank) ? counters_.refused : counters_.garbage);
        return nullptr;
    }
    incarnations_.set(rank, incarnation);
    Peer& peer = obtain(rank);
    peer.incarnation = incarnation;
    return &peer;
}

void UcxTransport::forget(Seat rank) {
    if (rank.value >= group_size_ || rank == self_) return;
    incarnations_.forget(rank);
    Peer* const peer = find(rank);
    if (peer == nullptr) return;
    const ucx::Hush hush;
    peer->fenced = true;
    if (peer->owes_fence && peer->link == Link::open) notify(*peer, Kind::fenced);
    if (peer->link != Link::none && peer->link != Link::closed) close(*peer);
    attention_.remove(*peer);
    forgotten_.push_back(std::move(peers_[rank.value]));
}

// Opens the endpoint if that has not been tried yet. False: there is none, and the failure will be reported.
bool UcxTransport::connect(Peer& peer) {
    if (peer.link != Link::none) return peer.link == Link::opening || peer.link == Link::open;
    if (peer.fenced || peer.failed || peer.address.empty()) return false;
    const ucx::Hush hush;
    const ucs_status_t status =
        peer.open(worker_.handle(), &UcxTransport::on_error, &UcxTransport::on_opened, &UcxTransport::on_read);
    if (status != UCS_OK) {
        if (peer.link == Link::none) peer.link = Link::closed;
        break_link(peer, status);
        return false;
    }
    peer.owes_slots = put_;
    connections_changed_ = true;
    connects_ = true;
    looks_.hasten(0);
    queue(peer);  // to greet it
    return true;
}

void UcxTransport::on_opened(Peer& peer) {
    peer.owner.connections_changed_ = true;
    peer.owner.queue(peer);
}

void UcxTransport::on_read(Peer& peer) {
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
    if (!peer.wanted_keys.empty()) give_keys(peer);
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
            tell(made.error().message);
            return true;
        }
        peer.ours = std::move(*made);
        writers_.push_back(&peer);
    }
    const ucx::Offer offer = peer.ours.offer();
    return notify(peer, Kind::slots, bytes_of(offer), peer.ours.key());
}

void UcxTransport::give_keys(Peer& peer) {
    std::erase_if(peer.wanted_keys, [this, &peer](std::uint32_t number) {
        const ucx::OwnMemory::Key key = open_memory_.key_of(number);
        return peer.link == Link::open && notify(peer, Kind::key, bytes_of(number), key.bytes, key.in_flight);
    });
}

bool UcxTransport::connected(Seat peer) const {
    return peer.value < peers_.size() && peers_[peer.value] && peers_[peer.value]->link == Link::open;
}

bool UcxTransport::notify(Peer& peer, Kind kind, std::span<const std::byte> what, std::span<const std::byte> key,
                          std::uint32_t* in_flight) {
    if (!looks_.talks()) [[unlikely]]
        begin_to_talk();
    const Prefix prefix{
        .token = own_token_, .from = self_.value, .kind = kind, .header_size = static_cast<std::uint16_t>(what.size())};
    const ucs_status_t status = peer.post(prefix, what, key, in_flight);
    if (status == UCS_OK || status == UCS_INPROGRESS) return true;
    if (status != UCS_ERR_NO_RESOURCE && status != UCS_ERR_NO_MEMORY) break_link(peer, status);
    return false;
}

// What it does without may be why.
void UcxTransport::tell(std::string what) {
    last_error_ = std::move(what);
    if (!lacks_.empty()) last_error_ += "; " + lacks_;
}

// Takes a note only: this is called from within UCX.
void UcxTransport::break_link(Peer& peer, ucs_status_t status) {
    if (peer.link == Link::opening || peer.link == Link::open) peer.link = Link::broken;
    if (!peer.failed && !peer.fenced && !peer.departed)
        tell(fmt::format(
            "ucx: the connection to rank {} failed: {}{}; if that rank is alive, check that its host can be "
            "reached over the devices in UCX_NET_DEVICES and that no firewall stands between",
            peer.rank.value, ucx::library.ucs_status_string(status),
            ucx::said_of(peer.address, lost_, ucx::Hush::take())));
    peer.failed = true;
    queue(peer);
}

void UcxTransport::on_error(void* argument, ucp_ep_h, ucs_status_t status) {
    auto& peer = *static_cast<Peer*>(argument);
    peer.owner.break_link(peer, status);
}

void UcxTransport::watch(Seat rank) {
    Peer* peer = find(rank);
    if (peer == nullptr || peer->link != Link::none) return;
    peer->owes_handshake = true;
    if (progressing_) {
        queue(*peer);
    } else if (connect(*peer)) {
        ++counters_.connections;
    }
}

void UcxTransport::fence(Seat rank) {
    if (rank.value >= group_size_ || rank == self_) return;
    Peer& peer = obtain(rank);
    peer.owes_fence = !peer.fenced && peer.link == Link::open;
    peer.fenced = true;
    peer.ours.revoke();
    if (peer.link == Link::opening) peer.link = Link::broken;
    queue(peer);
}

// ------------------------------------------------------------------------------------------------------ ending ---

void UcxTransport::close(Peer& peer) {
    std::erase(writers_, &peer);
    if (const ucs_status_ptr_t request = peer.close(); request != nullptr) closing_.push_back(request);
}

// While anything is under way to a peer, that itself will tell.
void UcxTransport::look_after_connections() {
    const std::uint64_t now = now_ns();
    if (now < next_ping_ns_) return;
    next_ping_ns_ = now + kPingInterval.value;
    for (auto& peer : peers_) {
        if (!peer) continue;
        if (peer->link == Link::open && peer->pending == 0) notify(*peer, Kind::ping);
        if (peer->link != Link::opening) continue;
        if (peer->opening_since_ns == 0) peer->opening_since_ns = now;
        if (now - peer->opening_since_ns > connect_patience_.value) break_link(*peer, UCS_ERR_ENDPOINT_TIMEOUT);
    }
}

void UcxTransport::begin_to_talk() {
    looks_.talk(now_ns());
}

// Those of UCX over TCP.
void UcxTransport::look_at_sockets() {
    const std::uint64_t now = now_ns();
    if (!looks_.is_due(now)) return;
    looks_.begin();
    // UCX tries again with another socket, without telling.
    if (connects_) worker_.bound_set_up();
    connects_ = std::ranges::any_of(peers_, [](const auto& peer) { return peer && peer->link == Link::opening; });
    ucx::SilentHosts::Found found = silent_hosts_.look(now);
    lost_ = std::move(found.lost);
    if (found.is_blind && !is_blind_)
        tell("ucx: new connections are not looked at, whether their hosts are lost: /proc/self/fdinfo can't be read");
    is_blind_ = found.is_blind;
    bool is_connected = connects_;
    for (auto& peer : peers_) {
        if (!peer || peer->link != Link::open) continue;
        is_connected = true;
        // UCX does not say whose connection it is.
        if (found.leaves_us_open && peer->pending == 0) notify(*peer, Kind::ping);
    }
    looks_.end(now, is_connected, connects_ || found.is_busy || found.is_blind);
}

void UcxTransport::reap_closed() {
    std::erase_if(closing_, [](ucs_status_ptr_t request) {
        if (ucx::library.ucp_request_check_status(request) == UCS_INPROGRESS) return false;
        ucx::library.ucp_request_free(request);
        return true;
    });
    // What UCX calls back with them has been called once their endpoints are closed.
    if (closing_.empty()) std::erase_if(forgotten_, [](const auto& peer) { return peer->is_over(); });
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
