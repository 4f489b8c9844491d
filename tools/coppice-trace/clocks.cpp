#include "clocks.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace coppice::trace {
namespace {

// What happened of one operation, by clock.
struct Happened {
    std::map<std::size_t, std::int64_t> last_entered;  // by ranks that are through it
    std::map<std::size_t, std::int64_t> first_through;
    std::optional<std::pair<std::size_t, std::int64_t>> given;  // a payload by its root
    std::map<std::size_t, std::int64_t> first_here;
};

bool is_for_all(const std::string& of) {
    return of == "agreement" || of == "barrier" || of == "creation";
}

std::string name_of(const Record& facts) {
    const std::string of = facts.value("of", "");
    // Barriers are numbered with agreements, of which they are one kind.
    return (of == "barrier" ? "agreement" : of) + ' ' + facts.value("group", "") + ' ' +
           std::to_string(facts.value("number", std::uint64_t{0}));
}

void keep_least(std::map<std::size_t, std::int64_t>& of, std::size_t clock, std::int64_t ns) {
    const auto [at, is_new] = of.try_emplace(clock, ns);
    if (!is_new) at->second = std::min(at->second, ns);
}
void keep_most(std::map<std::size_t, std::int64_t>& of, std::size_t clock, std::int64_t ns) {
    const auto [at, is_new] = of.try_emplace(clock, ns);
    if (!is_new) at->second = std::max(at->second, ns);
}

using Operations = std::unordered_map<std::string, Happened>;

void gather(Operations& operations, const Trace& trace, std::size_t clock) {
    std::map<std::uint64_t, std::vector<std::int64_t>> calls;  // by thread, those that have not ended
    std::map<std::string, std::int64_t> requests;
    const auto through = [&](const Record& facts, std::int64_t entered, std::int64_t left) {
        if (facts.value("status", 1) != 0 || !is_for_all(facts.value("of", ""))) return;
        Happened& happened = operations[name_of(facts)];
        keep_most(happened.last_entered, clock, entered);
        keep_least(happened.first_through, clock, left);
    };
    for (const Record& record : trace.records) {
        const std::string phase = record.value("ph", "");
        const std::int64_t ns = time_ns(record);
        const std::uint64_t thread = record.value("tid", std::uint64_t{0});
        const Record facts = record.value("args", Record::object());
        if (phase == "B") {
            calls[thread].push_back(ns);
        } else if (phase == "E" && !calls[thread].empty()) {
            through(facts, calls[thread].back(), ns);
            calls[thread].pop_back();
        } else if (phase == "b") {
            requests[name_of(facts)] = ns;
        } else if (phase == "e" && requests.contains(name_of(facts))) {
            through(facts, requests[name_of(facts)], ns);
        } else if (phase == "X" && record.value("cat", "") == "payload") {
            Happened& happened = operations[name_of(facts)];
            if (record.contains("flow_out")) {
                happened.given = {clock, ns};
            } else {
                keep_least(happened.first_here, clock, ns);
            }
        }
    }
}

// least[i][j]: by how much offset[j] - offset[i] is at most. A cause at time a on i, an effect at b on j: a + offset[i] <= b + offset[j].
class Bounds {
  public:
    explicit Bounds(std::size_t clocks) : most_(clocks, std::vector<std::int64_t>(clocks, kUnbounded)) {
        for (std::size_t i = 0; i < clocks; ++i)
            most_[i][i] = 0;
    }
    void before(std::size_t cause, std::int64_t cause_ns, std::size_t effect, std::int64_t effect_ns) {
        if (cause == effect) return;
        ++arrows_;
        lower(most_[effect][cause], effect_ns - cause_ns);
    }
    // False: they contradict each other. Then there is no end to it: each round around the same clocks makes them tighter.
    bool tighten() {
        const std::size_t clocks = most_.size();
        for (std::size_t k = 0; k < clocks; ++k)
            for (std::size_t i = 0; i < clocks; ++i)
                for (std::size_t j = 0; j < clocks; ++j)
                    if (most_[i][k] < kUnbounded && most_[k][j] < kUnbounded)
                        lower(most_[i][j], std::max(most_[i][k] + most_[k][j], -kUnbounded));
        bool consistent = true;
        for (std::size_t i = 0; i < clocks; ++i)
            consistent = consistent && std::exchange(most_[i][i], 0) >= 0;
        return consistent;
    }
    std::int64_t most(std::size_t from, std::size_t to) const { return most_[from][to]; }
    void set(std::size_t from, std::size_t to, std::int64_t difference) {
        most_[from][to] = difference;
        most_[to][from] = -difference;
    }
    std::uint64_t arrows() const { return arrows_; }

  private:
    static void lower(std::int64_t& value, std::int64_t to) { value = std::min(value, to); }

    std::vector<std::vector<std::int64_t>> most_;
    std::uint64_t arrows_ = 0;
};

void add(Bounds& bounds, const Happened& happened) {
    for (const auto& [cause, entered] : happened.last_entered)
        for (const auto& [effect, left] : happened.first_through)
            bounds.before(cause, entered, effect, left);
    if (!happened.given) return;
    for (const auto& [effect, here] : happened.first_here)
        bounds.before(happened.given->first, happened.given->second, effect, here);
}

}  // namespace

Order put_in_order(const std::vector<Trace>& traces) {
    Order order;
    std::vector<std::int64_t> guess;  // by the clocks of the world
    for (const Trace& trace : traces) {
        const auto known = std::ranges::find(order.clocks, trace.clock, &Clock::name);
        order.clock_of.push_back(static_cast<std::size_t>(known - order.clocks.begin()));
        if (known != order.clocks.end()) continue;
        order.clocks.push_back({.name = trace.clock, .host = trace.host});
        guess.push_back(trace.unix_offset_ns);
    }
    Operations operations;
    for (std::size_t i = 0; i < traces.size(); ++i)
        gather(operations, traces[i], order.clock_of[i]);
    Bounds bounds(order.clocks.size());
    for (const auto& [name, happened] : operations)
        add(bounds, happened);
    order.arrows = bounds.arrows();
    order.consistent = bounds.tighten();
    for (std::size_t clock = 1; clock < order.clocks.size(); ++clock) {
        const std::int64_t most = bounds.most(0, clock);
        const std::int64_t least = bounds.most(clock, 0) == kUnbounded ? -kUnbounded : -bounds.most(clock, 0);
        const std::int64_t by_world = std::clamp(guess[clock] - guess[0], 1 - kUnbounded, kUnbounded - 1);
        std::int64_t offset = std::clamp(by_world, std::min(least, most), std::max(least, most));
        if (most < kUnbounded && least > -kUnbounded) offset = least + (most - least) / 2;
        order.clocks[clock].offset_ns = offset;
        order.clocks[clock].least_ns = least == -kUnbounded ? -kUnbounded : least - offset;
        order.clocks[clock].most_ns = most == kUnbounded ? kUnbounded : most - offset;
        bounds.set(0, clock, offset);
        order.consistent = bounds.tighten() && order.consistent;
    }
    return order;
}

}  // namespace coppice::trace
