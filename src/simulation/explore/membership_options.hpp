// What the callers of random schedules ask of a view, and what they may expect of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "protocol/membership/membership.hpp"
#include "simulation/random.hpp"

namespace coppice::simulation {

// Of one schedule. Most callers ask for the same; some for other things, and in some schedules some for nothing.
class DrawnOptions {
  public:
    void draw(Random& random, std::uint32_t ranks, std::string& scenario) {
        some_shrink_ = random.one_in(2);
        some_ask_for_nothing_ = random.one_in(2);
        oddness_ = 2 + random.below(4 * ranks);
        bounds_.least = random.below(ranks + 3);
        if (random.one_in(2)) bounds_.most = bounds_.least + random.below(ranks + 3);
        scenario += ", options, at least " + std::to_string(bounds_.least);
        if (bounds_.most != protocol::Bounds().most) scenario += " and at most " + std::to_string(bounds_.most);
        if (some_shrink_) scenario += ", some shrink";
        if (some_ask_for_nothing_) scenario += ", some ask for nothing";
    }
    // One call's. No bounds: the others'.
    void draw_call(Random& random, bool leaves, protocol::Terms& terms, std::optional<protocol::Bounds>& bounds) const {
        const bool shrinks = some_shrink_ && random.one_in(3);
        const bool asks = !shrinks && (!some_ask_for_nothing_ || !random.one_in(2));
        const bool is_odd = random.one_in(leaves ? 2 : oddness_);
        terms = asks ? protocol::Terms(bounds_, is_odd ? 1 : 0) : protocol::Terms();
        bounds.reset();
        if (asks) bounds = bounds_;
        if (shrinks) bounds = protocol::Bounds{.least = 0, .most = 0};
    }

  private:
    bool some_shrink_ = false;
    bool some_ask_for_nothing_ = false;
    std::uint32_t oddness_ = 1;  // one caller in so many asks for other things
    protocol::Bounds bounds_;
};

// What was asked for in a view, the dead included.
struct AskedOptions {
    protocol::Terms all{};
    std::map<std::uint32_t, protocol::Bounds> bounds{};  // by process, of those that have any

    // Why the next view has not as many members as it may; empty: it has. `is_out`: a process has died, and is not in it.
    template <class IsOut>
    std::string objection(const protocol::View& view, bool has_newcomers, IsOut&& is_out) const {
        // Nobody needs to have heard of what the dead have asked for, but a root may go by it.
        std::uint32_t least = UINT32_MAX;
        std::uint32_t most = 0;
        bool is_said = false;  // by one of whom all have heard
        for (const auto& [process, asked] : bounds) {
            most = std::max(most, asked.most);
            if (is_out(process)) continue;
            least = std::min(least, asked.least);
            is_said = is_said || asked.most > 0;
        }
        if (least != UINT32_MAX && view.count() < least) return " has a view with fewer members than all wait for";
        if (is_said && has_newcomers && view.count() > most) return " has a view with more members than any wants";
        return {};
    }
};

}  // namespace coppice::simulation
