// Which members fail in a run: given by name, or drawn by the run's seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "simulation/model.hpp"
#include "simulation/random.hpp"

namespace coppice::simulation {

// `count` different positions of 1 … processes − 1, ascending, every choice equally likely. `count` is below
// `processes`.
std::vector<Position> choose_positions(std::uint32_t processes, std::uint32_t count, Random& random);

// How the faults of a run are chosen. What is drawn comes on top of what is given.
struct FaultPlan {
    std::vector<Position> dead{};   // given, dead from before the start
    std::vector<Death> dying{};     // given, dying at a time
    std::uint32_t dead_count = 0;   // drawn, of all positions but the root and those given
    double dead_rate = 0;           // drawn, this share of the positions but the root, rounded down
    std::uint32_t dying_count = 0;  // drawn, dying at a time in 0 … dying_until
    Step dying_until = 0;
    std::optional<Step> notice_after{};

    // Why these faults cannot happen among so many; nothing if they can.
    std::optional<std::string> reason_against(std::uint32_t processes) const;
    // How many are dead from before the start in every run.
    std::uint32_t dead_of(std::uint32_t processes) const;
    // The same for the same seed, always.
    Faults draw(std::uint32_t processes, std::uint64_t seed) const;
};

// "1%", "0.01%": between 0 % and 100 %, as a share.
tl::expected<double, std::string> parse_rate(std::string_view text);

}  // namespace coppice::simulation
