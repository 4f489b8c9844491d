// Whether this side of a group still has the quorum that COPPICE_QUORUM asks for, as far as deaths tell: without it every operation ends.
//
// Which deaths are certain is settled by renewals alone, which bring the last votes along (succession.hpp). This is for what goes on
// before: so it counts as certain what is certain already, and what will be, if it is a death at all, as another rank of that host is
// there to see it. When none of them is there any more, or one of them has lost its quorum and says that it lives, it is no death that somebody
// has seen, unless the launcher has.
#pragma once

#include <string>

#include "engine/collectives/shrink/last_votes.hpp"
#include "engine/core/core.hpp"
#include "protocol/membership/message.hpp"

namespace coppice::engine {

// Who can't be reached, and what to do about it. `are_enough`: that is not for want of members, but because some that are dead may have made
// another group already.
std::string describe_no_quorum(protocol::Quorum quorum, std::uint32_t members, std::uint32_t left,
                               const protocol::FailedSet& unreachable, bool are_enough = false);

class QuorumWatch {
  public:
    // References outlive this object.
    // `votes`: null where none are kept.
    QuorumWatch(const Core& core, const LastVotes* votes)
        : around_(core.around()),
          members_(core.members()),
          local_peers_(core.local_peers()),
          life_(core.life()),
          membership_(core.membership()),
          votes_(votes) {}

    // With all of whom the core knows that they have failed, and these.
    bool has_quorum(const protocol::FailedSet& more = {}) const;
    std::string why_not(const protocol::FailedSet& more = {}) const;

  private:
    bool is_certain(Rank rank, const protocol::FailedSet& suspected) const;
    protocol::Failures failures(const protocol::FailedSet& more) const;

    const Surroundings& around_;
    const Members& members_;
    const LocalPeers& local_peers_;
    const Lifecycle& life_;
    const Membership& membership_;
    const LastVotes* votes_;
};

}  // namespace coppice::engine
