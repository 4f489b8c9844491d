// Seeded random schedules of agreements, for groups beyond the exhaustive explorer. All that happens follows from the
// seed: the number of ranks, the tree, the window, the operation, which ranks die and when, how late each survivor
// notices, and every order of messages.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace coppice::simulation {

struct FuzzRange {
    std::uint32_t fewest_ranks = 3;
    std::uint32_t most_ranks = 64;  // at most AgreementGroup::kMostRanks
    std::uint8_t printed = 0;       // protocol::PrintedRules, to see that schedules find what they break
    bool published = false;         // contributions are published on a board
};

struct FuzzOutcome {
    std::string scenario;  // what the seed stands for
    std::string violation;
    std::uint64_t events = 0;
    std::uint64_t messages = 0;
    std::uint32_t ranks = 0;
    std::uint32_t deaths = 0;
    std::uint32_t decisions = 0;  // by live ranks
};

// `tell`, if any, is given a line for each event.
FuzzOutcome fuzz_agreement(std::uint64_t seed, const FuzzRange& range,
                           const std::function<void(const std::string&)>& tell = {});

}  // namespace coppice::simulation
