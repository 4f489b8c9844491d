// Runs world after world until one breaks a promise, and prints which. For bugs that were planted: planted_bugs.py.
//
//   find_violation [SEEDS [closed]]   closed: no world has a cut, and nobody joins
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "simulation/world/explore.hpp"

int main(int argc, char** argv) {
    using namespace coppice;
    const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
    world::Bounds bounds;
    bounds.cuts = bounds.joins = argc <= 2 || std::string_view(argv[2]) != "closed";
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        const world::Outcome outcome = world::run(world::draw(seed, bounds));
        if (outcome.violations.empty()) continue;
        fmt::print("seed {}: {}: {}\n", seed, outcome.violations.front().promise, outcome.violations.front().what);
        return 0;
    }
    fmt::print("not found by {} seeds\n", seeds);
    return 1;
}
