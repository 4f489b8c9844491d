#include "measured_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace coppice::sim {
namespace {

constexpr double kLongestUs = 1e9;
constexpr double kMostSteps = 1e6;

MeasuredNetwork taken_from(const nlohmann::json& level) {
    const auto median = [&level](const char* parameter) {
        const double us = level.at(parameter).at("median");
        if (!(us >= 0 && us <= kLongestUs)) throw std::out_of_range(fmt::format("{} is {} us", parameter, us));
        return us;
    };
    const double step_us = std::max(median("o"), median("g"));
    if (step_us <= 0) throw std::out_of_range("o and g are nothing");
    const double steps = std::round(median("L") / step_us);
    if (steps > kMostSteps) throw std::out_of_range(fmt::format("L is {} steps", steps));
    MeasuredNetwork network{.level = level.at("level"), .model = {}, .step_us = step_us};
    network.model.latency = static_cast<std::uint32_t>(steps);
    network.model.overhead = 1;
    return network;
}

}  // namespace

tl::expected<MeasuredNetwork, std::string> read_measured_network(const std::string& path, const std::string& level) {
    const auto refused = [&path](const std::string& why) { return tl::unexpected(fmt::format("{}: {}", path, why)); };
    std::ifstream in(path);
    if (!in) return refused(std::strerror(errno));
    try {
        const auto file = nlohmann::json::parse(in);
        if (file.at("format") != "coppice-logp") return refused("no file of coppice-perf logp");
        if (file.at("version") != 1)
            return refused("of another version of coppice-perf logp; this one reads version 1");
        const auto& levels = file.at("levels");
        std::string names;
        const nlohmann::json* found = nullptr;
        for (const auto& one : levels) {
            const std::string name = one.at("level");
            names.append(names.empty() ? "" : ", ").append(name);
            if (level.empty() || level == name) found = &one;  // outermost last
        }
        if (found == nullptr) return refused(fmt::format("it has no level \"{}\"; these it has: {}", level, names));
        return taken_from(*found);
    } catch (const nlohmann::json::exception& error) {
        return refused(fmt::format("no file of coppice-perf logp: {}", error.what()));
    } catch (const std::out_of_range& error) {
        return refused(error.what());
    }
}

}  // namespace coppice::sim
