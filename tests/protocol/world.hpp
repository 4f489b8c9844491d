// One broadcast in a group, moved by hand: the driver that golden conversations and seeded random tests share. It keeps a
// driver's duties (broadcast.hpp): it refuses the dead, and merges the FailedSet that queries and denials carry.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "protocol/broadcast.hpp"

namespace coppice::protocol::testing {

class World {
  public:
    World(const BroadcastPlan& plan, std::uint32_t root_member);

    std::uint32_t processes() const { return plan_.tree.processes(); }
    bool is_dead(std::uint32_t position) const { return dead_[position]; }
    const Broadcast& machine(std::uint32_t position) const { return *members_[position].machine; }
    std::size_t under_way() const { return bag_.size(); }
    std::uint64_t sent() const { return sent_; }

    // Pulls one message and puts it under way; what was sent, if anything.
    std::optional<Message> pull(std::uint32_t position);
    // The message at `index` under way arrives (or vanishes, or is refused). What arrived, if anything.
    std::optional<Message> deliver(std::size_t index);
    void crash(std::uint32_t position) { dead_[position] = true; }
    // `position` learns of all deaths of which it does not know / of this one.
    void learn_all(std::uint32_t position);
    void learn(std::uint32_t position, std::uint32_t dead);
    bool knows(std::uint32_t position, std::uint32_t dead) const;
    // The acting process of a member dies and another one stands in: what was under way to it is lost, and it has the
    // payload if its predecessor had. Everybody is told.
    void restart(std::uint32_t position);

    // Empty, or which rule was broken on the way: integrity, lost color, a refused message, a verdict against a payload.
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
        std::optional<Broadcast> machine;
    };
    struct UnderWay {
        Message message;
        FailedSet failed;
    };

    std::uint32_t member_of(std::uint32_t position) const;
    void check();

    BroadcastPlan plan_;
    std::uint32_t root_member_;
    std::vector<Member> members_;
    std::vector<bool> dead_;
    std::vector<UnderWay> bag_;
    std::uint64_t sent_ = 0;
    std::string violation_;
};

}  // namespace coppice::protocol::testing
