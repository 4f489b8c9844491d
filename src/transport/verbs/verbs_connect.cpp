// Drives the table of link.hpp: tells it what rdma_cm and the device report, and does what it asks for.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.hpp"
#include "transport/verbs/library.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace coppice::transport {

using verbs::Card;
using verbs::Link;
using verbs::LinkAction;
using verbs::LinkEvent;
using verbs::Refusal;

namespace {

constexpr int kResolveMs = 2000;
constexpr std::uint8_t kRetryForEver = 7;
constexpr std::uint64_t kAskAgainNs = 1'000'000'000;
// The kernel repeats a request to a host that does not answer at all for 16 times 4.1 s. Where it gives up later than this, the
// other kernel has answered that it has the request and its process has yet to come for it.
constexpr std::uint64_t kSilentHostNs = 100'000'000'000;

sockaddr* raw(sockaddr_in6& address) {
    return reinterpret_cast<sockaddr*>(&address);
}

void refuse(rdma_cm_id* id, Refusal reason) {
    const auto why = verbs::encode(reason);
    verbs::library.rdma_reject(id, why.data(), static_cast<std::uint8_t>(why.size()));
    verbs::library.rdma_destroy_id(id);
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

Result<void> check(int result) {
    if (result == 0) return {};
    return fail(COPPICE_ERR_NO_TRANSPORT, "{}", std::strerror(errno));
}

}  // namespace

// ------------------------------------------------------------------------------------------------------- events ---

void VerbsTransport::watch(Seat rank) {
    Peer* const peer = find(rank);
    if (peer != nullptr && peer->link == Link::none) connect(*peer);
}

// Begins to open the connection. False: that failed, and is reported by the next poll.
bool VerbsTransport::connect(Peer& peer) {
    if (peer.fenced || peer.failed || !peer.address) return false;
    ++hub_->counters.connections;
    peer.deadline_ns = set_up_deadline();
    happened(peer, {LinkEvent::wanted});
    return peer.link != Link::broken;
}

std::uint64_t VerbsTransport::set_up_deadline() const {
    return options_.connect_timeout.value == 0 ? ~std::uint64_t{0} : now_ns() + options_.connect_timeout.value;
}

void VerbsTransport::look_up() {
    while (true) {
        pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
        if (::poll(&readable, 1, 0) <= 0) break;
        rdma_cm_event* raw_event = nullptr;
        if (verbs::library.rdma_get_cm_event(channel_, &raw_event) != 0) break;
        Event event{.type = raw_event->event, .id = raw_event->id, .status = raw_event->status, .data = {}};
        const rdma_conn_param& param = raw_event->param.conn;
        const bool has_data = event.type == RDMA_CM_EVENT_CONNECT_REQUEST ||
                              event.type == RDMA_CM_EVENT_CONNECT_RESPONSE || event.type == RDMA_CM_EVENT_REJECTED;
        if (has_data && param.private_data != nullptr) {
            const auto* bytes = static_cast<const std::byte*>(param.private_data);
            event.data.assign(bytes, bytes + param.private_data_len);
        }
        // Acknowledged first: an identifier cannot be destroyed while one of its events is not.
        verbs::library.rdma_ack_cm_event(raw_event);
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
            return happened(peer, {LinkEvent::address_found});
        case RDMA_CM_EVENT_ROUTE_RESOLVED:
            return happened(peer, {LinkEvent::route_found});
        case RDMA_CM_EVENT_CONNECT_RESPONSE:
            return on_response(peer, event);
        case RDMA_CM_EVENT_ESTABLISHED:
            return happened(peer, {LinkEvent::confirmed});
        case RDMA_CM_EVENT_REJECTED:
            return on_rejected(peer, event);
        case RDMA_CM_EVENT_DISCONNECTED:
            return break_link(peer, "its process ended the connection");
        case RDMA_CM_EVENT_ADDR_ERROR:
            return break_link(peer, "its address is not reachable from here");
        case RDMA_CM_EVENT_ROUTE_ERROR:
            return break_link(peer, "there is no route to it");
        case RDMA_CM_EVENT_UNREACHABLE:
            if (peer.link == Link::requesting && now_ns() - peer.requested_ns > kSilentHostNs)
                return happened(peer, {LinkEvent::long_silent});
            [[fallthrough]];
        case RDMA_CM_EVENT_CONNECT_ERROR:
            return break_link(peer, fmt::format("it does not answer ({})", std::strerror(std::abs(event.status))));
        default:
            return;  // the others do not concern us
    }
}

void VerbsTransport::on_response(Peer& peer, const Event& event) {
    const auto [card, refusal] = verbs::decode_card(event.data, expected_card());
    const bool is_it = card.rank == peer.rank.value && peer.address && card.incarnation == peer.address->incarnation;
    if (refusal == Refusal::none && is_it) return happened(peer, {.event = LinkEvent::answered, .card = &card});
    ++hub_->counters.garbage;
    break_link(peer, "what answers there is not this rank of this group");
}

void VerbsTransport::on_rejected(Peer& peer, const Event& event) {
    const Refusal reason = verbs::decode_refusal(event.data);
    if (reason == Refusal::duplicate) return happened(peer, {LinkEvent::told_to_wait, verbs::to_string(reason)});
    happened(peer, {LinkEvent::refused, event.data.empty() || reason == Refusal::none
                                            ? fmt::format("nobody listens there any more (reason {})", event.status)
                                            : fmt::format("it refused: {}", verbs::to_string(reason))});
}

// Somebody wants to connect to this rank.
void VerbsTransport::on_request(const Event& event) {
    const auto [card, refusal] = verbs::decode_card(event.data, expected_card());
    if (refusal != Refusal::none || card.rank == options_.self.value) {
        ++hub_->counters.garbage;
        return refuse(event.id, refusal == Refusal::none ? Refusal::stranger : refusal);
    }
    const Seat rank(card.rank);
    switch (incarnations_.judge(rank, card.incarnation)) {
        case Incarnations::Is::right:
            break;
        case Incarnations::Is::earlier:
            ++hub_->counters.refused;
            return refuse(event.id, Refusal::fenced);
        case Incarnations::Is::later:  // it asks again
            ++hub_->counters.refused;
            return refuse(event.id, Refusal::duplicate);
    }
    incarnations_.set(rank, card.incarnation);
    Peer& peer = obtain(rank);
    if (peer.fenced || peer.failed) {
        ++hub_->counters.refused;
        return refuse(event.id, Refusal::fenced);
    }
    happened(peer, {.event = peer.rank < options_.self ? LinkEvent::asked_by_lower : LinkEvent::asked_by_higher,
                    .id = event.id,
                    .card = &card});
}

// Takes a note only; the next poll closes the connection and reports.
void VerbsTransport::break_link(Peer& peer, const std::string& why) {
    happened(peer, {LinkEvent::failed, why});
}

// Deadlines of connections being set up, and probes of those that nothing was heard of.
void VerbsTransport::keep_time(std::uint64_t now_ns) {
    if (setting_up_ > 0) {
        for (Peer* const peer : links_) {
            if (is_being_set_up(peer->link) && now_ns >= peer->deadline_ns)
                break_link(*peer, "it did not answer in time");
            if (peer->link == Link::yielding && now_ns >= peer->ask_again_ns) happened(*peer, {LinkEvent::time_to_ask});
        }
    }
    if (options_.probe_interval.value == 0 || now_ns < next_probe_ns_) return;
    next_probe_ns_ = now_ns + options_.probe_interval.value;
    for (Peer* const peer : open_) {
        if (!peer->heard) peer->probe();
        peer->heard = false;
    }
}

// ------------------------------------------------------------------------------------------------------ actions ---

void VerbsTransport::happened(Peer& peer, const Happening& what) {
    const verbs::LinkStep step = verbs::step(peer.link, what.event, peer.address.has_value());
    if (!step.foreseen) return;
    if (is_being_set_up(peer.link) != is_being_set_up(step.to))
        is_being_set_up(step.to) ? ++setting_up_ : --setting_up_;
    if (is_alive(peer.link) && !is_alive(step.to)) std::erase(links_, &peer);
    if (!is_alive(peer.link) && is_alive(step.to)) links_.push_back(&peer);
    peer.link = step.to;
    perform(peer, step.action, what);
}

void VerbsTransport::perform(Peer& peer, LinkAction action, const Happening& what) {
    switch (action) {
        case LinkAction::none:
            return;
        case LinkAction::resolve:
            return attempt(peer, start_request(peer));
        case LinkAction::find_route:
            if (peer.id->verbs != hub_->context())
                return break_link(peer, "the way to it leads over another device; choose with COPPICE_VERBS_DEVICE");
            return attempt(peer, check(verbs::library.rdma_resolve_route(peer.id, kResolveMs)));
        case LinkAction::request:
            return attempt(peer, request_connection(peer));
        case LinkAction::grant:
            if (auto active = peer.activate(link_options(), *what.card); !active)
                return break_link(peer, active.error().message);
            return open_window(peer);
        case LinkAction::establish:
            if (verbs::library.rdma_establish(peer.id) != 0) return break_link(peer, std::strerror(errno));
            return welcome(peer);
        case LinkAction::yield:
            peer.ask_again_ns = now_ns() + kAskAgainNs;
            return forget_request(peer);
        case LinkAction::ask_again: {
            forget_request(peer);
            auto ready = renew(peer);
            return attempt(peer, ready ? start_request(peer) : ready);
        }
        case LinkAction::admit:
        case LinkAction::admit_anew:
            return admit(peer, what, action == LinkAction::admit_anew);
        case LinkAction::decline:
            return refuse(what.id, Refusal::duplicate);
        case LinkAction::turn_away:
            ++hub_->counters.refused;
            return refuse(what.id, Refusal::duplicate);
        case LinkAction::accept:
            return accept(peer);
        case LinkAction::welcome:
            return welcome(peer);
        case LinkAction::retire:
            forget_request(peer);
            return attempt(peer, renew(peer));
        case LinkAction::deny:
            refuse(std::exchange(peer.id, nullptr), Refusal::no_resources);
            [[fallthrough]];
        case LinkAction::report:
            note_failure(peer, what.why);
            peer.failed = true;
            return queue(peer);
        case LinkAction::cut:
            peer.cut();
            return queue(peer);
        case LinkAction::close:
            return close(peer);
    }
}

// What an action came to, where only its failure is news.
void VerbsTransport::attempt(Peer& peer, const Result<void>& result) {
    if (!result) break_link(peer, result.error().message);
}

Result<void> VerbsTransport::prepare(Peer& peer) {
    const std::uint32_t self = options_.self.value;
    auto prepared = peer.prepare(link_options(), slot_seed(options_.group_token, peer.rank.value, self),
                                 slot_seed(options_.group_token, self, peer.rank.value));
    if (prepared) by_queue_[peer.queue_pair_number()] = &peer;
    return prepared;
}

Result<void> VerbsTransport::start_request(Peer& peer) {
    peer.requested_ns = now_ns();
    if (verbs::library.rdma_create_id(channel_, &peer.id, &peer, RDMA_PS_TCP) != 0) {
        peer.id = nullptr;
        return fail(COPPICE_ERR_NO_RESOURCES, "rdma_cm gives no identifier: {}", std::strerror(errno));
    }
    if (options_.traffic_class != 0) {
        std::uint8_t type = options_.traffic_class;
        verbs::library.rdma_set_option(peer.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &type, sizeof type);
    }
    sockaddr_in6 from = hub_->device().address;
    if (verbs::library.rdma_resolve_addr(peer.id, raw(from), raw(peer.address->where), kResolveMs) != 0)
        return fail(COPPICE_ERR_NO_TRANSPORT, "no way to {}: {}", verbs::text_of(peer.address->where),
                    std::strerror(errno));
    return {};
}

Result<void> VerbsTransport::request_connection(Peer& peer) {
    if (auto prepared = prepare(peer); !prepared) return prepared;
    const auto card = verbs::encode(own_card(peer));
    rdma_conn_param param = parameters(card, options_.retries, peer.queue_pair_number());
    return check(verbs::library.rdma_connect(peer.id, &param));
}

Result<void> VerbsTransport::renew(Peer& peer) {
    by_queue_.erase(peer.queue_pair_number());
    auto renewed = peer.renew();
    by_queue_[peer.queue_pair_number()] = &peer;
    return renewed;
}

void VerbsTransport::admit(Peer& peer, const Happening& what, bool anew) {
    forget_request(peer);
    peer.id = what.id;
    peer.id->context = &peer;
    peer.deadline_ns = set_up_deadline();
    auto ready = prepare(peer);
    if (ready && anew) ready = renew(peer);
    if (!ready) {
        refuse(std::exchange(peer.id, nullptr), Refusal::no_resources);
        return break_link(peer, ready.error().message);
    }
    if (!peer.activate(link_options(), *what.card)) {
        refuse(std::exchange(peer.id, nullptr), Refusal::no_resources);  // a peer that has not withdrawn is told why
        return happened(peer, {LinkEvent::not_admitted});
    }
    open_window(peer);
}

// Its completion says whether the device has opened the slots.
void VerbsTransport::open_window(Peer& peer) {
    if (!peer.has_window()) return happened(peer, {LinkEvent::granted});
    if (peer.open_window() != verbs::Posted::yes) no_window(peer);
}

void VerbsTransport::no_window(Peer& peer) {
    happened(peer, {LinkEvent::not_granted,
                    "this rank's device opens no memory window; COPPICE_VERBS_MEMORY_WINDOWS=off does without"});
}

void VerbsTransport::accept(Peer& peer) {
    const auto answer = verbs::encode(own_card(peer));
    rdma_conn_param param = parameters(answer, options_.retries, peer.queue_pair_number());
    if (verbs::library.rdma_accept(peer.id, &param) != 0) happened(peer, {LinkEvent::not_admitted});
}

void VerbsTransport::welcome(Peer& peer) {
    peer.heard = true;
    open_.push_back(&peer);
    queue(peer);  // for what was deferred
}

void VerbsTransport::note_failure(const Peer& peer, const std::string& why) {
    if (peer.fenced || peer.departed) return;
    last_error_ = fmt::format(
        "verbs: the connection to rank {} ({}) failed: {}; if that rank is alive, check that its host can be reached "
        "from device {}",
        peer.rank.value, peer.address ? verbs::text_of(peer.address->where) : "which opened it", why,
        hub_->device().name);
}

// Its queue pair is gone, and what had arrived has been delivered.
void VerbsTransport::close(Peer& peer) {
    by_queue_.erase(peer.queue_pair_number());
    std::erase(open_, &peer);
    peer.settle(true);
    forget_request(peer);
}

void VerbsTransport::forget_request(Peer& peer) {
    if (peer.id != nullptr) verbs::library.rdma_destroy_id(peer.id);
    peer.id = nullptr;
}

}  // namespace coppice::transport
