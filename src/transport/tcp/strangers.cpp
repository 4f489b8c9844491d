#include "transport/tcp/strangers.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "transport/tcp/socket.hpp"

namespace coppice::transport::tcp {

std::size_t Strangers::next_place() const {
    const auto age = [](const auto& place) { return place ? place->since_ns : 0; };  // a free place before all others
    const auto oldest = std::ranges::min_element(places_, {}, age);
    return static_cast<std::size_t>(oldest - places_.begin());
}

void Strangers::add(std::size_t place, Descriptor socket, std::uint64_t now_ns) {
    if (next_look_ns() == UINT64_MAX) looked_ns_ = now_ns;
    if (places_[place]) send_away(place);
    places_[place].emplace(Stranger{.socket = std::move(socket),
                                    .handshake = Handshake::accept(identity_, draw_nonce()),
                                    .since_ns = now_ns,
                                    .bytes = {}});
}

void Strangers::send_away(std::size_t place) {
    send_some(places_[place]->socket.get(), places_[place]->handshake.busy());
    drop(place, true);
}

Strangers::Outcome Strangers::drop(std::size_t place, bool is_garbage) {
    places_[place].reset();
    garbage_ += is_garbage ? 1 : 0;
    return Outcome::gone;
}

Strangers::Outcome Strangers::move(std::size_t place) {
    if (!places_[place]) return Outcome::gone;
    Stranger& stranger = *places_[place];
    while (true) {
        const std::size_t wanted = stranger.handshake.wanted();
        const auto got =
            ::recv(stranger.socket.get(), stranger.bytes.data() + stranger.got, wanted - stranger.got, MSG_DONTWAIT);
        if (got < 0) {
            if (errno == EAGAIN || errno == EINTR) return Outcome::waits;
            return drop(place, stranger.got > 0);
        }
        // A rank may give up an attempt of its own, at any time before its proof.
        if (got == 0) return drop(place, stranger.got > 0);
        stranger.got += static_cast<std::size_t>(got);
        if (stranger.got < wanted) continue;
        stranger.got = 0;
        stranger.age_ns = 0;
        const auto answer = stranger.handshake.take(std::span(stranger.bytes).first(wanted));
        if (stranger.handshake.state() == Handshake::State::refused) return drop(place, true);
        if (stranger.handshake.state() == Handshake::State::proven) return Outcome::proven;
        if (stranger.handshake.state() == Handshake::State::departed) return Outcome::departed;
        // Into the empty buffer of a new connection it fits.
        if (send_some(stranger.socket.get(), answer) != static_cast<std::ptrdiff_t>(answer.size()))
            return drop(place, false);
    }
}

Strangers::Proven Strangers::take(std::size_t place) {
    Proven proven{std::move(places_[place]->socket), places_[place]->handshake};
    places_[place].reset();
    return proven;
}

void Strangers::look(std::uint64_t now_ns) {
    const std::uint64_t passed = std::min(now_ns - looked_ns_, kLookNs);
    looked_ns_ = now_ns;
    for (auto& place : places_)
        if (place) place->age_ns += passed;
}

void Strangers::drop_overdue(std::size_t place) {
    if (overdue(place)) send_away(place);
}

std::uint64_t Strangers::next_look_ns() const {
    const bool nobody = std::ranges::none_of(places_, [](const auto& place) { return place.has_value(); });
    return nobody ? UINT64_MAX : looked_ns_ + kLookNs;
}

}  // namespace coppice::transport::tcp
