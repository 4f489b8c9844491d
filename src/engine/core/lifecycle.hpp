// The life of a group at this rank: at which stage its caller is with it, and what the others let this rank do in it.
//
// The stage is one enum, that of the machine which knows when a rank may go (protocol/departure/): the caller has yet to claim the
// group, stays, leaves, has left. Standing is no stage. It follows from what others do, not this rank's caller, and at each stage a rank
// may have each standing: in a revoked group callers stay, claim the group, and leave.
#pragma once

#include <cstdint>
#include <span>

#include "engine/core/local_peers.hpp"
#include "engine/core/news.hpp"
#include "engine/core/subscribers.hpp"
#include "protocol/departure/departure.hpp"

namespace coppice::engine {

class Lifecycle {
  public:
    using Stage = protocol::Departure::Stage;
    // Whether this rank takes part in the group's operations.
    enum class Standing : std::uint8_t {
        member,
        revoked,  // some rank has ended everything but leaving and shrinking
        fenced,   // the others take this rank for dead; final
    };

    // References outlive this object. `is_successor`: its caller has yet to claim it.
    Lifecycle(const Members& members, LocalPeers& local_peers, const Subscribers& subscribers, News& news,
              bool is_successor);

    Stage stage() const { return departure_.stage(); }
    bool is_unclaimed() const { return stage() == Stage::unclaimed; }
    // Its caller has not begun to leave.
    bool stays() const { return stage() <= Stage::staying; }
    // The caller waits until it may leave, or it has given up while others may ask this rank.
    bool is_leaving() const { return stage() == Stage::leaving || stage() == Stage::deserting; }
    bool has_left() const { return stage() == Stage::left; }
    // Its caller has it now.
    void claim() { departure_.claim(); }
    // Driven by Leaving.
    protocol::Departure& departure() { return departure_; }
    const protocol::Departure& departure() const { return departure_; }

    // Other ranks that left in peace: everything that they took part in is over for all.
    std::span<const Rank> departed() const { return departure_.departed(); }
    bool has_departed(Rank rank) const { return departure_.has_departed(rank); }
    // A member that has left in peace knew that everything was over for all, although its messages may be lost.
    bool is_settled_by_departure() const { return departure_.is_settled(); }

    Standing standing() const { return standing_; }
    bool is_member() const { return standing_ == Standing::member; }
    bool fenced() const { return standing_ == Standing::fenced; }
    bool revoked() const { return standing_ == Standing::revoked; }
    void note_revoked() {
        standing_ = Standing::revoked;
        news_.familiar().forget();
    }
    // The others take this rank for dead: they refuse what it says and do not wait for it, so nothing here can go on.
    void be_fenced();
    // As far as this rank can know without a message: what it reads of its host's memory may be of later operations already.
    bool taken_for_dead() const;

  private:
    const Members& members_;
    LocalPeers& local_peers_;
    const Subscribers& subscribers_;
    News& news_;
    Standing standing_ = Standing::member;
    protocol::Departure departure_;
};

}  // namespace coppice::engine
