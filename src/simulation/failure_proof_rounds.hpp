// A shortcut for failure-proof corrected gossip by time (protocol/baselines/failure_proof_gossip.hpp), as long as nobody has to cry SOS.
//
// All that gossip has reached (gossip_phase.hpp), the g-nodes, start to correct at one time. Time goes in rounds of o: in even ones each of
// them sends to the right, in odd ones to the left, if that direction is open. Nobody is told of a death, so what a g-node knows are the
// f + 1 nearest g-nodes on either side, of those that it has heard of. Once it knows so many on one side it learns nothing more there, and
// begins its final round to the other side: it starts anew with its next neighbour. Once both directions are closed it is through.
//
// A message is put into its receiver's line as it is sent, since nothing that is sent later can be served before; it says something when it
// takes effect. Those of one round come in the order of their senders.
//
// Members that gossip has not reached send nothing: once all g-nodes are through they know f + 1 of them. Left to the machines: runs in which a
// g-node goes round all of the ring without finding so many others.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "protocol/baselines/failure_proof_gossip.hpp"
#include "simulation/gossip_phase.hpp"
#include "simulation/shortcut.hpp"

namespace coppice::simulation {

// How many must be known on each side: f + 1.
template <std::uint32_t kKnown>
class FailureProofRounds final : public Shortcut {
  public:
    static bool applies(const protocol::FailureProofGossipPlan& plan, const LogP& model);

    FailureProofRounds(const protocol::FailureProofGossipPlan& plan, const LogP& model);

    const Outcome* run(std::span<const Position> dead, std::uint64_t seed) override;

  private:
    using Offset = std::uint16_t;
    static constexpr Offset kNobody = UINT16_MAX;
    // The nearest g-nodes known on one side, ascending, kNobody behind them.
    using Known = std::array<Offset, kKnown>;
    enum Side : std::uint8_t { kRight, kLeft };

    struct Member {
        std::array<Known, 2> known;
        std::array<Offset, 2> sent;   // how far
        std::array<Offset, 2> limit;  // how far it is to send, as far as is known
        std::array<bool, 2> learned;  // nothing more is to be learned there
        bool is_g_node;
        bool colored;
    };
    // On its way; what the sender knows is on the side that it comes from, seen from the receiver, too.
    struct Correction {
        Offset to;
        Offset offset;
        Known behind;
        Side side;
    };
    // A backlog of so many messages at one port is left to the machines.
    static constexpr std::uint32_t kLines = 256;

    void start();
    bool correct();
    void take_effect(Round now);
    void hear(Member& member, const Correction& correction, Round now);
    bool send(Round now, Side towards);
    bool put_on_the_way(std::uint32_t from, Member& member, Side towards, Round arrival);
    void conclude();
    std::vector<Correction>& line_at(Round time) { return lines_[static_cast<std::uint32_t>(time) % kLines]; }

    std::uint32_t processes_;
    std::uint64_t timeout_;  // in rounds
    GossipPhase gossip_;
    std::vector<Member> members_;
    std::vector<std::uint32_t> sending_;  // ascending
    std::array<std::vector<Correction>, kLines> lines_;
    std::array<std::uint64_t, 2> messages_{};
    Round last_colored_ = 0;
    Round last_effect_ = 0;
    Outcome outcome_;
};

extern template class FailureProofRounds<2>;
extern template class FailureProofRounds<3>;
extern template class FailureProofRounds<4>;
extern template class FailureProofRounds<5>;

}  // namespace coppice::simulation
