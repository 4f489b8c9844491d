// The exhaustive explorer: every order of sends and receptions, every crash point, every order in which survivors learn
// of a death and in which timers fire, for one broadcast in a group of up to eight. The machines are those that ship.
//
// A state is the bytes of all machines, what each member knows of the dead, its clock, and the messages under way (an
// unordered bag: no channel keeps an order, unless in_order). A state that was seen is not entered again. From each
// state the explorer takes every step:
//  - one member sends the next message;
//  - one message is received;
//  - one member crashes, while the budget lasts: between any two events, also between two sends;
//  - one live member notices the death of another;
//  - one member's clock is set forward to its timer.
// Messages from the dead can be received until their receiver knows of the death; messages to the dead vanish.
//
// What is explored is a Subject:
//
//   using Machine                         as in machine.hpp, its states comparable by their bytes
//   static uint64_t encode(message),      `from` in the bits 48 … 55, `to` in 40 … 47; the bits 32 … 39 stay 0, and for
//     decode(code)                        in_order 20 … 27, too
//   static bool carries_set(message)      it brings its sender's FailedSet along
//   static string describe(message)       for people
//   void build(void* where, position,     constructs a machine
//     failed)
//   bool end_is_final()                   without notices, nothing changes a member that is colored and finished
//   bool is_monotone()                    without notices, a message that changes nothing at its receiver now never
//                                         will; and it makes no difference when nothing is pulled
//   string check(machines)                in every state: empty, or what is wrong. nullptr stands for a dead member,
//                                         and for one that is colored and finished for good (retired)
//   string check_final(machines,          the same in every state in which nothing more can happen
//     retired, result)
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/mix.hpp"
#include "protocol/failed_set.hpp"
#include "protocol/machine.hpp"
#include "simulation/explore/seen_states.hpp"
#include "topology/ring.hpp"

namespace coppice::simulation {

using protocol::FailedSet;

inline constexpr std::uint32_t kMaxExplored = 8;

struct Conditions {
    std::uint32_t processes = 1;
    std::uint32_t root_member = 0;
    std::uint8_t dead = 0;           // positions dead before the start, as bits
    bool dead_are_known = false;     // from the start, to everybody
    std::uint8_t known = 0;          // these of them, otherwise
    bool detection = true;           // deaths are noticed, sooner or later, by everybody
    std::uint32_t crashes = 0;       // how many may die on the way
    std::uint8_t may_crash = 0xff;   // which members, as bits
    bool in_order = false;           // what one member sends to another arrives in that order
    bool late_timers = false;        // time passes only when nothing is under way and nobody has anything to send
    std::uint32_t under_way = 1000;  // how many messages may be under way; only then is the next one pulled
    std::uint64_t max_states = 30'000'000;
};

struct Exploration {
    std::uint64_t states = 0;
    std::uint64_t final_states = 0;
    bool complete = true;           // false: max_states was reached
    std::string violation;          // empty, or what went wrong and the way there
    std::uint64_t verdicts = 0;     // final states in which somebody live was told that the root failed
    std::uint64_t all_colored = 0;  // final states in which all live members are colored
    bool shortest = false;          // explore_for_shortest(): no shorter way leads to a violation
};

template <class Message>
std::string describe_ends(const Message& message) {
    return std::to_string(message.from.value) + " -> " + std::to_string(message.to.value) + " " +
           std::string(to_string(message.kind));
}

template <class Subject>
class StateExplorer {
  public:
    using Machine = typename Subject::Machine;
    using Message = typename Machine::Message;
    using Machines = std::array<const Machine*, kMaxExplored>;

    StateExplorer(Subject& subject, const Conditions& conditions)
        : subject_(subject),
          conditions_(conditions),
          processes_(conditions.processes),
          failures_possible_(conditions.detection && (conditions.crashes > 0 || conditions.dead != 0)) {
        for (std::uint32_t mask = 0; mask < 256; ++mask) {
            FailedSet set;
            for (std::uint32_t position = 0; position < processes_; ++position) {
                if ((mask >> position & 1) != 0) {
                    set.insert(topology::to_member(Position{position}, conditions.root_member, processes_));
                }
            }
            sets_.push_back(set);
        }
    }

    // Ways of at most so many steps, from now on.
    void bound(std::size_t steps) { bound_ = steps; }

    Exploration run() {
        auto state = std::make_unique<State>();
        state->dead = conditions_.dead;
        state->crashes_left = static_cast<std::uint8_t>(conditions_.crashes);
        for (std::uint32_t position = 0; position < processes_; ++position) {
            state->known[position] = conditions_.dead_are_known ? conditions_.dead : conditions_.known;
            loaded_[position] = static_cast<std::uint8_t>(~state->known[position]);
            load_knowledge(*state, position);
            subject_.build(state->machines[position].data(), Position{position}, knowledge_[position]);
        }
        if (enter(*state) && !conditions_.detection && conditions_.crashes > 0) explore_crashes(*state);
        return result_;
    }

  private:
    // States are compared by their bytes: there must be no byte in a machine that does not count.
    static_assert(std::is_trivially_copyable_v<Machine>);
    static_assert(std::has_unique_object_representations_v<Machine>);
    static constexpr std::size_t kBag = 120;

    struct alignas(8) State {
        std::array<std::array<std::byte, sizeof(Machine)>, kMaxExplored> machines;
        std::array<std::uint64_t, kMaxExplored> now;
        std::array<std::uint8_t, kMaxExplored> known;
        std::uint8_t dead;
        std::uint8_t crashes_left;
        std::uint16_t messages;
        std::uint32_t retired;                // positions that are through, where that is for good
        std::array<std::uint64_t, kBag> bag;  // ascending
    };

    static bool has(std::uint8_t mask, std::uint32_t position) { return (mask >> position & 1) != 0; }
    static std::uint8_t known_of(std::uint64_t code) { return static_cast<std::uint8_t>(code >> 32); }

    static Machine& machine(State& state, std::uint32_t member) {
        return *std::launder(reinterpret_cast<Machine*>(state.machines[member].data()));
    }

    static const Machine& machine(const State& state, std::uint32_t member) {
        return *std::launder(reinterpret_cast<const Machine*>(state.machines[member].data()));
    }

    // The state that is made from one of this depth: states are large, and made by the million.
    State& spare() {
        while (depth_ >= spares_.size())
            spares_.push_back(std::make_unique<State>());
        return *spares_[depth_];
    }

    // What counts of it.
    void copy(State& to, const State& from) const {
        std::copy_n(from.machines.begin(), processes_, to.machines.begin());
        to.now = from.now;
        to.known = from.known;
        to.dead = from.dead;
        to.crashes_left = from.crashes_left;
        to.messages = from.messages;
        to.retired = from.retired;
        std::copy_n(from.bag.begin(), from.messages, to.bag.begin());
    }

    Machines machines(State& state) {
        Machines all{};
        for (std::uint32_t member = 0; member < processes_; ++member) {
            if (lives(state, member)) all[member] = &machine(state, member);
        }
        return all;
    }

    // Machines point at knowledge_[member]; its content is the state's.
    void load_knowledge(const State& state, std::uint32_t member) {
        if (loaded_[member] == state.known[member]) return;
        knowledge_[member] = sets_[state.known[member]];
        loaded_[member] = state.known[member];
    }

    void learn(State& state, std::uint32_t member, std::uint32_t dead) {
        if (has(state.known[member], dead)) return;
        state.known[member] = static_cast<std::uint8_t>(state.known[member] | 1U << dead);
        load_knowledge(state, member);
        machine(state, member).peer_failed(Position{dead});
    }

    bool add_message(State& state, const Message& message) {
        if (has(state.dead, message.to.value)) return true;
        if (state.messages == kBag) return fail("too many messages under way");
        const std::uint8_t known = Subject::carries_set(message) ? state.known[message.from.value] : std::uint8_t{0};
        std::uint64_t code = Subject::encode(message) | std::uint64_t{known} << 32;
        if (conditions_.in_order) {
            for (std::uint16_t i = 0; i < state.messages; ++i) {
                if (channel_of(state.bag[i]) == channel_of(code)) code += kTurn;
            }
        }
        auto* const end = state.bag.data() + state.messages;
        auto* const place = std::lower_bound(state.bag.data(), end, code);
        std::copy_backward(place, end, end + 1);
        *place = code;
        ++state.messages;
        return true;
    }

    // Messages that nobody will ever receive, or whose reception changes nothing for certain.
    void remove_void_messages(State& state) {
        std::uint16_t kept = 0;
        for (std::uint16_t i = 0; i < state.messages; ++i) {
            const Message message = Subject::decode(state.bag[i]);
            const std::uint32_t to = message.to.value;
            if (has(state.dead, to) || has(state.known[to], message.from.value)) continue;
            if ((state.retired >> to & 1U) != 0) continue;
            if (subject_.is_monotone() && !failures_possible_ && is_inert(state, message)) continue;
            state.bag[kept++] = state.bag[i];
        }
        state.messages = kept;
        if (conditions_.in_order) renumber(state);
    }

    // With in_order a message says how many before it are under way from and to the same.
    static constexpr std::uint64_t kTurn = std::uint64_t{1} << 20;
    static constexpr std::uint64_t kTurns = std::uint64_t{0xff} << 20;
    static std::uint64_t channel_of(std::uint64_t code) { return code >> 40 & 0xffff; }

    void renumber(State& state) {
        std::array<std::uint64_t, kBag> old;
        std::copy_n(state.bag.begin(), state.messages, old.begin());
        for (std::uint16_t i = 0; i < state.messages; ++i) {
            std::uint64_t before = 0;
            for (std::uint16_t j = 0; j < state.messages; ++j) {
                if (channel_of(old[j]) == channel_of(old[i]) && (old[j] & kTurns) < (old[i] & kTurns)) before += kTurn;
            }
            state.bag[i] = (old[i] & ~kTurns) | before;
        }
        std::sort(state.bag.begin(), state.bag.begin() + state.messages);
    }

    // A member that is through says and hears nothing more, and whether it dies makes no difference. How it got there
    // need not tell states apart.
    void retire(State& state) {
        for (std::uint32_t member = 0; member < processes_; ++member) {
            if (!lives(state, member) || !machine(state, member).colored() || !machine(state, member).finished())
                continue;
            state.retired |= 1U << member;
            silence(state, member);
        }
    }

    bool is_inert(State& state, const Message& message) {
        const std::uint32_t to = message.to.value;
        load_knowledge(state, to);
        alignas(Machine) const std::array<std::byte, sizeof(Machine)> before = state.machines[to];
        machine(state, to).receive(message);
        const bool changes = state.machines[to] != before;
        state.machines[to] = before;
        return !changes;
    }

    // Drivers pull after every fact: what has nothing to send is told so at once.
    void poll_the_silent(State& state) {
        for (std::uint32_t member = 0; member < processes_; ++member) {
            if (!lives(state, member)) continue;
            load_knowledge(state, member);
            const auto before = state.machines[member];
            if (machine(state, member).next_send(Nanoseconds{state.now[member]})) state.machines[member] = before;
        }
    }

    static bool lives(const State& state, std::uint32_t member) {
        return !has(state.dead, member) && (state.retired >> member & 1U) == 0;
    }

    static void silence(State& state, std::uint32_t member) {
        state.machines[member].fill(std::byte{0});
        state.known[member] = 0;
        state.now[member] = 0;
    }

    bool fail(const std::string& why) {
        result_.violation = why;
        for (const std::string& step : way_)
            result_.violation.append("\n  ").append(step);
        return false;
    }

    bool enter(State& state) {
        if (subject_.is_monotone()) poll_the_silent(state);
        if (subject_.end_is_final() && !failures_possible_) retire(state);
        remove_void_messages(state);
        std::uint64_t hash = hash_bytes(state.machines.data(), processes_ * sizeof(Machine), 17);
        hash = hash_bytes(&state.now, sizeof(state.now) + 16, hash);
        hash = hash_bytes(state.bag.data(), state.messages * std::size_t{8}, hash);
        if (bound_ != 0) {
            // With fewer steps left the same state leads less far.
            if (way_.size() > bound_) return true;
            hash = hash_bytes(&hash, sizeof(hash), way_.size());
        }
        if (!seen_.insert(hash)) return true;
        if (result_.states == conditions_.max_states) {
            result_.complete = false;
            return false;
        }
        ++result_.states;
        const std::string wrong = subject_.check(machines(state));
        if (!wrong.empty()) return fail(wrong);
        ++depth_;
        const bool good = explore(state);
        --depth_;
        return good;
    }

    bool explore(State& state) {
        bool moved = false;
        if (!explore_sends(state, moved) || !explore_receptions(state, moved)) return false;
        if (!explore_timers(state, moved)) return false;
        if (conditions_.detection && !explore_notices(state, moved)) return false;
        if (!moved) {
            ++result_.final_states;
            const std::string wrong = subject_.check_final(machines(state), state.retired, result_);
            if (!wrong.empty()) return fail(wrong);
        }
        return !conditions_.detection || state.crashes_left == 0 || explore_crashes(state);
    }

    bool explore_sends(const State& state, bool& moved) {
        if (state.messages >= conditions_.under_way) return true;
        State& next = spare();
        for (std::uint32_t member = 0; member < processes_; ++member) {
            if (!lives(state, member)) continue;
            copy(next, state);
            load_knowledge(next, member);
            const std::optional<Message> message = machine(next, member).next_send(Nanoseconds{state.now[member]});
            if (!message && next.machines[member] == state.machines[member]) continue;
            moved = true;
            way_.push_back(message ? "send " + Subject::describe(*message)
                                   : std::to_string(member) + " has nothing to send");
            if (message) {
                if (message->from.value != member || message->to.value == member || message->to.value >= processes_) {
                    return fail("a message from or to somebody it can't be");
                }
                if (has(state.known[member], message->to.value)) return fail("sent to a member known to have failed");
                if (carries_payload(message->kind) && !machine(next, member).colored()) {
                    return fail("sent what it has not");
                }
                if (!add_message(next, *message)) return false;
            }
            if (!enter(next)) return false;
            // Where nobody notices, it makes no difference how long after its last send a member dies.
            const bool may_die = message && !conditions_.detection && next.crashes_left > 0;
            if (may_die && !explore_crash(next, member)) return false;
            way_.pop_back();
        }
        return true;
    }

    bool explore_receptions(const State& state, bool& moved) {
        State& next = spare();
        for (std::uint16_t i = 0; i < state.messages; ++i) {
            if (i > 0 && state.bag[i] == state.bag[i - 1]) continue;
            if (conditions_.in_order && (state.bag[i] & kTurns) != 0) continue;
            moved = true;
            copy(next, state);
            const std::uint64_t code = state.bag[i];
            std::copy(next.bag.data() + i + 1, next.bag.data() + next.messages, next.bag.data() + i);
            --next.messages;
            const Message message = Subject::decode(code);
            const std::uint32_t to = message.to.value;
            way_.push_back("receive " + Subject::describe(message));
            for (std::uint32_t dead = 0; dead < processes_; ++dead) {
                if (has(known_of(code), dead)) learn(next, to, dead);
            }
            load_knowledge(next, to);
            Machine& receiver = machine(next, to);
            const bool was_colored = receiver.colored();
            if (!receiver.receive(message)) return fail("refused a message that can occur");
            if (was_colored && !receiver.colored()) return fail("lost its color");
            if (!was_colored && receiver.colored() && !carries_payload(message.kind)) {
                return fail("colored without a payload");
            }
            if (!enter(next)) return false;
            way_.pop_back();
        }
        return true;
    }

    bool explore_timers(const State& state, bool& moved) {
        if (conditions_.late_timers && moved) return true;
        State& next = spare();
        for (std::uint32_t member = 0; member < processes_; ++member) {
            if (!lives(state, member)) continue;
            const Nanoseconds timer = machine(state, member).next_timer();
            if (timer == kNever || timer.value <= state.now[member]) continue;
            moved = true;
            copy(next, state);
            next.now[member] = timer.value;
            way_.push_back("time passes for " + std::to_string(member));
            if (!enter(next)) return false;
            way_.pop_back();
        }
        return true;
    }

    bool explore_notices(const State& state, bool& moved) {
        State& next = spare();
        for (std::uint32_t member = 0; member < processes_; ++member) {
            if (has(state.dead, member)) continue;
            for (std::uint32_t dead = 0; dead < processes_; ++dead) {
                if (!has(state.dead, dead) || has(state.known[member], dead)) continue;
                moved = true;
                copy(next, state);
                way_.push_back(std::to_string(member) + " learns of the death of " + std::to_string(dead));
                learn(next, member, dead);
                if (!enter(next)) return false;
                way_.pop_back();
            }
        }
        return true;
    }

    bool explore_crashes(const State& state) {
        for (std::uint32_t member = 0; member < processes_; ++member) {
            if (!explore_crash(state, member)) return false;
        }
        return true;
    }

    bool explore_crash(const State& state, std::uint32_t member) {
        if (!lives(state, member) || !has(conditions_.may_crash, member)) return true;
        ++depth_;
        State& next = spare();
        copy(next, state);
        next.dead = static_cast<std::uint8_t>(next.dead | 1U << member);
        --next.crashes_left;
        silence(next, member);  // what it would have done need not tell states apart
        way_.push_back("crash " + std::to_string(member));
        if (!enter(next)) return false;
        way_.pop_back();
        --depth_;
        return true;
    }

    Subject& subject_;
    Conditions conditions_;
    std::uint32_t processes_;
    bool failures_possible_;
    std::array<FailedSet, kMaxExplored> knowledge_;
    std::array<std::uint8_t, kMaxExplored> loaded_{};
    std::vector<FailedSet> sets_;
    SeenStates seen_;
    std::vector<std::unique_ptr<State>> spares_;
    std::size_t depth_ = 0;
    std::vector<std::string> way_;
    std::size_t bound_ = 0;
    Exploration result_;
};

// The violation with a shortest way there, if there is any: explored once without a bound, and then with as few steps
// as lead to one, found by halving.
template <class Subject>
Exploration explore_for_shortest(Subject& subject, const Conditions& conditions) {
    Exploration found = StateExplorer<Subject>(subject, conditions).run();
    if (found.violation.empty()) return found;
    std::size_t too_few = 0;
    auto enough = static_cast<std::size_t>(std::count(found.violation.begin(), found.violation.end(), '\n'));
    while (enough - too_few > 1) {
        const std::size_t middle = too_few + (enough - too_few) / 2;
        StateExplorer<Subject> explorer(subject, conditions);
        explorer.bound(middle);
        Exploration bounded = explorer.run();
        if (!bounded.complete) break;
        if (bounded.violation.empty()) {
            too_few = middle;
        } else {
            enough = std::min(
                middle, static_cast<std::size_t>(std::count(bounded.violation.begin(), bounded.violation.end(), '\n')));
            found.violation = bounded.violation;
        }
    }
    found.shortest = enough - too_few == 1;
    return found;
}

}  // namespace coppice::simulation
