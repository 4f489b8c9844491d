// Which process has which seat of a transport set: for groups that processes join later, and for these.
//
// A seat is a number in the transports. The process that has it may end, and another one, of the next incarnation, take it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/words.hpp"

namespace coppice::engine {

class Directory {
  public:
    struct Holder {
        std::uint32_t incarnation = 0;  // how many processes had the seat before
        std::string host;               // transport::host_identity(); the dead of the start are counted to some host
        std::vector<std::byte> addresses{};  // of its transports (greeting.hpp); kept only where processes may join
    };

    explicit Directory(std::uint32_t capacity) : holders_(capacity) {}

    std::uint32_t capacity() const { return static_cast<std::uint32_t>(holders_.size()); }
    // None: the seat is free.
    const std::optional<Holder>& at(Seat seat) const { return holders_[seat.value]; }
    void take(Seat seat, Holder holder) { holders_[seat.value] = std::move(holder); }
    void vacate(Seat seat) { holders_[seat.value].reset(); }

  private:
    std::vector<std::optional<Holder>> holders_;
};

}  // namespace coppice::engine
