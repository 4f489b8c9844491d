// Control messages that go out: they have no payload, and are kept until a transport takes them.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/passenger.hpp"
#include "engine/core/surroundings.hpp"

namespace coppice::engine {

class Controls {
  public:
    // References outlive this object.
    Controls(const Surroundings& around, const Members& members);

    void carry(const Passenger& passenger) { passenger_ = &passenger; }
    // Nothing goes to this rank itself, or to the dead.
    void send(Rank to, Tag tag, std::uint64_t sequence = 0, std::uint32_t detail = 0);
    void flush();
    bool wait() const { return !kept_.empty(); }
    bool wait_for(Rank to) const;

  private:
    struct Control {
        Rank to;
        WireHeader header;
    };

    const Surroundings& around_;
    const Members& members_;
    const Passenger* passenger_ = nullptr;
    std::vector<Control> kept_;  // had no room, or were made while polling
};

}  // namespace coppice::engine
