// The last votes of a group's ranks, in memory that outlives them: a rank writes down what it has promised before it says so to anybody,
// and when it is dead, which the kernel says, the others read it. Then its death is certain (COPPICE_QUORUM).
//
// Ranks of a host read it in the memory that they show to each other (transport::Board), those of other hosts where the launcher is a
// witness (bootstrap/launcher_witness.hpp), or the program has one. In the host's memory:
//
//   stamp | two places, each length and bytes
//
// The stamp counts what was written, and says by its lowest bit where. A rank that dies while it writes has said nothing of that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "bootstrap/presence.hpp"
#include "bootstrap/witness.hpp"
#include "engine/core/members.hpp"
#include "engine/lineage.hpp"
#include "protocol/membership/membership.hpp"
#include "transport/board.hpp"

namespace coppice::engine {

// Who sees deaths on other hosts, and which group it is about.
struct Testimony {
    const bootstrap::Witness* witness = nullptr;  // null: nobody does
    std::uint64_t group = 0;
    // This process, as the witness knows it, and who the members are; null: such a one has no place with it but the group's.
    bootstrap::Presence* presence = nullptr;
    const Lineage* lineage = nullptr;
    std::uint32_t epoch = 0;
};

class LastVotes {
  public:
    // `kept`: else there is no such memory.
    static transport::Region host_region(bool kept);
    // References outlive this object. `board`: null where no ranks share a host. `capacity`: of seats.
    LastVotes(transport::Board* board, const Members& members, std::uint32_t capacity, Testimony testimony = {});
    ~LastVotes();
    LastVotes(const LastVotes&) = delete;
    LastVotes& operator=(const LastVotes&) = delete;

    // False: not everywhere yet. Then nobody may be told of it, and it has to be written again.
    bool write(const protocol::LastVote& vote);
    // None of one that lives, whose death nobody has seen, or that had more to say than there is room for.
    std::optional<protocol::LastVote> of_gone(Rank rank, bool has_left) const;
    // The witness may yet say that one is dead.
    bool has_witness() const { return testimony_.witness != nullptr; }

  private:
    struct Page;

    std::optional<protocol::LastVote> of_local(Rank rank, bool has_left) const;
    bool is_seen_alive(Rank rank) const;
    std::optional<protocol::LastVote> of_witness(Rank rank) const;
    bool has_never_had_the_group(Rank rank) const;
    void write_to_board();

    transport::Board* board_;
    const Members& members_;
    std::uint32_t seats_;
    Testimony testimony_;
    std::optional<bootstrap::Witness::Place> place_;  // of this rank's
    mutable std::map<std::uint32_t, protocol::LastVote>
        said_;  // by the witness, of ranks that have ended: it is not asked again
    transport::Regions::Place region_;
    protocol::LastVote written_;
    std::vector<std::byte> bytes_;
};

}  // namespace coppice::engine
