// What a member at one position sends in a broadcast while nobody is known to have failed: a table, made once and used for
// many broadcasts.
//
// Then only one thing is left to what happens: whether a member has been heard from, so that it needs no correction. For
// each point at which a machine may stand, the table has the next message, from which members a word makes it needless, and
// where the machine stands behind it. The table is made by asking a machine, so there is one rule and not two; and a machine
// that learns of a failure goes on from where the table has led it.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/broadcast.hpp"

namespace coppice::protocol {

class Schedule {
  public:
    // Messages of a position that has a table.
    static constexpr std::uint32_t kMost = 32;

    // Corrections that ask for nothing else than which members were heard from, and trees without acknowledgements; checked
    // correction where it has nothing to do. Optimized
    // correction asks for turns; it has tables for positions that have nothing to correct, which under a star are all.
    static bool exists_for(const BroadcastPlan& plan);

    // Allocates all that it will ever need.
    Schedule() { steps_.reserve(kMost + 1); }
    // False, and it is empty, where there is none or it would have too many messages.
    bool make(const BroadcastPlan& plan, Position self);

    // By their numbers, in the order in which they are sent; numbers may be left out.
    std::uint32_t size() const { return static_cast<std::uint32_t>(steps_.size()); }
    // Whether a message has that number.
    bool has(std::uint32_t number) const { return number < size() && !steps_[number].is_end; }
    MessageKind kind(std::uint32_t number) const { return steps_[number].kind; }
    Position to(std::uint32_t number) const { return steps_[number].to; }

  private:
    friend class Broadcast;

    struct Step {
        MessageKind kind = MessageKind::tree;
        bool is_end = false;  // there is nothing more to send
        Position to;
        // The machine's, when this message is sent or needless.
        std::uint32_t child = 0;
        std::uint32_t left = 0;
        std::uint32_t right = 0;
        // Needless when one of these was heard from.
        std::uint64_t heard_left = 0;
        std::uint64_t heard_right = 0;
    };

    std::vector<Step> steps_;
};

inline std::uint32_t Broadcast::next_scheduled(const Schedule& schedule) {
    while (true) {
        const std::uint32_t number = child_ < children_ ? child_ : children_ + left_ + right_;
        const Schedule::Step& step = schedule.steps_[number];
        child_ = step.child;
        left_ = step.left;
        right_ = step.right;
        if (step.is_end) {
            idle_ = true;
            return kNothing;
        }
        if ((heard_left_ & step.heard_left) == 0 && (heard_right_ & step.heard_right) == 0) return number;
    }
}

inline std::optional<Message> Broadcast::next_send(Nanoseconds now, const Schedule& schedule) {
    if (!follows_schedule()) return next_send(now);
    const std::uint32_t number = next_scheduled(schedule);
    if (number == kNothing) return std::nullopt;
    return message(schedule.kind(number), schedule.to(number), 0);
}

}  // namespace coppice::protocol
