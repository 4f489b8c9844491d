// Revocation: everything of a group ends, at every member, because one of them has said so.
//
// A rank that learns of it says so on its own page of the node's memory, which outlives it, and ends what waits. So on
// a node one store reaches all, also from a revoker that dies behind it. Between nodes it goes the way of failure
// notices: a rank that has heard of it by message, or leads its node, tells the leaders of the nodes at distances ±1,
// ±2, ±4 …; and again after every death that it learns of, because the dead may have been the one to pass it on. A live
// member whose next live neighbour knows is told by it, so that in the end all living know.
//
// A rank that leaves passes nothing on any more, and others may take it for dead before they have read what it said. So
// a rank that is told answers; the leader of a node says on its page when all have answered; and a rank leaves a
// revoked group when those that it has told have answered and its leader says so, or after its patience.
//
// What holds, and is checked by exploring every order of events in small groups
// (simulation/explore/revocation_explorer.hpp has the predicates):
//  - If a rank that lives, or that has left as may_leave() says, knows of the revocation, in the end all living know.
//  - What a rank has said on its page reaches all living ranks of its node, though it dies behind it.
//  - Nobody needs patience to leave, while all living take part.
//
// A pure machine (machine.hpp), between ranks. Allocates when the group is revoked, never before.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "protocol/roster.hpp"

namespace coppice::protocol {

enum class RevocationKind : std::uint8_t {
    news,    // `revoker` has revoked the group
    answer,  // the sender knows
};

constexpr bool carries_payload(RevocationKind /*kind*/) {
    return false;
}
std::string_view to_string(RevocationKind kind);

struct RevocationMessage {
    RevocationKind kind = RevocationKind::news;
    Rank from;
    Rank to;
    Rank revoker;

    bool operator==(const RevocationMessage&) const = default;
};

// Rules that a test takes away, to see that it is missed. None in what ships.
enum RevocationFault : std::uint8_t {
    kDeathsAreNotFollowed = 1,     // nobody is told again after a death
    kLeavesWithoutAnswers = 2,     // a rank leaves as soon as its news are under way
    kHeardIsNotPassedOn = 4,       // a rank that is told by message tells nobody
    kPagesOfTheDeadAreUnread = 8,  // what a dead rank has said to its node goes with it (for the driver to heed)
    kTheDepartedAreTold = 16,      // a rank that has left is told like one that is here
};

struct RevocationPlan {
    const topology::Nodes* nodes = nullptr;  // outlives the machine; the same at all ranks
    bool shares_memory = false;              // this rank reads and writes pages of its node
    Nanoseconds patience{0};                 // with which a rank waits until it may leave
    std::uint32_t farthest = UINT32_MAX;     // neighbour; less only for tests
    std::uint8_t faults = 0;
};

class Revocation {
  public:
    using Message = RevocationMessage;

    Revocation(const RevocationPlan& plan, Rank self);

    // --------------------------------------------------------------------------------------------------- facts

    void revoke();
    // False for what can't be.
    bool receive(const RevocationMessage& message);
    // The word on the page of a local peer, dead or alive. To be read in each round, and before every death and every
    // departure that this machine is told of: it is what the rank said last.
    void read(std::uint64_t word);
    void peer_failed(Rank rank);
    void peer_left(Rank rank);
    // In each round, after the sends: whether the transports have taken everything.
    void settle(bool all_sent);

    // -------------------------------------------------------------------------------------------------- pulled

    // For this rank's page, to be there before anything is sent.
    std::uint64_t word() const;
    std::optional<RevocationMessage> next_send();

    // ------------------------------------------------------------------------------------------------- looking

    bool revoked() const { return revoker_ != Roster::kNobody; }
    Rank revoker() const { return Rank(revoker_); }
    // Whether this rank may leave the revoked group now; `leader_word` is on the page of its node's leader.
    bool may_leave(Nanoseconds now, bool all_sent, std::uint64_t leader_word);
    std::uint32_t leader() const { return roster_.leader(roster_.own_node()); }
    // A rank that has been told and has not answered.
    std::optional<Rank> waits_for() const;
    // Everything that decides what it does next, without patience: equal words, equal futures.
    void append_state(std::vector<std::uint32_t>& words) const;

  private:
    // On a page beside the revoker + 1: other nodes know.
    static constexpr std::uint64_t kOutsideKnows = std::uint64_t{1} << 32;

    bool lacks(RevocationFault rule) const { return (faults_ & rule) != 0; }
    bool learn(std::uint32_t revoker);
    void spread();

    Roster roster_;
    bool shares_memory_;
    Nanoseconds patience_;
    std::uint32_t farthest_;
    std::uint8_t faults_;
    std::uint32_t revoker_ = Roster::kNobody;
    std::vector<RevocationMessage> sends_;
    std::vector<std::uint32_t> unaware_;  // have been told, and have not answered
    bool outside_knows_ = false;          // as far as this rank has to tell it there
    bool said_so_ = false;                // on its page, as the leader
    std::uint64_t leaves_at_ = 0;
};

}  // namespace coppice::protocol
