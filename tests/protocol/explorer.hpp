// The exhaustive explorer: every order of sends and receptions, every crash point, every order in which survivors learn
// of a death, for one broadcast in a group of up to eight. The machines are those that ship.
//
// A state is the bytes of all machines, what each member knows of the dead, and the messages under way (an unordered bag:
// no channel keeps an order). States that were seen are not entered again. From each state go: one send pulled by one
// member; one message received; one member crashed (while the budget lasts; it may die between any two events,
// also between two sends); one dead member noticed by one live member. Messages of the dead stay receivable until their
// receiver knows; those to the dead vanish.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "protocol/broadcast.hpp"

namespace coppice::protocol::testing {

inline constexpr std::uint32_t kMaxExplored = 8;

struct Scenario {
    BroadcastPlan plan;
    std::uint32_t root_member = 0;
    std::uint8_t dead = 0;          // positions dead before the start, as bits
    bool dead_are_known = false;    // from the start, to everybody
    bool detection = true;          // deaths are noticed, sooner or later, by everybody
    std::uint32_t crashes = 0;      // how many may die on the way
    std::uint8_t may_crash = 0xff;  // who
    bool must_color_all = false;    // in a final state every live member has the payload
    std::uint64_t max_states = 30'000'000;
};

struct Exploration {
    std::uint64_t states = 0;
    std::uint64_t final_states = 0;
    bool complete = true;           // false: max_states was reached
    std::string violation;          // empty, or what went wrong and the way there
    std::uint64_t verdicts = 0;     // final states in which somebody live was told that the root failed
    std::uint64_t all_colored = 0;  // final states in which all live members are colored
};

class Explorer {
  public:
    explicit Explorer(const Scenario& scenario);
    Exploration run();

  private:
    struct alignas(8) State {
        std::array<std::array<std::byte, sizeof(Broadcast)>, kMaxExplored> machines;
        std::array<std::uint8_t, kMaxExplored> known;
        std::uint8_t dead;
        std::uint8_t crashes_left;
        std::uint16_t messages;
        std::uint32_t unused;
        std::array<std::uint64_t, 96> bag;  // ascending
    };
    class Seen;

    Broadcast& machine(State& state, std::uint32_t member);
    void load_knowledge(const State& state, std::uint32_t member);
    void learn(State& state, std::uint32_t member, std::uint32_t dead);
    void add_message(State& state, const Message& message);
    void remove_void_messages(State& state);
    bool enter(State& state);
    bool explore(State& state);
    bool explore_sends(const State& state, bool& moved);
    bool explore_receptions(const State& state, bool& moved);
    bool explore_notices(const State& state, bool& moved);
    bool explore_crashes(const State& state);
    bool check(State& state);
    bool check_final(State& state);
    bool fail(const std::string& why);

    Scenario scenario_;
    std::uint32_t processes_;
    bool failures_possible_;
    std::array<FailedSet, kMaxExplored> knowledge_;
    std::array<std::uint8_t, kMaxExplored> loaded_{};
    std::vector<FailedSet> sets_;
    std::shared_ptr<Seen> seen_;
    std::vector<std::string> way_;
    Exploration result_;
};

std::string describe(const Message& message);

}  // namespace coppice::protocol::testing
