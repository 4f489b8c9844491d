// Broadcast on the binomial graph (Angskun, Bosilca, Dongarra; BIG in IPDPS'17 §IV.B): member p has the neighbours p +
// 2^x mod P for all 2^x < P, and a member that gets the payload for the first time sends it to all of its neighbours.
// There are ⌈log2 P⌉ ways from the root to everybody that share no member, so up to ⌈log2 P⌉ − 1 members may be dead,
// before or on the way, without a detector and without a correction. The price: P · ⌈log2 P⌉ messages, always.
//
// The intuition behind the order: among the edges is a binomial tree. A member first serves its children in that tree,
// the one with the largest subtree first, then its other neighbours. So the payload is everywhere no later than by the
// tree alone, (2O + L) · ⌈log2 P⌉ steps, and the last member has sent its messages after ⌈log2 P⌉ · O more: the paper's
// T^BIG. Where a member's own messages are on the way to somebody reached long ago, they are redundant: that is the
// design.
//
// Other readings have a graph whose edges are used both ways, so that a member has the neighbours p ± 2^x and sends twice as much
// (Directions::both, for comparison). Then the neighbours to the left follow those to the right, in the same order, and one that is
// both is served once. For one that was replaced all are served again then.
//
// A pure machine (machine.hpp). Members known to have failed are not sent to. The paper says nothing of more deaths
// than the graph withstands, nor of a dead root; here, so that calls end where that can be known:
//  - A member that has nothing when it learns that the root has failed gives up. Others may have it, and keep it.
//  - So does a member that has nothing and learns that all members that could send to it have failed. One that is cut
//    off together with others is not told, and waits.
//  - A process that takes a failed one's place at a member (peer_restarted, origin_lost) is served as the first was.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "protocol/broadcast.hpp"

namespace coppice::protocol {

enum class BinomialGraphMessageKind : std::uint8_t {
    forward,
    verdict,  // from the process that stands in for the root without its payload, to everybody: nobody has it
};
inline constexpr std::uint8_t kBinomialGraphKinds = 2;

constexpr bool carries_payload(BinomialGraphMessageKind kind) {
    return kind == BinomialGraphMessageKind::forward;
}
constexpr bool is_correction(BinomialGraphMessageKind /*kind*/) {
    return false;
}
constexpr std::string_view to_string(BinomialGraphMessageKind kind) {
    return kind == BinomialGraphMessageKind::forward   ? "forward"
           : kind == BinomialGraphMessageKind::verdict ? "verdict"
                                                       : "unknown";
}

struct BinomialGraphMessage {
    BinomialGraphMessageKind kind = BinomialGraphMessageKind::forward;
    Position from;
    Position to;

    bool operator==(const BinomialGraphMessage&) const = default;
};

// As Broadcast in all that both have (broadcast.hpp); the driver's duties are the same. Allocates nothing.
class BinomialGraph {
  public:
    using Message = BinomialGraphMessage;
    enum class Directions : std::uint8_t { right, both };

    // `self`, `root_member`, `failed`, `has_payload`: as Broadcast's. All members have the same directions.
    BinomialGraph(std::uint32_t processes, Position self, std::uint32_t root_member, const FailedSet& failed,
                  bool has_payload, Directions directions = Directions::right);

    // False when it can't be, also from a member that is no neighbour: ignored.
    bool receive(const BinomialGraphMessage& message);
    void peer_failed(Position position);
    void peer_restarted(Position position);
    void origin_lost();
    std::optional<BinomialGraphMessage> next_send(Nanoseconds now);
    Nanoseconds next_timer() const { return kNever; }

    bool colored() const { return result_ == BroadcastResult::colored; }
    BroadcastResult result() const { return result_; }
    // Colored, and everybody served; or given up, and everybody told where this member has to.
    bool finished() const;

    // ⌈log2 P⌉, the number of everybody's neighbours to the right.
    static std::uint32_t degree(std::uint32_t processes);
    // The neighbour to the right that `self` serves as the `index`-th, 0 ≤ index < degree.
    static Position neighbour(std::uint32_t processes, Position self, std::uint32_t index);

  private:
    bool failed(Position position) const;
    // With both directions the indices from degree on are those to the left.
    std::uint32_t last_index() const { return directions_ == Directions::both ? 2U * degree_ : degree_; }
    Position neighbour(std::uint32_t index) const;
    // To the left, but it was served as one to the right.
    bool is_served_twice(std::uint32_t index) const;
    bool may_be_reached() const;
    void learn_of_failures();
    std::optional<BinomialGraphMessage> next_forward();
    std::optional<BinomialGraphMessage> next_verdict();

    const FailedSet* failed_;
    std::uint32_t processes_;
    std::uint32_t self_;
    std::uint32_t root_member_;
    std::uint32_t resend_ = 0;  // neighbours to the right to be served once more, by index
    std::uint32_t told_ = 0;    // verdict: the last position that was told
    std::uint8_t degree_;
    std::uint8_t sent_ = 0;
    BroadcastResult result_ = BroadcastResult::pending;
    Directions directions_;
};

static_assert(sizeof(BinomialGraph) <= 32, "a machine is half a cache line");
static_assert(Machine<BinomialGraph>);

}  // namespace coppice::protocol
