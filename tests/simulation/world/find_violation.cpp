// Runs world after world until one breaks a promise, and prints which. For bugs that were planted: planted_bugs.py.
//
//   find_violation [SEEDS [WORD ...]]
//     closed    no world has a cut, and nobody joins
//     told      with what coppice-sim world prints of that run
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string_view>

#include "simulation/world/explore.hpp"

int main(int argc, char** argv) {
    using namespace coppice;
    const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
    const auto asked_for = [words = std::span(argv, static_cast<std::size_t>(argc))](std::string_view word) {
        return std::ranges::find(words, word) != words.end();
    };
    world::Bounds bounds;
    bounds.cuts = bounds.joins = !asked_for("closed");
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        const world::Drawn drawn = world::draw(seed, bounds);
        const world::Outcome outcome = world::run(drawn);
        if (outcome.violations.empty()) continue;
        fmt::print("seed {}: {}: {}\n", seed, outcome.violations.front().promise, outcome.violations.front().what);
        world::Transcript transcript;
        if (asked_for("told")) world::run(drawn, transcript);
        for (const std::string& line : transcript.lines())
            fmt::print("{}\n", line);
        return 0;
    }
    fmt::print("not found by {} seeds\n", seeds);
    return 1;
}
