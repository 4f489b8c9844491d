// The gossip phase of a broadcast, computed without protocol machines, for shortcuts (shortcut.hpp): when each process is reached, and
// until when its receive port is busy.
//
// Nobody is told of a death, so what a message says changes nothing but whether its receiver has the payload; and the first one that comes to
// a member waits for nobody. So it does not matter in which order the messages of one step are sent. All that have the payload
// send in each step, in the order in which they were reached, which is the order in which their lots lie in memory; a lot is drawn from the
// very word that the machine would draw from.
//
// Time is counted in overheads here. L and T are multiples of o, so everything happens at multiples of it. And corrections begin when all
// gossip has arrived, though some of it may still wait at a port.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/baselines/gossip.hpp"
#include "simulation/model.hpp"
#include "simulation/position_set.hpp"

namespace coppice::simulation {

// A step, in overheads. Signed and short, so that as many as possible are worked on at once.
using Round = std::int16_t;
inline constexpr std::int32_t kLastRound = 1 << 14;  // behind it a run is left to the machines
inline constexpr Round kNeverRound = INT16_MAX;

// Of each position, side by side; the dead, too.
struct Ports {
    std::vector<Round> busy_until;  // the receiving one. Of the dead: when the last message to it has arrived
    std::vector<Round> received;    // 0 for the dead
    std::vector<Round> sent;
    std::vector<Round> live;  // 1, or 0 for the dead

    // A message that arrives now: when it takes effect, or has vanished. Later ones are put here later.
    Round line_up(std::uint32_t to, Round arrival) {
        received[to] = static_cast<Round>(received[to] + live[to]);
        busy_until[to] = static_cast<Round>(std::max(busy_until[to], arrival) + live[to]);
        return busy_until[to];
    }
};

class GossipPhase {
  public:
    static bool applies(const protocol::GossipPlan& plan, const LogP& model);

    GossipPhase(const protocol::GossipPlan& plan, const LogP& model);

    // Afterwards the gossip is over, and ports hold what it leaves behind. `dead` without the root.
    void run(std::span<const Position> dead, std::uint64_t seed);

    std::uint32_t processes() const { return processes_; }
    Round latency() const { return latency_; }
    // When all that were reached begin to correct.
    Round correction_start() const { return static_cast<Round>(limit_ + latency_ + 1); }
    Ports& ports() { return ports_; }
    const PositionSet& reached() const { return reached_; }
    bool is_dead(std::uint32_t position) const { return ports_.live[position] == 0; }

    // The outcome so far, as if it was over now: what ports have been through, who was reached by gossip, and when the last of them was. The
    // corrections sent and who was reached by one are the caller's.
    Outcome conclude() const;
    Step steps(std::int32_t rounds) const { return static_cast<Step>(rounds) * overhead_; }
    std::uint64_t messages() const { return messages_; }

  private:
    void start(std::span<const Position> dead);
    void send(Round now);
    void join(std::uint32_t first, Round at, std::uint64_t seed);

    std::uint32_t processes_;
    Step overhead_;
    Round limit_;    // T
    Round latency_;  // L
    Ports ports_;
    // Those reached, in the order in which they were, or will be soon; and from what each draws.
    std::vector<std::uint32_t> members_;
    std::vector<std::uint64_t> lots_;
    std::uint32_t count_ = 0;
    std::vector<std::uint32_t> senders_;  // of each round: the first so many
    std::uint32_t failed_ = 0;
    Round last_reached_ = 0;
    std::uint64_t messages_ = 0;
    PositionSet reached_;
};

}  // namespace coppice::simulation
