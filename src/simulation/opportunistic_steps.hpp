// A shortcut for overlapped opportunistic and optimized opportunistic correction in both directions
// (protocol/correction_opportunistic.cpp), step by step.
//
// Nobody is told of a death, so a member's targets on the ring are its d neighbours on either side, in a fixed order: one to the right,
// one to the left, two to the right, …. All that it learns are reasons not to send to some of them, and it never unlearns one: a neighbour
// has spoken, is the root's child or its own, or another one surely covers it. So a member is a word of bits, those targets that need
// nothing, and how far it has come; its next target is the first other bit from there on. What a message adds to the word depends on
// nothing but where it comes from and whose turn is first, and is looked up.
//
// All messages travel equally long, and each is put into its receiver's line as it is sent: nothing that is sent later can be served
// before. What is left for later is only what a message says, when it takes effect.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "simulation/flat_tree.hpp"
#include "simulation/position_set.hpp"
#include "simulation/shortcut.hpp"

namespace coppice::simulation {

class OpportunisticSteps final : public Shortcut {
  public:
    static bool applies(const protocol::BroadcastPlan& plan, const LogP& model, const FlatTree& tree);

    OpportunisticSteps(const protocol::BroadcastPlan& plan, const LogP& model, FlatTree tree);

    const Outcome* run(std::span<const Position> dead, std::uint64_t seed) override;

  private:
    // Targets by number, in the order of sending: 2i − 2 is i to the right, 2i − 1 is i to the left.
    using Targets = std::uint16_t;
    static constexpr std::uint32_t kMostTargets = 16;

    struct Member {
        Step busy_until = 0;  // its receiving port
        std::uint16_t turn = 0;
        Targets needless = 0;          // targets that need nothing
        std::uint16_t child = 0;       // the next one to send to
        std::uint8_t target = 0;       // the next one to look at
        std::uint8_t corrections = 0;  // sent
        std::uint8_t received = 0;
        bool dead = false;
        bool colored = false;
    };
    static_assert(sizeof(Member) == 16);
    struct Correction {
        std::uint32_t to;
        std::uint16_t turn;
        std::uint16_t from;  // as a target's number, seen from the receiver
    };
    // What takes effect in one step; no more than one message for each member, as a port serves one at a time.
    struct Effects {
        explicit Effects(std::uint32_t processes)
            : of_tree(std::make_unique_for_overwrite<std::uint32_t[]>(processes)),
              of_ring(std::make_unique_for_overwrite<Correction[]>(processes)) {}

        std::unique_ptr<std::uint32_t[]> of_tree;  // receivers
        std::unique_ptr<Correction[]> of_ring;
        std::uint32_t tree_count = 0;
        std::uint32_t ring_count = 0;
    };
    // The targets that a receiver leaves to others because of a message from there, by whose turn is first.
    enum Order : std::uint8_t { kSenderFirst, kSameTurn, kReceiverFirst };
    using Reasons = std::array<Targets, 3>;

    void prepare_targets(bool is_optimized);
    void prepare_members();
    void start(std::span<const Position> dead);
    void take_effect(Step now);
    void learn(Member& member, const Correction& correction);
    void color(std::uint32_t position, Member& member, Step now);
    void send_down(Step now);
    void send_around(Step now);
    Effects* line_up(std::uint32_t to, Step arrival);
    Agenda& due(std::vector<Agenda>& agendas, Step step) { return agendas[step & (agendas.size() - 1)]; }
    Effects& effects_at(Step step) { return effects_[step & (effects_.size() - 1)]; }
    void conclude(std::span<const Position> dead);

    FlatTree tree_;
    Step overhead_;
    Step latency_;
    std::uint32_t processes_;
    std::uint32_t targets_;  // of each member, 2d
    bool takes_turns_ = false;
    std::array<Reasons, kMostTargets> reasons_{};
    std::array<std::int32_t, kMostTargets> offsets_{};
    std::vector<Member> fresh_;           // before the start
    std::vector<Targets> heard_by_tree_;  // where the parent is one of the targets

    std::vector<Member> members_;
    PositionSet disseminated_;
    // By step, in rings of 2^n: whose port is free then, and what takes effect.
    std::vector<Agenda> down_;
    std::vector<Agenda> around_;
    std::vector<Effects> effects_;
    Step last_ = 0;  // something is due then, and nothing later
    Outcome outcome_;
};

}  // namespace coppice::simulation
