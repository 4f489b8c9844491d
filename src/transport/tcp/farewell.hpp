// What a rank that leaves says to a peer with which it has no connection: one word, which the peer's kernel keeps for it however
// long the peer is away. Without it the peer would take this rank for dead if it had to connect to it later.
#pragma once

#include <vector>

#include "transport/tcp/address.hpp"
#include "transport/tcp/descriptor.hpp"
#include "transport/tcp/handshake.hpp"

namespace coppice::transport::tcp {

class Farewell {
  public:
    Farewell(const Identity& identity, Seat peer, std::vector<Endpoint> endpoints);

    // True when the word is with the kernel, or none of the peer's addresses can be reached. Never blocks.
    bool say();

  private:
    std::uint32_t buffer_;
    FarewellWord word_;
    std::vector<Endpoint> endpoints_;
    std::size_t at_ = 0;
    Descriptor socket_;
};

}  // namespace coppice::transport::tcp
