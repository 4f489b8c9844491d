// How users name when later agreements get a tree without those that died: never, when-degenerated, always.
#pragma once

#include <optional>
#include <string_view>

#include "protocol/agreement/agreement.hpp"

namespace coppice::protocol {

inline constexpr std::string_view kRebalanceNames[] = {"never", "when-degenerated", "always"};  // as Rebalance has them

constexpr std::string_view to_string(Rebalance rebalance) {
    return kRebalanceNames[static_cast<std::uint8_t>(rebalance)];
}

// Nothing where it is none of the names.
constexpr std::optional<Rebalance> parse_rebalance(std::string_view text) {
    for (const Rebalance one : {Rebalance::never, Rebalance::when_degenerated, Rebalance::always}) {
        if (text == to_string(one)) return one;
    }
    return std::nullopt;
}

}  // namespace coppice::protocol
