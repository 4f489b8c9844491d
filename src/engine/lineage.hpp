// Which members of a group were in the one that it was made of, and as what.
//
// A member is a seat (directory.hpp) and an incarnation. It keeps its seat in all groups that are made of its first one, whatever its
// rank is there.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/mix.hpp"
#include "base/words.hpp"

namespace coppice::engine {

struct Origin {
    static constexpr std::uint32_t kNobody = UINT32_MAX;

    Seat seat{};
    std::uint32_t incarnation = 0;
    std::uint32_t before = kNobody;  // its rank in the group of which this one was made
    std::uint32_t since = 0;         // the epoch of its first group
    std::uint64_t host = 0;          // host_number(); 0 where no process may join

    bool operator==(const Origin&) const = default;
};

// The same for ranks of one host; `identity` as greetings and cards have it.
inline std::uint64_t host_number(const std::string& identity) {
    return hash_bytes(identity.data(), identity.size(), 0);
}

// That of a group which was not made of another, and which no process may join, is empty: all are new, and rank r sits in seat r.
class Lineage {
  public:
    Origin of(Rank rank) const { return origins_.empty() ? Origin{.seat = Seat(rank.value)} : origins_[rank.value]; }
    Lineage() = default;
    explicit Lineage(std::vector<Origin> origins) : origins_(std::move(origins)) {}
    // That of a rank of this group in one that is made of it.
    Origin after(Rank heir) const {
        Origin next = of(heir);
        next.before = heir.value;
        return next;
    }

  private:
    std::vector<Origin> origins_;
};

}  // namespace coppice::engine
