// Which process has which seat of a transport set: for groups that processes join later, and for these.
//
// A seat is a number in the transports. The process that has it may end, and another one, of the next incarnation, take it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/words.hpp"

namespace coppice::engine {

class Directory {
  public:
    explicit Directory(std::uint32_t capacity) : incarnations_(capacity, kFree) {}

    std::uint32_t capacity() const { return static_cast<std::uint32_t>(incarnations_.size()); }
    // Whether the seat's process is that one: so many have had the seat before it.
    bool has(Seat seat, std::uint32_t incarnation) const { return incarnations_[seat.value] == incarnation; }
    // Of its transports (wire/address_list.hpp); empty where nobody may join, or the seat is free.
    std::span<const std::byte> addresses(Seat seat) const {
        if (seat.value >= addresses_.size()) return {};
        return addresses_[seat.value];
    }
    // `addresses` are only for groups that processes may join: a set of a million seats has no room for those of all.
    void take(Seat seat, std::uint32_t incarnation, std::vector<std::byte> addresses = {}) {
        incarnations_[seat.value] = incarnation;
        if (addresses_.empty() && !addresses.empty()) addresses_.resize(capacity());
        if (!addresses_.empty()) addresses_[seat.value] = std::move(addresses);
    }
    void vacate(Seat seat) { take(seat, kFree); }

  private:
    static constexpr std::uint32_t kFree = UINT32_MAX;

    std::vector<std::uint32_t> incarnations_;        // by seat
    std::vector<std::vector<std::byte>> addresses_;  // by seat, where there are any
};

}  // namespace coppice::engine
