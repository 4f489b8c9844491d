// Messages with bodies of any length, until the transports have taken them and let go of them. A body that is longer than one
// message of a transport goes in parts (assembly.hpp). Messages to one rank may overtake each other.
//
// As many places as it was made with: the machine behind it keeps what there is no place for. A place keeps its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/members.hpp"
#include "engine/router.hpp"
#include "engine/wire/wire.hpp"

namespace coppice::engine {

class Outbox {
  public:
    struct Outgoing {
        Rank to;
        std::uint8_t kind = 0;
        std::uint64_t sequence = 0;  // no two of a kind to one rank have the same
        std::vector<std::byte> body;

      private:
        friend class Outbox;
        std::size_t sent = 0;  // bytes of the body
        std::uint32_t in_flight = 0;
        bool waiting = false;  // not taken yet, or not all of it
    };

    // References outlive this object. Bodies of up to `bytes` allocate nothing.
    Outbox(const Members& members, const Router& router, const GroupId& group, Channel channel, std::size_t places,
           std::size_t bytes);

    // One to fill in, for post(); null when none is free.
    Outgoing* free_place();
    void post(Outgoing& message);
    // Sends what waits.
    void send_waiting();
    bool waits_for_room() const { return unsent_ > 0; }
    // Transports refer to nothing of it.
    bool quiet() const;

  private:
    bool send(Outgoing& message);
    bool is_held_up(const Outgoing& message) const;

    const Members& members_;
    const Router& router_;
    GroupId group_;
    Channel channel_;
    std::vector<Outgoing> outgoing_;
    std::uint32_t unsent_ = 0;  // of those, that wait
};

}  // namespace coppice::engine
