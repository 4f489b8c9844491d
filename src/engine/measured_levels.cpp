#include "engine/measured_levels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace coppice::engine {
namespace {

constexpr double kLongestUs = 1e9;
constexpr double kMostSteps = 1e6;
// Ranks tell each other what they have read.
constexpr std::size_t kMostLevels = 8;
constexpr std::size_t kLongestName = 32;
constexpr std::size_t kMostBytes = std::size_t{1} << 20;

MeasuredLevel taken_from(const nlohmann::json& level) {
    const auto median = [&level](const char* parameter) {
        const double us = level.at(parameter).at("median");
        if (!(us >= 0 && us <= kLongestUs)) throw std::out_of_range(fmt::format("{} is {} us", parameter, us));
        return us;
    };
    const double step_us = std::max(median("o"), median("g"));
    if (step_us <= 0) throw std::out_of_range("o and g are nothing");
    const double steps = std::round(median("L") / step_us);
    if (steps > kMostSteps) throw std::out_of_range(fmt::format("L is {} steps", steps));
    const std::string name = level.at("level");
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    if (name.empty() || name.size() > kLongestName || !std::ranges::all_of(name, is_letter))
        throw std::out_of_range("a level's name is none");
    return {.name = name, .step_us = step_us, .latency = static_cast<std::uint32_t>(steps)};
}

// Throws what nlohmann/json throws, and std::out_of_range, with what is wrong.
std::vector<MeasuredLevel> levels_of(const std::string& text) {
    const auto file = nlohmann::json::parse(text);
    if (file.at("format") != "coppice-logp") throw std::out_of_range("no file of coppice-perf logp");
    if (file.at("version") != 1)
        throw std::out_of_range("of another version of coppice-perf logp; this one reads version 1");
    const auto& levels = file.at("levels");
    if (levels.empty() || levels.size() > kMostLevels)
        throw std::out_of_range(levels.empty() ? "it has no level" : "it has too many levels");
    std::vector<MeasuredLevel> taken;
    for (const auto& level : levels)
        taken.push_back(taken_from(level));
    return taken;
}

}  // namespace

tl::expected<std::vector<MeasuredLevel>, std::string> read_measured_levels(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return tl::unexpected(fmt::format("{}: {}", path, std::strerror(errno)));
    std::string text(kMostBytes + 1, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    return parse_measured_levels(text, path);
}

tl::expected<std::vector<MeasuredLevel>, std::string> parse_measured_levels(const std::string& text,
                                                                            const std::string& name) {
    const auto refused = [&name](const std::string& why) { return tl::unexpected(fmt::format("{}: {}", name, why)); };
    if (text.size() > kMostBytes) return refused("no file of coppice-perf logp: it is too large");
    try {
        return levels_of(text);
    } catch (const nlohmann::json::exception& error) {
        return refused(fmt::format("no file of coppice-perf logp: {}", error.what()));
    } catch (const std::out_of_range& error) {
        return refused(error.what());
    }
}

const MeasuredLevel& level_called(const std::vector<MeasuredLevel>& levels, std::string_view name) {
    const auto found = std::ranges::find(levels, name, &MeasuredLevel::name);
    return found == levels.end() ? levels.back() : *found;
}

}  // namespace coppice::engine
