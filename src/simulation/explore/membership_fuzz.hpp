// Seeded random schedules of membership, for groups beyond the exhaustive explorer. All that happens follows from the seed: how
// many members, the radix, the quorum, how many views, which processes join, leave, die, are started again or are cut off and
// when, which of the others learns of it how late and how surely, and every order of messages.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace coppice::simulation {

struct MembershipFuzzRange {
    std::uint32_t fewest_ranks = 3;
    std::uint32_t most_ranks = 64;
    std::uint32_t faults = 0;  // protocol::MembershipFault, to see that schedules find what they break
};

struct MembershipFuzzOutcome {
    std::string scenario;  // what the seed stands for
    std::string violation;
    std::uint64_t events = 0;
    std::uint64_t messages = 0;
    std::uint32_t deaths = 0;
    std::uint32_t joined = 0;     // newcomers that were taken in
    std::uint32_t installed = 0;  // views, by all members together
};

// `tell`, if any, is given a line for each event.
MembershipFuzzOutcome fuzz_membership(std::uint64_t seed, const MembershipFuzzRange& range,
                                      const std::function<void(const std::string&)>& tell = {});

}  // namespace coppice::simulation
