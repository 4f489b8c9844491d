// Walks every schedule of a small world of machines: whatever may happen next is tried, in every state, and no state is
// entered twice.
//
// A World is a value that can be copied, with
//   void moves(std::vector<Move>& moves) const      all that may happen now
//   void make(const Move& move)                     one of these happens
//   std::string describe(const Move& move) const    for people, before it is made
//   std::string broken() const                      empty, or what a driver must never see; found while a move was made
//   std::string check() const                       in every state: empty, or the promise that is broken
//   std::string check_end() const                   the same in states in which nothing is left that has to happen
//   std::uint64_t hash() const                      equal hashes are taken for equal states
// Deaths may happen and need not; everything else happens sooner or later, so a state is an end when only deaths are
// left. A way back into a state through which the way has come is a circle: then somebody may be waited for for ever.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simulation/explore/seen.hpp"

namespace coppice::simulation {

struct Move {
    std::uint8_t kind = 0;
    std::uint8_t rank = 0;
    std::uint16_t detail = 0;
    bool has_to = true;  // it happens sooner or later, whatever else does
};

struct WalkResult {
    std::uint64_t states = 0;
    std::uint64_t moves = 0;
    std::uint64_t ends = 0;
    bool complete = true;   // false: there were more states than allowed
    std::string violation;  // empty, or the promise that is broken
    std::vector<std::string> way;
    bool shortest = false;
};

// What is broken, and the way to it, a step a line.
inline std::string text_of(const WalkResult& result) {
    std::string text = result.violation;
    for (const std::string& step : result.way)
        text.append("\n  ").append(step);
    return text;
}

// A part of a world, shared by all worlds in which it is the same, and its hash. T has append_state(words).
template <class T>
class Shared {
  public:
    explicit Shared(T value) : box_(std::make_shared<Box>(std::move(value))) {}
    const T& operator*() const { return box_->value; }
    const T* operator->() const { return &box_->value; }
    T& change() {
        if (box_.use_count() > 1) box_ = std::make_shared<Box>(box_->value);
        box_->hash = 0;
        return box_->value;
    }
    std::uint64_t hash() const {
        if (box_->hash != 0) return box_->hash;
        thread_local std::vector<std::uint32_t> words;
        words.clear();
        box_->value.append_state(words);
        box_->hash = hash_bytes(words.data(), words.size() * sizeof words[0], 7) | 1;
        return box_->hash;
    }

  private:
    struct Box {
        explicit Box(T with) : value(std::move(with)) {}
        T value;
        std::uint64_t hash = 0;
    };
    std::shared_ptr<Box> box_;
};

template <class World>
class Walk {
  public:
    Walk(World start, std::uint64_t max_states) : start_(std::move(start)), max_states_(max_states) {}

    // Every state, or a shortest way to a broken promise if there is one.
    WalkResult run() {
        in_depth(start_, 0);
        result_.states = seen_.count();
        if (result_.violation.empty()) return result_;
        result_.way = told(way_);
        if (circles_) return result_;
        const WalkResult found = in_breadth();
        return found.violation.empty() ? result_ : found;
    }

  private:
    static constexpr std::uint32_t kDeepest = 20'000;

    bool fail(const std::string& what) {
        result_.violation = what;
        return false;
    }

    bool in_depth(const World& world, std::uint32_t depth) {
        const std::uint64_t hash = world.hash();
        switch (seen_.enter(hash)) {
            case Seen::Found::known:
                return true;
            case Seen::Found::on_the_way:
                circles_ = true;
                return fail("the ranks can go round in circles");
            case Seen::Found::is_new:
                break;
        }
        if (seen_.count() > max_states_ || depth > kDeepest) {
            result_.complete = false;
            return false;
        }
        if (const std::string wrong = world.check(); !wrong.empty()) return fail(wrong);
        std::vector<Move> moves;
        world.moves(moves);
        if (is_end(moves)) {
            ++result_.ends;
            if (const std::string wrong = world.check_end(); !wrong.empty()) return fail(wrong);
        }
        for (const Move& move : moves) {
            ++result_.moves;
            World next = world;
            way_.push_back(move);
            next.make(move);
            if (const std::string wrong = next.broken(); !wrong.empty()) return fail(wrong);
            if (!in_depth(next, depth + 1)) return false;
            way_.pop_back();
        }
        seen_.leave(hash);
        return true;
    }

    static bool is_end(const std::vector<Move>& moves) {
        return std::ranges::none_of(moves, [](const Move& move) { return move.has_to; });
    }

    std::vector<std::string> told(const std::vector<Move>& steps) const {
        std::vector<std::string> lines;
        World world = start_;
        for (const Move& step : steps) {
            lines.push_back(world.describe(step));
            world.make(step);
        }
        return lines;
    }

    WalkResult in_breadth() {
        struct Node {
            std::uint32_t parent;
            Move move;
        };
        struct Open {
            World world;
            std::uint32_t node;
        };
        WalkResult found;
        Seen seen;
        std::vector<Node> nodes{{0, {}}};
        std::deque<Open> open{{start_, 0}};
        seen.enter(start_.hash());
        std::uint32_t last = 0;
        std::vector<Move> moves;
        while (!open.empty() && found.violation.empty() && nodes.size() < max_states_) {
            const Open entry = std::move(open.front());
            open.pop_front();
            moves.clear();
            entry.world.moves(moves);
            last = entry.node;
            found.violation = entry.world.check();
            if (found.violation.empty() && is_end(moves)) found.violation = entry.world.check_end();
            for (auto move = moves.begin(); move != moves.end() && found.violation.empty(); ++move) {
                World next = entry.world;
                next.make(*move);
                found.violation = next.broken();
                if (found.violation.empty() && seen.enter(next.hash()) != Seen::Found::is_new) continue;
                nodes.push_back({entry.node, *move});
                last = static_cast<std::uint32_t>(nodes.size() - 1);
                open.push_back({std::move(next), last});
            }
        }
        std::vector<Move> steps;
        for (std::uint32_t node = last; node != 0; node = nodes[node].parent)
            steps.push_back(nodes[node].move);
        std::ranges::reverse(steps);
        found.way = told(steps);
        found.states = seen.count();
        found.shortest = true;
        return found;
    }

    World start_;
    std::uint64_t max_states_;
    Seen seen_;
    std::vector<Move> way_;
    bool circles_ = false;
    WalkResult result_;
};

}  // namespace coppice::simulation
