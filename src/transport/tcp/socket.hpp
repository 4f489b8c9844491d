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
inline constexpr int kUserTimeoutMs = 2800;
// Of a connection that stands the library judges, by looks at what the kernel counts, and ends it with a reset. Where only what
// the peer sends is lost, the peer learns by that, and not by its own silence, which our repetitions would prolong. As much
// as the promise allows: after a cut of a second it leaves the kernel more than a second to repeat what was lost, although on
// a busy machine the link is up later than its cable, and both hosts have to ask for each other's address first.
inline constexpr std::uint64_t kMostSilenceNs = 3'300'000'000;
inline constexpr std::uint64_t kLookNs = 250'000'000;
// Where nothing is said. The kernel asks by itself, once in a second; a peer that leaves a question open for so long is sent
// something that has to be acknowledged, and so is looked at like one that is talked to.
inline constexpr std::uint64_t kIdleLookNs = 1'000'000'000;
inline constexpr std::uint32_t kIdleSilenceMs = 1300;

// A listener at that address; a port of 0 is filled in. `buffer`: what is asked of the kernel for each direction, of which it
// grants as much as it may (net.core.rmem_max, wmem_max).
Result<Descriptor> listen_at(Endpoint& endpoint, std::uint32_t buffer);
// A socket that connects, or none with errno. Connecting goes on after this call.
Descriptor start_connecting(const Endpoint& endpoint, std::uint32_t buffer);
// The next connection at a listener; none with EAGAIN in errno. It has the listener's options.
Descriptor accept_from(int listener);

// From now on the library looks. The kernel's own bound must not: Linux remembers when it failed to send at all (the own link was
// down) after it has succeeded again, so the second interruption would end a connection at once.
void end_kernel_bound(int socket);

// What peers may have under way to a socket made here, in units of cost_of(): as much as its kernel is sure to hold.
std::uint32_t room_of(int socket);

// The error that a connecting socket came to; 0: it is connected, or still connects.
int connect_error(int socket);
bool is_connected(int socket);

struct Health {
    std::uint32_t silence_ms =
        0;                     // for so long the peer's kernel has answered neither data nor a question of keepalive
    bool outstanding = false;  // there is data that it has yet to acknowledge
    std::uint32_t repetitions = 0;  // in a row, of that data or of questions for a window, that nothing came of
};
Health health_of(int socket);

// Whether a peer's kernel is silent for too long: by what our kernel says alone, and never because this process, or the peer's,
// did not run. Several looks have to find that nothing is acknowledged, and that our kernel has sent it again in vain: between
// two of them no more than 2 * kLookNs count.
class Silence {
  public:
    // A look. True: it is.
    bool lasts(const Health& health, std::uint64_t now_ns);

  private:
    static constexpr std::uint64_t kTickNs = 20'000'000;  // as exact as the kernel's clock is, at least
    static constexpr std::uint64_t kLeastDoubtNs = 1'250'000'000;
    static constexpr std::uint32_t kLeastRepetitions = 3;
    std::uint64_t looked_ns_ = 0;
    std::uint64_t doubted_ns_ = 0;
};
// Closing it resets the connection.
void reset_at_close(int socket);

// What a single call could send; −1 with errno.
std::ptrdiff_t send_some(int socket, std::span<const std::byte> bytes);

}  // namespace coppice::transport::tcp
