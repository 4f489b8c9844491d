#include "simulation/faults.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "simulation/position_set.hpp"

namespace coppice::simulation {
namespace {

// Draws from 1 … processes − 1 what is not in `taken`, and puts it there. At least `count` are left.
std::vector<Position> draw_from(std::uint32_t processes, std::uint32_t count, PositionSet& taken, std::uint32_t left,
                                Random& random) {
    std::vector<Position> chosen;
    chosen.reserve(count);
    if (count > left / 2) {  // rather draw which ones are spared
        PositionSet spared(processes);
        for (std::uint32_t spare = left - count; spare > 0;) {
            const std::uint32_t position = 1 + random.below(processes - 1);
            if (taken.contains(position) || spared.contains(position)) continue;
            spared.insert(position);
            --spare;
        }
        for (std::uint32_t position = 1; position < processes; ++position) {
            if (taken.contains(position) || spared.contains(position)) continue;
            taken.insert(position);
            chosen.push_back(Position{position});
        }
        return chosen;
    }
    while (chosen.size() < count) {
        const std::uint32_t position = 1 + random.below(processes - 1);
        if (taken.contains(position)) continue;
        taken.insert(position);
        chosen.push_back(Position{position});
    }
    std::sort(chosen.begin(), chosen.end());
    return chosen;
}

}  // namespace

std::vector<Position> choose_positions(std::uint32_t processes, std::uint32_t count, Random& random) {
    PositionSet taken(processes);
    return draw_from(processes, count, taken, processes - 1, random);
}

std::uint32_t FaultPlan::dead_of(std::uint32_t processes) const {
    const auto by_rate = static_cast<std::uint32_t>(std::floor(dead_rate * (processes - 1)));
    return static_cast<std::uint32_t>(dead.size()) + dead_count + by_rate;
}

std::optional<std::string> FaultPlan::reason_against(std::uint32_t processes) const {
    std::vector<std::uint32_t> named;
    for (const Position position : dead) {
        if (position.value == 0) return "position 0 is the root: dead from before the start it sends nothing at all";
        named.push_back(position.value);
    }
    for (const Death& death : dying)
        named.push_back(death.position.value);
    std::sort(named.begin(), named.end());
    if (std::adjacent_find(named.begin(), named.end()) != named.end()) return "a position is named twice";
    if (!named.empty() && named.back() >= processes) {
        return "position " + std::to_string(named.back()) + " is not among " + std::to_string(processes);
    }
    const std::uint64_t all = std::uint64_t{dead_of(processes)} + dying.size() + dying_count;
    const std::uint64_t root_dies = !named.empty() && named.front() == 0 ? 1 : 0;
    if (all - root_dies > processes - 1) {
        return std::to_string(all) + " of " + std::to_string(processes - 1) + " positions besides the root cannot fail";
    }
    return std::nullopt;
}

Faults FaultPlan::draw(std::uint32_t processes, std::uint64_t seed) const {
    Faults faults;
    faults.dead = dead;
    faults.dying = dying;
    faults.notice_after = notice_after;
    const std::uint32_t drawn = dead_of(processes) - static_cast<std::uint32_t>(dead.size());
    if (drawn == 0 && dying_count == 0) return faults;

    Random random(seed);
    PositionSet taken(processes);
    std::uint32_t left = processes - 1;
    const auto take = [&](Position position) {
        taken.insert(position.value);
        if (position.value != 0) --left;
    };
    for (const Position position : dead)
        take(position);
    for (const Death& death : dying)
        take(death.position);
    const std::vector<Position> more = draw_from(processes, drawn, taken, left, random);
    faults.dead.insert(faults.dead.end(), more.begin(), more.end());
    std::sort(faults.dead.begin(), faults.dead.end());
    for (const Position position : draw_from(processes, dying_count, taken, left - drawn, random))
        faults.dying.push_back({position, random.below(dying_until + 1)});
    return faults;
}

tl::expected<double, std::string> parse_rate(std::string_view text) {
    const std::string number(text.substr(0, text.size() - (text.ends_with('%') ? 1 : 0)));
    char* end = nullptr;
    const double percent = std::strtod(number.c_str(), &end);
    const bool starts_well = !number.empty() && (number[0] == '.' || (number[0] >= '0' && number[0] <= '9'));
    if (!text.ends_with('%') || !starts_well || *end != '\0' || !(percent >= 0 && percent <= 100)) {
        return tl::unexpected(
            std::string(text).append(" is no rate: write a percentage between 0% and 100%, such as 1% or 0.01%"));
    }
    return percent / 100;
}

}  // namespace coppice::simulation
