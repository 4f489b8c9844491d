// How a rank learns which members of its group have failed, have left or take it for dead, and whom it tells: the components, the other ranks,
// and the caller.
//
// Evidence of deaths comes from transports, from ranks of the own host (local_peers.hpp), from other hosts' ranks, and from silence; the
// detector (protocol/detector/) says what is passed on to whom. detection.cpp has what goes to and from it, failures.cpp the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/core/controls.hpp"
#include "engine/core/lifecycle.hpp"
#include "protocol/detector/detector.hpp"

namespace coppice::engine {

// Whether deaths are to be taken in yet. A witness may say soon that they are certain, and without that word they would cost this
// rank's side the quorum.
class DeathJudge {
  public:
    virtual bool awaits_witness(const protocol::FailedSet& news) const = 0;

  protected:
    ~DeathJudge() = default;
};

class Membership {
  public:
    // How long deaths are held back at most. The launcher looks every 20 ms; one that is stopped, or gone, has not spoken by then.
    static constexpr std::uint64_t kWitnessTimeNs = 2'000'000'000;
    // How often a rank that waits for that looks.
    static constexpr std::uint64_t kWitnessLookNs = 5'000'000;

    // References outlive this object.
    Membership(Surroundings& around, Members& members, LocalPeers& local_peers, Controls& controls,
               const Subscribers& subscribers, Lifecycle& life, News& news, FailureCallback on_failure);

    void heed(const DeathJudge& judge) { judge_ = &judge; }

    // --- failures
    void learn_failure(Rank rank);
    // What many deaths change in rings and trees is looked at once.
    void learn_failures(std::span<const Rank> ranks);
    // What a component's messages have told. That a rank has left in peace looks the same there, and only at a group's end.
    void learn_from(const protocol::FailedSet& failed);
    void member_left(Rank rank);
    void read_failure_logs();
    // Whose process stays in touch for other groups says on its page, or by a message, that it has left this one.
    void read_departures();
    // One that has left in peace has taken part in everything that its own calls began. In what this rank has begun beyond that it
    // counts as failed.
    void do_without_the_departed();
    // Ranks that died before the group was formed, ascending: those of which everybody knows that, and others.
    void start_with_failed(std::span<const Rank> known_to_all, std::span<const Rank> others);
    // Ranks that are gone, have voted for nothing in this group, and never will: those that have missed an exchange without which no rank has
    // it, and those that have said so when they left in peace.
    void note_voteless(std::span<const Rank> ranks);
    const protocol::FailedSet& voteless() const { return voteless_; }
    // Tells other hosts which ranks of this one have failed, these included, and live; again when ranks have been lost.
    void tell_of_the_living(const protocol::FailedSet& more);
    // Those of other hosts that have failed and live, as this rank was told.
    const protocol::FailedSet& still_alive() const { return still_alive_; }

    // --- the caller's failure callback
    // Calls it for the deaths that it has not been told of, where that may be.
    void tell_failures();
    bool has_untold() const { return !untold_.empty(); }
    void tell_to(FailureCallback on_failure);
    void tell_nobody();

    // --- detection
    // Has the wire's evidence of this rank's death, should it die, reach this one.
    void watch(Rank rank);
    void heard(Rank from) { detector_.heard(from); }
    // On Channel::members, but for what is about leaving.
    void message(Rank from, const WireHeader& header);
    // That rank, which is dead here, may say this yet.
    bool is_heard_out(Rank from, Tag tag) const;
    // Its rank takes this one for dead, or has shown that it lives.
    void fenced_by(Seat there);
    void alive(Seat there);
    // The wires are polled; with a bound of silence the clock is looked at, too.
    std::size_t poll_wires();
    // That was longer ago than silence may last.
    bool was_away() const;
    bool is_due() const;
    void progress();
    void look_at_held_back();
    // Deaths that a witness may yet speak of, which count for nothing here so far.
    bool holds_back() const { return !held_back_.empty(); }
    std::uint64_t next_timer_ns() const;
    // Asks the clock: for a group to whose turn nobody has come for long.
    bool timer_is_due() const;
    // This rank counts as failed from here on: the others are told so.
    void give_up();
    // The rank that may come to look for this one.
    std::optional<Rank> observer() const { return detector_.observer(); }

  private:
    // detection.cpp
    void excuse_the_unknown();
    void send_beat(Rank to, Beat beat);
    void heed_detector();

    // failures.cpp
    bool hold_back(const protocol::FailedSet& news);
    void take_failures(std::span<const Rank> ranks);
    bool take_failure(Rank rank);  // whether it is news; its caller wakes the local peers
    void spread_failure(Rank rank);
    bool is_dead_after_all(Rank rank);
    void note_living(Rank from, std::uint32_t about);
    void member_left_without_vote(Rank rank);

    Surroundings& around_;
    Members& members_;
    LocalPeers& local_peers_;
    Controls& controls_;
    const Subscribers& subscribers_;
    Lifecycle& life_;
    News& news_;

    protocol::Detector detector_;
    std::uint64_t looked_ns_ = 0;        // when the wires were polled; kept up where there is a bound of silence
    const DeathJudge* judge_ = nullptr;  // null: all deaths are taken in at once
    protocol::FailedSet held_back_;      // deaths that a witness may speak of
    std::uint64_t held_until_ns_ = 0;
    bool hears_of_the_end_ = false;    // of ranks that may have left, and live: learn_from(), do_without_the_departed()
    std::vector<Rank> may_have_left_;  // that this rank does without since: the others hear nothing of it
    protocol::FailedSet voteless_;
    protocol::FailedSet still_alive_;
    std::set<std::pair<Rank, Rank>> living_told_;  // of which, and whom
    protocol::FailedSet ended_early_;              // before this rank had formed the group, and after all had met
    FailureCallback on_failure_;
    std::vector<Rank> untold_;  // failures that the caller's callback has yet to hear of
};

}  // namespace coppice::engine
