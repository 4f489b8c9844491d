// Sockets as this transport wants them: never blocking, closed on exec, without Nagle's delay, and with a bound on how long a
// peer's kernel may stay silent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "transport/tcp/address.hpp"
#include "transport/tcp/descriptor.hpp"

namespace coppice::transport::tcp {

// A host is lost within 4 s, which is what is promised.
inline constexpr std::uint64_t kPatienceNs = 4'000'000'000;
// In a handshake the kernel bounds how long the peer's kernel may acknowledge nothing, and the handshake is tried again.
// Of a connection that stands the library judges (silence.hpp).
inline constexpr int kUserTimeoutMs = 2800;

// A listener at that address; a port of 0 is filled in. `buffer`: what is asked of the kernel for each direction, of which it
// grants as much as it may (net.core.rmem_max, wmem_max).
Result<Descriptor> listen_at(Endpoint& endpoint, std::uint32_t buffer);
// A socket that connects, or none with errno. Connecting goes on after this call.
Descriptor start_connecting(const Endpoint& endpoint, std::uint32_t buffer);
// The next connection at a listener; none with EAGAIN in errno. It has the listener's options.
Descriptor accept_from(int listener);

// From now on the library looks, and the kernel's own bound must not.
void end_kernel_bound(int socket);

// What peers may have under way to a socket made here, in units of cost_of(): as much as its kernel is sure to hold.
std::uint32_t room_of(int socket);

// The error that a connecting socket came to; 0: it is connected, or still connects.
int connect_error(int socket);
bool is_connected(int socket);

// What a single call could send; −1 with errno.
std::ptrdiff_t send_some(int socket, std::span<const std::byte> bytes);

}  // namespace coppice::transport::tcp
