// Which ranks go on: the agreements from which the survivors of a group make the next one.
//
// Each rank contributes the set of ranks that it holds to be dead, as a hash and its complement under AND: they stay
// complements exactly when all have contributed the same. Then the set that the agreement brings is the one that
// everybody knew, and it is the succession: all ranks outside of it are the new group. Otherwise all know more now than
// before, and agree again. There can't be more rounds than deaths. Along with it they agree on a panel of their hosts'
// segments for the boards of the new group: one that is clean at all, and on which ones nobody uses any more, which are
// cleared then.
//
// These agreements are none of the group's own: they have their own numbers and message kinds, so that a group whose
// agreements have ended at different numbers, being revoked, can still be shrunk. They run on the tree machine, always.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/collectives/agreement/agreements.hpp"
#include "engine/core/members.hpp"
#include "engine/requests/request.hpp"
#include "engine/router.hpp"

namespace coppice::engine {

// What all members of the new group have agreed upon.
struct Heritage {
    std::uint64_t number = 0;                             // which successor of the old group, counted from the first
    std::shared_ptr<const protocol::FailedSet> excluded;  // of the old group's ranks
    std::optional<std::uint32_t> panel;                   // none: no panel is clean at all of them
};

// The new group's ranks, in the old one's order.
std::vector<Rank> heirs(std::uint32_t ranks, const protocol::FailedSet& excluded);
// The next epoch, with a token that no ancestor's message carries.
GroupId id_after(const GroupId& group, const Heritage& heritage);

class Succession {
  public:
    // References outlive this object.
    Succession(const Members& members, const Router& router, const GroupId& group);

    void begin();
    bool under_way() const { return under_way_; }
    // Makes progress; returns what has been agreed upon, once.
    std::optional<Heritage> progress(bool thoroughly);
    bool message(Rank from, const WireHeader& header, std::span<const std::byte> body);

    void peer_failed(Rank rank) { agreements_.peer_failed(rank); }
    void peers_failed(const protocol::FailedSet& ranks) { agreements_.peers_failed(ranks); }
    const protocol::FailedSet& failed() const { return agreements_.failed(); }
    bool fenced() const { return agreements_.fenced(); }
    void give_up(coppice_status_t status, const std::string& why);
    bool quiet() const { return agreements_.quiet(); }
    bool waits_for_room() const { return agreements_.waits_for_room(); }
    // How many have ended here: everybody alive had begun them.
    std::uint64_t ended() const { return number_; }
    std::string waiting_for() const;
    void waited_for(const std::function<bool(Rank)>& tell) const { agreements_.waited_for(round_, tell); }

  private:
    // Under AND: the hash, its complement, panels that are clean and those that are closed.
    using Value = std::array<std::uint64_t, 4>;

    void contribute();

    const Router& router_;
    Agreements agreements_;
    Request round_;
    Value value_{};
    std::uint64_t number_ = 0;
    bool under_way_ = false;
    bool all_panels_ = false;  // every panel that there is memory for has been made ready
};

}  // namespace coppice::engine
