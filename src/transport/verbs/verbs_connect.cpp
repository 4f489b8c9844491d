// How connections come to be and end: rdma_cm's events, the cards that both sides check, and what happens when both open.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace coppice::transport {

using verbs::Card;
using verbs::Link;
using verbs::Refusal;

namespace {

constexpr int kBacklog = 1024;
constexpr int kResolveMs = 2000;
constexpr std::uint8_t kRetryForEver = 7;
constexpr std::uint64_t kAskAgainNs = 1'000'000'000;
// The kernel repeats a request to a host that does not answer at all for 16 times 4.1 s. Where it gives up later than this, the
// other kernel has answered that it has the request and its process has yet to come for it.
constexpr std::uint64_t kSilentHostNs = 100'000'000'000;
constexpr std::uint16_t kLeastSlots = 4;
constexpr std::uint16_t kMostSlots = 16;

bool is_v4(const sockaddr_in6& address) {
    return address.sin6_family == AF_INET;
}

std::string text_of(const sockaddr_in6& address) {
    char text[INET6_ADDRSTRLEN] = "";
    const void* const ip = is_v4(address)
                               ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
                               : static_cast<const void*>(&address.sin6_addr);
    inet_ntop(address.sin6_family, ip, text, sizeof text);
    return fmt::format("{} port {}", text, ntohs(address.sin6_port));
}

sockaddr* raw(sockaddr_in6& address) {
    return reinterpret_cast<sockaddr*>(&address);
}

void refuse(rdma_cm_id* id, Refusal reason) {
    const auto why = verbs::encode(reason);
    rdma_reject(id, why.data(), static_cast<std::uint8_t>(why.size()));
    rdma_destroy_id(id);
}

tl::unexpected<Error> cannot_listen(const sockaddr_in6& where, const verbs::Device& device, int error) {
    const char* remedy = "is its interface up?";
    if (error == EADDRINUSE) remedy = "choose another COPPICE_VERBS_PORT, or none";
    if (error == EAGAIN) remedy = "allow it more";
    return fail(error == EADDRINUSE || error == EAGAIN ? COPPICE_ERR_NO_RESOURCES : COPPICE_ERR_NO_TRANSPORT,
                "verbs: cannot listen on {} of device {}: {}; {}", text_of(where), device.name, verbs::reason_of(error),
                remedy);
}

rdma_conn_param parameters(const std::vector<std::byte>& card, std::uint8_t retries, std::uint32_t queue_pair) {
    rdma_conn_param result{};
    result.private_data = card.data();
    result.private_data_len = static_cast<std::uint8_t>(card.size());
    result.responder_resources = 1;
    result.initiator_depth = 1;
    result.flow_control = 1;
    result.retry_count = retries;
    result.rnr_retry_count = kRetryForEver;
    result.srq = 1;
    result.qp_num = queue_pair;
    return result;
}

}  // namespace

// ------------------------------------------------------------------------------------------- beginning and ending ---

Result<std::unique_ptr<VerbsTransport>> VerbsTransport::create(const VerbsOptions& options) {
    if (options.group_size == 0 || options.group_size > kMaxProcesses || options.self.value >= options.group_size)
        return fail(COPPICE_ERR_OUT_OF_RANGE, "verbs: rank {} is no rank of a group of {}", options.self.value,
                    options.group_size);
    ibv_fork_init();  // a fork of the program must not move our pages away; nothing to do on kernels since 5.12
    const auto device =
        verbs::choose_device({.device = options.device, .gid_index = options.gid_index, .mtu = options.mtu});
    if (!device) return tl::unexpected(device.error());
    std::unique_ptr<VerbsTransport> made(new VerbsTransport(options));
    if (auto listening = made->listen(*device); !listening) return tl::unexpected(listening.error());
    return made;
}

Result<void> VerbsTransport::listen(const verbs::Device& device) {
    channel_ = rdma_create_event_channel();
    if (channel_ == nullptr)
        return fail(COPPICE_ERR_NO_TRANSPORT,
                    "verbs: no connection manager: {}; load its kernel module ('modprobe rdma_ucm')",
                    std::strerror(errno));
    fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    fcntl(channel_->fd, F_SETFD, FD_CLOEXEC);
    if (rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP) != 0) {
        listener_ = nullptr;
        return fail(COPPICE_ERR_NO_RESOURCES, "verbs: rdma_cm gives no identifier: {}", std::strerror(errno));
    }
    sockaddr_in6 where = device.address;
    if (options_.port != 0) where.sin6_port = htons(static_cast<std::uint16_t>(options_.port + options_.self.value));
    if (rdma_bind_addr(listener_, raw(where)) != 0 || rdma_listen(listener_, kBacklog) != 0)
        return cannot_listen(where, device, errno);
    if (listener_->verbs == nullptr || device.name != ibv_get_device_name(listener_->verbs->device))
        return fail(COPPICE_ERR_NO_TRANSPORT,
                    "verbs: connections at {} come to device {}, not {}: two devices have one address; choose with "
                    "COPPICE_VERBS_DEVICE",
                    text_of(where), listener_->verbs == nullptr ? "?" : ibv_get_device_name(listener_->verbs->device),
                    device.name);
    auto hub = verbs::Hub::make(
        listener_->verbs, device,
        {.window = options_.window, .sends_ahead = link_options().slots, .memory_windows = options_.memory_windows});
    if (!hub) return tl::unexpected(hub.error());
    hub_ = std::move(*hub);

    verbs::Address address{.where = device.address, .rank = options_.self.value, .group_size = options_.group_size};
    address.where.sin6_port = rdma_get_src_port(listener_);
    address_ = verbs::encode(address);
    const std::size_t rides = hub_->inline_bytes() > kLine ? hub_->inline_bytes() - kLine : 0;
    capabilities_ = {.name = "verbs", .native_write = true, .inline_size = rides, .eager_size = kMaxPayload};
    return {};
}

VerbsTransport::~VerbsTransport() {
    for (auto& peer : peers_) {
        if (!peer) continue;
        peer->cut();
        peer->settle(false);
    }
    peers_.clear();
    hub_.reset();
    if (listener_ != nullptr) rdma_destroy_id(listener_);
    if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
}

// ------------------------------------------------------------------------------------------------------- peers ---

VerbsTransport::Peer& VerbsTransport::obtain(Rank rank) {
    if (rank.value >= peers_.size()) peers_.resize(rank.value + std::size_t{1});
    auto& peer = peers_[rank.value];
    if (!peer) peer = std::make_unique<Peer>(*hub_, rank);
    return *peer;
}

Link VerbsTransport::link(Rank rank) const {
    const Peer* const peer = find(rank);
    return peer == nullptr ? Link::none : peer->link;
}

Result<void> VerbsTransport::add_peer(Rank rank, std::span<const std::byte> bytes) {
    if (rank.value >= options_.group_size)
        return fail(COPPICE_ERR_OUT_OF_RANGE, "verbs: rank {} is no rank of a group of {}", rank.value,
                    options_.group_size);
    auto address = verbs::decode_address(rank, bytes);
    if (!address) return tl::unexpected(address.error());
    if (address->rank != rank.value || address->group_size != options_.group_size)
        return fail(COPPICE_ERR_MISMATCH,
                    "verbs: the address given for rank {} is that of rank {} in a group of {}, this group has {}: the "
                    "exchange of addresses mixed them up",
                    rank.value, address->rank, address->group_size, options_.group_size);
    if (address->where.sin6_family != hub_->device().address.sin6_family)
        return fail(COPPICE_ERR_NO_TRANSPORT,
                    "verbs: rank {} is at {}, this rank at {}: choose GIDs of one kind with COPPICE_VERBS_GID_INDEX",
                    rank.value, text_of(address->where), text_of(hub_->device().address));
    if (rank == options_.self) return {};
    obtain(rank).address = *address;
    return {};
}

void VerbsTransport::watch(Rank rank) {
    Peer* const peer = find(rank);
    if (peer != nullptr && peer->link == Link::none) connect(*peer);
}

Card VerbsTransport::own_card(const Peer& peer) const {
    Card card = peer.card();
    card.rank = options_.self.value;
    card.epoch = options_.epoch;
    card.token = options_.group_token;
    return card;
}

Card VerbsTransport::expected_card() const {
    return {.rank = options_.group_size, .epoch = options_.epoch, .token = options_.group_token};
}

verbs::LinkOptions VerbsTransport::link_options() const {
    const auto window = static_cast<std::uint16_t>(std::min<std::uint32_t>(options_.window, kMostSlots));
    return {.timeout = options_.timeout,
            .retries = options_.retries,
            .service_level = options_.service_level,
            .traffic_class = options_.traffic_class,
            .slots = std::max(window, kLeastSlots)};
}

Result<void> VerbsTransport::prepare(Peer& peer) {
    const std::uint32_t self = options_.self.value;
    auto prepared = peer.prepare(link_options(), slot_seed(options_.group_token, peer.rank.value, self),
                                 slot_seed(options_.group_token, self, peer.rank.value));
    if (prepared) by_queue_[peer.queue_pair_number()] = &peer;
    return prepared;
}

// Begins to open the connection. False: that failed, and is reported by the next poll.
bool VerbsTransport::connect(Peer& peer) {
    if (peer.fenced || peer.failed || !peer.address) return false;
    ++hub_->counters.connections;
    peer.deadline_ns = set_up_deadline();
    peer.link = Link::resolving;
    ++setting_up_;
    links_.push_back(&peer);
    if (auto started = start_request(peer); !started) {
        break_link(peer, started.error().message);
        return false;
    }
    return true;
}

std::uint64_t VerbsTransport::set_up_deadline() const {
    return options_.connect_timeout.value == 0 ? ~std::uint64_t{0} : now_ns() + options_.connect_timeout.value;
}

Result<void> VerbsTransport::start_request(Peer& peer) {
    peer.requested_ns = now_ns();
    if (rdma_create_id(channel_, &peer.id, &peer, RDMA_PS_TCP) != 0) {
        peer.id = nullptr;
        return fail(COPPICE_ERR_NO_RESOURCES, "rdma_cm gives no identifier: {}", std::strerror(errno));
    }
    if (options_.traffic_class != 0) {
        std::uint8_t type = options_.traffic_class;
        rdma_set_option(peer.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &type, sizeof type);
    }
    sockaddr_in6 from = hub_->device().address;
    if (rdma_resolve_addr(peer.id, raw(from), raw(peer.address->where), kResolveMs) != 0)
        return fail(COPPICE_ERR_NO_TRANSPORT, "no way to {}: {}", text_of(peer.address->where), std::strerror(errno));
    return {};
}

// Takes a note only; the next poll closes the connection and reports.
void VerbsTransport::break_link(Peer& peer, const std::string& why) {
    if (peer.link == Link::closed || peer.link == Link::broken) return;
    if (peer.link != Link::none && peer.link != Link::open) --setting_up_;
    if (!peer.fenced && !peer.departed)
        last_error_ = fmt::format(
            "verbs: the connection to rank {} ({}) failed: {}; if that rank is alive, check that its host can be "
            "reached "
            "from device {}",
            peer.rank.value, peer.address ? text_of(peer.address->where) : "which opened it", why, hub_->device().name);
    peer.link = Link::broken;
    peer.failed = true;
    queue(peer);
}

// Its queue pair is gone, and what had arrived has been delivered.
void VerbsTransport::close(Peer& peer) {
    peer.link = Link::closed;
    by_queue_.erase(peer.queue_pair_number());
    std::erase(open_, &peer);
    std::erase(links_, &peer);
    peer.settle(true);
    forget_request(peer);
}

void VerbsTransport::forget_request(Peer& peer) {
    if (peer.id != nullptr) rdma_destroy_id(peer.id);
    peer.id = nullptr;
}

// ------------------------------------------------------------------------------------------------------ events ---

void VerbsTransport::look_up() {
    while (true) {
        pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
        if (::poll(&readable, 1, 0) <= 0) break;
        rdma_cm_event* raw_event = nullptr;
        if (rdma_get_cm_event(channel_, &raw_event) != 0) break;
        Event event{.type = raw_event->event, .id = raw_event->id, .status = raw_event->status, .data = {}};
        const rdma_conn_param& param = raw_event->param.conn;
        const bool has_data = event.type == RDMA_CM_EVENT_CONNECT_REQUEST ||
                              event.type == RDMA_CM_EVENT_CONNECT_RESPONSE || event.type == RDMA_CM_EVENT_REJECTED;
        if (has_data && param.private_data != nullptr) {
            const auto* bytes = static_cast<const std::byte*>(param.private_data);
            event.data.assign(bytes, bytes + param.private_data_len);
        }
        // Acknowledged first: an identifier cannot be destroyed while one of its events is not.
        rdma_ack_cm_event(raw_event);
        found_ = true;
        handle(event);
    }
    keep_time(now_ns());
}

void VerbsTransport::handle(const Event& event) {
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return on_request(event);
    if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
        for (Peer* const peer : links_)
            break_link(*peer, "its device was removed from this host");
        return;
    }
    auto* const peer = static_cast<Peer*>(event.id->context);
    if (peer != nullptr && peer->id == event.id) on_peer_event(*peer, event);
}

void VerbsTransport::on_peer_event(Peer& peer, const Event& event) {
    switch (event.type) {
        case RDMA_CM_EVENT_ADDR_RESOLVED:
            if (event.id->verbs != hub_->context())
                return break_link(peer, "the way to it leads over another device; choose with COPPICE_VERBS_DEVICE");
            if (rdma_resolve_route(event.id, kResolveMs) != 0) break_link(peer, std::strerror(errno));
            return;
        case RDMA_CM_EVENT_ROUTE_RESOLVED:
            return request_connection(peer);
        case RDMA_CM_EVENT_CONNECT_RESPONSE:
            return on_response(peer, event);
        case RDMA_CM_EVENT_ESTABLISHED:
            if (peer.link == Link::accepting) opened(peer);
            return;
        case RDMA_CM_EVENT_REJECTED:
            return on_rejected(peer, event);
        case RDMA_CM_EVENT_DISCONNECTED:
            return break_link(peer, "its process ended the connection");
        case RDMA_CM_EVENT_ADDR_ERROR:
            return break_link(peer, "its address is not reachable from here");
        case RDMA_CM_EVENT_ROUTE_ERROR:
            return break_link(peer, "there is no route to it");
        case RDMA_CM_EVENT_UNREACHABLE:
            if (peer.link == Link::requesting && now_ns() - peer.requested_ns > kSilentHostNs) {
                forget_request(peer);
                return ask_again(peer);
            }
            [[fallthrough]];
        case RDMA_CM_EVENT_CONNECT_ERROR:
            return break_link(peer, fmt::format("it does not answer ({})", std::strerror(std::abs(event.status))));
        default:
            return;  // the others do not concern us
    }
}

void VerbsTransport::request_connection(Peer& peer) {
    if (auto prepared = prepare(peer); !prepared) return break_link(peer, prepared.error().message);
    const auto card = verbs::encode(own_card(peer));
    rdma_conn_param param = parameters(card, options_.retries, peer.queue_pair_number());
    if (rdma_connect(peer.id, &param) != 0) return break_link(peer, std::strerror(errno));
    peer.link = Link::requesting;
}

// The peer's own request has not come, or it has long not come for ours. It may have died meanwhile, which the answer to
// another one will show.
void VerbsTransport::ask_again(Peer& peer) {
    peer.link = Link::resolving;
    auto ready = renew(peer);
    if (ready) ready = start_request(peer);
    if (!ready) break_link(peer, ready.error().message);
}

// Its request is gone: it has given it up for a newer one, or died. An own request shows which, unless its newer one is here
// first.
void VerbsTransport::withdrawn(Peer& peer) {
    forget_request(peer);
    if (peer.address) return ask_again(peer);
    if (auto ready = renew(peer); !ready) return break_link(peer, ready.error().message);
    peer.link = Link::none;
    --setting_up_;
    std::erase(links_, &peer);
}

Result<void> VerbsTransport::renew(Peer& peer) {
    by_queue_.erase(peer.queue_pair_number());
    auto renewed = peer.renew();
    by_queue_[peer.queue_pair_number()] = &peer;
    return renewed;
}

void VerbsTransport::on_response(Peer& peer, const Event& event) {
    const auto [card, refusal] = verbs::decode_card(event.data, expected_card());
    if (refusal != Refusal::none || card.rank != peer.rank.value) {
        ++hub_->counters.garbage;
        return break_link(peer, "what answers there is not this rank of this group");
    }
    if (auto active = peer.activate(link_options(), card); !active) return break_link(peer, active.error().message);
    peer.opens = true;
    grant(peer);
}

// The other side is told nothing that lets it write before the device has opened its slots to it.
void VerbsTransport::grant(Peer& peer) {
    peer.link = Link::granting;
    if (!peer.has_window()) return granted(peer);
    if (peer.open_window() != verbs::Posted::yes) no_window(peer);
}

void VerbsTransport::no_window(Peer& peer) {
    if (!peer.opens) {
        refuse(peer.id, Refusal::no_resources);
        peer.id = nullptr;
    }
    break_link(peer, "this rank's device opens no memory window; COPPICE_VERBS_MEMORY_WINDOWS=off does without");
}

void VerbsTransport::granted(Peer& peer) {
    if (peer.opens) {
        if (rdma_establish(peer.id) != 0) return break_link(peer, std::strerror(errno));
        return opened(peer);
    }
    peer.link = Link::accepting;
    const auto answer = verbs::encode(own_card(peer));
    rdma_conn_param param = parameters(answer, options_.retries, peer.queue_pair_number());
    if (rdma_accept(peer.id, &param) != 0) withdrawn(peer);
}

void VerbsTransport::on_rejected(Peer& peer, const Event& event) {
    const Refusal reason = verbs::decode_refusal(event.data);
    if (reason == Refusal::duplicate && peer.link == Link::requesting) {
        peer.link = Link::yielding;  // its own request is on its way here, if it lives to send it
        peer.ask_again_ns = now_ns() + kAskAgainNs;
        return forget_request(peer);
    }
    if (peer.link == Link::accepting) return withdrawn(peer);
    break_link(peer, event.data.empty() || reason == Refusal::none
                         ? fmt::format("nobody listens there any more (reason {})", event.status)
                         : fmt::format("it refused: {}", verbs::to_string(reason)));
}

// Somebody wants to connect to this rank.
void VerbsTransport::on_request(const Event& event) {
    const auto [card, refusal] = verbs::decode_card(event.data, expected_card());
    if (refusal != Refusal::none || card.rank == options_.self.value) {
        ++hub_->counters.garbage;
        return refuse(event.id, refusal == Refusal::none ? Refusal::stranger : refusal);
    }
    Peer& peer = obtain(Rank(card.rank));
    if (peer.fenced || peer.failed) {
        ++hub_->counters.refused;
        return refuse(event.id, Refusal::fenced);
    }
    switch (peer.link) {
        case Link::none:
            ++setting_up_;
            links_.push_back(&peer);
            break;
        case Link::yielding:
            break;
        case Link::resolving:
        case Link::requesting:
            if (options_.self < peer.rank) return refuse(event.id, Refusal::duplicate);
            forget_request(peer);
            break;
        case Link::accepting:  // so it has given up its earlier request
            forget_request(peer);
            break;
        case Link::granting:
        case Link::open:
        case Link::broken:
        case Link::closed:
            ++hub_->counters.refused;
            return refuse(event.id, Refusal::duplicate);
    }
    accept(peer, event.id, card);
}

void VerbsTransport::accept(Peer& peer, rdma_cm_id* id, const Card& card) {
    const bool given_up = peer.link == Link::requesting || peer.link == Link::yielding || peer.link == Link::accepting;
    peer.link = Link::accepting;
    peer.id = id;
    id->context = &peer;
    peer.deadline_ns = set_up_deadline();
    auto ready = prepare(peer);
    if (ready && given_up) ready = renew(peer);
    if (!ready) {
        peer.id = nullptr;
        refuse(id, Refusal::no_resources);
        return break_link(peer, ready.error().message);
    }
    if (!peer.activate(link_options(), card)) {
        peer.id = nullptr;
        refuse(id, Refusal::no_resources);  // whoever has not withdrawn is told why
        return withdrawn(peer);
    }
    peer.opens = false;
    grant(peer);
}

void VerbsTransport::opened(Peer& peer) {
    --setting_up_;
    peer.link = Link::open;
    peer.heard = true;
    open_.push_back(&peer);
    queue(peer);  // for what was deferred
}

// Deadlines of connections being set up, and probes of those that nothing was heard of.
void VerbsTransport::keep_time(std::uint64_t now_ns) {
    if (setting_up_ > 0) {
        for (Peer* const peer : links_) {
            const bool settled = peer->link == Link::open || peer->link == Link::broken;
            if (!settled && now_ns >= peer->deadline_ns) break_link(*peer, "it did not answer in time");
            if (peer->link == Link::yielding && now_ns >= peer->ask_again_ns && peer->address) ask_again(*peer);
        }
    }
    if (options_.probe_interval.value == 0 || now_ns < next_probe_ns_) return;
    next_probe_ns_ = now_ns + options_.probe_interval.value;
    for (Peer* const peer : open_) {
        if (!peer->heard) peer->probe();
        peer->heard = false;
    }
}

}  // namespace coppice::transport
