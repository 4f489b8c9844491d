#include "simulation/world/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace coppice::world {

using transport::FailureCause;
using transport::SendStatus;

namespace {

constexpr std::size_t kMessagesPerPoll = 16;  // of one peer
constexpr std::uint64_t kReferenceEvent = std::uint64_t{1} << 63;

}  // namespace

Port::Port(Network& network, Wire wire, std::uint32_t rank)
    : network_(network), clockwork_(network.clockwork()), wire_(wire), rank_(rank), peers_(network.ranks()) {
    const Fate& fate = clockwork_.fate();
    for (Peer& peer : peers_) {
        if (wire == Wire::near) continue;
        peer.latency_ns = fate.latency_ns;
        if (fate.slow_link_one_in > 0 && clockwork_.random().one_in(fate.slow_link_one_in))
            peer.latency_ns *= fate.slow_times;
    }
}

Port& Port::port_of(std::uint32_t rank) const {
    return network_.port(wire_, rank);
}

// What it may have sent already waits here.
void Port::add_peer(std::uint32_t peer) {
    peers_[peer].added = true;
    look_again_at(clockwork_.now_ns());
}

// ------------------------------------------------------------------------------------------------- connections ---

void Port::connect(std::uint32_t to) {
    Peer& peer = peers_[to];
    if (peer.open || peer.asked) return;
    const Within outside(nullptr);
    const Fate& fate = clockwork_.fate();
    peer.asked = true;
    peer.ready_ns = clockwork_.now_ns();
    if (wire_ == Wire::near) return meet(to);
    peer.ready_ns += clockwork_.draw(fate.connect_ns * (peer.latency_ns / fate.latency_ns));
    clockwork_.at(peer.ready_ns, *this, kConnectEvent | to);
}

// Nothing passes there now. It is tried until there is an answer, or this rank has noticed that there is none.
bool Port::tries_in_vain(std::uint32_t to) {
    const std::uint64_t now = clockwork_.now_ns();
    if (wire_ == Wire::near || network_.passable_ns(rank_, to, now) <= now) return false;
    if (network_.is_broken(rank_, to)) {
        lose_by_cut(to, network_.detection_ns(wire_, rank_));
        return true;
    }
    std::uint64_t ends = kNever;
    for (const Cut& cut : clockwork_.fate().cuts)
        if (cut.ends_ns() > now) ends = std::min(ends, cut.ends_ns());
    Peer& peer = peers_[to];
    peer.ready_ns = ends + clockwork_.draw(clockwork_.fate().connect_ns);
    clockwork_.at(peer.ready_ns, *this, kConnectEvent | to);
    return true;
}

// The connection stands, or is refused.
void Port::meet(std::uint32_t to) {
    Peer& peer = peers_[to];
    if (peer.open || !peer.asked) return;
    if (tries_in_vain(to)) return;
    Port& other = port_of(to);
    if (clockwork_.dead(to) || !other.there_) {
        // A process that has ended is known at once, a host that is lost is not.
        lose(to, clockwork_.dead(to) ? network_.detection_ns(wire_, rank_) : 0);
        return;
    }
    Peer& back = other.peers_[rank_];
    peer.open = back.open = true;
    // Neither has looked at what came while it did not know the other one.
    look_again_at(clockwork_.now_ns());
    other.look_again_at(clockwork_.now_ns());
    if (back.fenced && wire_ == Wire::far) other.say(rank_, Message::Kind::fenced);
    // Taken for dead after it was asked for: what ends the connection would look like a death of this rank, if nobody said so.
    if (peer.fenced && wire_ == Wire::far) say(to, Message::Kind::fenced);
    if (other.goodbye_said_ && !back.fenced) other.say(rank_, Message::Kind::goodbye);
    if (goodbye_said_ && !peer.fenced) say(to, Message::Kind::goodbye);
    network_.stir(to, other.armed_);
}

// Whether something is on its way there that has not left.
bool Port::has_waiting(std::uint32_t to) const {
    const auto& queue = port_of(to).peers_[rank_].in;
    return !queue.empty() && queue.back().leaves_ns > clockwork_.now_ns();
}

void Port::say(std::uint32_t to, Message::Kind kind) {
    Message message;
    message.kind = kind;
    message.leaves_ns = clockwork_.now_ns();
    put(to, std::move(message));
}

void Port::watch(std::uint32_t peer) {
    if (!peers_[peer].added || peers_[peer].gone || peers_[peer].fenced) return;
    clockwork_.act(rank_);
    connect(peer);
}

void Port::lose(std::uint32_t peer, std::uint64_t within_ns) {
    if (!there_ || peers_[peer].gone) return;
    const std::uint64_t time = clockwork_.now_ns() + within_ns;
    if (time >= peers_[peer].detected_ns) return;
    peers_[peer].detected_ns = time;
    look_again_at(time);
    clockwork_.at(time, *this, peer);
}

void Port::lose_by_cut(std::uint32_t peer, std::uint64_t within_ns) {
    if (!there_ || peers_[peer].gone || clockwork_.now_ns() + within_ns >= peers_[peer].detected_ns) return;
    peers_[peer].is_cut_off = true;
    lose(peer, within_ns);
}

// In either direction.
void Port::drop_what_has_not_arrived(std::uint32_t peer) {
    const auto is_under_way = [this](const Message& message) { return message.arrives_ns > clockwork_.now_ns(); };
    std::erase_if(peers_[peer].in, is_under_way);
    std::erase_if(port_of(peer).peers_[rank_].in, is_under_way);
}

// The far wire loses what has not left; the near one nothing.
void Port::drop_what_is_inside() {
    if (wire_ == Wire::near) return;
    for (std::uint32_t to = 0; to < peers_.size(); ++to) {
        if (to == rank_) continue;
        auto& queue = port_of(to).peers_[rank_].in;
        const auto first = std::ranges::find_if(queue, [&](const Message& message) {
            return message.leaves_ns > clockwork_.now_ns() || message.reference != 0;
        });
        queue.erase(first, queue.end());
    }
    references_.clear();
    reads_.clear();
}

void Port::die() {
    if (!there_) return;
    there_ = false;
    drop_what_is_inside();
}

void Port::close() {
    if (!there_) return;
    const Within outside(nullptr);
    there_ = false;
    if (left_) return;
    drop_what_is_inside();
    for (std::uint32_t peer = 0; peer < peers_.size(); ++peer) {
        if (peer == rank_ || !port_of(peer).is_joined_to(rank_)) continue;
        port_of(peer).lose(rank_, network_.detection_ns(wire_, peer));
    }
}

// ------------------------------------------------------------------------------------------------------ sending ---

SendStatus Port::send(std::uint32_t to, std::span<const std::byte> header, std::span<const std::byte> payload,
                      std::uint32_t* in_flight) {
    clockwork_.act(rank_);
    const Within outside(nullptr);
    Peer& peer = peers_[to];
    if (!peer.added || peer.gone || peer.fenced) return SendStatus::failed;
    connect(to);
    const Fate& fate = clockwork_.fate();
    Port& other = port_of(to);
    const bool reaches = other.there_ && !clockwork_.dead(to);
    if (!peer.open && !fate.waits_while_connecting) return SendStatus::again;
    if (!reaches) return SendStatus::sent;  // nobody knows yet
    const std::size_t most = wire_ == Wire::near ? fate.inbox_messages : fate.queue_messages;
    Peer& back = other.peers_[rank_];
    if (back.in.size() >= most) {
        peer.wants_room = true;
        return SendStatus::again;
    }
    Message message;
    message.header = header.size();
    message.bytes.reserve(header.size() + payload.size());
    message.bytes.assign(header.begin(), header.end());
    message.leaves_ns = std::max(clockwork_.now_ns(), peer.ready_ns);
    if (wire_ == Wire::far && !payload.empty() && fate.by_reference_one_in > 0 &&
        clockwork_.random().one_in(fate.by_reference_one_in)) {
        message.reference = ++next_reference_;
        ++*in_flight;
        references_[message.reference] = {to, payload.data(), payload.size(), in_flight};
        message.leaves_ns += 1 + clockwork_.draw(fate.reference_ns);
        clockwork_.at(message.leaves_ns, *this, kReferenceEvent | message.reference);
    } else {
        message.bytes.insert(message.bytes.end(), payload.begin(), payload.end());
        if (wire_ == Wire::far) message.leaves_ns += clockwork_.draw(1'000);
    }
    put(to, std::move(message));
    return SendStatus::sent;
}

void Port::put(std::uint32_t to, Message message) {
    Peer& peer = peers_[to];
    peer.last_leaving_ns = message.leaves_ns = std::max(message.leaves_ns, peer.last_leaving_ns);
    std::uint64_t arrives = message.leaves_ns;
    if (wire_ == Wire::far) {
        const std::uint64_t takes = peer.latency_ns + clockwork_.draw(clockwork_.fate().jitter_ns);
        const std::uint64_t passable = network_.passable_ns(rank_, to, message.leaves_ns);
        arrives = passable == kNever ? kNever : passable + takes;
    }
    peer.last_arrival_ns = message.arrives_ns = std::max(arrives, peer.last_arrival_ns);
    Port& other = port_of(to);
    other.look_again_at(message.arrives_ns);
    if (message.arrives_ns != kNever) clockwork_.at(message.arrives_ns, other, rank_);
    other.peers_[rank_].in.push_back(std::move(message));
}

// The payload leaves now; what the sender has written there since goes with it.
void Port::leave_from(std::uint64_t number) {
    const auto found = references_.find(number);
    if (found == references_.end()) return;
    const Reference reference = found->second;
    references_.erase(found);
    for (Message& message : port_of(reference.to).peers_[rank_].in) {
        if (message.reference != number) continue;
        message.bytes.insert(message.bytes.end(), reference.payload, reference.payload + reference.bytes);
        message.reference = 0;
    }
    completed_.push_back(reference.in_flight);
}

void Port::happen(std::uint64_t what) {
    if ((what & kReferenceEvent) != 0) {
        if (clockwork_.dead(rank_)) return;
        leave_from(what & ~kReferenceEvent);
    }
    if ((what & kReadEvent) != 0 && there_ && !clockwork_.dead(rank_)) read_happens(what & ~kReadEvent);
    if ((what & kConnectEvent) != 0 && there_ && !clockwork_.dead(rank_))
        meet(static_cast<std::uint32_t>(what & ~kConnectEvent));
    if (there_) network_.stir(rank_, armed_);
}

// ---------------------------------------------------------------------------------------------------- receiving ---

void Port::ring() {
    if (there_ && armed_) network_.stir(rank_, true);
}

void Port::look_again_at(std::uint64_t time_ns) {
    next_look_ns_ = std::min(next_look_ns_, time_ns);
}

std::size_t Port::poll(transport::Receiver& receiver) {
    const std::size_t events = poll_all(receiver);
    if (events > 0) armed_ = false;
    return events;
}

std::size_t Port::poll_all(transport::Receiver& receiver) {
    clockwork_.look(rank_);
    std::size_t events = 0;
    if (!completed_.empty()) {
        events += completed_.size();
        for (std::uint32_t* const in_flight : completed_)
            --*in_flight;
        completed_.clear();
    }
    events += tell_of_reads();
    while (wire_ == Wire::near && told_fencers_ < network_.segment(rank_).fencers().size()) {
        ++events;
        receiver.fenced(network_.seat_of(network_.segment(rank_).fencers()[told_fencers_++]));
    }
    if (clockwork_.now_ns() < next_look_ns_) return events;
    next_look_ns_ = kNever;
    for (std::uint32_t peer = 0; peer < peers_.size(); ++peer) {
        if (peer != rank_ && may_take_from(peer)) events += take(peer, receiver);
    }
    return events;
}

// As over TCP: a rank that was never added here may have connected, where both are the first of their seats.
bool Port::may_take_from(std::uint32_t from) const {
    const Peer& peer = peers_[from];
    const std::uint32_t first = clockwork_.fate().ranks;
    return !peer.is_forgotten && (peer.added || (peer.open && from < first && rank_ < first));
}

std::size_t Port::take(std::uint32_t from, transport::Receiver& receiver) {
    Peer& peer = peers_[from];
    std::size_t events = 0;
    while (!peer.in.empty()) {
        if (peer.in.front().arrives_ns > clockwork_.now_ns() || peer.in.front().reference != 0 ||
            events == kMessagesPerPoll) {
            look_again_at(std::max(peer.in.front().arrives_ns, clockwork_.now_ns()));
            break;
        }
        Message message;
        {
            const Within outside(nullptr);
            message = std::move(peer.in.front());
            peer.in.pop_front();
        }
        ++events;
        if (deliver(from, message, receiver)) {
            const Within outside(nullptr);
            kept_[next_buffer_++] = std::move(message.bytes);
        } else {
            const Within outside(nullptr);
            message.bytes = {};
        }
        Port& other = port_of(from);
        if (other.there_ && std::exchange(other.peers_[rank_].wants_room, false))
            clockwork_.at(clockwork_.now_ns(), other, rank_);
    }
    const bool lost = peer.detected_ns <= clockwork_.now_ns();
    if (lost && peer.is_cut_off && !peer.gone) {
        const Within outside(nullptr);
        drop_what_has_not_arrived(from);
    }
    if (!lost) {
        look_again_at(peer.detected_ns);
    } else if (peer.in.empty() && !peer.gone) {
        peer.gone = true;
        drop_reads(from);
        if (!peer.fenced) {
            ++events;
            receiver.peer_failed(network_.seat_of(from),
                                 wire_ == Wire::near ? FailureCause::obituary : FailureCause::transport_error);
        }
    }
    return events;
}

// True: the receiver keeps it.
bool Port::deliver(std::uint32_t from, Message& message, transport::Receiver& receiver) {
    Peer& peer = peers_[from];
    if (peer.gone) return false;
    if (clockwork_.tell_traffic) tell_of_message(from, message);
    switch (message.kind) {
        case Message::Kind::goodbye:
            peer.gone = true;
            drop_reads(from);
            receiver.peer_left(network_.seat_of(from));
            return false;
        case Message::Kind::fenced:
            receiver.fenced(network_.seat_of(from));
            return false;
        case Message::Kind::data:
            break;
    }
    if (peer.fenced) {
        ++counters_.refused;
        return false;
    }
    ++counters_.received;
    const std::span<const std::byte> all = message.bytes;
    const bool may_keep = all.size() > message.header;
    return receiver.message(network_.seat_of(from), all.first(message.header), all.subspan(message.header),
                            may_keep ? next_buffer_ : 0) &&
           may_keep;
}

void Port::release(transport::Buffer buffer) {
    const Within outside(nullptr);
    kept_.erase(buffer);
}

// -------------------------------------------------------------------------------------------------- ends of peers ---

void Port::fence(std::uint32_t to) {
    clockwork_.act(rank_);
    const Within outside(nullptr);
    Peer& peer = peers_[to];
    if ((wire_ == Wire::near && !peer.added) || peer.fenced) return;
    peer.fenced = true;
    drop_reads(to);
    Port& other = port_of(to);
    // It finds that in its own memory, whomever it knows.
    if (wire_ == Wire::near) {
        network_.segment(to).fence(rank_);
        clockwork_.at(clockwork_.now_ns(), other, rank_);
    }
    if (wire_ == Wire::near || !other.there_ || clockwork_.dead(to) || !peer.open) return;
    say(to, Message::Kind::fenced);
}

void Port::forget(std::uint32_t to) {
    clockwork_.act(rank_);
    const Within outside(nullptr);
    drop_reads(to);
    tell_of_reads();
    const std::uint64_t latency = peers_[to].latency_ns;
    peers_[to] = Peer();
    peers_[to].latency_ns = latency;
    peers_[to].is_forgotten = true;
}

bool Port::leave() {
    clockwork_.act(rank_);
    const Within outside(nullptr);
    if (!std::exchange(goodbye_said_, true)) {
        if (clockwork_.tell)
            clockwork_.tell(fmt::format("{:>12} ns  rank {} says goodbye to its peers {}", clockwork_.now_ns(), rank_,
                                        wire_ == Wire::near ? "of this host" : "of other hosts"));
        for (std::uint32_t to = 0; to < peers_.size(); ++to) {
            Port& other = port_of(to);
            if (peers_[to].asked && !peers_[to].open && !has_waiting(to)) peers_[to].asked = false;
            if (to == rank_ || !other.is_joined_to(rank_) || !other.there_ || clockwork_.dead(to) || peers_[to].fenced)
                continue;
            say(to, Message::Kind::goodbye);
        }
    }
    const bool connects = std::ranges::any_of(
        peers_, [](const Peer& peer) { return peer.asked && !peer.open && !peer.gone && !peer.fenced; });
    left_ = references_.empty() && !connects;
    return left_;
}

// ----------------------------------------------------------------------------------------------------- network ---

Network::Network(Clockwork& clockwork, std::uint32_t window, std::span<const transport::Region> regions,
                 std::function<void(std::uint32_t, bool)> stir)
    : clockwork_(clockwork), stir_(std::move(stir)), regions_(regions) {
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
        near_.push_back(std::make_unique<Port>(*this, Wire::near, rank));
        far_.push_back(std::make_unique<Port>(*this, Wire::far, rank));
        segments_.push_back(std::make_unique<Segment>(window, regions_.bytes()));
        rank_at_.emplace_back();
        for (std::uint32_t seat = 0; seat < clockwork_.fate().seats(); ++seat)
            rank_at_.back().push_back(seat);
        rank_at_.back().push_back(ranks());  // of no seat
        rank_at_.back()[clockwork_.fate().seat_of(rank)] = rank;
    }
}

std::uint64_t Network::detection_ns(Wire wire, std::uint32_t observer) {
    const Fate& fate = clockwork_.fate();
    std::uint64_t most = wire == Wire::near ? fate.near_detection_ns : fate.far_detection_ns;
    if (fate.late_one_in > 0 && observer % fate.late_one_in == 0) most *= fate.late_times;
    return clockwork_.draw(most);
}

void Network::rank_died(std::uint32_t rank) {
    for (const Wire wire : {Wire::near, Wire::far}) {
        port(wire, rank).die();
        for (std::uint32_t peer = 0; peer < ranks(); ++peer) {
            if (peer == rank || clockwork_.dead(peer) || !port(wire, peer).is_joined_to(rank)) continue;
            port(wire, peer).lose(rank, detection_ns(wire, peer));
        }
    }
}

void Network::cut(const Cut& cut) {
    const Fate& fate = clockwork_.fate();
    if (!fate.breaks_connections(cut)) return;
    for (std::uint32_t a = 0; a < ranks(); ++a) {
        for (std::uint32_t b = 0; b < ranks(); ++b) {
            if (!cut.parts(fate.host_of[a], fate.host_of[b]) || clockwork_.dead(a)) continue;
            if (port(Wire::far, a).is_joined_to(b)) port(Wire::far, a).lose_by_cut(b, detection_ns(Wire::far, a));
        }
    }
}

bool Network::is_broken(std::uint32_t a, std::uint32_t b) const {
    const Fate& fate = clockwork_.fate();
    const std::uint64_t now = clockwork_.now_ns();
    return std::ranges::any_of(fate.cuts, [&](const Cut& cut) {
        return cut.parts(fate.host_of[a], fate.host_of[b]) && fate.breaks_connections(cut) && cut.begins_ns() <= now &&
               now < cut.ends_ns() && cut.ends_ns() - now > fate.longest_detection_ns();
    });
}

std::uint64_t Network::passable_ns(std::uint32_t a, std::uint32_t b, std::uint64_t time_ns) const {
    const Fate& fate = clockwork_.fate();
    for (bool again = true; std::exchange(again, false);) {
        for (const Cut& cut : fate.cuts) {
            if (!cut.parts(fate.host_of[a], fate.host_of[b])) continue;
            if (time_ns < cut.begins_ns() || time_ns >= cut.ends_ns()) continue;
            time_ns = cut.ends_ns();
            again = time_ns != kNever;
        }
    }
    return time_ns;
}

}  // namespace coppice::world
