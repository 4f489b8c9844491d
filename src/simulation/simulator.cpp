#include "simulation/simulator.hpp"

#include <algorithm>

namespace coppice::simulation {

std::string to_string(const Violation& violation, std::size_t most) {
    std::string text = violation.what;
    text.append("\nseed ").append(std::to_string(violation.seed)).append("; dead:");
    for (const Position position : violation.faults.dead)
        text.append(" ").append(std::to_string(position.value));
    text.append("; dying:");
    for (const Death& death : violation.faults.dying)
        text.append(" ").append(std::to_string(death.position.value)).append("@").append(std::to_string(death.at));
    text.append("\n");
    const std::size_t size = violation.conversation.size();
    for (std::size_t i = size - std::min(most, size); i < size; ++i)
        text.append(to_string(violation.conversation[i])).append("\n");
    return text;
}

}  // namespace coppice::simulation
