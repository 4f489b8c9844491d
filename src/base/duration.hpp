// Times as people write them.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace coppice {

// "300ms", "1.5s", "2m" or "2min", "500us", "10ns", "1h", in nanoseconds; a number without a unit is in `bare`, if that
// is one, otherwise only "0" is a time. nullopt for everything else and for what is above 30 years.
inline std::optional<std::uint64_t> parse_duration_ns(std::string_view text, std::string_view bare = {}) {
    double number = 0;
    const auto [rest, error] =
        std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc{} || !std::isfinite(number) || std::signbit(number)) return std::nullopt;
    std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
    if (unit.empty() && number == 0) return 0;
    if (unit.empty()) unit = bare;
    constexpr std::pair<std::string_view, double> kUnits[] = {{"ns", 1},   {"us", 1e3},   {"ms", 1e6},  {"s", 1e9},
                                                              {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}};
    constexpr double kLongest = 30 * 365.25 * 24 * 3600e9;
    for (const auto& [name, factor] : kUnits) {
        if (unit != name) continue;
        const double nanoseconds = number * factor;
        if (nanoseconds > kLongest) return std::nullopt;
        return static_cast<std::uint64_t>(nanoseconds + 0.5);
    }
    return std::nullopt;
}

}  // namespace coppice
