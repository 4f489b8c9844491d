// The child that a rank is, by halving: children ascend or descend in send order, in every shape and numbering of one level.
#pragma once

#include <cstdint>
#include <optional>

namespace coppice::protocol {

// child(i) for i below `count`.
template <class Child>
std::optional<std::uint32_t> find_child(std::uint32_t count, std::uint32_t wanted, Child&& child) {
    if (count == 0) return std::nullopt;
    const bool ascending = child(0) <= child(count - 1);
    std::uint32_t low = 0;
    std::uint32_t high = count;
    while (low < high) {
        const std::uint32_t middle = low + (high - low) / 2;
        const std::uint32_t found = child(middle);
        if (found == wanted) return middle;
        if ((found < wanted) == ascending) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return std::nullopt;
}

}  // namespace coppice::protocol
