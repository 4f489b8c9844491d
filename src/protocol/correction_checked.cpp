// Checked correction (IPDPS'17 §III.C; PPoPP'19 §3.1), overlapped with the dissemination or synchronized (PPoPP'19
// §3.3).
//
// The intuition: a member that takes part sends outward, one step to the left, one to the right, two to the left, …,
// until it has sent to another one that takes part and has spoken. What lies beyond is that one's business. So the
// members taking part hand the ring over to each other all the way round, and no gap is too long.
//
// Left first, then the less advanced of the directions that are still open (the order of the papers' simulator). A
// member colored by a correction takes no part: the one that colored it covers its place. (Overlapped, it serves its
// children.)
//
// Where everybody is the root's child, as under a star, nothing is sent while the root lives: correction stands in for dead
// members between the root and a target, and there is none. (Synchronized it is as in the papers, and sends.)
//
// Departures: a direction opens again when the member at which it closed has failed, and goes on from where it stood.
// When the root has failed everybody colored takes part, since then the dissemination may never reach anybody else.
#include "protocol/broadcast.hpp"
#include "topology/ring.hpp"

namespace coppice::protocol {

bool leaves_checked_to_root(const BroadcastPlan& plan) {
    return !plan.correction.synchronized && plan.gossip.rounds == 0 &&
           plan.tree.child_count(Position{0}) == plan.tree.processes() - 1;
}

std::optional<Message> Broadcast::next_checked() {
    if (all_are_served_by_root()) return std::nullopt;
    const std::uint32_t left_limit = nearest_left();
    const std::uint32_t right_limit = nearest_right();
    const Position self{self_};
    while (left_ + right_ < processes() - 1) {
        const bool left_open = left_limit == 0 || left_ < left_limit;
        const bool right_open = right_limit == 0 || right_ < right_limit;
        if (!left_open && !right_open) return std::nullopt;
        const bool to_left = left_open && (!right_open || left_ <= right_);
        const Position target = to_left ? topology::left_neighbour(self, ++left_, processes())
                                        : topology::right_neighbour(self, ++right_, processes());
        if (failed(target)) continue;
        return message(to_left ? MessageKind::correction_left : MessageKind::correction_right, target, 0);
    }
    return std::nullopt;
}

}  // namespace coppice::protocol
