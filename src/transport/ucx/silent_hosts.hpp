// Finds the TCP connections of a worker whose other host is lost, and ends them.
//
// UCX leaves it to the kernel how long data may stay unacknowledged: for a quarter of an hour. And it does not show its sockets.
// They are members of its epoll sets, and these are of what a worker sleeps on, from its first endpoint on. A connection that is
// silent for too long (silence.hpp) is shut down for reading: UCX finds the end of it, as it does when a peer's process
// dies, reports that to the endpoint, and closes the socket, which resets the connection for a peer that still hears us.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/ip_addresses.hpp"
#include "transport/silence.hpp"

namespace coppice::transport::ucx {

class SilentHosts {
  public:
    // `sleeps_on`: what the worker gave to sleep on; −1: there is none, and nobody looks.
    explicit SilentHosts(int sleeps_on);
    SilentHosts(const SilentHosts&) = delete;
    SilentHosts& operator=(const SilentHosts&) = delete;
    ~SilentHosts();

    // A host to which a connection was ended.
    struct Lost {
        IpAddress host;
        std::string what;  // for people: "nothing was heard of 10.0.0.2:4000 for 3312 ms"
    };
    struct Found {
        bool is_busy = false;         // something is yet to be acknowledged: to be looked at again after kLookNs
        bool leaves_us_open = false;  // a question of our kernel's, for so long that it should be sent something
        // New connections were not found, as the sets could not be read: those that are known were looked at alone.
        bool is_blind = false;
        std::vector<Lost> lost{};
    };
    Found look(std::uint64_t now_ns);
    // What a worker sleeps on is readable from then on, until the next look.
    void wake_at(std::uint64_t at_ns);
    // Why wake_at() does nothing, where there is something to sleep on; 0: it works.
    int wake_error() const { return wake_error_; }

  private:
    struct Connection {
        int socket = -1;
        std::uint64_t cookie = 0;  // the kernel's name of it: the number may be another connection's by the next look
        bool is_seen = true;       // by this look
        Silence silence{Silence::Load::any};
    };
    Connection& obtain(int socket);
    bool look_at_all(std::uint64_t now_ns, Found& found);
    void look_at_known(std::uint64_t now_ns, Found& found);
    void look_at(int socket, std::uint64_t now_ns, Found& found);

    int sleeps_on_;
    int timer_ = -1;
    int wake_error_ = 0;
    std::uint64_t timer_ns_ = UINT64_MAX;
    std::vector<Connection> connections_;
};

// What else is known of a connection that broke, of its own host alone: "; nothing was heard of …; UCX says: …". `worker_address` is
// the peer's, `lost` what the last look has found, and `complaint` UCX's (empty: none). One that names another lost host is
// kept with that, for the errors of the ranks there.
std::string said_of(std::span<const std::byte> worker_address, std::vector<SilentHosts::Lost>& lost,
                    const std::string& complaint);

}  // namespace coppice::transport::ucx
