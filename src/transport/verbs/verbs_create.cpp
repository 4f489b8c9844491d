// How the transport begins and ends, and how its peers become known. Connections are in verbs_connect.cpp.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/process.hpp"
#include "transport/verbs/library.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace coppice::transport {

using verbs::Card;
using verbs::Link;

namespace {

constexpr int kBacklog = 1024;
constexpr std::uint16_t kLeastSlots = 4;
constexpr std::uint16_t kMostSlots = 16;

tl::unexpected<Error> cannot_listen(const sockaddr_in6& where, const verbs::Device& device, int error) {
    const char* remedy = "is its interface up?";
    if (error == EADDRINUSE) remedy = "choose another COPPICE_VERBS_PORT, or none";
    if (error == EAGAIN) remedy = "allow it more";
    return fail(error == EADDRINUSE || error == EAGAIN ? COPPICE_ERR_NO_RESOURCES : COPPICE_ERR_NO_TRANSPORT,
                "verbs: cannot listen on {} of device {}: {}; {}", verbs::text_of(where), device.name,
                verbs::reason_of(error), remedy);
}

}  // namespace

Result<std::unique_ptr<VerbsTransport>> VerbsTransport::create(const VerbsOptions& options) {
    if (options.group_size == 0 || options.group_size > kMaxProcesses || options.self.value >= options.group_size)
        return fail(COPPICE_ERR_OUT_OF_RANGE, "verbs: rank {} is no rank of a group of {}", options.self.value,
                    options.group_size);
    if (const auto& loaded = verbs::load(); !loaded) return tl::unexpected(loaded.error());
    // A fork of the program must not move our pages away. Nothing to do on kernels since 5.12.
    verbs::library.ibv_fork_init();
    const auto device =
        verbs::choose_device({.device = options.device, .gid_index = options.gid_index, .mtu = options.mtu});
    if (!device) return tl::unexpected(device.error());
    std::unique_ptr<VerbsTransport> made(new VerbsTransport(options));
    if (auto listening = made->listen(*device); !listening) return tl::unexpected(listening.error());
    return made;
}

Result<void> VerbsTransport::listen(const verbs::Device& device) {
    process::open_own([this] {
        channel_ = verbs::library.rdma_create_event_channel();
        return channel_ == nullptr ? -1 : channel_->fd;
    });
    if (channel_ == nullptr)
        return fail(COPPICE_ERR_NO_TRANSPORT,
                    "verbs: no connection manager: {}; load its kernel module ('modprobe rdma_ucm')",
                    std::strerror(errno));
    fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    fcntl(channel_->fd, F_SETFD, FD_CLOEXEC);
    if (verbs::library.rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP) != 0) {
        listener_ = nullptr;
        return fail(COPPICE_ERR_NO_RESOURCES, "verbs: rdma_cm gives no identifier: {}", std::strerror(errno));
    }
    sockaddr_in6 where = device.address;
    if (options_.port != 0) where.sin6_port = htons(static_cast<std::uint16_t>(options_.port + options_.self.value));
    if (verbs::library.rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&where)) != 0 ||
        verbs::library.rdma_listen(listener_, kBacklog) != 0)
        return cannot_listen(where, device, errno);
    if (listener_->verbs == nullptr || device.name != verbs::library.ibv_get_device_name(listener_->verbs->device))
        return fail(COPPICE_ERR_NO_TRANSPORT,
                    "verbs: connections at {} come to device {}, not {}: two devices have one address; choose with "
                    "COPPICE_VERBS_DEVICE",
                    verbs::text_of(where),
                    listener_->verbs == nullptr ? "?" : verbs::library.ibv_get_device_name(listener_->verbs->device),
                    device.name);
    device_.take(listener_->verbs);
    auto hub = verbs::Hub::make(
        listener_->verbs, device,
        {.window = options_.window, .sends_ahead = link_options().slots, .memory_windows = options_.memory_windows});
    if (!hub) return tl::unexpected(hub.error());
    hub_ = std::move(*hub);

    verbs::Address address{.where = device.address,
                           .rank = options_.self.value,
                           .group_size = options_.group_size,
                           .incarnation = options_.incarnation};
    address.where.sin6_port = verbs::library.rdma_get_src_port(listener_);
    address_ = verbs::encode(address);
    const std::size_t rides = hub_->inline_bytes() > kLine ? hub_->inline_bytes() - kLine : 0;
    capabilities_ = {
        .name = "verbs", .native_write = true, .native_read = true, .inline_size = rides, .eager_size = kMaxPayload};
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
    device_.forget();
    if (listener_ != nullptr) verbs::library.rdma_destroy_id(listener_);
    if (channel_ == nullptr) return;
    process::forget_descriptor(channel_->fd);
    verbs::library.rdma_destroy_event_channel(channel_);
}

VerbsTransport::Peer& VerbsTransport::obtain(Seat rank) {
    if (rank.value >= peers_.size()) peers_.resize(rank.value + std::size_t{1});
    auto& peer = peers_[rank.value];
    if (!peer) peer = std::make_unique<Peer>(*hub_, rank);
    return *peer;
}

Link VerbsTransport::link(Seat rank) const {
    const Peer* const peer = find(rank);
    return peer == nullptr ? Link::none : peer->link;
}

Result<void> VerbsTransport::add_peer(Seat rank, std::span<const std::byte> bytes) {
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
                    rank.value, verbs::text_of(address->where), verbs::text_of(hub_->device().address));
    if (rank == options_.self) return {};
    switch (incarnations_.judge(rank, address->incarnation)) {
        case Incarnations::Is::right:
            break;
        case Incarnations::Is::earlier:
            return fail(COPPICE_ERR_PEER_FAILED, "verbs: incarnation {} of rank {} is over", address->incarnation,
                        rank.value);
        case Incarnations::Is::later:
            if (const Peer* const other = find(rank); other != nullptr && other->address)
                return fail(COPPICE_ERR_INVALID_ARGUMENT, "verbs: rank {} was added twice", rank.value);
            forget(rank);  // an earlier one has connected, and was never added
    }
    incarnations_.set(rank, address->incarnation);
    obtain(rank).address = *address;
    return {};
}

Card VerbsTransport::own_card(const Peer& peer) const {
    Card card = peer.card();
    card.rank = options_.self.value;
    card.incarnation = options_.incarnation;
    card.token = options_.group_token;
    return card;
}

Card VerbsTransport::expected_card() const {
    return {.rank = options_.group_size, .token = options_.group_token};
}

verbs::LinkOptions VerbsTransport::link_options() const {
    const auto window = static_cast<std::uint16_t>(std::min<std::uint32_t>(options_.window, kMostSlots));
    return {.timeout = options_.timeout,
            .retries = options_.retries,
            .service_level = options_.service_level,
            .traffic_class = options_.traffic_class,
            .slots = std::max(window, kLeastSlots)};
}

}  // namespace coppice::transport
