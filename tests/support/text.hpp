// What tests read from lines of text.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace coppice::testing {

inline std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::stringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);)
        parts.push_back(part);
    return parts;
}

inline std::uint32_t number(const std::string& text) {
    return static_cast<std::uint32_t>(std::stoul(text));
}

}  // namespace coppice::testing
