// Which ranks go on: drives the membership machine (protocol/membership/), whose views are which ranks of this group go on after
// the first, the second … shrink of it.
//
// Members consent to what they know as soon as they want to shrink: where all know the same it takes two waves, and nobody is
// in the new group whom a member knew to be dead. With it they offer the panels of their hosts' segments for the boards of
// the new group that are clean, and those that nobody uses any more: one that is clean at all is taken, and those that all have
// closed are cleared. Which side of a cut goes on is the quorum's to say (protocol/membership/quorum.hpp): for `certain` the last votes of
// the dead are read from the host's memory, or from a witness (last_votes.hpp).
//
// It is none of the group's agreements: a group whose agreements have ended at different numbers, being revoked, can still be shrunk.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "engine/collectives/agreement/assembly.hpp"
#include "engine/collectives/agreement/outbox.hpp"
#include "engine/collectives/shrink/last_votes.hpp"
#include "engine/core/members.hpp"
#include "engine/router.hpp"
#include "protocol/membership/membership.hpp"
#include "status/page.hpp"

namespace coppice::engine {

// What a caller asks of the next group.
struct RenewalOptions {
    std::optional<protocol::Bounds> bounds;  // none: the others'
    bool newcomers_last = false;             // else they take the numbers of those that are gone
    bool is_shrink = false;  // which admits nobody where its rank decides, and is at odds with no renewal

    protocol::Terms terms() const;
};

// What all members of the new group have agreed upon.
struct Heritage {
    std::uint64_t number = 0;                             // which successor of the old group, counted from the first
    std::shared_ptr<const protocol::FailedSet> excluded;  // of the old group's ranks: the dead, and
    protocol::FailedSet left;                             // those that wanted to leave
    std::optional<std::uint32_t> panel;                   // none: no panel is clean at all of them,
    bool others_have_one = false;                         // or not at this rank
    std::uint32_t most =
        UINT32_MAX;           // so many members the next renewal of the new group may make, for all that is known
    bool is_at_odds = false;  // callers have asked for different things: there is to be no group
    struct Heir {
        std::optional<Rank> before;  // its rank in the old group; none: a newcomer
        // Of a newcomer: the launcher's number, and how many had that before (newcomers/introductions.hpp).
        std::uint32_t number = 0;
        std::uint32_t incarnation = 0;
    };
    std::vector<Heir> heirs{};  // the new group's ranks, in their order
    bool has_newcomers() const {
        return std::ranges::any_of(heirs, [](const Heir& heir) { return !heir.before; });
    }
};

// The next epoch, with a token that no ancestor's message carries.
GroupId id_after(const GroupId& group, const Heritage& heritage);

class Succession {
  public:
    // References outlive this object. `votes`: null where nobody reads the last votes of the dead.
    Succession(const Members& members, const Router& router, const GroupId& group, protocol::Quorum quorum,
               LastVotes* votes);

    void begin(const RenewalOptions& options);
    // While one is under way.
    void ask_for(const RenewalOptions& options);
    // A process can be taken in, which all members can reach; in place of that rank, if it is gone. Or it can't any more.
    void introduce(std::uint32_t number, std::uint32_t incarnation, std::optional<Rank> in_place_of);
    void withdraw(std::uint32_t number, std::uint32_t incarnation);
    // This rank goes with the next one.
    void leave();
    bool is_leaving() const { return machine_.is_leaving(); }
    bool has_left() const { return machine_.standing() == protocol::Membership::Standing::left; }
    bool under_way() const { return under_way_; }
    // Makes progress; returns what has been decided, once.
    std::optional<Heritage> progress();
    bool message(Rank from, const WireHeader& header, std::span<const std::byte> part);

    void peer_failed(Rank rank);
    // Whether ranks of this host have died, as the kernel says, or others, as a witness does.
    void look_for_dead();
    // In peace: it has told what it knew.
    void peer_left(Rank rank);
    // It is gone for certain, and without a vote: it never had the group, or has said so when it left.
    void peer_was_never_here(Rank rank);
    // Members consent to nothing, and answer nobody, before their callers have begun.
    bool has_voted() const { return has_begun_; }
    // All whom the machine holds to be gone.
    const protocol::FailedSet& failed() const { return failed_; }
    bool fenced() const { return fenced_; }
    // It is under way, and on this side there are too few.
    bool lacks_quorum() const { return under_way_ && machine_.lacks_quorum(); }
    std::string why_no_quorum() const;
    void give_up() { under_way_ = false; }
    bool quiet() const { return outbox_.quiet(); }
    bool waits_for_room() const { return outbox_.waits_for_room() || machine_.wants_to_send(); }
    // How many have ended here: everybody alive had begun them.
    std::uint64_t ended() const { return number_; }
    std::string waiting_for() const;
    void show_waits(status::Waits& waits) const;
    // The ranks from which this one has to hear next.
    protocol::FailedSet waited_for() const;

  private:
    void contribute();
    void look();
    void leave_out_newcomers();
    bool is_rank(protocol::Process process) const { return process.value < members_.ranks(); }
    bool tell_last_vote(Rank rank, bool has_left = false);
    void send();
    void clear_closed_panels();
    Heritage heritage();
    std::vector<Heritage::Heir> heirs() const;

    const Members& members_;
    const Router& router_;
    std::uint32_t seats_;  // most of the machine's
    protocol::MembershipPlan plan_;
    LastVotes* votes_;
    bool is_written_ = true;       // the machine's last vote
    protocol::FailedSet certain_;  // ranks whose last votes the machine knows
    protocol::Membership machine_;
    Assembly assembly_;
    Outbox outbox_;
    RenewalOptions options_;        // of the last call
    RenewalOptions first_options_;  // of the first: a rank that calls again would be at odds with those that need not
    protocol::FailedSet failed_;
    protocol::FailedSet left_;
    std::uint32_t left_out_epoch_ = 0;  // of the machine's view without whose newcomers it goes on
    std::uint32_t left_epoch_ = 0;      // of the machine's view up to which that is known
    std::uint64_t sent_ = 0;            // messages
    std::uint32_t epoch_ = 0;           // of the machine's view that was looked at last
    std::uint64_t number_ = 0;
    bool under_way_ = false;
    bool has_begun_ = false;
    bool fenced_ = false;
    bool all_panels_ = false;  // every panel that there is memory for has been made ready
};

}  // namespace coppice::engine
