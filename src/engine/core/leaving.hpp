// Leaving a group: drives the machine that knows when a rank may go and what holds it up (protocol/departure/).
//
// Neighbours are told by messages, the ranks of the own host by this rank's page. Where the transports end with the group they
// tell their peers, and the segment's obituary tells this host. On one host nobody asks: the board shows which ranks stay.
#pragma once

#include <optional>
#include <string>

#include "engine/core/membership.hpp"
#include "status/page.hpp"

namespace coppice::engine {

class Leaving {
  public:
    // References outlive this object.
    Leaving(const Surroundings& around, const Members& members, LocalPeers& local_peers, Controls& controls,
            const Subscribers& subscribers, Lifecycle& life, Membership& membership, News& news);

    void want() { life_.departure().want(); }
    // After that, and progress: true when no member needs this rank any more.
    bool drained();
    std::string waits_for() const;
    void show(status::Waits& waits) const;
    // The caller goes, after drained() or without waiting. `may_be_asked`: others may still have to ask this rank about the next group.
    bool depart(bool may_be_asked);
    void abandon(bool may_be_asked);
    // What was put off then. `is_drained`: asked where this rank may be asked.
    bool may_go_on() const;
    bool waits_to_be_drained() const { return life_.stage() == Lifecycle::Stage::deserting; }
    void go_on(bool may_be_asked, bool is_drained);

    // A question of a rank that leaves, or the answer to one.
    void message(Rank from, const WireHeader& header);
    // Any other message, which shows that its sender may not know that this rank has left.
    void heard(Rank from);

    // The group ends here, or the transports do.
    bool is_in_peace() const;
    void depart_at_the_end();

  private:
    using Stage = Lifecycle::Stage;

    void end_stage(Stage before, bool transports_stay);
    bool takes_transports_along() const;
    std::optional<Seat> holder_of_addresses() const;
    void note_dependence(Nanoseconds now);
    void send_departures();
    void say_farewell();
    void say_that_it_never_voted();
    bool has_voted() const;

    const Surroundings& around_;
    const Members& members_;
    LocalPeers& local_peers_;
    Controls& controls_;
    const Subscribers& subscribers_;
    Lifecycle& life_;
    Membership& membership_;
    News& news_;
};

}  // namespace coppice::engine
