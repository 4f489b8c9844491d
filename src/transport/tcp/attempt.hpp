// This side's attempt to connect to a peer: through all of its addresses, until one leads to that rank.
//
// What is a death, and what is not:
// - Refused at every address: nobody listens, so the process is gone.
// - No answer from a kernel, or no way to it, for kPatienceNs (socket.hpp): the host is lost. One try alone never proves it:
//   a kernel drops what is for a listener whose process is stopped or starved and has a full queue. So from the second try on a
//   port is tried, too, at which nobody listens: a host that lives refuses that, and is waited for.
//   An address that is refused says nothing of the others: it may be another host's, too, as that of a bridge of containers is.
// - A kernel that answers, and a process that does not: it computes, or is stopped. Waited for.
// - The peer says that it is busy: it had no place for us, or was starved. Tried again, for as long as it says so.
// - Closed before the welcome without a word: the other side does not take our proof. Tried again, kMostRefusals times.
//
// Time counts while the kernel tries, never while this process did not run: before a try is given up its socket is looked at.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/tcp/address.hpp"
#include "transport/tcp/descriptor.hpp"
#include "transport/tcp/handshake.hpp"

namespace coppice::transport::tcp {

class Attempt {
  public:
    static constexpr std::uint32_t kMostRefusals = 100;
    static constexpr std::uint64_t kLongestPauseNs = 200'000'000;

    Attempt(const Identity& identity, Seat peer, std::uint32_t incarnation, std::vector<Endpoint> endpoints);

    enum class Outcome : std::uint8_t {
        waits,  // for its socket, or for wake_ns()
        open,   // take_socket()
        hopeless,
    };
    Outcome start(std::uint64_t now_ns);
    Outcome on_ready(std::uint64_t now_ns);  // something happened at the socket
    Outcome on_time(std::uint64_t now_ns);   // wake_ns() is over

    std::uint64_t wake_ns() const { return wake_ns_; }
    int socket() const { return socket_.get(); }      // −1: between two tries
    std::uint32_t tries() const { return tries_; }    // each has a socket of its own
    bool wants_write() const { return !connected_; }  // else it waits to read
    bool committed() const { return handshake_ && handshake_->committed(); }
    Descriptor take_socket() { return std::move(socket_); }
    std::uint32_t room() const { return handshake_->room(); }
    // Why it is hopeless: with the peer's addresses and the remedy.
    std::string why() const;

  private:
    enum class Miss : std::uint8_t { refused, unreachable, turned_away, slow, busy };

    Outcome try_next(std::uint64_t now_ns);
    Outcome miss(Miss how, int error, std::uint64_t now_ns);
    bool host_answers() const;
    Outcome shake_hands(std::uint64_t now_ns);
    const Endpoint& endpoint() const { return endpoints_[at_]; }
    std::uint64_t patience_ns() const;

    const Identity& identity_;
    Seat peer_;
    std::uint32_t incarnation_;
    std::vector<Endpoint> endpoints_;
    std::vector<bool> refuses_;  // each of them, when it was tried last
    std::size_t at_ = 0;
    Descriptor socket_;
    Descriptor probe_;  // to a port where nobody listens, beside it: whether the host lives
    std::optional<Handshake> handshake_;
    std::array<std::byte, kLongestStep> bytes_{};
    std::size_t got_ = 0;
    bool connected_ = false;
    std::uint32_t tries_ = 0;
    std::uint32_t turned_away_ = 0;  // in all
    std::uint64_t began_ns_ = 0;     // the try that is under way
    std::uint64_t ended_ns_ = 0;     // the one before
    std::uint64_t unheard_ns_ = 0;   // for so long it was tried, and nothing heard
    std::uint64_t pause_ns_ = 1'000'000;
    std::uint64_t wake_ns_ = UINT64_MAX;
    int error_ = 0;
    Miss missed_ = Miss::slow;
};

}  // namespace coppice::transport::tcp
