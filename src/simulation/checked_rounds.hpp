// A shortcut for synchronized checked correction (protocol/correction_checked.cpp).
//
// Who takes part is known from the tree and the dead, and all of them start at one time, when all of the dissemination is over. So time
// goes in rounds of o: in round k everybody who takes part and is not done sends one message. All messages travel equally long, and a
// port serves one of them in each round; what is sent in round k is in line at its receiver in the order of sending, its service begins
// in round b ≥ k, and it is heard in round b + lag at the earliest, where lag = 2 + ⌈L/o⌉.
//
// Before anybody has heard anything, in the rounds 0 … lag − 1, all send the same: 1 to the left, 1 to the right, 2 to the left, …. Nobody
// gets two messages in one of these rounds, so no port is in anybody's way, and those messages need no simulation: who hears of whom
// through them, and which of the members that the tree left out are colored, follows from the distances alone.
//
// Then most are done: who has neighbours on both sides that take part hears of the right one in round lag and of the left one in the
// next, and sends but one more message, to the left. (With an even lag all others do the same in that round, so it counts as one more of
// the equal rounds.) What remains are the edges, members next to a gap: these are gone through, round after round. A message is put into
// its receiver's line as it is sent, since nothing that is sent later can be served before.
#pragma once

#include <cstdint>
#include <vector>

#include "simulation/flat_tree.hpp"
#include "simulation/position_set.hpp"
#include "simulation/shortcut.hpp"

namespace coppice::simulation {

class CheckedRounds final : public Shortcut {
  public:
    static bool applies(const protocol::BroadcastPlan& plan, const LogP& model, const FlatTree& tree);

    CheckedRounds(const protocol::BroadcastPlan& plan, const LogP& model, FlatTree tree);

    const Outcome* run(std::span<const Position> dead, std::uint64_t seed) override;

  private:
    // inner: takes part, as both of its neighbours do. edge: takes part, and one of them does not. out: live, left out by the tree, not
    // colored yet. late: no longer.
    enum class Place : std::uint8_t { inner, edge, out, late, dead };

    struct Gap {
        std::uint32_t first;
        std::uint32_t length;
    };
    struct Edge {
        std::uint32_t position;
        std::uint32_t to_left;  // as far away is the next member that takes part
        std::uint32_t to_right;
        std::uint32_t left;  // as far it has sent
        std::uint32_t right;
        std::uint32_t heard_left = kNobody;  // the nearest heard of
        std::uint32_t heard_right = kNobody;
    };
    struct Heard {
        std::uint32_t edge;
        std::uint32_t offset;
        bool from_left;
    };
    static constexpr std::uint32_t kNobody = UINT32_MAX;

    void start(std::span<const Position> dead);
    void find_gaps();
    void find_edges();
    Edge& edge_at(std::uint32_t position);
    void foresee_hearing();
    void color_beside_edges();
    void take_round(std::uint32_t round);
    void sweep(std::uint32_t round);
    bool send(Edge& edge, std::uint32_t round);
    void deliver(std::uint32_t to, std::uint32_t offset, bool to_left, std::uint32_t round);
    std::vector<Heard>& heard_in(std::uint32_t round);

    std::uint32_t lefts_of_equal_rounds() const { return (equal_rounds_ + 1) / 2; }
    std::uint32_t rights_of_equal_rounds() const { return equal_rounds_ / 2; }
    bool all_of_last_equal_round_vanish() const;
    void conclude(std::span<const Position> dead);
    void count_messages(std::span<const Position> dead);
    Gaps gaps() const;
    std::uint32_t most_received();

    FlatTree tree_;
    Step overhead_;
    Step latency_;
    Step start_;
    std::uint32_t processes_;
    std::uint32_t lag_;
    std::uint32_t equal_rounds_;

    std::vector<Place> places_;
    PositionSet left_out_;  // by the tree, the dead among them
    std::vector<std::uint32_t> open_;
    std::vector<Gap> gaps_;
    std::vector<Edge> edges_;                // ascending
    std::vector<std::uint32_t> edge_at_;     // by position, where there is one
    std::vector<std::uint32_t> sending_;     // edges that are not done, ascending
    std::vector<std::vector<Heard>> heard_;  // by round
    // By position, of what was sent behind the equal rounds.
    std::vector<std::uint32_t> busy_until_;
    std::vector<std::uint32_t> received_;
    // With room at both ends, where the ring goes on: 1 for who takes part; and how many messages of the equal rounds come in.
    std::vector<std::uint8_t> takes_part_;
    std::vector<std::uint8_t> equally_received_;

    std::uint64_t sent_left_ = 0;
    std::uint64_t sent_right_ = 0;
    std::uint32_t missing_ = 0;  // `out` still
    bool any_late_ = false;
    std::uint32_t last_colored_ = 0;  // rounds
    std::uint32_t last_begun_ = 0;
    std::uint32_t last_vanished_ = 0;
    Outcome outcome_;
};

}  // namespace coppice::simulation
