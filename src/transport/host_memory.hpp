// The memory that the ranks of one host show to each other, as one of them sees it. Offered by transports that share memory within a
// host (shm).
//
// A group's part of it is a board (board.hpp): lines, counts, a log, and the regions that their users declared when the memory was
// made (regions.hpp). There is one for the group that the transports were made for, and more in the same memory for groups of
// some of these ranks.
//
// Each board is in a panel, the same one at all its members, as their groups have to agree. Panels are told as bits.
// What a rank has written stays for the ranks that still read it, until every rank that may has closed the same panel
// and clears it.
//
// One thread at a time, as transport.hpp. tests/transport/host_memory_conformance.hpp has the conformance suite.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/words.hpp"
#include "transport/board.hpp"

namespace coppice::transport {

class HostMemory {
  public:
    // How many groups at once can have a board in this memory.
    static constexpr std::uint32_t kPanels = 8;
    struct BoardMember {
        Rank rank;                      // in the group
        Seat seat;                      // here
        std::uint32_t incarnation = 0;  // which of its processes: that of admit(), 0 of the sealed ones
    };

    // Fixes the members of the first board (in any order; this rank included or not, it always belongs), maps them and watches
    // them. Once, after their add_peer(). All ranks of the host should have sealed before one publishes: a member that was
    // not mapped before it died can't be read any more. Members that are dead, or were never added, are members all the
    // same, with nothing published and alive() false; the dead ones that were added are reported by poll().
    virtual Result<void> seal_board(std::vector<Seat> members) = 0;
    // A rank that was added later: maps it and watches it, so that boards which are opened from now on may have it. Those that are
    // open have the members that they had. One that has died meanwhile is a member all the same, as above. `incarnation`: how many had
    // that seat before it.
    virtual Result<void> admit(Seat seat, std::uint32_t incarnation) = 0;
    // The one that is open in the panel; that in panel 0 always, but not before seal_board().
    virtual Board& board(std::uint32_t panel) = 0;

    // Panels that are as new: what a board may be opened in. One is kept ready; more, or all, if there is memory for them.
    virtual std::uint32_t clean_panels() const = 0;
    virtual void make_panel_ready() = 0;
    virtual void make_all_panels_ready() = 0;
    // Opens one in a clean panel; `members` ascending, this rank among them, all sealed or admitted. A group may have been agreed upon before one
    // of its members died, and made here after that one's number was given to another process: of members that were forgotten
    // since the last board was opened, lines and regions can be read there, but for more of them than ranks fit on a host.
    virtual Board& open_board(std::uint32_t panel, std::span<const BoardMember> members) = 0;
    // This rank's group is gone.
    virtual void close_board(std::uint32_t panel) = 0;
    virtual std::uint32_t closed_panels() const = 0;
    virtual void clear_panels(std::uint32_t panels) = 0;

    // How many of these ranks, itself included, have only cores that this one has too: with more of them than cores they wait
    // for each other's. As it was when look_at_cores() was called, after all add_peer().
    virtual void look_at_cores() = 0;
    virtual std::uint32_t sharing_cores(std::span<const Seat> seats) const = 0;
    // The process of a rank that was added; 0 where that is not known.
    virtual pid_t process_of(Seat seat) const = 0;
    // From now on this process's memory is kept for a moment when it dies: shm/keeper.hpp.
    virtual void keep_memory() = 0;

  protected:
    ~HostMemory() = default;
};

}  // namespace coppice::transport
