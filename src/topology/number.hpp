// Whole numbers as they stand in the names of trees, corrections and gossips: decimal digits, and neither sign, blank
// nor leading zero, so that every number has one form.
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace coppice::topology {

// The number if it is one and lies within least … most.
template <class Number = std::uint32_t>
std::optional<Number> parse_number(std::string_view text, Number least = 0,
                                   Number most = std::numeric_limits<Number>::max()) {
    if (text.empty() || text.front() < '0' || text.front() > '9' || (text.front() == '0' && text.size() > 1)) {
        return std::nullopt;
    }
    Number value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) return std::nullopt;
    return value;
}

}  // namespace coppice::topology
