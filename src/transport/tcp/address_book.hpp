// Where the ranks of a group listen, packed: of most of them nothing else is ever wanted, and a group may have a million.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/tcp/address.hpp"

namespace coppice::transport::tcp {

// An address of IPv4 takes 8 bytes, one of IPv6 20, and a rank 5 more.
class AddressBook {
  public:
    explicit AddressBook(std::uint32_t ranks) : begins_(ranks, kNowhere) {}

    // In that order. `rank` has no entry; there are at least one and at most kMaxEndpoints.
    void add(Seat rank, std::span<const Endpoint> endpoints);
    bool has(Seat rank) const { return rank.value < begins_.size() && begins_[rank.value] != kNowhere; }
    // Of one that has an entry.
    std::vector<Endpoint> endpoints_of(Seat rank) const;
    // Nothing where there is no entry.
    void remove(Seat rank);

    std::size_t bytes() const { return begins_.capacity() * sizeof(std::uint32_t) + packed_.capacity(); }

  private:
    static constexpr std::uint32_t kNowhere = UINT32_MAX;
    // Less is not worth moving everything for.
    static constexpr std::size_t kLeastWaste = 4096;

    std::span<const std::byte> entry_of(Seat rank) const;
    void move_together();

    std::vector<std::uint32_t> begins_;  // of each rank's entry
    // Entries: how many addresses; of each its family, prefix, port and as much of the address as there is.
    std::vector<std::byte> packed_;
    std::size_t wasted_ = 0;  // by entries that were removed
};

}  // namespace coppice::transport::tcp
