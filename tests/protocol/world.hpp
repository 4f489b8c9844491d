// One broadcast in a group, moved by hand: the driver that golden conversations and seeded random tests share. It keeps
// a driver's duties (broadcast.hpp): it refuses the dead, and merges the FailedSet that queries and denials carry. Each
// member has a clock of its own, which goes forward to the next timer only, at any time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "protocol/failure_proof_broadcast.hpp"
#include "protocol/placed_broadcast.hpp"

namespace coppice::protocol::testing {

inline const BroadcastPlan& broadcast_plan(const BroadcastPlan& plan) {
    return plan;
}
inline const BroadcastPlan& broadcast_plan(const FailureProofPlan& plan) {
    return plan.broadcast;
}
inline const BroadcastPlan& broadcast_plan(const PlacedPlan& plan) {
    return plan.core;
}

template <class Machine, class Plan>
class BasicWorld {
  public:
    using Message = typename Machine::Message;

    // Gossip draws by `seed`.
    BasicWorld(const Plan& plan, std::uint32_t root_member, std::uint64_t seed = 0);

    const topology::Tree& tree() const { return broadcast_plan(plan_).tree; }
    std::uint32_t processes() const { return tree().processes(); }
    bool is_dead(std::uint32_t position) const { return dead_[position]; }
    const Machine& machine(std::uint32_t position) const { return *members_[position].machine; }
    std::size_t under_way() const { return bag_.size(); }
    std::uint64_t sent() const { return sent_; }

    // Pulls one message and puts it under way; what was sent, if anything.
    std::optional<Message> pull(std::uint32_t position);
    // The message at `index` under way arrives (or vanishes, or is refused). What arrived, if anything.
    std::optional<Message> deliver(std::size_t index);
    // The member's timer is due; false when it has none.
    bool pass_time(std::uint32_t position);
    // It is `now` for everybody.
    void set_time(std::uint64_t now);
    // The earliest timer of all live members, kNever if there is none.
    Nanoseconds next_timer() const;
    void crash(std::uint32_t position) { dead_[position] = true; }
    // `position` learns of all deaths of which it does not know / of this one.
    void learn_all(std::uint32_t position);
    void learn(std::uint32_t position, std::uint32_t dead);
    bool knows(std::uint32_t position, std::uint32_t dead) const;
    // The leader of a member dies and another one stands in: what was under way to it is lost, and it has the
    // payload if its predecessor had. Everybody is told.
    void restart(std::uint32_t position);

    // Empty, or which rule was broken on the way: integrity, lost color, a refused message, a verdict against a
    // payload.
    const std::string& violation() const { return violation_; }

    // Everything in random order until nothing moves. Deaths are noticed if `detect`.
    void settle(std::mt19937& random, bool detect);
    // One random step; false when there is none.
    bool step(std::mt19937& random, bool detect);

    bool all_live_colored() const;
    bool all_live_ended() const;  // a result, and finished

  private:
    struct Member {
        FailedSet failed;
        std::optional<Machine> machine;
        Nanoseconds now{0};
    };
    struct UnderWay {
        Message message;
        FailedSet failed;
    };

    std::uint32_t member_of(std::uint32_t position) const;
    void check();

    Plan plan_;
    std::uint32_t root_member_;
    std::uint64_t seed_;
    std::vector<Member> members_;
    std::vector<bool> dead_;
    std::vector<UnderWay> bag_;
    std::uint64_t sent_ = 0;
    std::string violation_;
};

extern template class BasicWorld<Broadcast, BroadcastPlan>;
extern template class BasicWorld<FailureProofBroadcast, FailureProofPlan>;
extern template class BasicWorld<PlacedBroadcast, PlacedPlan>;

using World = BasicWorld<Broadcast, BroadcastPlan>;
using FailureProofWorld = BasicWorld<FailureProofBroadcast, FailureProofPlan>;
using PlacedWorld = BasicWorld<PlacedBroadcast, PlacedPlan>;

}  // namespace coppice::protocol::testing
