#include "protocol/gossip_time.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace coppice::protocol {
namespace {

constexpr std::uint32_t kLongestTime = 1'000'000;

// c(t) as Equation 1 grows it, one step at a time. A message that is sent at t colors at t + delay.
class Growth {
  public:
    Growth(double processes, double active, std::uint32_t step, std::uint32_t delay)
        : active_(active), missed_(1 - 1 / (processes - 1)), step_(step), delay_(delay), reached_(1, 1.0) {}

    double at(std::uint64_t time) {
        while (reached_.size() <= time)
            grow();
        return reached_[time];
    }

    const std::vector<double>& until(std::uint64_t time) {
        at(time);
        return reached_;
    }

  private:
    void grow() {
        const std::size_t now = reached_.size();
        const double before = now < step_ ? 1.0 : reached_[now - step_];
        const double senders = now < delay_ ? 0.0 : reached_[now - delay_];
        reached_.push_back(before + (active_ - before) * (1 - std::pow(missed_, senders)));
    }

    double active_;
    double missed_;
    std::uint32_t step_;
    std::uint32_t delay_;
    std::vector<double> reached_;
};

// How a kind's total depends on T and on the length of the longest run, and how that length is found.
struct Goal {
    GossipKind kind;
    std::uint32_t processes;
    double active;
    double delta;
    std::uint32_t failures;
    std::uint32_t overhead;
    std::uint64_t
        tail;  // from the last gossip's send to its reception: L + O; the correction's last message costs the same

    std::uint64_t total(std::uint64_t time, std::uint64_t length) const {
        switch (kind) {
            case GossipKind::gossip:
                return time + tail;
            case GossipKind::opportunistic:
                return time + 2 * tail + length * overhead;
            case GossipKind::checked:
                return time + 2 * tail + 2 * length * overhead;
            case GossipKind::failure_proof:
                break;
        }
        // T + 4·Ē·O + L − 13·O, and L = tail − O.
        const std::uint64_t sum = time + 4 * length * overhead + tail;
        const std::uint64_t less = std::uint64_t{14} * overhead;
        return sum > less ? sum - less : 0;
    }

    GossipTime at(std::uint32_t time, double reached) const {
        GossipTime result;
        result.time = time;
        if (kind == GossipKind::gossip) {
            result.unreached = std::max(active - reached, 0.0);
        } else if (kind == GossipKind::failure_proof) {
            const std::uint32_t ones = 2 * failures + 3;
            result.length = longest_chain(processes, reached, ones, delta);
            result.unreached = probability_of_longer_chain(processes, reached, ones, result.length);
        } else {
            result.length = longest_gap(processes, reached, delta);
            result.unreached = probability_of_longer_gap(processes, reached, result.length);
        }
        result.total = total(time, result.length);
        return result;
    }
};

tl::expected<GossipTime, std::string> first_without_remainder(const Goal& goal, Growth& growth) {
    for (std::uint32_t time = 0; time <= kLongestTime; time += goal.overhead) {
        const GossipTime one = goal.at(time, growth.at(time + goal.tail));
        if (one.unreached < goal.delta) return one;
    }
    return tl::unexpected<std::string>("no gossip of up to a million steps is that reliable");
}

// Where gossip has hardly begun chains are as long as the ring: nothing to be found there, and much to be summed.
bool too_early(const Goal& goal, double reached) {
    return goal.kind == GossipKind::failure_proof && reached * 16 < goal.active;
}

tl::expected<GossipTime, std::string> choose(const Goal& goal, Growth& growth) {
    if (goal.kind == GossipKind::gossip) return first_without_remainder(goal, growth);
    GossipTime best;
    best.total = std::numeric_limits<std::uint64_t>::max();
    for (std::uint32_t time = 0; time <= kLongestTime && goal.total(time, 0) <= best.total; time += goal.overhead) {
        const double reached = growth.at(time + goal.tail);
        if (too_early(goal, reached)) continue;
        const GossipTime one = goal.at(time, reached);
        if (one.total < best.total || (one.total == best.total && one.unreached < best.unreached)) best = one;
    }
    return best;
}

std::string complaint(std::uint32_t processes, std::uint32_t active, double delta) {
    if (processes < 2) return "gossip needs two processes at least";
    if (active < 1 || active > processes) return "of the processes, 1 to all may be active";
    if (!(delta > 0 && delta < 1)) return "the probability to be tolerated must lie between 0 and 1";
    return {};
}

// Σ over i > length of −N·ln(1 − p(i)), p(i) = r²·u^i, r and u = 1 − r the shares of reached and unreached members: the
// logarithm as its series, each of whose terms is a geometric sum.
double exponent_of_longer_gap(double processes, double reached, double length) {
    const double share = std::clamp(reached / processes, 0.0, 1.0);
    const double rest = 1 - share;
    if (rest <= 0 || length + 1 >= processes) return 0;
    double sum = 0;
    for (int power = 1; power <= 200; ++power) {
        const double ratio = std::pow(rest, power);
        const double first = std::pow(share * share, power) * std::pow(rest, power * (length + 1));
        const double count = processes - 1 - length;
        const double terms = -std::expm1(count * power * std::log(rest)) / (1 - ratio);
        const double term = first * terms / power;
        sum += term;
        if (term <= sum * 1e-16) break;
    }
    return processes * sum;
}

// q(G, V) for rising G: −N·ln(1 − q).
class ChainTerms {
  public:
    ChainTerms(double processes, double reached, std::uint32_t ones) : processes_(processes), ones_(ones) {
        const double share = std::clamp(reached / processes, 0.0, 1.0);
        rest_ = 1 - share;
        term_ = std::pow(share, ones);
    }

    // All terms from G = V on that matter: beyond them less than a millionth of delta is left, or the ring ends.
    std::vector<double> all(double enough) {
        std::vector<double> terms;
        double length = ones_;
        while (length < processes_) {
            terms.push_back(-processes_ * std::log1p(-std::min(term_, 1 - 1e-15)));
            const double ratio = rest_ * (length - 1) / (length + 1 - ones_);
            if (ratio < 1 && terms.back() * ratio / (1 - ratio) < enough) break;
            term_ *= ratio;
            length += 1;
        }
        return terms;
    }

  private:
    double processes_;
    double ones_;
    double rest_ = 0;
    double term_ = 0;
};

}  // namespace

std::vector<double> expected_reached(const GossipModel& model, std::uint32_t until) {
    Growth growth(model.processes, model.active, model.overhead, model.latency + 2 * model.overhead);
    std::vector<double> reached = growth.until(until);
    reached.resize(std::size_t{until} + 1);
    return reached;
}

// A message of round r colors a member whose own first one is of round r + 1 + hop.
std::vector<double> expected_reached_by_rounds(std::uint32_t processes, std::uint32_t active, std::uint32_t hop,
                                               std::uint32_t until) {
    Growth growth(processes, active, 1, 1 + hop);
    std::vector<double> reached = growth.until(until);
    reached.resize(std::size_t{until} + 1);
    return reached;
}

double probability_of_longer_gap(std::uint32_t processes, double reached, std::uint32_t length) {
    return -std::expm1(-exponent_of_longer_gap(processes, reached, length));
}

std::uint32_t longest_gap(std::uint32_t processes, double reached, double delta) {
    std::uint32_t enough = processes - 1;
    // So few cannot leave gaps that are all shorter than the average one.
    auto low = static_cast<std::uint32_t>(std::clamp(processes / std::max(reached, 1.0) - 1, 0.0, enough + 0.0));
    while (low < enough) {
        const std::uint32_t middle = low + (enough - low) / 2;
        if (probability_of_longer_gap(processes, reached, middle) < delta) {
            enough = middle;
        } else {
            low = middle + 1;
        }
    }
    return enough;
}

double probability_of_longer_chain(std::uint32_t processes, double reached, std::uint32_t reached_ones,
                                   std::uint32_t length) {
    const std::vector<double> terms = ChainTerms(processes, reached, reached_ones).all(1e-16);
    double sum = 0;
    for (std::size_t i = terms.size(); i-- > 0 && i + reached_ones > length;)
        sum += terms[i];
    return -std::expm1(-sum);
}

std::uint32_t longest_chain(std::uint32_t processes, double reached, std::uint32_t reached_ones, double delta) {
    const std::vector<double> terms = ChainTerms(processes, reached, reached_ones).all(delta * 1e-6);
    double sum = 0;
    std::size_t beyond = terms.size();
    while (beyond > 0 && -std::expm1(-(sum + terms[beyond - 1])) < delta)
        sum += terms[--beyond];
    return static_cast<std::uint32_t>(beyond) + reached_ones - 1;
}

tl::expected<GossipTime, std::string> choose_gossip_time(GossipKind kind, const GossipModel& model, double delta,
                                                         std::uint32_t failures) {
    if (std::string why = complaint(model.processes, model.active, delta); !why.empty()) return tl::unexpected(why);
    if (model.overhead == 0) return tl::unexpected<std::string>("the overhead must be 1 at least");
    const std::uint64_t tail = std::uint64_t{model.latency} + model.overhead;
    if (tail > kLongestTime) return tl::unexpected<std::string>("latency and overhead must be below a million steps");
    Growth growth(model.processes, model.active, model.overhead, model.latency + 2 * model.overhead);
    return choose({kind, model.processes, double(model.active), delta, failures, model.overhead, tail}, growth);
}

tl::expected<GossipTime, std::string> choose_gossip_rounds(GossipKind kind, std::uint32_t processes,
                                                           std::uint32_t active, std::uint32_t hop, double delta,
                                                           std::uint32_t failures) {
    if (std::string why = complaint(processes, active, delta); !why.empty()) return tl::unexpected(why);
    if (hop > kLongestTime) return tl::unexpected<std::string>("a hop must cost less than a million rounds");
    Growth growth(processes, active, 1, 1 + hop);
    return choose({kind, processes, double(active), delta, failures, 1, hop}, growth);
}

double delta_for(double reliability, double broadcasts) {
    return -std::expm1(std::log(reliability) / broadcasts);
}

}  // namespace coppice::protocol
