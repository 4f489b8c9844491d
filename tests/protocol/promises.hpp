// The promises of the broadcast machine, whatever disseminates its payload, under seeded random orders of messages,
// times of death and of notice, and restarts of members.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include "world.hpp"

namespace coppice::protocol::testing {

struct Drawn {
    BroadcastPlan plan;
    std::uint32_t root_member;
    std::string name;
};

// A broadcast among 2 to `largest` processes.
using Draw = std::function<Drawn(std::mt19937& random, std::uint32_t largest)>;

void maybe_crash(World& world, std::mt19937& random, std::uint32_t one_in, bool root_may_die);

// Each runs thousands of broadcasts, and fails at the first that breaks the promise, named with its seed.
void expect_every_live_member_is_reached_whoever_else_dies_and_whenever(const Draw& draw);
void expect_all_are_colored_or_all_are_told_when_the_root_dies(const Draw& draw);
// A host's leader dies and another stands in, with the payload if it was there.
void expect_what_may_be_lost_to_be_sent_again(const Draw& draw);

}  // namespace coppice::protocol::testing
