// Forgetting safely: how far has every live rank consumed?
//
// A payload may be dropped only when every live rank has it, for a rank that is colored may have to serve again after a
// death; neighbours' credits would not show that. So counts ride up a fixed tree of nodes about once per half window
// (each count is the minimum over a subtree) and the root's answer rides down. Nobody starts an operation W or more
// ahead of the answer: that bounds every buffer of the group, and costs no message of its own per broadcast.
//
// On a node the ranks' counts stand in shared memory. The leader of the node, its lowest live rank, reads them and
// reports for it; the others read there what the leader knows to be stable. When the leader dies the next one stands
// in, and the neighbours in the tree say again what may be lost with it. When a node dies its children report to its
// nearest live ancestor; where there is none, to the lowest live node, which is then the top.
//
// Counts between two multiples of half a window are not told unless somebody asks: a rank that is held up (a view is
// not released, a caller stays away) says how far it must be stable for it to go on. That goes to all nodes along the
// tree, and until it is stable every node reports every advance, and the rank that holds it up. So the window reaches W
// beyond the slowest rank whatever that one's count is, and as long as nobody is held up no message is sent for it.
//
// What holds, and is checked by exploring every order of events in small groups
// (simulation/explore/stability_explorer.hpp has the predicates):
//  - Nothing is stable that a live rank has not consumed.
//  - While all live ranks go on, no rank waits for ever: each can start everything, and in the end all is stable.
//  - Where one of them stays away, each rank that is held up is exactly W beyond it, and is told its name.
//
// Counts are monotone, so a late, repeated or reordered message is harmless. A pure machine (machine.hpp), between
// ranks, part of no paper. Allocates when a rank fails, and when a rank asks; never otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/words.hpp"
#include "protocol/roster.hpp"
#include "topology/tree.hpp"

namespace coppice::protocol {

enum class StabilityKind : std::uint8_t {
    up,    // to the parent: every live rank of this subtree has consumed everything before `count`
    down,  // to a child, or to a rank of the node that has asked: the news is in `stable`
    ask,   // somebody can go on only when everything before `count` is stable
};

constexpr bool carries_payload(StabilityKind /*kind*/) {
    return false;
}
std::string_view to_string(StabilityKind kind);

struct StabilityMessage {
    StabilityKind kind = StabilityKind::up;
    Rank from;
    Rank to;
    std::uint64_t count = 0;
    std::uint64_t stable = 0;  // as far as the sender knows; the driver may put in what it knows when it sends
    Rank slowest;              // up: of the subtree, down: of all

    bool operator==(const StabilityMessage&) const = default;
};

// Rules that a test takes away, to see that it is missed. None in what ships.
enum StabilityFault : std::uint8_t {
    kStandInIsNotTold = 1,             // the parent does not tell a node's next leader what is stable
    kReportIsNotRepeated = 2,          // a report that may have died with the parent's leader is not said again
    kChildrenOfTheDeadAreDropped = 4,  // a dead node's children are nobody's
    kCountsOfChildrenAreTrusted = 8,   // a child that has not reported does not hold its parent up
    kAsksAreNotPassedOn = 16,          // an ask stays with the node to which it was said
    kNamesAreNotPassedOn = 32,         // a change of the slowest alone is not told
};

struct StabilityPlan {
    const topology::Nodes* nodes = nullptr;  // outlives the machine; the same at all ranks
    std::uint64_t window = 2;                // nobody starts so many beyond what is stable
    Nanoseconds patience{0};                 // for so long a rank is held up before it asks
    std::uint8_t faults = 0;
};

class Stability {
  public:
    using Message = StabilityMessage;

    Stability(const StabilityPlan& plan, Rank self);

    // --------------------------------------------------------------------------------------------------- facts

    // For a node's leader, and for every rank of a group on one node: every live rank of this node has consumed
    // everything before `count`, and `slowest` no more than that.
    void node_consumed(std::uint64_t count, Rank slowest);
    // Any message of the group says so, or this node's leader in shared memory.
    void learn_stable(std::uint64_t count);
    // False for what can't be.
    bool receive(const StabilityMessage& message);
    void peer_failed(Rank rank);
    // This rank can go on only when everything before `count` is stable. To be said in each round while that lasts.
    void want(std::uint64_t count, Nanoseconds now);
    // From now on every advance is reported at once: the group is about to end.
    void flush();

    // -------------------------------------------------------------------------------------------------- pulled

    std::optional<StabilityMessage> next_send();

    // ------------------------------------------------------------------------------------------------- looking

    std::uint64_t stable() const { return stable_; }
    bool leads() const { return roster_.leads(); }
    // A count is news for others where it passes a multiple of this.
    std::uint64_t step() const { return somebody_is_held_up() ? 1 : step_; }
    // The rank for which the whole group waits, if that is known here; want() finds out. Never one that is known to be
    // dead.
    std::optional<Rank> holder() const;
    // Everything that decides what it does next, without patience: equal words, equal futures.
    void append_state(std::vector<std::uint32_t>& words) const;

  private:
    static constexpr std::uint32_t kNobody = Roster::kNobody;

    struct Report {
        std::uint32_t node = 0;
        std::uint32_t slowest = 0;
        std::uint64_t count = 0;
        bool heard = false;  // else `slowest` is the leader of a node that has said nothing
    };

    bool is_top() const { return parent_ == roster_.own_node(); }
    bool somebody_is_held_up() const { return wanted_ > stable_; }
    bool lacks(StabilityFault rule) const { return (faults_ & rule) != 0; }
    std::uint32_t live_parent(std::uint32_t node) const;
    void find_relatives();
    void relatives_changed();
    void settle();
    void tell_children();
    void tell(std::uint32_t child);
    void report(std::uint32_t node, const StabilityMessage& message);
    void asked(std::uint32_t node, const StabilityMessage& message);
    void want_of(std::uint64_t count, std::uint32_t node);
    void ask_all_but(std::uint32_t node);
    void learn_holder(std::uint32_t holder);
    Report unheard(std::uint32_t node) const;
    Report& report_of(std::uint32_t node);
    std::uint32_t known_holder() const;
    std::optional<StabilityMessage> next_of_tree();
    std::optional<StabilityMessage> next_name();
    StabilityMessage message(StabilityKind kind, std::uint32_t to, std::uint64_t count, std::uint32_t slowest) const;

    Roster roster_;
    topology::Tree tree_;
    std::uint64_t window_;
    Nanoseconds patience_;
    std::uint8_t faults_;
    // Counts are reported when they pass a multiple of it. (Multiples, not growth: nodes whose leaders began at
    // different times would each lag by up to a step, which adds up to more than the window.)
    std::uint64_t step_;
    FailedSet failed_nodes_;
    std::uint32_t parent_ = 0;
    std::vector<std::uint32_t> children_;
    std::vector<std::uint32_t> downs_;  // children that have to be told
    std::vector<std::uint32_t> asks_;   // neighbours that have to be asked
    std::vector<Report> reports_;       // ascending by node: those that it has to do with, of a group's many
    Report local_;
    std::uint64_t least_ = 0;    // of this subtree
    std::uint32_t slowest_ = 0;  // the rank that has it
    // Its node has said so, which a rank that has just become leader may have yet to hear.
    bool slowest_is_known_ = false;
    std::uint64_t reported_ = 0;
    bool report_again_ = false;
    std::uint64_t stable_ = 0;
    std::uint64_t wanted_ = 0;      // by anybody
    std::uint32_t told_ = kNobody;  // the holder, by the parent or by this node's leader, since stable_ advanced

    // This rank's own wait.
    std::uint64_t held_up_at_ = UINT64_MAX;  // what was stable when it was held up last, since
    Nanoseconds held_up_since_{0};
    std::uint64_t asked_for_ = 0;
    std::uint32_t asked_ = kNobody;  // the leader that it has asked for that
    bool ask_leader_ = false;
    // Ranks of this node that wait for a name, the one that they are told, and how many of them have been.
    std::vector<std::uint32_t> askers_;
    std::uint32_t name_ = kNobody;
    std::size_t named_ = 0;
};

}  // namespace coppice::protocol
