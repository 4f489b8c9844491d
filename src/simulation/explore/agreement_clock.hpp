// Agreements on a LogP clock (model.hpp says what the clock does; both ports at once), with deaths at given times of
// which everybody is told some time later, all at once or each rank at a time of its own. One machine for each rank:
// ERA, or one of the older algorithms to compare with, or an Allreduce, which survives nothing.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/agreement/agreement.hpp"
#include "simulation/model.hpp"
#include "simulation/network.hpp"

namespace coppice::simulation {

enum class AgreementAlgorithm : std::uint8_t {
    era,
    two_phase,    // Hursey et al.: gathered at a root, told to all; a new attempt when the root hears of a death
    three_phase,  // Buntinas: ballot, proposal, commitment, each down and up the tree; new attempts as well
    // Nobody may die in these (allreduce.hpp), and the plan's tree is not looked at.
    allreduce_doubling,  // recursive doubling
    allreduce_binomial,  // a reduce and a broadcast over a binomial tree
    allreduce_hosts,     // these two on each host, and recursive doubling among hosts
};

struct AgreementDeath {
    std::uint32_t rank = 0;
    Step at = 0;
};

struct AgreementSetup {
    protocol::AgreementPlan plan;  // window 1 suffices
    AgreementAlgorithm algorithm = AgreementAlgorithm::era;
    LogP model{};  // its latency is the network's, where there is one
    std::shared_ptr<const Network> network{};
    std::vector<Position> position_of{};  // of ranks in the network; empty: their own numbers
    std::uint32_t ranks_per_host = 16;    // of allreduce_hosts
    std::uint32_t agreements = 1;         // each rank begins the next one when it has returned from the one before
    protocol::FailedSet known{};          // dead from before the start, as everybody knows and has acknowledged
    std::vector<AgreementDeath> deaths{};
    Step notice_after = 0;  // how long after a death the first of the others may be told
    // So much later the last may be: each rank is told of each death at a time between, drawn for the two of them.
    Step notice_spread = 0;
    std::uint64_t seed = 0;  // of these times
};

struct AgreementTiming {
    Step start = 0;    // the first rank begins
    Step latency = 0;  // from there until the last live rank has returned
    std::uint32_t decided = 0;
    bool agreed = true;  // all live ranks have decided alike, on what all of them have contributed
};

struct AgreementTimings {
    std::vector<AgreementTiming> agreements;
    Step quiescence = 0;  // the last message has been taken in
    std::uint64_t messages = 0;
    std::uint64_t requests = 0;       // of these, RESULTREQUESTs
    std::uint64_t bytes = 0;          // of bodies
    std::uint32_t most_sent = 0;      // by one rank
    std::uint32_t longest_chain = 0;  // of messages each of which was sent after the one before had come
    // Of `messages`, by the network's levels.
    std::array<std::uint64_t, kNetworkLevels> by_level{};
};

AgreementTimings run_agreements(const AgreementSetup& setup);

// Memory for each rank, roughly.
std::uint64_t bytes_for_each_rank(AgreementAlgorithm algorithm);

}  // namespace coppice::simulation
