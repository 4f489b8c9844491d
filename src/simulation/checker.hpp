// What must hold in every run, whatever the machines are (PPoPP'19 §2.1), and what the protocol under test promises
// besides. Knows nothing of how runs are made. Stops a run at the first violation.
//
//  integrity       only a member that has the payload sends it; no member has it but by a message that carries it
//  no duplicates   a member that has the payload never loses it, so that it is delivered once
//  liveness        as far as promised: every live member is reached; or all but those that a predicate names; or all
//                  or none; and all come to an end
//  sense           messages name their sender, go to another member of the group, and are what their receiver can
//                  expect
//  Lemma 3         synchronized checked correction lasts as long as PPoPP'19 says for the largest gap
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "simulation/simulation.hpp"

namespace coppice::simulation {

// What a protocol promises under the faults of one run.
struct Promise {
    // Every live position is reached if no gap is longer than this; nothing if not promised.
    std::optional<std::uint32_t> covers{};
    // Exactly these live positions, ascending, are not reached (reach.hpp), where `disseminated` says which members the
    // dissemination itself reached. Empty if no more is promised than the rest says.
    using Disseminated = std::function<bool(Position)>;
    std::function<std::vector<Position>(const Disseminated& disseminated)> leaves_out{};
    bool all_or_none = false;  // every live position is reached or none
    bool finishes = false;     // when nothing is due any more, every live machine that is colored has finished()
    bool refuses_nothing = false;
    std::optional<Step> lemma3_start{};  // when correction starts; the bounds of Lemma 3 hold
};

inline constexpr std::uint32_t kAnyGap = UINT32_MAX;

// Lemma 2 and Lemma 3, for o = g. The paper prints the first as 4o + L + floor(L / o) o, and Corollary 1 as 3 + floor(L
// / o) messages. Where o divides L this is the same. Where it does not, a member's port falls free after 3 + floor(L /
// o) messages just before the message arrives that stops it, and it sends one more, which the proof overlooks: then L /
// o is to be rounded up, in all three.
Step fault_free_checked_latency(const LogP& model);
struct Bounds {
    Step least = 0;
    Step most = 0;
};
Bounds checked_latency_bounds(const LogP& model, std::uint32_t largest_gap);
// Lemma 3 assumes a ring much larger than the gap: whether it is.
bool is_ring_large_enough(const LogP& model, std::uint32_t processes, std::uint32_t largest_gap);

class Checker : public Onlooker {
  public:
    void expect(const LogP& model, std::uint32_t processes, const Promise& promise) {
        model_ = model;
        processes_ = processes;
        promise_ = promise;
        violation_.clear();
        at_ = 0;
        silent_ = false;
    }
    // Objects to nothing in the next run.
    void expect_nothing() {
        violation_.clear();
        silent_ = true;
    }

    // What is wrong, in a sentence; empty if nothing is.
    const std::string& violation() const { return violation_; }
    Step violated_at() const { return at_; }

    template <class Message>
    bool sent(Step now, Position sender, const Message& message, bool sender_colored) {
        if (message.from == sender && message.to.value < processes_ && message.to != sender &&
            (sender_colored || !carries_payload(message.kind))) [[likely]] {
            return true;
        }
        return silent_ || refuse_sent(now, sender, message.from, message.to, carries_payload(message.kind));
    }

    template <class Message>
    bool received(Step now, const Message& message, bool accepted, bool was_colored, bool colored) {
        if ((accepted || !promise_.refuses_nothing) && colored == was_colored) [[likely]]
            return true;
        if (accepted && colored && carries_payload(message.kind)) return true;
        return silent_ || refuse_received(now, message.from, message.to, accepted, was_colored);
    }

    template <class Run>
    void ended(const Run& run, const Outcome& outcome) {
        if (silent_) return;
        check_outcome(outcome);
        if (promise_.leaves_out && violation_.empty()) {
            check_left_out(outcome, promise_.leaves_out([&run](Position at) { return run.is_disseminated(at); }));
        }
        if (!promise_.finishes || !violation_.empty()) return;
        for (std::uint32_t position = 0; position < processes_; ++position) {
            const Position at{position};
            if (run.is_dead(at) || !run.is_colored(at) || run.machine(at).finished()) continue;
            refuse_unfinished(outcome, at);
            return;
        }
    }

  private:
    bool refuse_sent(Step now, Position sender, Position from, Position to, bool payload);
    bool refuse_received(Step now, Position from, Position to, bool accepted, bool was_colored);
    void refuse_end(const Outcome& outcome, const std::string& what);
    void refuse_unfinished(const Outcome& outcome, Position position);
    void check_outcome(const Outcome& outcome);
    void check_left_out(const Outcome& outcome, const std::vector<Position>& expected);

    LogP model_;
    std::uint32_t processes_ = 0;
    Promise promise_;
    std::string violation_;
    Step at_ = 0;
    bool silent_ = false;
};

}  // namespace coppice::simulation
