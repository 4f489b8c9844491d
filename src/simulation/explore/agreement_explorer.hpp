// The exhaustive explorer of agreement: every order of contributions, sends and receptions, every crash point, every
// order in which survivors learn of a death, for the agreements of a small group. The machines are those that ship.
//
// A state is the state of each machine, the set of the dead, and the messages under way (an unordered bag: no channel
// keeps an order). From each state go: one rank starts its next agreement; one rank hands over the next message that it
// wants sent; one message arrives; one live rank notices one dead one, or several at once; one rank crashes (while the budget lasts,
// between any two of these, so also between two sends). Messages of the dead may arrive until their receiver knows;
// those to the dead vanish.
//
// A suspicion: a rank takes a live one for dead, says so on the board if there is one, and hears nothing of it from
// then on; the others learn of it as they do of a death. It goes on until it learns of it itself. What it decides from
// then on must not differ from what survivors decide if there is a board; otherwise only survivors are compared.
//
// With `published` there is a board besides, and one rank looking at it is a transition too. A look is many reads, each
// at its own time. What is on the board stays, so a read that finds something may as well happen together with those
// after it; one that finds nothing may not, and is followed by a pause in which the others go on. That covers all
// orders of all reads and stores of all ranks.
//
// States of single machines are kept once and numbered, and so are messages; what a machine does in a state upon an
// event is worked out once. A state of the group is a few numbers, and only a 64-bit hash of it is kept: of n states
// that are told apart, some pair is mistaken for one with probability n²/2^65 (a hundred million states: 1 in 4,000).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/agreement/agreement.hpp"

namespace coppice::simulation {

struct AgreementScenario {
    protocol::AgreementPlan plan;
    std::uint32_t agreements = 1;  // every rank contributes to so many, as early as the window lets it
    bool flush = false;            // after them a flush, upon which ranks leave
    std::uint32_t crashes = 0;
    std::uint32_t may_crash = 0xff;  // which ranks, as bits
    protocol::Operator operation = protocol::Operator::bit_or;
    bool acknowledge = false;  // before each agreement a rank acknowledges all failures that it knows of
    bool published = false;    // contributions are published on a board (protocol/published)
    std::optional<topology::Nodes> domains{};  // in two levels: which ranks share a cache
    std::uint32_t suspicions = 0;              // so many live ranks are taken for dead
    bool suspects_silently = false;            // and are not told on the board, which breaks the board's contract
    std::uint64_t max_states = UINT64_MAX;
};

struct AgreementExploration {
    std::uint64_t states = 0;
    std::uint64_t transitions = 0;
    std::uint64_t final_states = 0;
    std::uint64_t machine_states = 0;
    std::uint64_t messages = 0;    // that differ
    std::uint32_t depth = 0;       // of the longest way
    bool complete = true;          // false: max_states was reached
    std::string violation;         // empty, or which promise was broken
    std::vector<std::string> way;  // to the violation: a shortest one, if `shortest`
    bool shortest = false;
};

inline constexpr std::uint32_t kMostExplored = 8;

// Groups of up to kMostExplored ranks. Memory: eight bytes for each state, twice that while the table grows.
AgreementExploration explore(const AgreementScenario& scenario);

}  // namespace coppice::simulation
