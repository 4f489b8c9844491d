#include "engine/addresses/unwired.hpp"

#include "engine/addresses/copying.hpp"
#include "engine/seats.hpp"

namespace coppice::engine {

using transport::SendStatus;

transport::Transport* Unwired::behind(Seat peer) const {
    return seats_.is_wired(peer) ? seats_.to(peer) : nullptr;
}

SendStatus Unwired::without(Seat peer) {
    if (seats_.is_over(peer)) return SendStatus::failed;
    copying_.want(peer);
    return SendStatus::again;
}

void Unwired::watch(Seat peer) {
    if (transport::Transport* const wire = behind(peer)) return wire->watch(peer);
    if (!seats_.is_over(peer)) copying_.want(peer, true);
}

bool Unwired::is_connected(Seat peer) const {
    const transport::Transport* const wire = behind(peer);
    return wire != nullptr && wire->is_connected(peer);
}

std::size_t Unwired::largest(Seat to) const {
    const transport::Transport* const wire = behind(to);
    return wire != nullptr ? wire->largest(to) : transport::kMaxPayload;
}

SendStatus Unwired::send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                         std::uint32_t* in_flight) {
    transport::Transport* const wire = behind(to);
    return wire != nullptr ? wire->send(to, header, payload, in_flight) : without(to);
}

SendStatus Unwired::write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                          std::uint32_t* in_flight) {
    transport::Transport* const wire = behind(to);
    return wire != nullptr ? wire->write(to, header, payload, in_flight) : without(to);
}

void Unwired::probe(Seat peer) {
    if (transport::Transport* const wire = behind(peer)) wire->probe(peer);
}

void Unwired::fence(Seat peer) {
    if (transport::Transport* const wire = behind(peer)) return wire->fence(peer);
    for (const auto& wire : seats_.wires())
        if (!wire->capabilities().within_host) wire->fence(peer);
}

void Unwired::forget(Seat peer) {
    if (transport::Transport* const wire = behind(peer)) return wire->forget(peer);
    for (const auto& wire : seats_.wires())
        if (!wire->capabilities().within_host) wire->forget(peer);
}

// A rank that comes to need a connection to this one takes it for dead, as it would without that word.
void Unwired::say_farewell(Seat peer) {
    if (transport::Transport* const wire = behind(peer)) wire->say_farewell(peer);
}

}  // namespace coppice::engine
