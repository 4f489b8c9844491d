// A count that rides in the header of every message.
#pragma once

#include <cstdint>

namespace coppice::engine {

class Passenger {
  public:
    virtual std::uint64_t count() const = 0;
    // False when it can't be.
    virtual bool heard(std::uint64_t count) = 0;
    // Tells others of it what is new to them.
    virtual void pass_on() = 0;

  protected:
    ~Passenger() = default;
};

}  // namespace coppice::engine
