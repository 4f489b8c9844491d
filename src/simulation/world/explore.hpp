// One seed after the other: draws a world, runs it, and holds what its callers were told against the promises.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "simulation/promises/promises.hpp"
#include "simulation/world/program.hpp"
#include "simulation/world/transcript.hpp"

namespace coppice::world {

struct Outcome {
    std::vector<promises::Violation> violations;
    std::uint64_t calls = 0;
    std::uint64_t deaths = 0;
    std::uint64_t virtual_ns = 0;
    std::uint64_t mark = 0;  // of everything that was told: the same for the same seed
};

using Tell = std::function<void(const std::string& line)>;

// `tell`: of calls that end, deaths, cuts and the like. `tell_traffic`: of messages that are delivered, and of stores to host memory.
Outcome run(const Drawn& drawn, const Tell& tell = nullptr, const Tell& tell_traffic = nullptr);
// The same, with what it told.
Outcome run(const Drawn& drawn, Transcript& transcript);

// The shortest program with the fewest deaths that is found to break the same promise with this seed.
Drawn shorten(const Drawn& drawn, const std::string& promise);

}  // namespace coppice::world
