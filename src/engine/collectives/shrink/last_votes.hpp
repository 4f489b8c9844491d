// The last votes of a host's ranks, in the memory that they show to each other (transport::Board): a rank writes down what it has
// promised before it says so to anybody, and when it is dead, which the kernel says, the others read it. Then its death is
// certain (COPPICE_QUORUM).
//
//   stamp | two places, each length and bytes
//
// The stamp counts what was written, and says by its lowest bit where. A rank that dies while it writes has said nothing of that.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/members.hpp"
#include "protocol/membership/membership.hpp"
#include "transport/board.hpp"

namespace coppice::engine {

class LastVotes {
  public:
    // `kept`: else there is no such memory.
    static transport::Region host_region(bool kept);
    // References outlive this object. `capacity`: of seats.
    LastVotes(transport::Board& board, const Members& members, std::uint32_t capacity);

    void write(const protocol::LastVote& vote);
    // None of one that lives, ran on another host, or had more to say than there is room for.
    std::optional<protocol::LastVote> of_gone(Rank rank, bool has_left) const;

  private:
    struct Page;

    transport::Board& board_;
    const Members& members_;
    std::uint32_t seats_;
    transport::Regions::Place region_;
    protocol::LastVote written_;
    std::vector<std::byte> bytes_;
};

}  // namespace coppice::engine
