#include "simulation/checker.hpp"

#include <algorithm>

namespace coppice::simulation {
namespace {

// Words and numbers, one after the other.
template <class... Parts>
std::string say(const Parts&... parts) {
    std::string text;
    const auto add = [&text](const auto& part) {
        if constexpr (requires { text.append(part); }) {
            text.append(part);
        } else if constexpr (requires { part.value; }) {
            text.append(std::to_string(part.value));
        } else {
            text.append(std::to_string(part));
        }
    };
    (add(parts), ...);
    return text;
}

}  // namespace

Step fault_free_checked_latency(const LogP& model) {
    const Step o = model.overhead;
    return 4 * o + model.latency + (model.latency + o - 1) / o * o;
}

Bounds checked_latency_bounds(const LogP& model, std::uint32_t largest_gap) {
    const Step fault_free = fault_free_checked_latency(model);
    return {fault_free + largest_gap * model.overhead, fault_free + (2 * largest_gap + 1) * model.overhead};
}

// Nobody may come round to what was sent the other way before it is stopped: twice the most messages that the proof of
// Lemma 3 counts for one member.
bool is_ring_large_enough(const LogP& model, std::uint32_t processes, std::uint32_t largest_gap) {
    return processes > 2ULL * (2ULL * largest_gap + 4 + model.latency / model.overhead);
}

bool Checker::refuse_sent(Step now, Position sender, Position from, Position to, bool payload) {
    at_ = now;
    if (from != sender) {
        violation_ = say("sense: position ", sender, " sent a message in the name of ", from);
    } else if (to.value >= processes_ || to == sender) {
        violation_ = say("sense: position ", sender, " sent a message to ", to);
    } else if (payload) {
        violation_ = say("integrity: position ", sender, " sent a payload that it does not have");
    }
    return false;
}

bool Checker::refuse_received(Step now, Position from, Position to, bool accepted, bool was_colored) {
    at_ = now;
    if (!accepted) {
        violation_ = say("sense: a message from ", from, " to ", to, " was refused");
    } else if (was_colored) {
        violation_ = say("no duplicates: position ", to, " lost the payload by a message from ", from);
    } else {
        violation_ = say("integrity: position ", to, " has the payload by a message from ", from, " that carries none");
    }
    return false;
}

void Checker::refuse_end(const Outcome& outcome, const std::string& what) {
    at_ = outcome.quiescence_latency;
    violation_ = say("liveness: ", what);
}

void Checker::refuse_unfinished(const Outcome& outcome, Position position) {
    refuse_end(outcome, say("position ", position, " has the payload and never finished"));
}

void Checker::check_left_out(const Outcome& outcome, const std::vector<Position>& expected) {
    const auto [found, named] =
        std::mismatch(outcome.unreached.begin(), outcome.unreached.end(), expected.begin(), expected.end());
    const bool found_any = found != outcome.unreached.end();
    const bool named_any = named != expected.end();
    if (found_any && (!named_any || found->value < named->value)) {
        refuse_end(outcome, say("position ", *found, " was not reached, and by its promise it is"));
    } else if (named_any) {
        refuse_end(outcome, say("position ", *named, " was reached, and by the promise it is left out"));
    }
}

void Checker::check_outcome(const Outcome& outcome) {
    if (!outcome.unreached.empty()) {
        const std::size_t missing = outcome.unreached.size();
        const Position first = outcome.unreached.front();
        if (promise_.covers && outcome.gaps.largest <= *promise_.covers) {
            refuse_end(outcome, say(missing, " live positions were not reached, ", first,
                                    " the first of them; the largest ", "gap was ", outcome.gaps.largest));
        } else if (promise_.all_or_none && outcome.reached > 0) {
            refuse_end(outcome, say(outcome.reached, " live positions have the payload and ", missing, " have not, ",
                                    first, " the first of them"));
        }
        return;
    }
    if (!promise_.lemma3_start || !is_ring_large_enough(model_, processes_, outcome.gaps.largest)) return;
    const Bounds bounds = checked_latency_bounds(model_, outcome.gaps.largest);
    const Step lasted = outcome.quiescence_latency - *promise_.lemma3_start;
    if (lasted >= bounds.least && lasted <= bounds.most) return;
    at_ = outcome.quiescence_latency;
    violation_ = say("Lemma 3: correction lasted ", lasted, " steps, not ", bounds.least, " to ", bounds.most,
                     ", with a largest gap of ", outcome.gaps.largest);
}

}  // namespace coppice::simulation
