// Leaving a group in peace: when a rank may go, how the others learn that it has gone, and which rank holds it up.
//
// A rank wants to leave, and goes on serving until every collective of the group says that it is over: no live rank needs
// anything of this one any more. Then it leaves, and says farewell. A rank that leaves in peace knew that everything was over
// for all; so a farewell ends the wait of each rank that hears it, although messages to that one may be lost with a death.
// Neighbours at distances ±1, ±2, ±4 … are told at once. All others are told when they send anything to the rank that has left,
// and a rank that waits for another asks it now and then, so that nobody waits for one that has gone.
//
// A rank that gives up waiting, or that the others take for dead, says no farewell: nothing is proved by its going. It counts as
// a failed one. And while others may still ask a rank about the group that was shrunk from this one, its caller goes, but the
// rank stays, and says farewell later.
//
// Who holds a leave up? The callers are told when they give up. Most ranks wait for neighbours in some tree, which wait for
// others in turn. So a rank asks the one for which it waits: for which rank do you wait? A rank that does not leave names
// itself; one that leaves names the rank that it was told of, or for which it waits. So the name of a rank that stays comes to
// all others by the way on which they wait for it, and nobody asks any but its neighbours. Waiting goes one way only, down to
// the ranks that stay, so a name that has become wrong is replaced. While messages are under way two ranks may wait for each
// other: neither tells the other what it has from it, or an old name would go to and fro between them.
//
// A rank that stays may be outside of the library, asleep, and each question wakes it. So it is asked half as often after each time
// that it says of itself that it stays, down to a bound. Ranks that leave are awake, and are asked as often as ever.
//
// What holds, and is checked by exploring every order of events in small groups (simulation/explore/departure_explorer.hpp
// has the predicates):
//  - No rank leaves in peace while a live rank still needs something of it.
//  - Nobody waits for the dead or for ranks that have left: when nothing holds them up, all living that want to leave get out.
//  - A rank that gives up names one that holds all up.
//
// A pure machine (machine.hpp), between ranks. It allocates when ranks fail or leave, and when they ask.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/roster.hpp"

namespace coppice::protocol {

enum class DepartureKind : std::uint8_t {
    farewell,  // the sender has left in peace
    ask,       // the sender leaves and waits for you: for which rank do you wait?
    answer,    // for rank `about`
};

constexpr bool carries_payload(DepartureKind /*kind*/) {
    return false;
}
std::string_view to_string(DepartureKind kind);

struct DepartureMessage {
    DepartureKind kind = DepartureKind::farewell;
    Rank from;
    Rank to;
    Rank about;            // answer
    bool said_so = false;  // answer: `about` has said itself that it does not leave yet

    bool operator==(const DepartureMessage&) const = default;
};

// Rules that a test takes away, to see that it is missed. None in what ships.
enum DepartureFault : std::uint16_t {
    kCollectivesAreNotAsked = 1,        // a rank leaves when it wants to
    kUnsentIsLost = 2,                  // a rank leaves before its last messages have
    kFarewellsEndNoWait = 4,            // that a rank has left in peace proves nothing
    kTheDepartedAreSilent = 8,          // a rank that has left answers nothing
    kFarewellWithoutPeace = 16,         // a rank that gives up, or is taken for dead, says farewell
    kFarewellBeforeTheLastAnswer = 32,  // a rank says farewell although others may still have to ask it
    kNamesOfHoldersStay = 64,           // a name is kept when its rank leaves or dies, or nobody tells it any more
    kHoldersAreNotPassedOn = 128,       // a rank answers with the one for which it waits, whatever it was told
    kNamesGoBack = 256,                 // a rank answers another with what that one has told it
};

struct DeparturePlan {
    const topology::Nodes* nodes = nullptr;  // outlives the machine; the same at all ranks
    // Most ranks leave together: only one that has waited for so long asks, and then asks again.
    Nanoseconds ask_after{0};
    Nanoseconds ask_again{0};
    // One that says of itself that it stays is asked after twice as long each time, up to this; if it is less than ask_again, after that.
    Nanoseconds longest_pause{0};
    // A name is told again by then, or the rank that told it has fallen silent, and may be the one that stays.
    Nanoseconds answer_after{0};
    std::uint32_t farthest = UINT32_MAX;  // neighbour that is told; less only for tests
    std::uint16_t faults = 0;
    bool unclaimed = false;  // the caller has yet to claim the group: claim()
};

class Departure {
  public:
    using Message = DepartureMessage;

    enum class Stage : std::uint8_t {
        unclaimed,  // its caller does not have the group yet: as staying, but that it can't want to leave
        staying,
        leaving,    // waits until it may
        deserting,  // its caller has given up, and it leaves in peace if it can while others may ask it
        lingering,  // everything is over here; it still answers, and says farewell later
        left,       // in peace
        given_up,   // counts as failed
    };

    struct Holder {
        Rank rank;
        bool said_so;  // itself: it does not leave yet

        bool operator==(const Holder&) const = default;
    };

    Departure(const DeparturePlan& plan, Rank self);

    // --------------------------------------------------------------------------------------------------- facts

    void claim();
    void want();
    // While it waits, when is_due(): one of the ranks whose message the collectives wait for.
    bool is_due(Nanoseconds now) const { return !ask_at_ || now.value >= ask_at_->value; }
    void wait_for(std::optional<Rank> rank, Nanoseconds now);
    // False for what can't be.
    bool receive(const DepartureMessage& message, Nanoseconds now);
    // Any other message of the group, which shows that its sender may not know that this rank has left.
    void heard(Rank from);
    void peer_failed(Rank rank);
    void peer_left(Rank rank);
    void be_fenced() { fenced_ = true; }

    // What the caller does in the end. `may_be_asked`: others may still have to ask this rank about the next group.
    void leave(bool may_be_asked);  // after may_leave()
    void give_up(bool may_be_asked);
    // After these in each round: what was put off.
    void go_on(bool may_be_asked, bool may_leave);

    // -------------------------------------------------------------------------------------------------- pulled

    std::optional<DepartureMessage> next_send();

    // ------------------------------------------------------------------------------------------------- looking

    Stage stage() const { return stage_; }
    // Whether this rank may leave in peace, where all its collectives say that they are over, or do not.
    bool may_leave(bool is_over, bool all_sent) const;
    // A live rank has left in peace: everything is over for all.
    bool is_settled() const;
    // In the order in which they were heard of.
    std::span<const Rank> departed() const { return departed_; }
    bool has_departed(Rank rank) const;
    // Which rank holds this one up, as it was told; none while it knows no better than for whom it waits.
    std::optional<Holder> holder() const { return holder_; }
    // Everything that decides what it does next, without times: equal words, equal futures.
    void append_state(std::vector<std::uint32_t>& words) const;

  private:
    bool lacks(DepartureFault rule) const { return (faults_ & rule) != 0; }
    bool is_gone(Rank rank) const { return roster_.gone(rank.value); }
    void forget(Rank rank);
    void hear_of(const Holder& holder, Nanoseconds now);
    void ask_soon(Nanoseconds since);
    void end();
    void end_without_peace();
    void say_farewell();
    void answer(Rank asker);
    void tell(DepartureKind kind, Rank to) { sends_.push_back({.kind = kind, .from = self(), .to = to, .about = {}}); }
    Rank self() const { return Rank(roster_.self()); }

    Roster roster_;     // the departed are gone, too
    FailedSet failed_;  // of the departed, those that were taken for dead afterwards
    DeparturePlan plan_;
    std::uint16_t faults_;
    Stage stage_;
    bool fenced_ = false;
    std::vector<Rank> departed_;
    std::vector<DepartureMessage> sends_;

    std::optional<Rank> waits_for_;
    std::optional<Holder> holder_;
    Rank told_by_;
    Nanoseconds told_at_{0};
    std::optional<Nanoseconds> ask_at_;
    Nanoseconds pause_{0};  // until the question after that
};

}  // namespace coppice::protocol
