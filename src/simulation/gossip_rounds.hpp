// A shortcut for gossip by time, alone or with opportunistic or checked correction behind it (protocol/baselines/gossip.hpp).
//
// All that gossip has reached (gossip_phase.hpp) start to correct at one time, and send in rounds of o: in even ones to the right, in odd
// ones to the left, to the next neighbour there each time, until their direction is closed. A closed one lets its turns pass and never opens
// again. So in a round all messages go equally far in one direction: nobody gets two of them, and a round is the same few
// operations on a row of members and on the row of their receivers, which lies that far beside it.
//
// A checked direction closes as soon as the first message from there takes effect, as by then its member has sent at least as far
// as that came from: the other way takes as many rounds, and the message has been under way for longer than one. (Later ones come from
// farther away.) An opportunistic one closes when all its corrections are sent.
//
// Members that gossip has left out, and the dead, send nothing. Of two members beside a run of those each sends on into it, in checked
// correction, until it has heard from the other one, and that is from farther away than any of the run. So which message colors a member of the
// run first follows from its distances to both.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "simulation/gossip_phase.hpp"
#include "simulation/shortcut.hpp"

namespace coppice::simulation {

class GossipRounds final : public Shortcut {
  public:
    static bool applies(const protocol::GossipPlan& plan, const LogP& model);

    GossipRounds(const protocol::GossipPlan& plan, const LogP& model);

    const Outcome* run(std::span<const Position> dead, std::uint64_t seed) override;

  private:
    // So many members are looked at at once, or passed by where nobody is open.
    static constexpr std::uint32_t kRow = 64;

    // What all members send in one direction.
    struct Direction {
        std::vector<Round> closes;  // of each position: sends as long as it is sooner; 0 for those who send nothing
        std::vector<std::uint8_t> open;  // of each row: somebody sends
        std::uint64_t messages = 0;
    };

    bool is_checked() const { return kind_ == protocol::GossipKind::checked; }
    void open(Direction& direction) const;
    bool correct();
    bool send(std::uint32_t round);
    bool send_row(std::uint32_t row, std::uint32_t offset, Round now, Direction& own, Direction& other);
    bool send_one_by_one(std::uint32_t row, std::uint32_t offset, Round now, Direction& own, Direction& other);
    void conclude();
    void conclude_run(std::uint32_t first, std::uint32_t length);

    protocol::GossipKind kind_;
    std::uint32_t rounds_;  // of corrections: how many there are at most, or how many may be looked at
    GossipPhase gossip_;
    std::array<Direction, 2> directions_;  // right, left
    Outcome outcome_;
};

}  // namespace coppice::simulation
