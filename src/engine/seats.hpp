// The seats of a transport set (transport_set.hpp) as those see them that fill them: what copies addresses (addresses/), what introduces
// newcomers (newcomers/), and what makes a process known to a transport (wiring.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/words.hpp"
#include "engine/directory.hpp"
#include "transport/host_memory.hpp"
#include "transport/transport.hpp"

namespace coppice::engine {

class Seats {
  public:
    enum class Ended : std::uint8_t { perhaps, certainly };

    virtual std::uint32_t capacity() const = 0;
    // Which process has which.
    virtual Directory& directory() = 0;
    // The transports, and which of them leads to a seat: null where none does.
    virtual std::span<const std::unique_ptr<transport::Transport>> wires() const = 0;
    virtual void route(Seat peer, std::uint8_t index) = 0;
    virtual transport::Transport* to(Seat peer) const = 0;
    virtual bool is_wired(Seat peer) const = 0;
    // Whose boards the groups of a host have; null where they have none.
    virtual transport::HostMemory* host_memory() const = 0;

    // The seat's process has failed, has left in peace or is fenced by all groups here.
    virtual bool is_over(Seat peer) const = 0;
    // A witness has seen its end: groups here learn of it, if they have not.
    virtual void note_end(Seat seat) = 0;
    // It says nothing in any group: it counts as ended, in all that are here and to come, and is told so, where its transport can. From
    // within a group's progress.
    virtual void take_for_dead(Seat peer) = 0;
    // Takes the seat from its process, so that another one may have it: what was known of the earlier one's end, kept of what it sent, or
    // owed to it, counts for nobody any more. It need not have ended, but nothing of it is delivered any more.
    // False, and nothing is done, while a group here is not done with that rank, or one is being made in which it may be well.
    // Not from within poll().
    // `ended`: its process is known to have ended, so that it can't be well in a group that is being made.
    virtual bool vacate(Seat seat, Ended ended = Ended::perhaps) = 0;

  protected:
    ~Seats() = default;
};

}  // namespace coppice::engine
