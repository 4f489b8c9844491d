// Runs world after world until one breaks a promise, and prints which. For bugs that were planted: planted_bugs.py.
#include <fmt/format.h>

#include <cstdlib>

#include "simulation/world/explore.hpp"

int main(int argc, char** argv) {
    using namespace coppice;
    const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        const world::Outcome outcome = world::run(world::draw(seed, {}));
        if (outcome.violations.empty()) continue;
        fmt::print("seed {}: {}: {}\n", seed, outcome.violations.front().promise, outcome.violations.front().what);
        return 0;
    }
    fmt::print("not found by {} seeds\n", seeds);
    return 1;
}
