#include "transport/tcp/farewell.hpp"

#include "transport/tcp/socket.hpp"

namespace coppice::transport::tcp {

Farewell::Farewell(const Identity& identity, Seat peer, std::vector<Endpoint> endpoints)
    : buffer_(identity.buffer),
      word_(Handshake::farewell(identity, peer, draw_nonce())),
      endpoints_(std::move(endpoints)) {}

bool Farewell::say() {
    for (; at_ < endpoints_.size(); ++at_) {
        if (!socket_) socket_ = start_connecting(endpoints_[at_], buffer_);
        if (!socket_) continue;
        if (connect_error(socket_.get()) == 0) {
            if (!is_connected(socket_.get())) return false;
            // Into the empty buffer of a new connection it fits.
            const bool said = send_some(socket_.get(), word_) == static_cast<std::ptrdiff_t>(word_.size());
            socket_.close();
            if (said) return true;
        }
        socket_.close();
    }
    return true;
}

}  // namespace coppice::transport::tcp
