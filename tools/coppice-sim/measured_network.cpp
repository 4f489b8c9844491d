#include "measured_network.hpp"

#include <fmt/format.h>

#include "engine/measured_levels.hpp"

namespace coppice::sim {

tl::expected<MeasuredNetwork, std::string> read_measured_network(const std::string& path, const std::string& level) {
    const auto levels = engine::read_measured_levels(path);
    if (!levels) return tl::unexpected(levels.error());
    const engine::MeasuredLevel& taken = engine::level_called(*levels, level);
    if (!level.empty() && taken.name != level) {
        std::string names;
        for (const engine::MeasuredLevel& one : *levels)
            names.append(names.empty() ? "" : ", ").append(one.name);
        return tl::unexpected(fmt::format("{}: it has no level \"{}\"; these it has: {}", path, level, names));
    }
    MeasuredNetwork network{.level = taken.name, .model = {}, .step_us = taken.step_us};
    network.model.latency = taken.latency;
    network.model.overhead = 1;
    return network;
}

}  // namespace coppice::sim
