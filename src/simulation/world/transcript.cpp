#include "simulation/world/transcript.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace coppice::world {

std::vector<std::string> Transcript::lines() const {
    const auto end = lines_.begin() + static_cast<std::ptrdiff_t>(std::min(last_event_, lines_.size()));
    const auto before =
        static_cast<std::size_t>(std::count_if(lines_.begin(), end, [](const Line& line) { return line.is_traffic; }));
    const std::size_t first = before > kBefore ? before - kBefore : 0;
    const std::size_t last = before + kBehind;
    std::vector<std::string> told;
    if (first > 0) told.push_back(fmt::format("{:>16}{} messages and stores before these are left out", "", first));
    std::size_t traffic = 0;
    for (const Line& line : lines_) {
        const bool is_shown = !line.is_traffic || (traffic >= first && traffic < last);
        traffic += line.is_traffic;
        if (is_shown) told.push_back(line.text);
    }
    if (traffic > last)
        told.push_back(fmt::format("{:>16}{} messages and stores after these are left out", "", traffic - last));
    return told;
}

}  // namespace coppice::world
