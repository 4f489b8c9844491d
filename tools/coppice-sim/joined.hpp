// Items in a row, as options are written: "3,17,20".
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace coppice::sim {

template <class Items>
std::string joined(const Items& items, std::string_view between) {
    std::string text;
    for (const auto& item : items) {
        if (!text.empty()) text += between;
        text += fmt::format("{}", item);
    }
    return text;
}

}  // namespace coppice::sim
