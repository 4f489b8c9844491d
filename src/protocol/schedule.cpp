#include "protocol/schedule.hpp"

#include "topology/ring.hpp"

namespace coppice::protocol {

bool Schedule::exists_for(const BroadcastPlan& plan) {
    const CorrectionKind kind = plan.correction.kind;
    const bool is_plain = kind == CorrectionKind::none || kind == CorrectionKind::opportunistic ||
                          kind == CorrectionKind::opportunistic_paper ||
                          kind == CorrectionKind::optimized_opportunistic ||
                          (kind == CorrectionKind::checked && leaves_checked_to_root(plan));
    return is_plain && !plan.correction.synchronized && plan.gossip.rounds == 0;
}

bool Schedule::make(const BroadcastPlan& plan, Position self) {
    steps_.clear();
    const FailedSet nobody;
    Broadcast machine(plan, self, 0, nobody, true);
    const std::uint64_t distance = plan.correction.kind == CorrectionKind::none ? 0 : plan.correction.distance;
    if (machine.children_ + 2 * distance > kMost) return false;
    const std::uint32_t processes = plan.tree.processes();
    while (true) {
        const std::uint32_t number = machine.child_ + machine.left_ + machine.right_;
        const std::optional<Message> next = machine.next_send(Nanoseconds{0});
        // Whether it is sent follows from turns, too. What is needless when nothing was heard stays so whatever is heard.
        if (next && is_correction(next->kind) && plan.correction.kind == CorrectionKind::optimized_opportunistic) {
            steps_.clear();
            return false;
        }
        Step step;
        step.child = machine.child_;
        step.left = machine.left_;
        step.right = machine.right_;
        step.is_end = !next;
        if (next) {
            step.kind = next->kind;
            step.to = next->to;
        }
        if (next && is_correction(next->kind) && plan.correction.kind == CorrectionKind::opportunistic) {
            // As Broadcast::was_heard().
            const std::uint32_t left = topology::distance_left(self, next->to, processes);
            const std::uint32_t right = processes - left;
            if (left <= Broadcast::kRemembered) step.heard_left = std::uint64_t{1} << (left - 1);
            if (right <= Broadcast::kRemembered) step.heard_right = std::uint64_t{1} << (right - 1);
        }
        steps_.resize(number + 1, step);
        // A machine that has reached the end stands behind it.
        if (!next) {
            steps_.resize(machine.child_ + machine.left_ + machine.right_ + 1, step);
            return true;
        }
    }
}

}  // namespace coppice::protocol
